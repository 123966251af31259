//! Each verb as an ordinary user with exactly the capabilities that its help lists, and without each of them in turn.

use std::collections::BTreeSet;
use std::os::unix::fs::{PermissionsExt, chown};
use std::path::PathBuf;
use std::process::Output;

use tccc::cli::capabilities::{NEEDS, Needs};
use tccc::kernel::privilege::Capability;
use tccc::kernel::privilege::Capability::{Bpf, NetAdmin, Perfmon, SysAdmin, SysPtrace};

use super::*;

const NOBODY: u32 = 65_534;
/// Path of the program under test for this user, and the user's working folder.
const PROGRAM: &str = "/run/tccc-under-test";
const FOLDER: &str = "/run/work";
const ALL: [Capability; 5] = [Bpf, Perfmon, NetAdmin, SysAdmin, SysPtrace];

struct VerbUse {
    verb: &'static str,
    before: &'static [&'static str],
    command: &'static str,
    after: &'static [&'static str],
}

const LOAD: &str = "load dtcp --as ldk_cap";
const UNLOAD: &str = "unload ldk_cap";
const APPLY: &str = "policy apply policy.toml";

const ENDS: [&str; 2] = ["ldk_a", "ldk_b"];
const LINK: &str = "link --between ldk_a ldk_b --rate 10mbit --delay 1ms --duration 100ms";
const RUN: &str = "run tiny.toml --out results";
const SCENARIO: &str = include_str!("../../fixtures/scenarios/one-flow.toml");
/// Exit codes of `run` if everything ran, even if a busy host delayed it.
const CARRIED_OUT: [i32; 3] = [0, 3, 5];

const USES: [VerbUse; 22] = [
    plain("list", "list"),
    plain("show", "show dtcp"),
    VerbUse { after: &[UNLOAD], ..plain("load", LOAD) },
    VerbUse { after: &[UNLOAD], ..plain("load", "load dtcp --as ldk_cap --default") },
    VerbUse {
        before: &["load dtcp --as ldk_cap --confirm 5m"],
        after: &[UNLOAD],
        ..plain("confirm", "confirm ldk_cap")
    },
    VerbUse { before: &[LOAD], ..plain("unload", UNLOAD) },
    VerbUse { before: &["load dtcp --as ldk_cap --default"], ..plain("unload", "unload --all") },
    VerbUse { before: &[LOAD], after: &[UNLOAD], ..plain("status", "status") },
    plain("status", "status"),
    VerbUse { after: &[UNLOAD], ..plain("apply", "apply --config declared") },
    plain("policy check", "policy check policy.toml"),
    VerbUse { after: &["policy remove"], ..plain("policy apply", APPLY) },
    VerbUse { before: &[APPLY], ..plain("policy remove", "policy remove") },
    plain("explain", "explain tcp 127.0.0.1:443 192.0.2.7:51000 --direction in"),
    VerbUse { before: &[LOAD], after: &[UNLOAD], ..plain("upgrade", "upgrade ldk_cap bpf_reno") },
    VerbUse { before: &[LOAD, "upgrade ldk_cap bpf_reno"], after: &[UNLOAD], ..plain("rollback", "rollback ldk_cap") },
    plain("sockets", "sockets"),
    plain("trace", "trace --duration 200ms"),
    plain("policy apply", "policy apply policy.toml --dry-run"),
    plain("load", "load dtcp --as ldk_cap --dry-run"),
    plain("link", LINK),
    plain("run", RUN),
];

const LASTING: [&str; 2] = ["top", "serve --listen 127.0.0.1:0"];
const REPORTING: &str = "doctor";

const fn plain(verb: &'static str, command: &'static str) -> VerbUse {
    VerbUse { verb, before: &[], command, after: &[] }
}

/// A command of tccc, run by an ordinary user with exactly these capabilities.
fn command_of(capabilities: &[Capability], command: &str) -> Command {
    let names = capabilities.iter().map(|it| format!(",+{}", it.name().trim_start_matches("CAP_").to_lowercase()));
    let set = format!("-all{}", names.collect::<String>());
    let user = NOBODY.to_string();
    let mut setpriv = Command::new("setpriv");
    setpriv.args(["--reuid", &user, "--regid", &user, "--clear-groups"]);
    setpriv.args(["--bounding-set", &set, "--inh-caps", &set, "--ambient-caps", &set, PROGRAM]);
    setpriv.args(command.split(' ')).env("NO_COLOR", "1").env("STATE_DIRECTORY", format!("{FOLDER}/state"));
    setpriv.current_dir(FOLDER);
    setpriv
}

fn as_user(capabilities: &[Capability], command: &str) -> Output {
    command_of(capabilities, command).output().expect("setpriv starts")
}

#[track_caller]
fn must(command: &str) {
    check(0, &mut command_of(&ALL, command));
}

/// Each capability that a verb needs, and all others that it needs.
fn each_missing(wanted: &[Capability]) -> impl Iterator<Item = (Capability, Vec<Capability>)> {
    wanted.iter().map(|&missing| (missing, wanted.iter().copied().filter(|it| *it != missing).collect()))
}

fn prepare_folders() {
    fs::write(PROGRAM, "").unwrap();
    mount(Some(TCCC), PROGRAM, None::<&str>, MsFlags::MS_BIND, None::<&str>).unwrap();
    fs::create_dir_all(format!("{FOLDER}/declared")).unwrap();
    fs::create_dir(format!("{FOLDER}/state")).unwrap();
    for (name, text) in [
        ("policy.toml", "version = 1\n[[rule]]\nname = \"a\"\nlocal_port = 9\nuse = \"reno\"\n"),
        ("declared/site.toml", "version = 1\n[algorithm.ldk_cap]\nuse = \"dtcp\"\n"),
        ("tiny.toml", SCENARIO),
    ] {
        fs::write(format!("{FOLDER}/{name}"), text).unwrap();
    }
    for place in ["/run", FOLDER, "/run/work/state", "/run/work/declared", "/sys/fs/bpf"] {
        chown(place, Some(NOBODY), Some(NOBODY)).unwrap();
        fs::set_permissions(place, fs::Permissions::from_mode(0o755)).unwrap();
    }
}

/// Registrations, the default algorithm, pins and records, which a refused command must not change.
fn state_and_records() -> (BTreeSet<String>, Vec<PathBuf>) {
    let mut records = state::tree(Path::new("/run/tccc"));
    records.retain(|path| !path.starts_with("/run/tccc/locks"));
    records.extend(state::tree(Path::new("/sys/fs/bpf")));
    records.sort();
    (state::lines(), records)
}

#[test]
fn each_verb_works_with_the_capabilities_of_its_help_and_names_a_missing_one() {
    needs!(root, struct_ops, bpffs, cgroup2, iperf3);
    for Needs { verb, .. } in NEEDS {
        let is_tried = USES.iter().any(|it| it.verb == verb) || LASTING.iter().any(|it| it.starts_with(verb));
        assert!(is_tried || verb == REPORTING, "no use of `{verb}`");
    }
    let _sandbox = Sandbox::enter();
    prepare_folders();
    let netns = |what: &str, name: &str| check(0, Command::new("ip").args(["netns", what, name]));
    ENDS.iter().for_each(|name| drop(netns("add", name)));
    for VerbUse { verb, before, command, after } in USES {
        let needs = NEEDS.iter().find(|it| it.verb == verb).unwrap();
        let wanted = needs.always;
        before.iter().for_each(|command| must(command));
        for (missing, others) in each_missing(wanted) {
            let before = state_and_records();
            let output = as_user(&others, command);
            let said = stderr(&output);
            assert_eq!(output.status.code(), Some(4), "`{command}` without {missing:?}: {said}");
            let refusal = format!("this process lacks {}", missing.name());
            assert!(said.contains(&refusal) && said.contains("hint: "), "`{command}` without {missing:?}: {said}");
            let names_the_task = |line: &str| line.starts_with("tccc: error: ") && line.contains("cannot ");
            assert!(said.lines().any(names_the_task), "{said}");
            assert_eq!(state_and_records(), before, "`{command}` without {missing:?}");
        }
        let output = as_user(wanted, command);
        let expected = if verb == "run" { CARRIED_OUT.as_slice() } else { &[0] };
        let is_expected = output.status.code().is_some_and(|code| expected.contains(&code));
        assert!(is_expected, "`{command}` with {wanted:?}: {}", stderr(&output));
        after.iter().for_each(|command| must(command));
    }
    LASTING.iter().for_each(|command| refused_then_lasting(command));
    must("unload --all");
    run(0, "unload --all");
    ENDS.iter().for_each(|name| drop(netns("delete", name)));
    nix::mount::umount(PROGRAM).unwrap();
}

/// Tries a verb that runs until it is stopped, in a terminal.
fn refused_then_lasting(command: &str) {
    let verb = command.split(' ').next().unwrap();
    let wanted = NEEDS.iter().find(|it| it.verb == verb).unwrap().always;
    for (missing, others) in each_missing(wanted) {
        let mut session = Session::start_command(80, 24, command_of(&others, command));
        assert_eq!(session.end(), Some(4), "`{command}` without {missing:?}: {}", session.screen());
        assert!(session.screen().contains(missing.name()), "{}", session.screen());
    }
    let mut session = Session::start_command(80, 24, command_of(wanted, command));
    let says = if verb == "top" { "sockets" } else { "serving http://" };
    session.until(says, |screen| screen.contains(says));
    session.signal(Signal::SIGTERM);
    assert_eq!(session.end(), Some(0), "{}", session.screen());
}
