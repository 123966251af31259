//! Stdout that cannot be written ends a query, and changes nothing that another verb does.

use std::fs;
use std::io::Write as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;
use std::process::Stdio;

use nix::sys::stat::Mode;
use nix::unistd::mkfifo;

use crate::common::{CommandOutput, SOON, begin, check, end, poll_until, tccc};
use crate::lab::verbs::{self, changing, closed, effect_of, full};
use tccc::cli::effect::Effect;

const FULL: &str = "cannot write to stdout: no space left on device";

fn run_to(stdout: Stdio, code: i32, line: &str) -> CommandOutput {
    check(code, tccc().args(line.split_whitespace()).stdout(stdout))
}

/// A new verb fails this test until it is in a list of `lab::verbs`, or in the story of the kernel ring.
#[test]
fn every_verb_says_what_it_does_to_the_host() {
    verbs::QUERIES.iter().for_each(|line| assert_eq!(effect_of(line), Effect::Query, "{line}"));
    verbs::WORK.iter().for_each(|line| assert_eq!(effect_of(line), Effect::Work, "{line}"));
    for line in ["load dtcp -n", "policy apply web.toml -n", "apply -n", "run tiny.toml --dry-run", "run --explain"] {
        assert_eq!(effect_of(line), Effect::Query, "{line}");
    }
    let expected = "apply, confirm, load, new, policy abort, policy apply, policy pause, policy promote, policy remove, \
                    policy resume, rollback, unload, upgrade";
    assert_eq!(changing().into_iter().collect::<Vec<_>>().join(", "), expected);
}

#[test]
fn query_ends_quietly_without_a_reader_and_fails_on_a_full_disk() {
    let recording = "trace --replay tests/fixtures/recording-format-1.tccc -o";
    let formats = ["table", "jsonl", "csv", "parquet"].map(|format| format!("{recording} {format}"));
    let lines = [
        "--help",
        "--version",
        "load --help",
        "list",
        "list -o json",
        "show dtcp",
        "completions zsh",
        "policy check scenarios/policy/one-service.toml",
        "report tests/fixtures/loss-sweep-schema-1",
        "run tests/fixtures/scenarios/tiny.toml --dry-run",
        "run --explain loss",
    ];
    for line in lines.into_iter().chain(formats.iter().map(String::as_str)) {
        let said = run_to(closed(), 0, line).stderr();
        assert!(!said.contains("error") && !said.contains("stdout"), "{line}: {said}");
        run_to(full(), 1, line).stderr_has(FULL);
    }
}

#[test]
fn change_is_made_whoever_reads_its_output() {
    let place = tempfile::tempdir().unwrap();
    let written = |folder: &Path| {
        let mut names: Vec<_> = fs::read_dir(folder).unwrap().map(|it| it.unwrap().file_name()).collect();
        names.sort();
        names
    };
    let to = |name: &str| place.path().join(name);
    let line = |name: &str| format!("new mine {}", to(name).display());
    run_to(Stdio::null(), 0, &line("read"));
    assert_eq!(run_to(closed(), 0, &line("closed")).stderr(), "");
    let warning =
        format!("tccc: warning: {FULL}\n  hint: only the output is missing: the command did everything else\n");
    assert_eq!(run_to(full(), 0, &line("full")).stderr(), warning);
    check(0, tccc().args(line("mute").split_whitespace()).stdout(full()).stderr(closed()));
    for name in ["closed", "full", "mute"] {
        assert_eq!(written(&to(name)), written(&to("read")), "{name}");
    }
    let again = run_to(full(), 2, &line("full")).stderr();
    assert!(again.starts_with("tccc: error: ") && !again.contains("everything else"), "{again}");
}

/// Any broken pipe once counted as a closed stdout: the command ended with success and without a word.
#[test]
fn broken_pipe_of_another_file_is_an_error() {
    let folder = tempfile::tempdir().unwrap();
    fs::create_dir(folder.path().join("man")).unwrap();
    let page = folder.path().join("man/tccc.1");
    mkfifo(&page, Mode::S_IRWXU).unwrap();
    let mut pipe = fs::File::options().read(true).write(true).custom_flags(libc::O_NONBLOCK).open(&page).unwrap();
    while pipe.write(&[0; 4096]).is_ok() {} // a full pipe stops the writer
    let writer = begin(tccc().arg("assets").arg(folder.path()));
    let files = format!("/proc/{}/fd", writer.id());
    let is_open = || {
        let open = fs::read_dir(&files).into_iter().flatten().flatten();
        open.filter_map(|file| fs::read_link(file.path()).ok()).any(|file| file == page)
    };
    poll_until(SOON, "the page is opened", is_open);
    drop(pipe);
    end(1, writer).stderr_has("Broken pipe").stderr_lacks("stdout");
}
