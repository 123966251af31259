//! Verbs that change the host act, then print: neither their output nor a signal decides what is done.

use std::os::unix::process::CommandExt as _;

use nix::sys::signal::{SigHandler, signal as handle};
use procfs::process::Process;

use super::*;
use crate::common::STATE_FOLDER;
use crate::lab::policy::fault::die_at;
use crate::lab::verbs::{changing, closed, effect_of, full, verb_of};
use tccc::cli::effect::Effect;

/// Command lines that succeed in this order, with `{}` for the folder of files. Together they use every changing verb.
const STORY: [&str; 16] = [
    "load dtcp --as ldk_a",
    "upgrade ldk_a --set keep_avoidance=800",
    "rollback ldk_a",
    "load dtcp --as ldk_b --confirm 1h",
    "confirm ldk_b",
    "policy apply {}/steps.toml",
    "policy pause",
    "policy resume",
    "policy promote web",
    "policy abort",
    "policy apply {}/all.toml",
    "policy remove",
    "apply --config {}/declared",
    "load dtcp --as ldk_d --default --confirm 1h",
    "unload --all",
    "new ldk_mine {}/mine",
];

const OWN: [&str; 4] = ["ldk_a", "ldk_b", "ldk_c", "ldk_d"];

/// Fault points, each with the command line that reaches it.
const KILLED: [(&str, &str); 3] = [
    ("load.registered", "load dtcp --as ldk_a"),
    ("apply.attached", "policy apply {}/all.toml"),
    ("trial.begun", "policy apply {}/steps.toml"),
];

const STEPS: &str = "version = 1\n[[rule]]\nname = \"web\"\nlocal_port = 65000\nuse = \"cubic\"\n\
    steps = [{ percent = 10, for = \"1h\" }, { percent = 50, for = \"1h\" }]\nguard = \"retransmitted<3x\"\n";
const ALL: &str = "version = 1\n[[rule]]\nname = \"all\"\nlocal_port = 65001\nuse = \"cubic\"\n";
const DECLARED: &str = "version = 1\n[algorithm.ldk_c]\nuse = \"dtcp\"\naccept_risk = true\n";

#[derive(Debug, Clone, Copy, PartialEq)]
enum Reader {
    Reads,
    /// Stdout is a pipe without a reader, and stderr is closed.
    Left,
    /// Stdout is on a full disk.
    DiskIsFull,
}

/// Exit code or signal, and what the host has afterwards.
type Outcome = (Option<i32>, Vec<String>);

fn command(lab: &PolicyLab, line: &str, reader: Reader) -> Command {
    let line = line.replace("{}", lab.folder().to_str().unwrap());
    let mut command = match reader {
        Reader::Left => {
            let mut command = Command::new("sh");
            command.args(["-c", "exec \"$0\" \"$@\" 2>&-", crate::common::TCCC]).env("STATE_DIRECTORY", STATE_FOLDER);
            command
        }
        Reader::Reads | Reader::DiskIsFull => tccc(),
    };
    match reader {
        Reader::Reads => {}
        Reader::Left => drop(command.stdout(closed())),
        Reader::DiskIsFull => drop(command.stdout(full())),
    }
    command.args(line.split_whitespace());
    command
}

fn tell(lab: &PolicyLab, line: &str, reader: Reader) -> Outcome {
    let output = command(lab, line, reader).output().unwrap();
    let warnings = stderr(&output).matches("tccc: warning: cannot write to stdout: no space left on device\n").count();
    assert_eq!(warnings, usize::from(reader == Reader::DiskIsFull), "{line}: {}", stderr(&output));
    (output.status.code(), host(lab))
}

/// Whether these tests own the default, their registered names, the pins and the records, without numbers and times that
/// differ from run to run. Other processes of this host may register other names.
fn host(lab: &PolicyLab) -> Vec<String> {
    let is_own = |name: &String| OWN.contains(&name.as_str());
    let mut all: Vec<String> = [default()].into_iter().chain(available()).filter(is_own).collect();
    for folder in ["/run/tccc", STATE_FOLDER, "/sys/fs/bpf/tccc", lab.folder().join("mine").to_str().unwrap()] {
        all.extend(below(Path::new(folder)));
    }
    all
}

fn below(folder: &Path) -> Vec<String> {
    let mut paths: Vec<_> = fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path()).collect();
    paths.sort();
    let of_path = |path: &std::path::PathBuf| {
        // The guard writes these two at its own times, and locks come and go with its process.
        if ["locks", "recent.tccc", "trial.json"].iter().any(|name| path.ends_with(name)) {
            return Vec::new();
        }
        let mut lines = vec![path.display().to_string().replace(|c: char| c.is_ascii_digit(), "#")];
        if path.is_dir() {
            lines.extend(below(path));
        } else if path.starts_with("/run") {
            let text = fs::read_to_string(path).unwrap_or_default();
            let documents = serde_json::Deserializer::from_str(&text).into_iter::<Value>();
            lines.extend(documents.map(|document| stable(document.unwrap_or_default()).to_string()));
        }
        lines
    };
    paths.iter().flat_map(of_path).collect()
}

/// A document without numbers and times, except those that command lines give.
fn stable(document: Value) -> Value {
    match document {
        Value::Object(members) => {
            let keeps = |key: &str| ["keep_avoidance", "portion", "step"].contains(&key);
            members
                .into_iter()
                .map(|(key, value)| if keeps(&key) { (key, value) } else { (key, stable(value)) })
                .collect()
        }
        Value::Array(values) => values.into_iter().map(stable).collect(),
        Value::Number(_) => Value::Null,
        Value::String(text) if humantime::parse_rfc3339_weak(&text).is_ok() => Value::Null,
        other => other,
    }
}

/// Tells the story; returns the outcome of each line.
fn story(lab: &PolicyLab, reader: Reader) -> Vec<(String, Outcome)> {
    let outcomes = STORY.map(|line| (line.to_owned(), tell(lab, line, reader)));
    let _ = fs::remove_dir_all(STATE_FOLDER);
    let _ = fs::remove_dir_all(lab.folder().join("mine"));
    assert_eq!(host(lab), [] as [String; 0], "the story leaves nothing");
    outcomes.into()
}

/// With a pipe that nobody read, `policy apply` once applied nothing and `load --default --confirm` left the algorithm
/// without a trial, both with exit code 0.
#[test]
fn change_is_the_same_whoever_reads_its_output() {
    let lab = &enter!(PolicyLab; root, struct_ops, bpffs, cgroup2);
    lab.file("steps.toml", STEPS);
    lab.file("all.toml", ALL);
    fs::create_dir(lab.folder().join("declared")).unwrap();
    lab.file("declared/10.toml", DECLARED);
    let told: BTreeSet<String> = STORY.iter().map(|line| verb_of(line)).collect();
    assert_eq!(told, changing(), "the story has every verb that changes something");
    for line in STORY {
        assert!(matches!(effect_of(line), Effect::Change(_)), "{line}");
    }
    let expected = story(lab, Reader::Reads);
    expected.iter().for_each(|(line, outcome)| assert_eq!(outcome.0, Some(0), "{line}"));
    for reader in [Reader::Left, Reader::DiskIsFull] {
        for (outcome, expected) in story(lab, reader).into_iter().zip(&expected) {
            assert_eq!(outcome, *expected, "{reader:?}");
        }
    }
}

#[test]
fn killed_change_leaves_the_same_whoever_reads_its_output() {
    let lab = &enter!(PolicyLab; root, struct_ops, bpffs, cgroup2);
    lab.file("steps.toml", STEPS);
    lab.file("all.toml", ALL);
    for (point, line) in KILLED {
        let left = [Reader::Reads, Reader::Left].map(|reader| {
            die_at(point, &mut command(lab, line, reader));
            let left = host(lab);
            run(0, "unload --all");
            let _ = fs::remove_dir_all(STATE_FOLDER);
            assert_eq!(host(lab), [] as [String; 0], "{point}");
            left
        });
        assert_eq!(left[0], left[1], "{point}");
    }
}

/// Ctrl-C while a policy was attached once left a policy in parts and a loaded algorithm, without a word.
#[test]
fn signal_during_a_change_waits_until_it_is_complete() {
    let lab = &enter!(PolicyLab; root, struct_ops, bpffs, cgroup2);
    let file = lab.file("all.toml", ALL);
    for number in [Signal::SIGINT, Signal::SIGTERM, Signal::SIGHUP] {
        let mut command = with_signals(&["policy", "apply", file.to_str().unwrap()]);
        let applying = begin(command.env(tccc::fault::VARIABLE, "apply.pinned:stop"));
        let process = Process::new(applying.id() as i32).unwrap();
        poll_until(SOON, "it stops", || process.stat().is_ok_and(|stat| stat.state == 'T'));
        signal(applying.id(), number);
        signal(applying.id(), Signal::SIGCONT);
        let note = "the signal came during the change, which is complete: `tccc policy abort` ends a trial, and \
                    `tccc policy remove` removes the policy";
        end(0, applying).stderr_has(note);
        assert_eq!(run(0, "policy show -o json").json()["policy"]["rules"][0]["name"], "all");
        run(0, "policy remove");
        assert_nothing_left();
    }
}

#[test]
fn signal_before_a_change_ends_it_with_nothing_done() {
    let _sandbox = enter!(Sandbox; root, struct_ops, bpffs);
    let words = ["load", "dtcp", "--as", "ldk_wait"];
    let stopped = Stopped::at("load.locked", &words);
    let waiting = begin(&mut with_signals(&words));
    let process = Process::new(waiting.id() as i32).unwrap();
    let catches = 1 << (Signal::SIGTERM as u32 - 1);
    poll_until(SOON, "it holds signals", || process.status().is_ok_and(|it| it.sigcgt & catches == catches));
    signal(waiting.id(), Signal::SIGTERM);
    end(5, waiting).stderr_has("tccc: error: interrupted: \"ldk_wait\" is ").stderr_has("hint: run it again");
    stopped.kill();
    run(0, "unload --all");
    assert_nothing_left();
}

/// A command that does not inherit ignored signals from this process.
fn with_signals(words: &[&str]) -> Command {
    let mut command = tccc();
    command.args(words);
    let reset = || {
        for number in [Signal::SIGINT, Signal::SIGTERM, Signal::SIGHUP] {
            // SAFETY: between fork and exec, `sigaction` is async-signal-safe.
            unsafe { handle(number, SigHandler::SigDfl) }?;
        }
        Ok(())
    };
    // SAFETY: `reset` only calls `sigaction`.
    unsafe { command.pre_exec(reset) };
    command
}
