//! The recipe for CI in `scenarios/evaluate`: the shell of its steps, run as GitHub runs it.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;
use std::process::Command;

use crate::common::{check, run};
use crate::compile::in_tree;
use tempfile::TempDir;

const FILES: [&str; 2] = ["action.yml", "ci.yml"];
/// Logs its arguments, writes a report into the folder after `--out`, and ends as if a property failed.
const STUB: &str =
    "#!/bin/sh\necho \"$*\" > \"$PROGRAM/arguments\"\nmkdir -p \"$6\"\necho worse > \"$6/report.md\"\nexit 3\n";

fn recipe(file: &str) -> PathBuf {
    in_tree("scenarios/evaluate").join(file)
}

/// A step of a file that runs shell.
struct Step {
    name: String,
    shell: String,
}

/// Steps name themselves in their first line, and `run: |` begins a block of shell that is indented more.
fn steps(file: &str) -> Vec<Step> {
    let text = fs::read_to_string(recipe(file)).unwrap();
    let indentation = |line: &str| line.len() - line.trim_start().len();
    let (mut steps, mut name, mut open) = (Vec::new(), "", None);
    for line in text.lines() {
        if open.is_some_and(|outer| line.trim().is_empty() || indentation(line) > outer) {
            let step: &mut Step = steps.last_mut().unwrap();
            step.shell += line.trim_start();
            step.shell.push('\n');
            continue;
        }
        open = (line.trim() == "run: |").then(|| indentation(line));
        assert!(open.is_some() || !line.trim().starts_with("run:"), "{file}: not a block: {line}");
        name = line.trim().strip_prefix("- name: ").unwrap_or(name);
        if open.is_some() {
            steps.push(Step { name: name.to_owned(), shell: String::new() });
        }
    }
    steps
}

/// A temporary folder with a step of the action as a script.
struct Job {
    folder: TempDir,
}

impl Job {
    fn new(step: &str) -> Job {
        let step = steps("action.yml").into_iter().find(|one| one.name == step).expect("the action has the step");
        let job = Job { folder: TempDir::new().unwrap() };
        fs::write(job.path("step"), step.shell).unwrap();
        job
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// The step, with the options that GitHub gives to `shell: bash`.
    fn command(&self, variables: &[(&str, &str)]) -> Command {
        let mut command = Command::new("bash");
        command.args(["--noprofile", "--norc", "-e", "-o", "pipefail"]).arg(self.path("step"));
        command.current_dir(self.folder.path()).envs(variables.iter().copied());
        command.env("GITHUB_OUTPUT", self.path("output")).env("GITHUB_STEP_SUMMARY", self.path("summary"));
        command.env("PROGRAM", self.folder.path());
        command
    }

    fn text(&self, name: &str) -> String {
        fs::read_to_string(self.path(name)).unwrap_or_default()
    }
}

/// A recipe is not checked if its checker is missing. GitHub replaces expressions before the shell reads the text, so an
/// expression in a `run` would let an input add commands.
#[test]
fn every_step_is_valid_shell_without_expressions() {
    let folder = TempDir::new().unwrap();
    for step in FILES.iter().flat_map(|file| steps(file)) {
        let script = folder.path().join("script");
        fs::write(&script, format!("set -e\n{}", step.shell)).unwrap();
        check(0, Command::new("bash").arg("-n").arg(&script));
        assert!(!step.shell.contains("${{"), "{}: {}", step.name, step.shell);
        if let Ok(output) = Command::new("shellcheck").arg("--shell=bash").arg(&script).output() {
            assert!(output.status.success(), "{}: {}", step.name, String::from_utf8_lossy(&output.stdout));
        }
    }
    assert_eq!(steps("action.yml").len(), 4);
    let parse = "import sys\ntry: import yaml\nexcept ImportError: sys.exit()\nyaml.safe_load(open(sys.argv[1]))";
    for file in FILES {
        if let Ok(output) = Command::new("python3").args(["-c", parse]).arg(recipe(file)).output() {
            assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        }
    }
}

#[test]
fn report_is_in_the_summary_and_the_step_ends_as_the_verb() {
    let job = Job::new("Evaluate");
    fs::write(job.path("tccc"), STUB).unwrap();
    fs::set_permissions(job.path("tccc"), fs::Permissions::from_mode(0o755)).unwrap();
    let inputs = [("FILE", "a b.bpf.c"), ("AGAINST", "reno"), ("FLAGS", "--quick  --only 5"), ("REPORT", "runs/x")];
    check(3, &mut job.command(&inputs));
    assert_eq!(job.text("arguments"), "evaluate a b.bpf.c --against reno --out runs/x --quick --only 5\n");
    assert_eq!(job.text("summary"), "worse\n");
}

/// A cached program is used only with the source that it was built from.
#[test]
fn key_of_the_cache_changes_with_the_source_of_tccc() {
    let job = Job::new("Choose folders and the key of the cache");
    let action = job.path("tree/scenarios/evaluate");
    fs::create_dir_all(&action).unwrap();
    let output = |text: &str| {
        fs::write(job.path("tree/Cargo.lock"), text).unwrap();
        fs::write(job.path("output"), "").unwrap();
        let variables = [("FILE", "code/mine.bpf.c"), ("XDG_CACHE_HOME", "/c")];
        check(0, job.command(&variables).env("GITHUB_ACTION_PATH", &action));
        job.text("output")
    };
    let [first, changed, again] = ["a", "b", "a"].map(output);
    assert!(first == again && first != changed, "{first}{changed}");
    for line in ["guest=/c/tccc\n", "program=/c/tccc-program\n", "name=evaluate-mine\n", "report=runs/evaluate-mine\n"]
    {
        assert!(first.contains(line), "{first}");
    }
}

#[test]
fn default_flags_are_those_of_the_verb() {
    let text = fs::read_to_string(recipe("action.yml")).unwrap();
    let default = |input: &str| {
        let (_, rest) = text.split_once(&format!("\n  {input}:\n")).unwrap();
        rest.split_once("default: ").unwrap().1.lines().next().unwrap().to_owned()
    };
    let [flags, against] = ["flags", "against"].map(default);
    run(0, &format!("evaluate bpf_reno --against {against} {flags} --dry-run")).stdout_has("nothing was changed");
}
