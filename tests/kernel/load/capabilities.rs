//! Each verb as an ordinary user with exactly the capabilities that its help lists, and with each of them taken away in turn.

use std::fs;
use std::os::unix::fs::{PermissionsExt, chown};
use std::path::Path;
use std::process::{Command, Output};

use nix::mount::{MsFlags, mount};
use nix::sys::signal::Signal;
use tccc::cli::capabilities::{NEEDS, Needs};
use tccc::kernel::privilege::Capability::{self, Bpf, NetAdmin, Perfmon, SysAdmin, SysPtrace};

use crate::common::{check, needs, tccc};
use crate::lab::pty::Session;
use crate::lab::sandbox::{default, in_sandbox, registered, run, stderr};

/// A user without any right of his own.
const NOBODY: u32 = 65_534;
/// Where the program under test is for this user, and where he works.
const PROGRAM: &str = "/run/tccc-under-test";
const FOLDER: &str = "/run/work";
/// What preparing and clearing up take.
const ALL: [Capability; 5] = [Bpf, Perfmon, NetAdmin, SysAdmin, SysPtrace];

/// A verb in use: commands before, the command, commands after.
struct Use {
    verb: &'static str,
    before: &'static [&'static str],
    command: &'static str,
    after: &'static [&'static str],
}

const LOAD: &str = "load dtcp --as ldk_cap";
const UNLOAD: &str = "unload ldk_cap";
const APPLY: &str = "policy apply policy.toml";

/// Namespaces that a link joins.
const ENDS: [&str; 2] = ["ldk_a", "ldk_b"];
const LINK: &str = "link --between ldk_a ldk_b --rate 10mbit --delay 1ms --duration 100ms";
const RUN: &str = "run tiny.toml --out results";
const SCENARIO: &str = include_str!("../../fixtures/scenarios/one-flow.toml");
/// What `run` ends with where everything ran, even if a busy host delayed it: no capability helps there.
const CARRIED_OUT: [i32; 3] = [0, 3, 5];

const USES: [Use; 22] = [
    plain("list", "list"),
    plain("show", "show dtcp"),
    Use { after: &[UNLOAD], ..plain("load", LOAD) },
    Use { after: &[UNLOAD], ..plain("load", "load dtcp --as ldk_cap --default") },
    Use { before: &["load dtcp --as ldk_cap --confirm 5m"], after: &[UNLOAD], ..plain("confirm", "confirm ldk_cap") },
    Use { before: &[LOAD], ..plain("unload", UNLOAD) },
    Use { before: &["load dtcp --as ldk_cap --default"], ..plain("unload", "unload --all") },
    Use { before: &[LOAD], after: &[UNLOAD], ..plain("status", "status") },
    plain("status", "status"),
    Use { after: &[UNLOAD], ..plain("apply", "apply --config declared") },
    plain("policy check", "policy check policy.toml"),
    Use { after: &["policy remove"], ..plain("policy apply", APPLY) },
    Use { before: &[APPLY], ..plain("policy remove", "policy remove") },
    plain("explain", "explain tcp 127.0.0.1:443 192.0.2.7:51000 --direction in"),
    Use { before: &[LOAD], after: &[UNLOAD], ..plain("upgrade", "upgrade ldk_cap bpf_reno") },
    Use { before: &[LOAD, "upgrade ldk_cap bpf_reno"], after: &[UNLOAD], ..plain("rollback", "rollback ldk_cap") },
    plain("sockets", "sockets"),
    plain("trace", "trace --duration 200ms"),
    plain("policy apply", "policy apply policy.toml --dry-run"),
    plain("load", "load dtcp --as ldk_cap --dry-run"),
    plain("link", LINK),
    plain("run", RUN),
];

/// Verbs that go on until they are ended.
const LASTING: [&str; 2] = ["top", "serve --listen 127.0.0.1:0"];
/// A verb that reports what is missing.
const REPORTING: &str = "doctor";

const fn plain(verb: &'static str, command: &'static str) -> Use {
    Use { verb, before: &[], command, after: &[] }
}

/// A command of tccc by an ordinary user with these capabilities and no others.
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
    let output = as_user(&ALL, command);
    assert!(output.status.success(), "{command}: {}", stderr(&output));
}

/// A user who owns the places where tccc records and pins.
fn make_room() {
    fs::write(PROGRAM, "").unwrap();
    let program = tccc().get_program().to_owned();
    mount(Some(Path::new(&program)), PROGRAM, None::<&str>, MsFlags::MS_BIND, None::<&str>).unwrap();
    fs::create_dir_all(format!("{FOLDER}/declared")).unwrap();
    fs::create_dir(format!("{FOLDER}/state")).unwrap();
    fs::write(format!("{FOLDER}/policy.toml"), "version = 1\n[[rule]]\nname = \"a\"\nlocal_port = 9\nuse = \"reno\"\n")
        .unwrap();
    let site = "version = 1\n[algorithm.ldk_cap]\nuse = \"dtcp\"\n";
    fs::write(format!("{FOLDER}/declared/site.toml"), site).unwrap();
    fs::write(format!("{FOLDER}/tiny.toml"), SCENARIO).unwrap();
    for place in ["/run", FOLDER, "/run/work/state", "/run/work/declared", "/sys/fs/bpf"] {
        chown(place, Some(NOBODY), Some(NOBODY)).unwrap();
        fs::set_permissions(place, fs::Permissions::from_mode(0o755)).unwrap();
    }
}

/// What a refused command must not change: registrations, the default, records and pins.
fn state() -> (Vec<String>, String, Vec<String>) {
    let mut files = Vec::new();
    let mut folders = vec!["/run/tccc".to_owned(), "/sys/fs/bpf".to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).into_iter().flatten().flatten() {
            let path = entry.path().display().to_string();
            if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                folders.push(path.clone());
            }
            files.push(path);
        }
    }
    files.retain(|path| !path.starts_with("/run/tccc/locks"));
    files.sort();
    (registered(), default(), files)
}

#[test]
fn each_verb_works_with_what_its_help_lists_and_says_what_it_lacks() {
    needs!(root, struct_ops, bpffs, cgroup2, iperf3);
    for Needs { verb, .. } in NEEDS {
        let is_tried = USES.iter().any(|it| it.verb == verb) || LASTING.iter().any(|it| it.starts_with(verb));
        assert!(is_tried || verb == REPORTING, "no use of `{verb}`");
    }
    in_sandbox(true, || {
        make_room();
        let netns = |what: &str, name: &str| check(0, Command::new("ip").args(["netns", what, name]));
        ENDS.iter().for_each(|name| drop(netns("add", name)));
        for Use { verb, before, command, after } in USES {
            let needs = NEEDS.iter().find(|it| it.verb == verb).unwrap();
            let wanted = needs.always;
            before.iter().for_each(|command| must(command));
            for &missing in wanted {
                let before = state();
                let others: Vec<Capability> = wanted.iter().copied().filter(|it| *it != missing).collect();
                let output = as_user(&others, command);
                let said = stderr(&output);
                assert_eq!(output.status.code(), Some(4), "`{command}` without {missing:?}: {said}");
                let refusal = format!("this process lacks {}", missing.name());
                assert!(said.contains(&refusal) && said.contains("hint: "), "`{command}` without {missing:?}: {said}");
                let names_the_task = |line: &str| line.starts_with("tccc: error: ") && line.contains("cannot ");
                assert!(said.lines().any(names_the_task), "{said}");
                assert_eq!(state(), before, "`{command}` without {missing:?}");
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
    });
}

/// Tries a verb that goes on until it is ended, in a terminal.
fn refused_then_lasting(command: &str) {
    let verb = command.split(' ').next().unwrap();
    let wanted = NEEDS.iter().find(|it| it.verb == verb).unwrap().always;
    for &missing in wanted {
        let others: Vec<Capability> = wanted.iter().copied().filter(|it| *it != missing).collect();
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
