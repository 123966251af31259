//! `scenarios/fleet`: the recipes are well-formed, and `slurm.sh` makes of an experiment's blocks what one machine makes.
//!
//! Slurm's programs are replaced by stubs: `sbatch` runs all tasks of an array at once, and `scontrol` notes its calls.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::Duration;

use crate::common::{TCCC, needs, poll_until, tccc};
use crate::lab::virtual_time::Bench;
use serde_json::Value;

/// How long the begin of a run may take on a busy host.
const PATIENCE: Duration = Duration::from_secs(60);
/// Runs the tasks of an array at once, or the wrapped command, and prints the number of the job.
const SBATCH: &str = include_str!("../fixtures/slurm/sbatch");
/// Says that the job excludes a node already, and notes everything else.
const SCONTROL: &str = include_str!("../fixtures/slurm/scontrol");

fn recipe(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("scenarios/fleet").join(name)
}

/// A folder with Slurm's stubs.
struct Cluster {
    folder: tempfile::TempDir,
}

impl Cluster {
    fn new() -> Cluster {
        let cluster = Cluster { folder: tempfile::tempdir().unwrap() };
        for (name, text) in [("sbatch", SBATCH), ("scontrol", SCONTROL), ("scancel", SCONTROL)] {
            cluster.put(name, text);
        }
        cluster
    }

    fn put(&self, name: &str, text: &str) -> PathBuf {
        let file = self.folder.path().join(name);
        fs::write(&file, text).unwrap();
        fs::set_permissions(&file, fs::Permissions::from_mode(0o755)).unwrap();
        file
    }

    /// `slurm.sh` on the cluster, with this program.
    fn submit(&self, program: &Path) -> Command {
        let path = format!("{}:{}", self.folder.path().display(), std::env::var("PATH").unwrap());
        let mut command = Command::new(recipe("slurm.sh"));
        command.env("PATH", path).env("TCCC", program).env("CALLS", self.folder.path().join("calls"));
        command
    }

    /// Calls of Slurm's programs.
    fn calls(&self) -> String {
        fs::read_to_string(self.folder.path().join("calls")).unwrap_or_default()
    }
}

#[track_caller]
fn succeeded(output: Output) -> String {
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
    String::from_utf8(output.stdout).unwrap()
}

/// Where a checker is not installed, there is one recipe less to check.
#[test]
fn scripts_are_well_formed() {
    succeeded(Command::new("bash").arg("-n").arg(recipe("slurm.sh")).output().unwrap());
    if let Ok(output) = Command::new("shellcheck").arg(recipe("slurm.sh")).output() {
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
    }
    // What is Python in the Snakefile: all but the rules.
    let text = fs::read_to_string(recipe("Snakefile")).unwrap();
    let python = text.split("\nrule ").next().unwrap();
    let compile = "import sys; compile(sys.argv[1], 'Snakefile', 'exec')";
    if let Ok(output) = Command::new("python3").args(["-c", compile, python]).output() {
        succeeded(output);
    }
}

/// What a task does about an exit code, by what it asks of Slurm.
#[test]
fn task_is_repeated_elsewhere_or_ended_by_its_exit_code() {
    let asks = |code: u32, restarts: &str| {
        let cluster = Cluster::new();
        let program = cluster.put("tccc", &format!("#!/bin/sh\n[ $1 = doctor ] || exit {code}\n"));
        let mut task = cluster.submit(&program);
        task.env("SLURM_ARRAY_JOB_ID", "1").env("SLURM_ARRAY_TASK_ID", "4").env("SLURMD_NODENAME", "node7");
        task.env("SLURM_RESTART_COUNT", restarts).arg("task").arg(cluster.folder.path()).args(["9", "9", "x.toml"]);
        drop(task.output().unwrap());
        cluster.calls().replace('\n', "; ")
    };
    assert_eq!(asks(0, "0"), "");
    assert_eq!(asks(1, "0"), "");
    assert_eq!(asks(2, "0"), "scancel 1; ");
    assert_eq!(asks(5, "0"), "scontrol requeue 1_4; ");
    let elsewhere =
        "scontrol requeuehold 1_4; scontrol update JobId=1_4 ExcNodeList=node3,node7; scontrol release 1_4; ";
    assert_eq!([asks(3, "0"), asks(4, "1")], [elsewhere, elsewhere]);
    assert_eq!([asks(4, "2"), asks(5, "2")], ["", ""], "three starts are enough");
}

/// Blocks, whole machines and time come from the plan.
#[test]
fn array_is_as_long_as_the_plan_and_at_most_as_long_as_asked() {
    let cluster = Cluster::new();
    let plan = r#"{"blocks":[{"n":1,"runs":["a"],"seconds":60.5,"cores":null},{"n":2,"seconds":7,"cores":null},{"n":3,"seconds":7}]}"#;
    let stub = format!("#!/bin/sh\ncase \"$*\" in *--dry-run*) echo '{plan}' ;; esac\n");
    let program = cluster.put("tccc", &stub);
    let results = cluster.folder.path().join("results");
    let said = succeeded(cluster.submit(&program).arg(&results).arg("x.toml").output().unwrap());
    assert!(said.contains("3 blocks in 3 tasks"), "{said}");
    let calls = cluster.calls();
    assert!(calls.contains("--array=1-3 --requeue --exclusive --time=11 "), "{calls}");
    assert!(calls.contains("--dependency=afterany:1 "), "{calls}");
    for (asked, made) in [("2", "3 blocks in 2 tasks"), ("16", "3 blocks in 3 tasks")] {
        let said =
            succeeded(cluster.submit(&program).env("TASKS", asked).arg(&results).arg("x.toml").output().unwrap());
        assert!(said.contains(made), "TASKS={asked}: {said}");
    }
    drop(cluster.submit(&program).env("ARRAY", "2-3").arg(&results).arg("x.toml").output().unwrap());
    assert!(cluster.calls().lines().any(|line| line.contains("--array=2-3 ")), "{}", cluster.calls());
}

/// Blocks were numbered by the time that they take on this host, so that a number was another block on another host.
#[test]
fn numbers_of_blocks_do_not_depend_on_the_host() {
    for engine in ["kernel", "virtual"] {
        let plan = |jobs: &str| {
            let scenario = Path::new(env!("CARGO_MANIFEST_DIR")).join("scenarios/dtcp-2018");
            let mut plan = tccc();
            plan.arg("run").arg(scenario).args(["--engine", engine, "--dry-run", "-o", "json", "--jobs", jobs]);
            succeeded(plan.output().unwrap())
        };
        assert!(plan("1") == plan("auto") && plan("1") == plan("99"), "{engine}");
    }
}

fn report(results: &Path) -> Value {
    let output = tccc().arg("report").arg(results).args(["-o", "json"]).output().unwrap();
    serde_json::from_str(&succeeded(output)).unwrap()
}

/// One block is killed, one is made by two machines at once, and the array makes the rest.
#[test]
fn array_makes_what_one_machine_makes() {
    needs!(guest);
    let bench = Bench::new(include_str!("../../scenarios/smoke/loss-sweep.toml"));
    let (cluster, results) = (Cluster::new(), bench.out("results"));
    let block = |number: &str, scratch: &Path| {
        let mut command = tccc();
        command.args(["run", "--engine", "virtual", "--runs", "1"]).arg(bench.out("x.toml"));
        command.args(["--block", number, "--publish"]).arg(&results).env("TMPDIR", scratch);
        command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap()
    };
    let scratch = tempfile::tempdir().unwrap();
    let mut killed = block("1", scratch.path());
    poll_until(PATIENCE, "the block is begun", || fs::read_dir(scratch.path()).unwrap().count() > 0);
    killed.kill().unwrap();
    killed.wait().unwrap();
    assert_eq!(fs::read_dir(&results).unwrap().count(), 0, "nothing of a block that was killed is to be seen");
    let twice = [block("2", &std::env::temp_dir()), block("2", &std::env::temp_dir())];
    twice.into_iter().for_each(|one| drop(succeeded(one.wait_with_output().unwrap())));
    assert_eq!(report(&results)["fleet"]["blocks"][0]["missing"], "1,3");

    let mut submit = cluster.submit(Path::new(TCCC));
    submit.arg(&results).arg(bench.out("x.toml")).args(["--engine", "virtual", "--runs", "1"]);
    let said = succeeded(submit.output().unwrap());
    let log = |name: &str| fs::read_to_string(results.join(name)).unwrap();
    assert!(said.contains("3 blocks in 3 tasks"), "{said}");
    assert!(cluster.calls().contains("--ntasks=1 --cpus-per-task=1"), "{}", cluster.calls());
    assert!(log("task-2.log").contains("block 2 is in"), "it is not made again: {}", log("task-2.log"));
    assert!(log("report.log").contains("3 of 3"), "{}", log("report.log"));
    assert!(log("report.html").contains("<!DOCTYPE html>"));
    assert_eq!(fs::read_dir(results.join("progress")).unwrap().count(), 0, "nothing is left to do");

    let (fleet, whole) = (report(&results), report(&bench.runs("whole", "--runs 1")));
    assert!(fleet["digest"].is_string());
    for part in ["digest", "cells", "findings", "host"] {
        assert_eq!(fleet[part], whole[part], "{part}");
    }
}
