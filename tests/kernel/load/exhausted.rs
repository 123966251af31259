//! Full or read-only file systems: changes fail with a reason and leave the host unchanged. Other clocks: trials still
//! end in time.

use super::*;

const NONE: Option<&str> = None;

#[test]
fn full_run_folder_refuses_changes_and_allows_unload() {
    let _sandbox = enter!(Sandbox; root, struct_ops, bpffs);
    let before = (available(), default());
    fill_run("256k");
    for command in ["load dtcp --as ldk_full", "load dtcp --as ldk_full --default", "load mswift --as ldk_full"] {
        run(1, command).stderr_has("cannot write records in /run/tccc: no space left on device");
        assert_eq!((available(), default()), before, "{command}");
        assert!(status().is_empty(), "{command}");
    }
    fs::remove_file(BALLAST).unwrap();
    run(0, "load dtcp --as ldk_full --default");
    let loaded = (available(), default());
    fill_run("256k");
    for command in ["upgrade ldk_full bpf_reno", "load dtcp --as ldk_more", "load dtcp --as ldk_full --replace"] {
        run(1, command).stderr_has("cannot write records in /run/tccc: no space left on device");
        assert_eq!((available(), default()), loaded, "{command}");
        assert_eq!(drift("ldk_full"), [] as [String; 0], "{command}");
    }
    run(0, "unload ldk_full"); // needs no room
    assert_eq!((available(), default()), before);
    fs::remove_file(BALLAST).unwrap();
    run(0, "unload --all");
}

#[test]
fn read_only_bpf_file_system_is_reported_and_changes_nothing() {
    let _sandbox = enter!(Sandbox; root, struct_ops, bpffs);
    let before = (available(), default());
    let remount = |flags| mount(NONE, "/sys/fs/bpf", NONE, MsFlags::MS_REMOUNT | flags, NONE).unwrap();
    run(0, "load dtcp --as ldk_ro --default");
    let loaded = (available(), default());
    remount(MsFlags::MS_RDONLY);
    for command in ["load dtcp --as ldk_more", "upgrade ldk_ro bpf_reno", "rollback ldk_ro"] {
        run(4, command)
            .stderr_has("cannot pin in the BPF file system: /sys/fs/bpf: read-only file system")
            .stderr_has("`mount -o remount,rw /sys/fs/bpf` where it is mounted read-only");
        assert_eq!((available(), default()), loaded, "{command}");
    }
    remount(MsFlags::empty());
    run(0, "unload ldk_ro");
    assert_eq!((available(), default()), before);
    // Now without the folder of the pins.
    remount(MsFlags::MS_RDONLY);
    run(4, "load dtcp --as ldk_ro").stderr_has("cannot pin in the BPF file system: /sys/fs/bpf: read-only file system");
    assert_nothing_left();
}

/// BPF programs read the host's clock only. In a container with its own clock, trials once ended at once or never.
#[test]
fn trial_in_a_time_namespace_follows_the_host_clock() {
    const TRIAL: Duration = Duration::from_secs(5);
    let _sandbox = enter!(Sandbox; root, struct_ops, bpffs, time_namespace);
    let trials = [("1000000", "ldk_time_far"), ("1000", "ldk_time")].map(|(ahead, name)| {
        let mut inside = Command::new("unshare");
        inside.args(["--time", "--boottime", ahead, "--fork"]).arg(tccc().get_program());
        inside.args(["load", "dtcp", "--as", name, "--confirm", "5s"]).env("NO_COLOR", "1");
        let begin = Instant::now();
        check(0, &mut inside);
        let instance = instance(name);
        let left_s = instance["confirm_within_s"].as_f64().unwrap_or_else(|| panic!("{instance}"));
        assert!(left_s > 0.0 && left_s <= TRIAL.as_secs_f64(), "{ahead}: {instance}");
        (name, begin)
    });
    run(0, "status").stdout_lacks("its guard is dead");
    for (name, begin) in trials {
        poll_until(SOON, "the load is undone", || !is_available(name));
        assert!(begin.elapsed() >= TRIAL - Duration::from_secs(1), "{name}: undone after {:?}", begin.elapsed());
    }
    poll_until(SOON, "their records are removed", || status().is_empty());
}
