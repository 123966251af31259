//! What is refused: each with its own words, exit code and next step, and the host unchanged.

use std::fs;
use std::path::{Path, PathBuf};

use nix::mount::{MsFlags, mount};
use tccc::catalog;
use tccc::kernel::probe::Features;
use tccc::loader::{self, Request};

use crate::common::{host_has, tccc};
use crate::lab::policy::object;
use crate::lab::sandbox::{
    BPF, Bpffs, NET_ADMIN, PERFMON, SYS_ADMIN, check, in_sandbox, in_sandbox_with, network, run, status, stderr,
    stdout, without,
};

/// A small algorithm: what `cong_avoid` does, another callback of the kernel's, and what the table has for it.
pub fn compile(folder: &Path, body: &str, member: &str, value: &str) -> PathBuf {
    object::small(folder, "ldk_small", 2, [body, member, value])
}

#[track_caller]
fn refused_object(body: &str, expected: &str) {
    let folder = tempfile::tempdir().unwrap();
    let object = compile(folder.path(), body, "", "");
    let output = check(1, tccc().arg("load").arg(&object).current_dir(folder.path()));
    output.stderr_has(expected);
    let log = fs::read_to_string(folder.path().join("ldk_small.verifier.log")).unwrap();
    output.stderr_has("hint: full log in ./ldk_small.verifier.log");
    assert!(log.contains("libbpf:"), "{log}");
    fs::remove_file(folder.path().join("ldk_small.verifier.log")).unwrap();
    check(1, tccc().args(["load", "--dry-run"]).arg(&object).current_dir(folder.path()));
    check(0, tccc().arg("show").arg(&object).current_dir(folder.path()));
    assert!(!folder.path().join("ldk_small.verifier.log").exists(), "a dry run wrote a file");
}

#[test]
fn small_object_of_a_user_is_loaded() {
    in_sandbox(host_has!(root, struct_ops, bpffs, clang), || {
        let folder = tempfile::tempdir().unwrap();
        let object = compile(folder.path(), "", "void (*of_another_kernel)(struct sock *sk);", "");
        check(0, tccc().arg("load").arg(&object)).stdout_has("\"ldk_small\" registered");
        check(0, tccc().arg("show").arg(&object)).stdout_has("small_cong_avoid");
        run(0, "unload ldk_small");
    });
}

#[test]
fn callback_of_another_kernel_is_left_out_and_said() {
    in_sandbox(host_has!(root, struct_ops, bpffs, clang), || {
        let folder = tempfile::tempdir().unwrap();
        let member = "void (*of_another_kernel)(struct sock *sk);";
        let object = compile(folder.path(), "", member, ".of_another_kernel = (void *)small_undo_cwnd,");
        check(0, tccc().arg("load").arg(&object))
            .stderr_has("note: of_another_kernel is left out: this kernel does not call it");
        run(0, "unload --all");
    });
}

#[test]
fn callback_with_other_parameters_is_refused() {
    in_sandbox(host_has!(root, struct_ops, bpffs, clang), || {
        let folder = tempfile::tempdir().unwrap();
        let member = "void (*set_state)(struct sock *sk, u32 state, u32 more);";
        let object = compile(folder.path(), "", member, ".set_state = (void *)small_cong_avoid,");
        let said = stderr(&check(4, tccc().arg("load").arg(&object)));
        let expected = "cannot load \"ldk_small\": its callback set_state takes 3 parameters, this kernel's 2";
        assert!(said.contains(expected), "{said}");
    });
}

#[test]
fn verdicts_of_the_verifier_become_one_sentence() {
    in_sandbox(host_has!(root, struct_ops, bpffs, clang), || {
        let refused = "cannot load \"ldk_small\": the verifier refused small_cong_avoid:";
        let number = "*(volatile u32 *)(unsigned long)ctx[1] = 1;";
        refused_object(number, &format!("{refused} it uses a number as a pointer"));
        let read_only = "*(volatile u32 *)ctx[0] = 1;";
        refused_object(read_only, &format!("{refused} it writes a field of"));
        let endless = "volatile u32 i = 0; for (;;) i++;";
        refused_object(endless, &format!("{refused} it has a loop without a bound that the verifier can see"));
        let function = "tcp_no_such_function();";
        refused_object(function, "it calls the kernel function tcp_no_such_function, which this kernel lacks");
    });
}

#[test]
fn kernel_refuses_other_licences_itself() {
    in_sandbox(host_has!(root, struct_ops, bpffs), || {
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
    });
}

#[test]
fn names_of_others_are_left_alone() {
    in_sandbox(host_has!(root, struct_ops, bpffs), || {
        run(1, "load dtcp --as reno")
            .stderr_has("\"reno\" is an algorithm of the kernel itself")
            .stderr_has("hint: `--as NAME` loads it under another name");
        run(1, "unload reno").stderr_has("cannot unload \"reno\": tccc did not register it");
        // Registered by this process, without a record: as by a program that is not tccc.
        let features = Features::probe().unwrap();
        let request = Request { name: "ldk_other", ..Request::of(catalog::find("dtcp").unwrap()) };
        let other = loader::register(&request, &features).unwrap();
        fs::remove_file("/run/tccc/ldk_other.json").unwrap();
        let said = stderr(&run(1, "load dtcp --as ldk_other"));
        let who = format!("\"ldk_other\" is already registered by another process (pid {}, ", std::process::id());
        assert!(said.contains(&who), "{said}");
        drop(other);
    });
}

#[test]
fn missing_bpf_file_system_is_mounted_listed_and_taken_away() {
    in_sandbox_with(host_has!(root, struct_ops), Bpffs::Absent, || {
        let is_mounted = || tccc::kernel::bpffs::mount().is_some();
        run(0, "doctor").stdout_has("not mounted; tccc mounts it");
        run(0, "load dtcp --as ldk_none --dry-run").stdout_has("mount the BPF file system at /sys/fs/bpf");
        assert!(!is_mounted(), "a dry run mounts nothing");
        run(0, "load dtcp --as ldk_none");
        run(0, "status").stdout_has("tccc mounted the BPF file system at /sys/fs/bpf");
        run(0, "load dtcp --as ldk_more");
        run(0, "unload ldk_none");
        assert!(is_mounted(), "a pin is left in it");
        run(0, "unload --all");
        assert!(!is_mounted(), "nothing is left in it");
    });
}

#[test]
fn read_only_bpf_file_system_is_said() {
    in_sandbox_with(host_has!(root, struct_ops, bpffs), Bpffs::ReadOnly, || {
        run(4, "load dtcp --as ldk_ro")
            .stderr_has("cannot pin in the BPF file system: /sys/fs/bpf: read-only file system");
    });
}

#[test]
fn missing_type_information_is_said() {
    in_sandbox(host_has!(root, struct_ops, bpffs), || {
        const NONE: Option<&str> = None;
        mount(Some("none"), "/sys/kernel/btf", Some("tmpfs"), MsFlags::empty(), NONE).unwrap();
        run(4, "load dtcp --as ldk_btf")
            .stderr_has("this kernel shows no type information: /sys/kernel/btf/vmlinux")
            .stderr_has("hint: use a kernel built with CONFIG_DEBUG_INFO_BTF");
        run(4, "doctor");
        run(0, "list").stdout_has("dtcp");
        run(0, "show dtcp").stdout_has("no verifier cost: this kernel shows no type information");
    });
}

#[test]
fn missing_rights_are_named() {
    in_sandbox(host_has!(root, struct_ops, bpffs), || {
        let without = |capabilities: &'static [i32], code: i32, verb: &str| {
            without(capabilities, code, tccc().args(verb.split(' ')))
        };
        let lacking = |capabilities: &'static [i32], verb: &str| stderr(&without(capabilities, 4, verb));
        let said = lacking(&[NET_ADMIN, SYS_ADMIN, PERFMON, BPF], "load dtcp --as ldk_cap");
        let all = "cannot load \"ldk_cap\": this process lacks CAP_BPF, CAP_PERFMON, CAP_NET_ADMIN";
        assert!(said.contains(all) && said.contains("hint: run it as root"), "{said}");
        let said = lacking(&[NET_ADMIN], "load dtcp --as ldk_cap");
        assert!(said.contains("this process lacks CAP_NET_ADMIN\n"), "{said}");
        let said = lacking(&[NET_ADMIN], "unload ldk_cap");
        assert!(said.contains("cannot unload \"ldk_cap\": this process lacks CAP_NET_ADMIN"), "{said}");
        lacking(&[NET_ADMIN], "unload --all --dry-run");
        let listed = stdout(&without(&[NET_ADMIN, SYS_ADMIN, PERFMON, BPF], 0, "list"));
        assert!(listed.lines().any(|line| line.starts_with("reno ")), "{listed}");
        without(&[SYS_ADMIN], 0, "load dtcp --as ldk_few --default");
        without(&[NET_ADMIN, SYS_ADMIN, PERFMON, BPF], 0, "status").stdout_has("ldk_few");
        without(&[SYS_ADMIN], 0, "unload ldk_few");
    });
}

/// It once was tried: the kernel refused and kept the algorithm in memory for ever.
#[test]
fn default_is_refused_outside_the_initial_network_namespace() {
    in_sandbox(host_has!(root, struct_ops, bpffs), || {
        let network = network();
        for verb in ["load dtcp --as ldk_ns --default", "load dtcp --as ldk_ns --default --dry-run"] {
            let said = network.run(|| Ok(stderr(&run(4, verb)))).unwrap();
            assert!(said.contains("this is not the host's initial network namespace"), "{said}");
        }
        let tables = tccc::kernel::struct_ops::tables(&Features::probe().unwrap()).unwrap();
        assert!(tables.iter().all(|table| table.name != "ldk_ns"), "a table was left in the kernel");
    });
}

/// The earlier generation was once unregistered when the default could not be set.
#[test]
fn replacement_stays_out_where_the_default_cannot_be_set() {
    in_sandbox(host_has!(root, struct_ops, bpffs), || {
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
    });
}
