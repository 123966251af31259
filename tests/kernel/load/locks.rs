//! Locks: a stopped command blocks others only from what it is changing.

use std::os::unix::process::CommandExt;

use tccc::kernel::cgroup::RunCgroup;
use tccc::kernel::flock;

use super::*;
use crate::lab::policy::fault::SHORT_LOCK;

const LOCK_TIMEOUT: Duration = Duration::from_secs(10);
const NOBODY: u32 = 65_534;

/// With one lock for all names, a stopped process once blocked all other loads.
#[test]
fn stopped_load_blocks_only_its_own_name() {
    let _sandbox = enter!(Sandbox; root, struct_ops, bpffs);
    let before = default();
    for point in ["load.locked", "load.registered"] {
        let stopped = Stopped::at(point, &["load", "bpf_cubic", "--as", "ldk_stop", "--default", "--accept-risk"]);
        let begin = Instant::now();
        run(0, "load dtcp --as ldk_free --default --accept-risk");
        assert_eq!(default(), "ldk_free");
        run(0, "unload ldk_free");
        assert!(begin.elapsed() < LOCK_TIMEOUT, "{point}: {:?}", begin.elapsed());
        let begin = Instant::now();
        if point == "load.locked" {
            let _short = shorten_waits(SHORT_LOCK);
            run(5, "load dtcp --as ldk_stop").stderr_has(stopped.refusal("\"ldk_stop\""));
            assert!(begin.elapsed() >= Duration::from_secs(1));
        }
        stopped.go_on();
        assert_eq!(default(), "ldk_stop");
        run(0, "unload ldk_stop");
        assert_eq!(default(), before, "{point}");
    }
}

#[test]
fn frozen_load_is_reported_with_its_cgroup() {
    let _sandbox = enter!(Sandbox; root, struct_ops, bpffs, cgroup2);
    let cgroup = RunCgroup::create().unwrap();
    let freeze = |state: &str| fs::write(cgroup.path().join("cgroup.freeze"), state).unwrap();
    let frozen = Stopped::at("load.locked", &["load", "bpf_cubic", "--as", "ldk_ice"]);
    fs::write(cgroup.joining_file(), frozen.pid().to_string()).unwrap();
    freeze("1");
    signal(frozen.pid(), Signal::SIGCONT);
    poll_until(LOCK_TIMEOUT, "the cgroup is frozen", || {
        fs::read_to_string(cgroup.path().join("cgroup.events")).unwrap().contains("frozen 1")
    });
    run(0, "load dtcp --as ldk_free");
    let (pid, place) = (frozen.pid(), cgroup.path().display());
    let short = shorten_waits(SHORT_LOCK);
    run(5, "load dtcp --as ldk_ice")
        .stderr_has(format!(
            "process {pid} (tccc) has held its lock for more than 1s, and is frozen with the cgroup {place}"
        ))
        .stderr_has(format!("hint: `echo 0 > {place}/cgroup.freeze` resumes it"));
    drop(short);
    freeze("0");
    frozen.go_on();
    run(0, "unload --all");
}

/// Any user could once lock the folder of records and block every command.
#[test]
fn user_without_rights_can_read_the_state_and_lock_nothing() {
    let _sandbox = enter!(Sandbox; root, struct_ops, bpffs);
    run(0, "load dtcp --as ldk_lock");
    for lock in ["presence", "policy", "default", "name-ldk_lock"] {
        let path = format!("/run/tccc/locks/{lock}");
        assert!(Path::new(&path).exists(), "{lock}");
        let tried = Command::new("flock").args(["--nonblock", &path, "true"]).uid(NOBODY).output().unwrap();
        assert!(!tried.status.success() && stderr(&tried).contains("Permission denied"), "{}", stderr(&tried));
    }
    let _locking = begin_quietly(Command::new("flock").args(["/run/tccc", "sleep", "60"]).uid(NOBODY));
    poll_until(LOCK_TIMEOUT, "the folder is locked", || flock::holder(Path::new("/run/tccc")).is_some());
    check(0, Command::new("cat").arg("/run/tccc/ldk_lock.json").uid(NOBODY));
    let begin = Instant::now();
    run(0, "unload ldk_lock");
    assert!(begin.elapsed() < LOCK_TIMEOUT);
}

/// A command removes empty folders when it ends. Another command may be about to pin into them.
#[test]
fn many_commands_at_once_all_succeed() {
    const WORKERS: usize = 4;
    const CYCLES: usize = 6;
    needs!(root, struct_ops, bpffs);
    let _sandbox = Sandbox::without_bpffs();
    pose_as_process_1();
    let script = "for cycle in $(seq $2); do $0 load dtcp --as $1 && $0 unload $1 || exit 1; done";
    let start = |number: usize| {
        let mut command = Command::new("sh");
        begin(command.args(["-c", script, TCCC, &format!("ldk_many{number}"), &CYCLES.to_string()]))
    };
    let workers: Vec<_> = (0..WORKERS).map(start).collect();
    workers.into_iter().for_each(|worker| drop(end(0, worker)));
    assert_eq!((registered(), status().len()), (vec![], 0));
}
