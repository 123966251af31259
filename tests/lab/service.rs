//! A real program as a service: in a cgroup of its own and in the lab's network namespace.

use std::fs::{self, File, Permissions};
use std::io;
use std::net::TcpStream;
use std::os::fd::AsRawFd;
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::process::CommandExt as _;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use tempfile::TempDir;

use crate::common::state::algorithms;
use crate::common::{Owned, SOON, check, holds_within, need, poll_until, stdout};
use crate::lab::group::TestCgroup;
use crate::lab::policy::PolicyLab;

/// Time for a clean stop.
const STOP: Duration = Duration::from_secs(10);

/// When dropped, the service is stopped by SIGTERM. What is left of it after [`STOP`] is killed.
pub struct Service {
    main: Owned,
    group: TestCgroup,
    _folder: TempDir,
}

/// A folder that every user may enter, because services drop their privileges.
pub fn service_folder() -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    fs::set_permissions(folder.path(), Permissions::from_mode(0o755)).unwrap();
    folder
}

impl Service {
    /// Starts a command in a cgroup of this name. Waits until something listens at the port.
    #[track_caller]
    pub fn start(lab: &PolicyLab, unit: &str, port: u16, folder: TempDir, command: &mut Command) -> Service {
        let group = TestCgroup::create(&format!("/ldk_tccc_{unit}.slice/{unit}"));
        let log = folder.path().join("log");
        let file = File::create(&log).unwrap();
        command.stdin(Stdio::null()).stdout(file.try_clone().unwrap()).stderr(file);
        command.current_dir(folder.path());
        place(lab, &group, command);
        let mut main = Owned::from(command.spawn().unwrap_or_else(|error| panic!("{command:?}: {error}")));
        poll_until(SOON, &format!("{unit} listens at port {port}"), || {
            let ended = main.try_wait().unwrap();
            assert!(ended.is_none(), "{unit} ended: {}", fs::read_to_string(&log).unwrap());
            listeners(lab, port) > 0
        });
        Service { main, group, _folder: folder }
    }

    pub fn signal(&self, number: Signal) {
        crate::common::signal(self.main.id(), number);
    }

    pub fn processes(&self) -> Vec<i32> {
        let listed = fs::read_to_string(self.group.path().join("cgroup.procs")).unwrap_or_default();
        listed.lines().map(|line| line.parse().unwrap()).collect()
    }

    fn is_stopped(&mut self) -> bool {
        self.main.try_wait().is_ok_and(|ended| ended.is_some()) && self.processes().is_empty()
    }
}

/// Makes a command start in a cgroup, and in the lab's network namespace.
fn place(lab: &PolicyLab, group: &TestCgroup, command: &mut Command) {
    let netns = lab.netns.try_clone().unwrap();
    let procs = File::options().write(true).open(group.path().join("cgroup.procs")).unwrap();
    let enter = move || {
        // SAFETY: the bytes outlive the call.
        if unsafe { libc::write(procs.as_raw_fd(), c"0".as_ptr().cast(), 1) } < 0 {
            return Err(io::Error::last_os_error());
        }
        netns.enter_for_good()
    };
    // SAFETY: between fork and exec only `write` and `setns` are called, which are async-signal-safe.
    unsafe { command.pre_exec(enter) };
}

impl Drop for Service {
    fn drop(&mut self) {
        if self.main.try_wait().is_ok_and(|ended| ended.is_none()) {
            self.signal(Signal::SIGTERM);
        }
        if !holds_within(STOP, || self.is_stopped()) {
            let _ = self.main.kill();
            holds_within(SOON, || {
                for pid in self.processes() {
                    let _ = kill(Pid::from_raw(pid), Signal::SIGKILL); // it may have ended by itself
                }
                self.is_stopped()
            });
        }
    }
}

/// Sockets of the lab that listen at a port.
pub fn listeners(lab: &PolicyLab, port: u16) -> usize {
    ss(lab, &format!("-tlnHO sport = :{port}")).lines().count()
}

/// What `ss` shows in the lab's namespace.
#[track_caller]
pub fn ss(lab: &PolicyLab, words: &str) -> String {
    stdout(&lab.inside(|| check(0, Command::new("ss").args(words.split_whitespace()))))
}

/// The algorithms of the established connections that match a filter of `ss`, one each.
#[track_caller]
pub fn algorithms_of(lab: &PolicyLab, filter: &str) -> Vec<String> {
    let known = algorithms();
    let of_line = |line: &str| {
        let found = line.split_whitespace().find(|word| known.iter().any(|name| name == word));
        found.unwrap_or_else(|| panic!("no algorithm: {line}")).to_owned()
    };
    ss(lab, &format!("-tinHO state established {filter}")).lines().map(of_line).collect()
}

/// The algorithm that the peer of a client's connection has, as `ss` shows it.
#[track_caller]
pub fn at_server(lab: &PolicyLab, client: &TcpStream) -> String {
    let [own, peer] = [client.local_addr(), client.peer_addr()].map(|address| address.unwrap().port());
    let found = algorithms_of(lab, &format!("sport = :{peer} and dport = :{own}"));
    let [algorithm] = found.try_into().unwrap_or_else(|found| panic!("one connection: {found:?}"));
    algorithm
}

/// Connects to a port of the lab's loopback interface.
#[track_caller]
pub fn connect(lab: &PolicyLab, port: u16) -> TcpStream {
    let client = lab.inside(|| TcpStream::connect(("127.0.0.1", port))).unwrap();
    client.set_read_timeout(Some(SOON)).unwrap();
    client
}

/// A program of PostgreSQL, which Debian installs outside of the search path.
pub fn postgresql(program: &str) -> PathBuf {
    PathBuf::from(need::postgresql_folder().expect("the test needs PostgreSQL")).join(program)
}
