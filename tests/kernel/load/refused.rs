//! Refused loads: each has its message, exit code and hint, and leaves the host unchanged.

use std::path::PathBuf;

use tccc::loader::Request;

use super::*;

/// Compiles `ldk_small` with the body of `cong_avoid`, another member of the ops table, and its value.
pub fn compile(folder: &Path, body: &str, member: &str, value: &str) -> PathBuf {
    object::small(folder, "ldk_small", 2, [body, member, value])
}

#[track_caller]
fn refused_object(body: &str, expected: &[&str]) {
    let folder = tempfile::tempdir().unwrap();
    let object = compile(folder.path(), body, "", "");
    let output = check(1, tccc().arg("load").arg(&object).current_dir(folder.path()));
    for words in expected {
        output.stderr_has(words);
    }
    let log = fs::read_to_string(folder.path().join("ldk_small.verifier.log")).unwrap();
    output.stderr_has("full log in ./ldk_small.verifier.log");
    assert!(log.contains("libbpf:"), "{log}");
    fs::remove_file(folder.path().join("ldk_small.verifier.log")).unwrap();
    check(1, tccc().args(["load", "--dry-run"]).arg(&object).current_dir(folder.path()));
    check(0, tccc().arg("show").arg(&object).current_dir(folder.path()));
    assert!(!folder.path().join("ldk_small.verifier.log").exists(), "a dry run wrote a file");
}

#[test]
fn object_of_a_user_is_loaded_without_callbacks_of_another_kernel() {
    let _sandbox = enter!(Sandbox; root, struct_ops, bpffs, clang);
    let folder = tempfile::tempdir().unwrap();
    let member = "void (*of_another_kernel)(struct sock *sk);";
    for (value, note) in [
        ("", ""),
        (
            ".of_another_kernel = (void *)small_undo_cwnd,",
            "note: of_another_kernel is left out: this kernel does not call it",
        ),
    ] {
        let object = compile(folder.path(), "", member, value);
        check(0, tccc().arg("load").arg(&object)).stdout_has("\"ldk_small\" registered").stderr_has(note);
        check(0, tccc().arg("show").arg(&object)).stdout_has("small_cong_avoid");
        run(0, "unload ldk_small");
    }
}

#[test]
fn callback_with_other_parameters_is_refused() {
    let _sandbox = enter!(Sandbox; root, struct_ops, bpffs, clang);
    let folder = tempfile::tempdir().unwrap();
    let member = "void (*set_state)(struct sock *sk, u32 state, u32 more);";
    let object = compile(folder.path(), "", member, ".set_state = (void *)small_cong_avoid,");
    check(4, tccc().arg("load").arg(&object))
        .stderr_has("cannot load \"ldk_small\": its callback set_state takes 3 parameters, this kernel's 2");
}

#[test]
fn verdicts_of_the_verifier_become_one_sentence() {
    let _sandbox = enter!(Sandbox; root, struct_ops, bpffs, clang);
    let refused = "cannot load \"ldk_small\": the verifier refused small_cong_avoid";
    for (body, why) in [
        ("*(volatile u32 *)(unsigned long)ctx[1] = 1;", ": it uses a number as a pointer"),
        ("*(volatile u32 *)ctx[0] = 1;", ": it writes a field of"),
        ("volatile u32 i = 0; for (;;) i++;", ": it has a loop without a bound that the verifier can see"),
    ] {
        refused_object(body, &[refused, why]);
    }
    let why = "it calls the kernel function tcp_no_such_function, which this kernel lacks";
    refused_object("tcp_no_such_function();", &[why]);
}

#[test]
fn kernel_refuses_other_licences_itself() {
    let _sandbox = enter!(Sandbox; root, struct_ops, bpffs);
    let mut proprietary = catalog::find("dtcp").unwrap().clone();
    let mut bytes = proprietary.object.to_vec();
    let at = bytes.windows(4).position(|window| window == b"GPL\0").unwrap();
    bytes[at..at + 3].copy_from_slice(b"BSD");
    proprietary.object = bytes.clone().into();
    let request = Request { name: "ldk_bsd", ..Request::of(&proprietary) };
    let folder = tempfile::tempdir().unwrap();
    let refusal = loader::verify(&request, &Features::probe().unwrap()).unwrap_err().to_string();
    let _ = fs::remove_file("ldk_bsd.verifier.log");
    assert!(refusal.contains("its licence is not compatible with the GPL"), "{refusal}");
    let file = folder.path().join("bsd.bpf.o");
    fs::write(&file, bytes).unwrap();
    check(2, tccc().arg("load").arg(&file)).stderr_has("its licence \"BSD\" is not compatible with the GPL");
}

#[test]
fn names_of_others_are_left_alone() {
    let _sandbox = enter!(Sandbox; root, struct_ops, bpffs);
    run(1, "load dtcp --as reno")
        .stderr_has("\"reno\" is an algorithm of the kernel itself")
        .stderr_has("hint: `--as NAME` loads it under another name");
    run(1, "unload reno").stderr_has("cannot unload \"reno\": tccc did not register it");
    // Without its record, this registration looks like that of another program.
    let _other = loader::register(&dtcp_as("ldk_other"), &Features::probe().unwrap()).unwrap();
    fs::remove_file("/run/tccc/ldk_other.json").unwrap();
    let who = format!("\"ldk_other\" is already registered by another process (pid {}, ", std::process::id());
    run(1, "load dtcp --as ldk_other").stderr_has(who);
}

#[test]
fn missing_bpf_file_system_is_mounted_listed_and_unmounted() {
    needs!(root, struct_ops);
    let _sandbox = Sandbox::without_bpffs();
    pose_as_process_1();
    let is_mounted = || tccc::kernel::bpffs::mount().is_some();
    run(0, "doctor").stdout_has("not mounted; tccc mounts it");
    run(0, "load dtcp --as ldk_none --dry-run").stdout_has("mount the BPF file system at /sys/fs/bpf");
    assert!(!is_mounted(), "a dry run mounts nothing");
    run(0, "load dtcp --as ldk_none");
    run(0, "status").stdout_has("tccc mounted the BPF file system at /sys/fs/bpf");
    run(0, "load dtcp --as ldk_more");
    run(0, "unload ldk_none");
    assert!(is_mounted(), "it still has a pin");
    run(0, "unload --all");
    assert!(!is_mounted(), "it is empty");
}

#[test]
fn missing_type_information_is_reported() {
    let _sandbox = enter!(Sandbox; root, struct_ops, bpffs);
    const NONE: Option<&str> = None;
    mount(Some("none"), "/sys/kernel/btf", Some("tmpfs"), MsFlags::empty(), NONE).unwrap();
    run(4, "load dtcp --as ldk_btf")
        .stderr_has("this kernel provides no type information: /sys/kernel/btf/vmlinux")
        .stderr_has("hint: use a kernel built with CONFIG_DEBUG_INFO_BTF");
    run(4, "doctor");
    run(0, "list").stdout_has("dtcp");
    run(0, "show dtcp").stdout_has("no verifier cost: this kernel provides no type information");
}

#[test]
fn missing_capabilities_are_named() {
    let _sandbox = enter!(Sandbox; root, struct_ops, bpffs);
    let without =
        |capabilities: &'static [i32], code: i32, verb: &str| without(capabilities, code, tccc().args(verb.split(' ')));
    const ALL: &[i32] = &[NET_ADMIN, SYS_ADMIN, PERFMON, BPF];
    without(ALL, 4, "load dtcp --as ldk_cap")
        .stderr_has("cannot load \"ldk_cap\": this process lacks CAP_BPF, CAP_PERFMON, CAP_NET_ADMIN")
        .stderr_has("hint: run it as root");
    without(&[NET_ADMIN], 4, "load dtcp --as ldk_cap").stderr_has("this process lacks CAP_NET_ADMIN\n");
    without(&[NET_ADMIN], 4, "unload ldk_cap")
        .stderr_has("cannot unload \"ldk_cap\": this process lacks CAP_NET_ADMIN");
    without(&[NET_ADMIN], 4, "unload --all --dry-run");
    let listed = without(ALL, 0, "list").stdout();
    assert!(listed.lines().any(|line| line.starts_with("reno ")), "{listed}");
    without(&[SYS_ADMIN], 0, "load dtcp --as ldk_few --default");
    without(ALL, 0, "status").stdout_has("ldk_few");
    without(&[SYS_ADMIN], 0, "unload ldk_few");
}

/// The kernel refuses this. A load that tried once left the algorithm in memory forever.
#[test]
fn default_is_refused_outside_the_initial_network_namespace() {
    let _sandbox = enter!(Sandbox; root, struct_ops, bpffs);
    let network = loopback_netns();
    for verb in ["load dtcp --as ldk_ns --default", "load dtcp --as ldk_ns --default --dry-run"] {
        let said = network.run(|| Ok(run(4, verb))).unwrap();
        said.stderr_has("this is not the host's initial network namespace");
    }
    let tables = tccc::kernel::struct_ops::tables(&Features::probe().unwrap()).unwrap();
    assert!(tables.iter().all(|table| table.name != "ldk_ns"), "a table was left in the kernel");
}

/// The earlier generation was once unregistered when the default could not be set.
#[test]
fn replacement_is_refused_where_the_default_cannot_be_set() {
    let _sandbox = enter!(Sandbox; root, struct_ops, bpffs);
    run(0, "load dtcp --as ldk_keep");
    const NONE: Option<&str> = None;
    let read_only = MsFlags::MS_BIND | MsFlags::MS_REMOUNT | MsFlags::MS_RDONLY;
    mount(Some("/proc/sys"), "/proc/sys", NONE, MsFlags::MS_BIND, NONE).unwrap();
    mount(NONE, "/proc/sys", NONE, read_only, NONE).unwrap();
    run(4, "load dtcp --as ldk_keep --replace --default")
        .stderr_has("cannot change the default algorithm: /proc/sys/net/ipv4");
    assert_eq!(status()[0]["generation"], 1);
    nix::mount::umount("/proc/sys").unwrap();
    run(0, "unload ldk_keep");
}
