//! tccc in namespaces of mounts, cgroups and processes, and beside mounts of others: what it does there outlives it, or it
//! refuses.

use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _};
use std::process::Stdio;

use nix::mount::{MntFlags, umount2};
use nix::unistd::{Uid, chown};
use tccc::kernel::cgroup;
use tccc::kernel::process::Process;

use super::*;
use crate::common::{CommandOutput, TCCC};
use crate::lab::policy::{all, show};
use crate::lab::sandbox::{drift, registered};

const NONE: Option<&str> = None;
const BPFFS: &str = "/sys/fs/bpf";
/// A process of a container: it numbers its processes itself.
const CONTAINER: &[&str] = &["--pid", "--mount", "--fork", "--mount-proc"];

/// Runs a script in new namespaces, with tccc as `$0`.
#[track_caller]
fn inside(code: i32, namespaces: &[&str], script: &str) -> CommandOutput {
    check(code, Command::new("unshare").args(namespaces).args(["sh", "-c", script, TCCC]))
}

fn policy_file() -> tempfile::NamedTempFile {
    let file = tempfile::NamedTempFile::new().unwrap();
    fs::write(file.path(), format!("version = 1\n{}", all("cubic"))).unwrap();
    file
}

fn mount_bpffs(place: &str, options: Option<&str>) {
    mount(Some("bpf"), place, Some("bpf"), MsFlags::empty(), options).unwrap();
}

/// `ip netns exec x tccc load` reported success, and everything was gone when it ended, with a default that named nothing.
#[test]
fn mount_that_would_end_with_the_command_is_refused() {
    needs!(root, struct_ops, bpffs);
    let _sandbox = Sandbox::without_bpffs();
    let (file, before) = (policy_file(), default());
    let policy = format!("policy apply {}", file.path().display());
    let as_iproute2 = "mount --make-rslave / && umount -l /sys && mount -t sysfs sysfs /sys && exec";
    for verb in ["load dtcp --as ldk_gone --default", "load dtcp --as ldk_gone --dry-run", &policy, "doctor"] {
        let why = "cannot mount the BPF file system at /sys/fs/bpf: this mount namespace is not that of process 1";
        for said in [run(4, verb), inside(4, &["--mount"], &format!("{as_iproute2} $0 {verb}"))] {
            let told = said.stdout() + &said.stderr();
            assert!(told.contains(why), "{verb}: {told}");
            assert!(told.contains("nsenter --mount=/proc/1/ns/mnt tccc"), "{verb}: {told}");
        }
    }
    inside(4, CONTAINER, "exec $0 load dtcp --as ldk_gone")
        .stderr_has("this command is process 1 of its PID namespace");
    let unreadable = "mount --bind /dev/null /proc/1/mountinfo && mount -t tmpfs none /proc/1 -o ro; exec";
    inside(4, &["--mount"], &format!("{unreadable} $0 load dtcp --as ldk_gone"))
        .stderr_has("cannot tell whether it would outlive this command: read the mounts of process 1");
    assert_eq!((registered(), default()), (vec![], before));
}

#[test]
fn mount_that_reaches_process_1_is_made() {
    needs!(root, struct_ops, bpffs);
    let _sandbox = Sandbox::without_bpffs();
    pose_as_process_1();
    mount(NONE, "/sys", NONE, MsFlags::MS_SHARED, NONE).unwrap();
    inside(0, &["--mount", "--propagation", "unchanged"], "exec $0 load dtcp --as ldk_shared");
    assert_eq!(instance("ldk_shared")["standing"], "pinned");
    inside(0, &["--mount", "--propagation", "unchanged"], "exec $0 unload --all");
    assert!(tccc::kernel::bpffs::mount().is_none());
}

/// In a host of Mininet, which has its own /sys, `doctor` named the hidden mounts, and `load` failed with "no such file".
#[test]
fn hidden_mounts_are_said_to_be_hidden() {
    let _sandbox = enter!(Sandbox; root, struct_ops, bpffs);
    run(0, "load dtcp --as ldk_hidden");
    let file = policy_file();
    let policy = format!("policy apply {}", file.path().display());
    let verbs =
        ["load tahoe --as ldk_more", &policy, "policy show", "policy remove", "doctor", "status", "unload --all"];
    for verb in verbs {
        let said = inside(4, &["--mount", "--net"], &format!("mount -t sysfs sysfs /sys && exec $0 {verb}"));
        let told = said.stdout() + &said.stderr();
        assert!(
            told.contains("the BPF file system at /sys/fs/bpf is hidden: another file system is mounted"),
            "{told}"
        );
        assert!(told.contains("nsenter --mount=/proc/1/ns/mnt tccc"), "{told}");
    }
    assert_eq!(registered(), ["ldk_hidden"]);
    let hide = "mount -t tmpfs none /sys/fs/cgroup && exec";
    let why = format!("the cgroup v2 file system at {} is hidden", cgroup::mount_point().unwrap().display());
    inside(4, &["--mount"], &format!("{hide} $0 {policy}")).stderr_has(&why);
    inside(0, &["--mount"], &format!("{hide} $0 doctor")).stdout_has(&why);
    run(0, "unload --all");
}

/// A container's cgroup2 mount begins at its own cgroup. A policy there left out the rest of the host without a word.
#[test]
fn cgroup_below_the_root_takes_no_policy() {
    let _sandbox = enter!(Sandbox; root, struct_ops, bpffs, cgroup2);
    let (file, group) = (policy_file(), TestCgroup::create("/ldk_pod/inner"));
    let place = cgroup::mount_point().unwrap();
    let place = place.display();
    let join = format!("echo 0 > {}/cgroup.procs && exec unshare --cgroup --mount sh -c", group.path().display());
    let own =
        |command: &str| format!("{join} 'umount -l {place}; mount -t cgroup2 none {place} && exec $0 {command}' $0");
    let why = format!("{place} is not the root of this host's cgroups");
    let policy = format!("policy apply {}", file.path().display());
    for (code, verb) in [(4, policy.as_str()), (4, &format!("{policy} --dry-run")), (4, "load mswift --as ldk_pod")] {
        inside(code, &["--mount"], &own(verb)).stderr_has(&why).stderr_has("nsenter --target=1 --cgroup --mount tccc");
    }
    inside(0, &["--mount"], &own("doctor")).stdout_has(format!("{place}, not the root of this host's: no policies"));
    assert_eq!((registered(), show()["generation"].clone()), (vec![], Value::Null));
    // With the mounts of the host, a command in a namespace of cgroups reaches all of them.
    inside(0, &["--cgroup"], &format!("exec $0 {policy}"));
    run(0, "policy remove");
}

/// `status` promised that `unload` removes what was left, and `unload` refused.
#[test]
fn pins_in_another_file_system_are_found() {
    let _sandbox = enter!(Sandbox; root, struct_ops, bpffs);
    umount2(BPFFS, MntFlags::empty()).unwrap();
    let (folder, file) = (tempfile::tempdir().unwrap(), policy_file());
    let inner = folder.path().join("far/bpf");
    fs::create_dir_all(&inner).unwrap();
    mount_bpffs(inner.to_str().unwrap(), NONE);
    let policy = format!("policy apply {}", file.path().display());
    run(0, "load dtcp --as ldk_far");
    run(0, &policy);
    mount_bpffs(BPFFS, NONE);
    assert_eq!((instance("ldk_far")["standing"].clone(), drift("ldk_far")), ("pinned".into(), vec![]));
    assert_eq!(show()["drift"], serde_json::json!([]));
    run(0, "load dtcp --as ldk_far --replace");
    run(0, &policy);
    run(0, "load dtcp --as ldk_second");
    run(0, "unload --all");
    run(0, "policy remove");

    // Each of two file systems has pins, because the first was hidden when the second was mounted.
    umount2(BPFFS, MntFlags::empty()).unwrap();
    run(0, "load dtcp --as ldk_far");
    mount(Some("none"), inner.parent().unwrap(), Some("tmpfs"), MsFlags::empty(), NONE).unwrap();
    mount_bpffs(BPFFS, NONE);
    run(0, "load dtcp --as ldk_near");
    umount2(inner.parent().unwrap(), MntFlags::empty()).unwrap();
    assert_eq!(["ldk_far", "ldk_near"].map(|name| instance(name)["standing"].clone()), ["pinned", "pinned"]);
    run(0, "unload --all");
    umount2(&inner, MntFlags::empty()).unwrap();
}

/// A container that shares /run took the host's runs for dead, and the host those of the container.
#[test]
fn run_in_another_pid_namespace_is_alive() {
    let _sandbox = enter!(Sandbox; root, struct_ops, bpffs, cgroup2);
    let run_here = loader::register(&dtcp_as("ldk_here"), &Features::probe().unwrap()).unwrap();
    let elsewhere = "in another PID namespace";
    inside(0, CONTAINER, "$0 status").stdout_has(format!("run ({elsewhere})")).stdout_lacks("removes what was left");
    inside(1, CONTAINER, "$0 unload ldk_here").stderr_has(format!("a tccc run uses it ({elsewhere})"));
    inside(1, CONTAINER, "$0 load dtcp --as ldk_here").stderr_has(format!("({elsewhere}, a tccc run)"));
    inside(0, CONTAINER, "$0 unload --all");
    assert!(is_available("ldk_here"));
    drop(run_here);

    let mut command = Command::new("unshare");
    let sleeper = command.args(CONTAINER).args(["--kill-child", "sleep", "600"]).stdout(Stdio::null()).spawn().unwrap();
    let mut sleeper = Owned::from(sleeper);
    let inner = || {
        let children = format!("/proc/{0}/task/{0}/children", sleeper.id());
        let pid: u32 = fs::read_to_string(children).ok()?.split_whitespace().next()?.parse().ok()?;
        let seen = Process::of(pid)?;
        let pid_namespace = fs::metadata(format!("/proc/{pid}/ns/pid")).ok()?.ino();
        let is_inside = Some(pid_namespace) != Process::this()?.pid_namespace;
        is_inside.then_some((pid, Process { pid: 1, pid_namespace: Some(pid_namespace), ..seen }))
    };
    poll_until(SOON, "the container's first process", || inner().is_some());
    let (pid, process) = inner().unwrap();
    run(0, "load dtcp --as ldk_there");
    let record = "/run/tccc/ldk_there.json";
    let mut written: Value = serde_json::from_slice(&fs::read(record).unwrap()).unwrap();
    written["owner"] = serde_json::to_value(tccc::state::Owner::Process(process)).unwrap();
    fs::write(record, written.to_string()).unwrap();
    let group = cgroup::mount_point().unwrap().join("tccc");
    let name = format!("run-1-{}-{}-0", process.started, process.pid_namespace.unwrap());
    fs::create_dir_all(group.join(&name)).unwrap();
    run(0, "status").stdout_has(format!("run (pid {pid}, {elsewhere})")).stdout_lacks("left by a killed run");
    run(1, "unload ldk_there").stderr_has(format!("a tccc run uses it (pid {pid}, {elsewhere})"));

    sleeper.kill().unwrap();
    sleeper.wait().unwrap();
    poll_until(SOON, "the end of the container", || !Path::new(&format!("/proc/{pid}")).exists());
    // A third namespace cannot tell.
    inside(0, CONTAINER, "$0 status").stdout_has(format!("run ({elsewhere})")).stdout_lacks("left by a killed run");
    run(0, "status").stdout_has(format!("left by a killed run: cgroup {}", group.join(&name).display()));
    run(0, "unload --all");
    assert!(!group.exists());
}

/// A container showed no sign of the connections of processes that it does not see.
#[test]
fn what_a_container_cannot_see_is_said() {
    let _sandbox = enter!(Sandbox; root, struct_ops, bpffs);
    let why = "processes outside this PID namespace are not visible";
    let said = inside(0, CONTAINER, "$0 sockets -o json");
    said.stderr_has(why).stderr_has("hostPID: true");
    assert_eq!(said.json()["partial"], true);
    let said = run(0, "sockets -o json");
    assert_eq!(said.json()["partial"], false);
    assert!(!said.stderr().contains(why));
    // The processes are those of the host's /proc.
    assert_eq!(inside(0, &["--pid", "--fork"], "$0 sockets -o json").json()["partial"], false);
}

/// A user who makes the folder first owns it, and could remove the pins: the algorithm would be unregistered.
#[test]
fn folder_of_another_user_gets_no_pins() {
    let _sandbox = enter!(Sandbox; root, struct_ops, bpffs);
    umount2(BPFFS, MntFlags::empty()).unwrap();
    mount_bpffs(BPFFS, NONE);
    assert_eq!(fs::metadata(BPFFS).unwrap().mode() & 0o7777, 0o1777, "what the kernel does without a mode");
    let (ours, file) = (Path::new("/sys/fs/bpf/tccc"), policy_file());
    let policy = format!("policy apply {}", file.path().display());
    let refused = |why: &str| {
        for verb in ["load dtcp --as ldk_foreign", "load dtcp --as ldk_foreign --dry-run", &policy] {
            run(4, verb)
                .stderr_has(why)
                .stderr_has("hint: only root may own it: remove it with `rm -r /sys/fs/bpf/tccc`");
        }
    };
    fs::DirBuilder::new().mode(0o700).create(ours).unwrap();
    chown(ours, Some(Uid::from_raw(1000)), None).unwrap();
    refused("cannot pin in /sys/fs/bpf/tccc, where another user could remove the pins: it belongs to user 1000");
    chown(ours, Some(Uid::from_raw(0)), None).unwrap();
    fs::set_permissions(ours, std::os::unix::fs::PermissionsExt::from_mode(0o777)).unwrap();
    refused("others can write to it (mode 777)");
    fs::remove_dir(ours).unwrap();
    fs::set_permissions(BPFFS, std::os::unix::fs::PermissionsExt::from_mode(0o777)).unwrap();
    run(4, &policy)
        .stderr_has("cannot pin in /sys/fs/bpf, where")
        .stderr_has("hint: `chown root: /sys/fs/bpf && chmod 700");
    fs::set_permissions(BPFFS, std::os::unix::fs::PermissionsExt::from_mode(0o1777)).unwrap();
    run(0, "load dtcp --as ldk_foreign");
    assert_eq!(fs::metadata(ours).unwrap().mode() & 0o7777, 0o700);
    run(0, "unload --all");
}
