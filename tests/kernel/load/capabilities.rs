//! Each verb as an ordinary user with exactly the capabilities that its help lists, and with each of them taken away in turn.

use std::fs;
use std::os::unix::fs::{PermissionsExt, chown};
use std::path::Path;
use std::process::{Command, Output};

use nix::mount::{MsFlags, mount};
use tccc::cli::capabilities::{NEEDS, Needs};
use tccc::kernel::privilege::Capability::{self, Bpf, NetAdmin, Perfmon, SysAdmin, SysPtrace};

use crate::common::{needs, tccc};
use crate::lab::sandbox::{Bpffs, default, in_sandbox, registered, run, stderr};

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

const USES: [Use; 20] = [
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
];

/// Verbs that are tried elsewhere: they go on until they are ended, make what only root can, or report what is missing.
const ELSEWHERE: [&str; 5] = ["top", "serve", "run", "link", "doctor"];

const fn plain(verb: &'static str, command: &'static str) -> Use {
    Use { verb, before: &[], command, after: &[] }
}

/// Runs a command of tccc as an ordinary user with these capabilities and no others.
fn as_user(capabilities: &[Capability], command: &str) -> Output {
    let names = capabilities.iter().map(|it| format!(",+{}", it.name().trim_start_matches("CAP_").to_lowercase()));
    let set = format!("-all{}", names.collect::<String>());
    let user = NOBODY.to_string();
    let mut setpriv = Command::new("setpriv");
    setpriv.args(["--reuid", &user, "--regid", &user, "--clear-groups"]);
    setpriv.args(["--bounding-set", &set, "--inh-caps", &set, "--ambient-caps", &set, PROGRAM]);
    setpriv.args(command.split(' ')).env("NO_COLOR", "1").env("STATE_DIRECTORY", format!("{FOLDER}/state"));
    setpriv.current_dir(FOLDER).output().expect("setpriv starts")
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
    needs!(root, struct_ops, bpffs, cgroup2);
    for Needs { verb, .. } in NEEDS {
        let is_tried = USES.iter().any(|it| it.verb == verb) || ELSEWHERE.contains(&verb);
        assert!(is_tried, "no use of `{verb}`");
    }
    in_sandbox(Bpffs::Writable, || {
        make_room();
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
            assert!(output.status.success(), "`{command}` with {wanted:?}: {}", stderr(&output));
            after.iter().for_each(|command| must(command));
        }
        must("unload --all");
        run(0, "unload --all");
        nix::mount::umount(PROGRAM).unwrap();
    });
}
