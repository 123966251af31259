//! Commands beside one that does not go on: it keeps others from what it is changing, and from nothing else.

use std::fs;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use tccc::kernel::cgroup::RunCgroup;
use tccc::kernel::flock;

use crate::common::{host_has, poll_until, tccc};
use crate::lab::policy::fault::Stopped;
use crate::lab::sandbox::{Bpffs, default, in_sandbox, in_sandbox_with, registered, run, status, stderr};

/// How long a command waits for another.
const PATIENCE: Duration = Duration::from_secs(10);
/// A user without any right.
const NOBODY: u32 = 65_534;

/// One lock for all names let a stopped process keep every other from loading.
#[test]
fn stopped_load_keeps_others_from_its_own_name_alone() {
    in_sandbox(host_has!(root, struct_ops, bpffs), || {
        let before = default();
        for point in ["load.locked", "load.registered"] {
            let stopped = Stopped::at(point, &["load", "bpf_cubic", "--as", "ldk_stop", "--default", "--accept-risk"]);
            let begin = Instant::now();
            run(0, "load dtcp --as ldk_free --default --accept-risk");
            assert_eq!(default(), "ldk_free");
            run(0, "unload ldk_free");
            assert!(begin.elapsed() < PATIENCE, "{point}: {:?}", begin.elapsed());
            let begin = Instant::now();
            if point == "load.locked" {
                run(5, "load dtcp --as ldk_stop").stderr_has(stopped.refusal("\"ldk_stop\""));
                assert!(begin.elapsed() >= PATIENCE);
            }
            stopped.go_on();
            assert_eq!(default(), "ldk_stop");
            run(0, "unload ldk_stop");
            assert_eq!(default(), before, "{point}");
        }
    });
}

#[test]
fn frozen_load_is_named_with_its_cgroup() {
    in_sandbox(host_has!(root, struct_ops, bpffs, cgroup2), || {
        let cgroup = RunCgroup::create().unwrap();
        let freeze = |state: &str| fs::write(cgroup.path().join("cgroup.freeze"), state).unwrap();
        let frozen = Stopped::at("load.locked", &["load", "bpf_cubic", "--as", "ldk_ice"]);
        fs::write(cgroup.joining_file(), frozen.pid().to_string()).unwrap();
        freeze("1");
        kill(Pid::from_raw(frozen.pid() as i32), Signal::SIGCONT).unwrap();
        poll_until(PATIENCE, "the cgroup is frozen", || {
            fs::read_to_string(cgroup.path().join("cgroup.events")).unwrap().contains("frozen 1")
        });
        run(0, "load dtcp --as ldk_free");
        let said = stderr(&run(5, "load dtcp --as ldk_ice"));
        let (pid, place) = (frozen.pid(), cgroup.path().display());
        let why =
            format!("process {pid} (tccc) holds its lock for more than 10s, and is frozen with the cgroup {place}");
        assert!(said.contains(&why), "{said}");
        assert!(said.contains(&format!("hint: `echo 0 > {place}/cgroup.freeze` lets it go on")), "{said}");
        freeze("0");
        frozen.go_on();
        run(0, "unload --all");
    });
}

/// Any user could lock the folder of records, and keep every command from its work.
#[test]
fn user_without_rights_can_read_the_state_and_lock_nothing() {
    in_sandbox(host_has!(root, struct_ops, bpffs), || {
        run(0, "load dtcp --as ldk_lock");
        for lock in ["presence", "policy", "default", "name-ldk_lock"] {
            let path = format!("/run/tccc/locks/{lock}");
            assert!(Path::new(&path).exists(), "{lock}");
            let tried = Command::new("flock").args(["--nonblock", &path, "true"]).uid(NOBODY).output().unwrap();
            assert!(!tried.status.success() && stderr(&tried).contains("Permission denied"), "{}", stderr(&tried));
        }
        let mut locking = Command::new("flock").args(["/run/tccc", "sleep", "60"]).uid(NOBODY).spawn().unwrap();
        poll_until(PATIENCE, "the folder is locked", || flock::holder(Path::new("/run/tccc")).is_some());
        let record = Command::new("cat").arg("/run/tccc/ldk_lock.json").uid(NOBODY).output().unwrap();
        assert!(record.status.success(), "{}", stderr(&record));
        let begin = Instant::now();
        run(0, "unload ldk_lock");
        assert!(begin.elapsed() < PATIENCE);
        locking.kill().unwrap();
        locking.wait().unwrap();
    });
}

/// Each command removes folders that are empty when it ends; another may be about to pin into them.
#[test]
fn many_commands_at_once_each_do_their_work() {
    const WORKERS: usize = 4;
    const CYCLES: usize = 6;
    in_sandbox_with(host_has!(root, struct_ops, bpffs), Bpffs::Absent, || {
        let done = |words: &[&str]| {
            let output = tccc().args(words).output().unwrap();
            assert!(output.status.success(), "{words:?}: {}", stderr(&output));
        };
        let mut workers: Vec<_> = (0..WORKERS)
            .map(|number| {
                let script = "for cycle in $(seq $2); do $0 load dtcp --as $1 && $0 unload $1 || exit 1; done";
                let name = format!("ldk_many{number}");
                let mut command = Command::new("sh");
                command.args(["-c", script]).arg(tccc().get_program()).args([&name, &CYCLES.to_string()]);
                command.stdout(std::process::Stdio::null()).spawn().unwrap()
            })
            .collect();
        let codes: Vec<_> = workers.iter_mut().map(|worker| worker.wait().unwrap().code()).collect();
        assert_eq!(codes, [Some(0); WORKERS]);
        assert_eq!((registered(), status().len()), (vec![], 0));
        done(&["status"]);
    });
}
