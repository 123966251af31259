//! Refused policies: each has its message, exit code and hint, and changes nothing.

use std::ffi::CString;
use std::fs::File;
use std::os::fd::{FromRawFd, OwnedFd};
use std::os::unix::process::CommandExt as _;

use tccc::kernel::bpf;

use super::*;

const NONE: Option<&str> = None;

/// Asserts that `policy apply` is refused with these words and changes nothing.
#[track_caller]
fn refused(lab: &PolicyLab, code: i32, words: &[&str]) {
    let before = state::lines();
    let said = stderr(&lab.policy(code, "apply", &all("dtcp")));
    assert!(words.iter().all(|word| said.contains(word)), "{said}");
    assert_eq!(state::lines(), before);
}

/// A sock_ops program that does nothing and is not tccc's.
fn foreign_program() -> OwnedFd {
    const MOVE_ONE_TO_R0: u64 = 0x1_0000_00b7;
    const EXIT: u64 = 0x95;
    let instructions = [MOVE_ONE_TO_R0, EXIT];
    let [name, licence] = ["ldk_alone", "GPL"].map(|text| CString::new(text).unwrap());
    // SAFETY: names and instructions are as long as they say and outlive the call; null options mean none.
    let answer = unsafe {
        let kind = libbpf_sys::BPF_PROG_TYPE_SOCK_OPS;
        let at = instructions.as_ptr().cast();
        libbpf_sys::bpf_prog_load(kind, name.as_ptr(), licence.as_ptr(), at, 2, std::ptr::null_mut())
    };
    assert!(answer >= 0, "the kernel takes the program: {answer}");
    // SAFETY: the call has just opened this descriptor.
    unsafe { OwnedFd::from_raw_fd(answer) }
}

/// A program attached to the root cgroup without BPF_F_ALLOW_MULTI. Detached when dropped.
struct ExclusiveProgram {
    program: OwnedFd,
    root: File,
}

impl ExclusiveProgram {
    fn attach() -> Result<Self, i32> {
        let (program, root) = (foreign_program(), File::open(cgroup::mount_point().unwrap()).unwrap());
        let kind = libbpf_sys::BPF_CGROUP_SOCK_OPS;
        // SAFETY: both descriptors are open.
        let answer = unsafe { libbpf_sys::bpf_prog_attach(program.as_raw_fd(), root.as_raw_fd(), kind, 0) };
        if answer == 0 { Ok(ExclusiveProgram { program, root }) } else { Err(answer) }
    }
}

impl Drop for ExclusiveProgram {
    fn drop(&mut self) {
        let kind = libbpf_sys::BPF_CGROUP_SOCK_OPS;
        // SAFETY: both descriptors are open.
        unsafe { libbpf_sys::bpf_prog_detach2(self.program.as_raw_fd(), self.root.as_raw_fd(), kind) };
    }
}

#[test]
fn program_that_allows_no_other_is_named() {
    let lab = &enter!(PolicyLab; root, btf, bpffs, cgroup2);
    let alone = ExclusiveProgram::attach().expect("nothing else is attached to the root");
    let id = bpf::program_id(&alone.program).unwrap();
    let root = cgroup::mount_point().unwrap();
    let who = format!("program {id} (\"ldk_alone\") is attached to the cgroup {} and allows no other", root.display());
    refused(lab, 4, &[&who, "hint: attach it with BPF_F_ALLOW_MULTI"]);
    lab.policy(4, "apply --dry-run", &all("dtcp")).stderr_has(&who);
    let declared = lab.folder().join("declared");
    fs::create_dir(&declared).unwrap();
    fs::write(declared.join("site.toml"), "version = 1\npolicy = \"../policy.toml\"\n").unwrap();
    for more in ["", "--dry-run"] {
        let said = check(1, tccc().args(["apply", "--config"]).arg(&declared).args(more.split_whitespace()));
        said.stderr_has(&who).stderr_lacks("would apply the policy");
    }
    drop(alone);
    lab.apply(&all("cubic"));
    // In the other order, the kernel refuses the other program.
    assert!(ExclusiveProgram::attach().is_err());
}

#[track_caller]
fn without(capabilities: &'static [i32], code: i32, words: &str, file: Option<&Path>) -> CommandOutput {
    sandbox::without(capabilities, code, tccc().args(words.split(' ')).args(file))
}

#[test]
fn missing_capabilities_are_named_by_each_verb() {
    let lab = &enter!(PolicyLab; root, struct_ops, bpffs, cgroup2);
    run(0, "load dtcp --as ldk_cap");
    lab.apply(&all("cubic"));
    let file = lab.policy_file(&all("cubic"));
    // A rule for a namespace needs one more capability, which is checked before anything is changed.
    let lab_only = format!("version = 1\n{}", all("cubic").replace("use", "netns = \"ldk_lab\"\nuse"));
    let lab_only = lab.file("lab.toml", &lab_only);
    let before = state::lines();
    let verbs: &[(&str, &str, Option<&Path>, bool)] = &[
        ("policy apply", "apply a policy", Some(&file), false),
        ("policy apply --dry-run", "apply a policy", Some(&file), false),
        ("policy apply --live", "apply a policy", Some(&file), true),
        ("policy apply", "apply a policy", Some(&lab_only), true),
        ("policy remove", "remove the policy", None, false),
        ("policy remove --dry-run", "remove the policy", None, false),
        ("policy remove --live", "remove the policy", None, true),
        ("upgrade ldk_cap", "upgrade \"ldk_cap\"", None, true),
        ("upgrade ldk_cap --dry-run", "upgrade \"ldk_cap\"", None, true),
        ("rollback ldk_cap", "roll back \"ldk_cap\"", None, true),
        ("unload ldk_cap", "unload \"ldk_cap\"", None, false),
        ("unload --all", "unload", None, false),
    ];
    let lacking = |capabilities: &'static [i32], names: &str| {
        for &(words, verb, file, enters) in verbs {
            // If CAP_SYS_ADMIN is needed, the message names it instead of CAP_BPF and CAP_PERFMON, which it includes.
            let in_place = enters && capabilities.contains(&SYS_ADMIN);
            let network = if capabilities.contains(&NET_ADMIN) { "CAP_NET_ADMIN, " } else { "" };
            let large = format!("{network}CAP_SYS_ADMIN");
            let names = if in_place { &large } else { names };
            without(capabilities, 4, words, file)
                .stderr_has(format!("cannot {verb}: this process lacks {names}\n  hint: run it as root"));
        }
    };
    lacking(&[NET_ADMIN], "CAP_NET_ADMIN");
    lacking(&[SYS_ADMIN, PERFMON], "CAP_PERFMON");
    lacking(&[SYS_ADMIN, BPF], "CAP_BPF");
    lacking(&[SYS_ADMIN, BPF, PERFMON, NET_ADMIN], "CAP_BPF, CAP_PERFMON, CAP_NET_ADMIN");
    let explained = ("explain 1", "explain a connection", None, true);
    for &(words, verb, file, _) in verbs.iter().chain([&explained]).filter(|verb| verb.3) {
        without(&[SYS_ADMIN], 4, words, file).stderr_has(format!("cannot {verb}: this process lacks CAP_SYS_ADMIN"));
    }
    assert_eq!(state::lines(), before);
    assert_eq!((&show()["generation"], generation("ldk_cap").0), (&1.into(), Some(1)));
    without(&[SYS_ADMIN], 0, "policy apply", Some(&file));
    without(&[SYS_ADMIN], 0, "load dtcp --as ldk_cap --replace", None);
    without(&[SYS_ADMIN], 0, "policy remove", None);
    run(0, "unload ldk_cap");
}

#[test]
fn policy_is_shown_without_capabilities_as_far_as_it_is_known() {
    let lab = &enter!(PolicyLab; root, btf, bpffs, cgroup2);
    lab.apply(&all("cubic"));
    let file = lab.policy_file(&all("cubic"));
    const ALL: &[i32] = &[NET_ADMIN, SYS_ADMIN, PERFMON, BPF];
    let shown = without(ALL, 0, "policy show", None);
    assert!(stdout(&shown).starts_with("policy generation 1 from "), "{}{}", stdout(&shown), stderr(&shown));
    shown.stderr_lacks("has no effect");
    assert_eq!(without(ALL, 0, "policy diff", Some(&file)).stdout, b"");
    without(ALL, 0, "policy check", Some(&file));
    without(ALL, 0, "status", None).stdout_has("policy generation 1 from ").stdout_lacks("has no effect");
    const NOBODY: u32 = 65_534;
    for words in [["policy", "show"].as_slice(), &["status"]] {
        let output = check(0, tccc().args(words).uid(NOBODY).gid(NOBODY));
        let said = stdout(&output) + &stderr(&output);
        assert!(said.contains("policy: only root can read its pins"), "{said}");
        assert!(!said.contains("there is no policy") && !said.contains("has no effect"), "{said}");
    }
}

#[test]
fn missing_and_read_only_file_systems_are_reported() {
    let lab = &enter!(PolicyLab; root, struct_ops, bpffs, cgroup2);
    let remount = |place: &str, flags| mount(NONE, place, NONE, MsFlags::MS_REMOUNT | flags, NONE).unwrap();
    let read_only = MsFlags::MS_RDONLY;
    for is_first in [true, false] {
        if !is_first {
            lab.apply(&all("cubic"));
        }
        remount("/run", read_only);
        refused(lab, 1, &["cannot write records in /run/tccc", "read-only file system"]);
        if !is_first {
            removed_in_part(lab);
        }
        remount("/run", MsFlags::empty());
        if !is_first {
            lab.apply(&all("cubic"));
        }
        remount("/sys/fs/bpf", read_only);
        refused(lab, 4, &["cannot pin in the BPF file system: /sys/fs/bpf: read-only file system"]);
        if !is_first {
            // A link on a read-only file system cannot be opened, so the deciding generation is unknown.
            let drift = show()["drift"].to_string();
            assert!(drift.contains("it is in effect, but its pins are in another BPF file system"), "{drift}");
            removed_in_part(lab);
        }
        remount("/sys/fs/bpf", MsFlags::empty());
    }
    lab.apply(&all("cubic"));
    let cgroups = cgroup::mount_point().unwrap();
    umount2(&cgroups, MntFlags::MNT_DETACH).unwrap();
    refused(lab, 4, &["cgroup v2 is not mounted, and programs for sockets need it", "hint: mount it: "]);
    assert_eq!(show()["generation"], 1);
    run(0, "status");
}

/// A harmful policy must end even if its files cannot be changed. What could not be removed is reported.
#[track_caller]
fn removed_in_part(lab: &PolicyLab) {
    run(1, "policy remove").stderr_has("the policy is no longer in effect, but parts of it are left: ");
    lab.assert_given("reno", "");
    run(0, "status").stdout_has("parts of a policy that has no effect are left");
}

#[test]
fn full_record_folder_leaves_the_policy_before() {
    let lab = &enter!(PolicyLab; root, struct_ops, bpffs, cgroup2);
    lab.apply(&all("cubic"));
    fill_run("128k");
    refused(lab, 1, &["cannot write records in /run/tccc", "no space left on device"]);
    lab.policy(1, "apply", &all("bbr")).stderr_has("cannot write records in /run/tccc");
    assert_eq!(show()["generation"], 1);
    lab.assert_given("cubic", "");
    fs::remove_file(BALLAST).unwrap();
    lab.apply(&all("bbr"));
    lab.assert_given("bbr", "");
    fill_run("128k");
    run(0, "policy remove"); // needs no room
    fs::remove_file(BALLAST).unwrap();
}

#[test]
fn hundred_thousand_prefixes_are_applied_and_shown() {
    let lab = &enter!(PolicyLab; root, btf, bpffs, cgroup2);
    let list: String =
        (0..99_999u32).map(|n| format!("127.{}.{}.{}/32\n", 64 + (n >> 15), n >> 7 & 255, n << 1 & 255)).collect();
    lab.file("list.txt", &list);
    let rule = "[[rule]]\nname = \"many\"\nto_file = \"list.txt\"\nto = \"192.0.2.0/24\"\nuse = \"cubic\"\n";
    let time = |what: &str, work: &dyn Fn()| {
        let begin = std::time::Instant::now();
        work();
        println!("{what} with 100,000 prefixes: {:?}", begin.elapsed());
    };
    time("apply", &|| drop(lab.apply(rule)));
    time("show", &|| drop(run(0, "policy show")));
    time("status", &|| drop(run(0, "status")));
    assert_eq!(lab.algorithms("127.0.0.1", "127.64.0.2"), ["cubic", "reno"]);
    assert_eq!(lab.algorithms("127.0.0.1", "127.64.0.3"), ["reno", "reno"]);
    run(0, "policy show").stdout_has("to 192.0.2.0/24, 127.64.0.0/32 and 99998 more");
    time("remove", &|| drop(remove()));
    lab.file("list.txt", &format!("{list}127.1.1.1\n"));
    lab.policy(2, "apply", rule).stderr_has("list.txt:100000: expected at most 100000 prefixes in the whole policy");
}

#[test]
fn files_that_are_not_regular_or_missing_are_refused() {
    let lab = &enter!(PolicyLab; root, btf, bpffs, cgroup2);
    let pipe = lab.folder().join("pipe");
    nix::unistd::mkfifo(&pipe, nix::sys::stat::Mode::S_IRUSR).unwrap();
    let strange = lab.folder().join("a\n\u{1b}[31mb \u{202e}c.toml");
    fs::write(&strange, "version = 1\n[[rule]]\nname = \"x\"\nuse = \"no such\"\n").unwrap();
    let none = lab.folder().join("none");
    for verb in ["check", "apply", "diff"] {
        let said = |file: &Path| check(2, tccc().args(["policy", verb]).arg(file));
        said(&pipe).stderr_has("pipe: cannot be read: it is not a regular file");
        said(lab.folder()).stderr_has("cannot be read: it is not a regular file");
        said(Path::new("/dev/null")).stderr_has("cannot be read: it is not a regular file");
        said(&none).stderr_has("none: cannot be read: no such file or directory");
        said(&strange).stderr_lacks("\u{1b}");
    }
    lab.file("policy.toml", "version = 1\n[[rule]]\nname = \"x\"\nto_file = \"pipe\"\nuse = \"cubic\"\n");
    check(2, tccc().args(["policy", "apply"]).arg(lab.folder().join("policy.toml")))
        .stderr_has("rule.to_file = \"pipe\": \"")
        .stderr_has("it is not a regular file");
}
