//! Cleans up after a test program that is interrupted.
//!
//! Ctrl-C and `kill` end a test before its destructors run. The guards, the default and the names that it made would stay.
//! A process of its own session, the keeper, waits for the program's end and removes them. It also holds a lock, so that
//! test programs which change the host run one after another.

use std::collections::BTreeSet;
use std::fs;
use std::io::{BufRead as _, BufReader, Write as _, stdin, stdout};
use std::os::unix::fs::MetadataExt as _;
use std::os::unix::process::CommandExt as _;
use std::path::PathBuf;
use std::process::{Child, Stdio};
use std::sync::{Mutex, PoisonError};

use nix::fcntl::{Flock, FlockArg};
use nix::sys::signal::{SigHandler, Signal, kill};
use nix::unistd::{Pid, dup2_stdout, setsid};
use procfs::process::all_processes;
use tccc::kernel::cgroup;
use tccc::kernel::probe::Features;
use tccc::kernel::struct_ops;

use super::sandbox::{NAMES, default};
use crate::common::state::algorithms;
use crate::common::{KEPT, SOON, TCCC, poll_until, test_alone};

/// The folder that another keeper locks, for a test of the keeper.
pub const LOCK: &str = "TCCC_KEEPER_LOCK";
const DEFAULT: &str = "/proc/sys/net/ipv4/tcp_congestion_control";
const WAITING: &str = "waiting";
const READY: &str = "ready";

/// The end of the pipe tells the keeper that this program has ended.
static KEEPER: Mutex<Option<Child>> = Mutex::new(None);

/// Starts the keeper of this program unless it runs already.
pub fn start() {
    let mut keeper = KEEPER.lock().unwrap_or_else(PoisonError::into_inner);
    if keeper.is_some() || std::env::var_os(KEPT).is_some() {
        return;
    }
    let mut command = test_alone(module_path!(), "keep");
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
    // SAFETY: setsid is a plain system call, safe between fork and exec.
    unsafe { command.pre_exec(|| Ok(setsid().map(drop)?)) };
    let mut child = command.spawn().expect("the keeper starts");
    let said = BufReader::new(child.stdout.take().expect("a pipe"));
    let mut lines = said.lines().map(|line| line.expect("the keeper's words"));
    let mut next = || lines.find(|line| line == WAITING || line == READY).expect("the keeper is ready");
    if next() == WAITING {
        eprintln!("another test program changes this host: waiting for its end");
        assert_eq!(next(), READY);
    }
    *keeper = Some(child);
}

/// Tells the keeper this thread's mount namespace. It kills what is still in there after the end of this program.
pub fn note_mount_namespace() {
    let mut keeper = KEEPER.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(keeper) = keeper.as_mut().and_then(|keeper| keeper.stdin.as_mut()) {
        writeln!(keeper, "{}", namespace_of("thread-self").expect("the own namespace")).expect("the keeper lives");
    }
}

/// The mount namespace's inode. `None`: the process has ended.
fn namespace_of(process: &str) -> Option<u64> {
    fs::metadata(format!("/proc/{process}/ns/mnt")).ok().map(|file| file.ino())
}

#[test]
#[ignore = "started by the first sandbox of a test program"]
fn keep() {
    for signal in [Signal::SIGINT, Signal::SIGTERM, Signal::SIGHUP, Signal::SIGPIPE] {
        // SAFETY: ignoring a signal runs no code.
        unsafe { nix::sys::signal::signal(signal, SigHandler::SigIgn) }.unwrap();
    }
    let _lock = lock();
    let before = (default(), algorithms());
    tell(READY);
    // The harness goes on writing, after a minute for example, and ends this process if nobody reads.
    dup2_stdout(fs::File::create("/dev/null").unwrap()).unwrap();
    let spaces = stdin().lines().map_while(Result::ok).filter_map(|line| line.parse().ok()).collect();
    clean_up(&spaces, &before);
}

/// Not to the harness, which captures what a test prints.
fn tell(word: &str) {
    let mut out = stdout().lock();
    writeln!(out, "\n{word}").and_then(|()| out.flush()).expect("the program listens");
}

/// Locks a folder that exists anyway.
fn lock() -> Flock<fs::File> {
    let path = std::env::var_os(LOCK).map_or_else(std::env::temp_dir, PathBuf::from);
    let open = || fs::File::open(&path).expect("a folder to lock");
    Flock::lock(open(), FlockArg::LockExclusiveNonblock).unwrap_or_else(|_| {
        tell(WAITING);
        Flock::lock(open(), FlockArg::LockExclusive).expect("the lock")
    })
}

/// Does nothing after a program whose tests cleaned up themselves.
fn clean_up(spaces: &BTreeSet<u64>, (default_before, names_before): &(String, Vec<String>)) {
    poll_until(SOON, "the processes of the tests end", || {
        let left = processes_in(spaces);
        left.iter().for_each(|process| _ = kill(*process, Signal::SIGKILL));
        left.is_empty()
    });
    if default() != *default_before {
        fs::write(DEFAULT, default_before).expect("the earlier default");
    }
    let of_tests = |name: &String| name.contains(NAMES) && !names_before.contains(name);
    if algorithms().iter().any(of_tests) {
        // Without a link, the map itself holds the registration.
        let tables = struct_ops::tables(&Features::probe().unwrap()).unwrap();
        let held = tables.iter().filter(|table| !table.by_link && of_tests(&table.name));
        held.for_each(|table| struct_ops::delete_registration(&table.map).unwrap());
        poll_until(SOON, "the names are gone", || !algorithms().iter().any(of_tests));
    }
    let Ok(mount) = cgroup::mount_point() else { return };
    for group in fs::read_dir(mount).into_iter().flatten().flatten() {
        if group.file_name().to_string_lossy().contains(NAMES) {
            super::group::remove(&group.path());
        }
    }
}

/// Processes in the sandboxes, and those of tccc in other mount namespaces that the tests made.
fn processes_in(spaces: &BTreeSet<u64>) -> Vec<Pid> {
    let own = namespace_of("self");
    let is_left = |process: &procfs::process::Process| {
        let space = namespace_of(&process.pid.to_string());
        let is_tccc = || process.exe().is_ok_and(|exe| exe.to_string_lossy().trim_end_matches(" (deleted)") == TCCC);
        space.is_some_and(|space| spaces.contains(&space)) || space != own && space.is_some() && is_tccc()
    };
    let left = all_processes().expect("/proc").flatten().filter(is_left).filter(procfs::process::Process::is_alive);
    left.map(|process| Pid::from_raw(process.pid)).collect()
}
