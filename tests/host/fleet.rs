//! Tests the recipes of `scenarios/fleet` with stubs of Slurm's programs.
//!
//! The stub of `sbatch` runs all tasks of an array at once, and that of `scontrol` logs its calls.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use crate::common::{TCCC, check, needs, poll_until, tccc};
use crate::compile::in_tree;
use crate::lab::virtual_time::Bench;
use serde_json::Value;

/// Time limit for the start of a run on a busy host.
const PATIENCE: Duration = Duration::from_secs(60);
/// Runs an array's tasks or the wrapped command at once, and prints the job's number.
const SBATCH: &str = include_str!("../fixtures/slurm/sbatch");
/// Reports that the job already excludes a node, and logs other calls.
const SCONTROL: &str = include_str!("../fixtures/slurm/scontrol");

fn recipe(name: &str) -> PathBuf {
    in_tree("scenarios/fleet").join(name)
}

/// A folder with Slurm's stubs.
struct StubCluster {
    folder: tempfile::TempDir,
}

impl StubCluster {
    fn new() -> StubCluster {
        let cluster = StubCluster { folder: tempfile::tempdir().unwrap() };
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

    /// `slurm.sh` with the stubs and this program.
    fn submit(&self, program: &Path) -> Command {
        let path = format!("{}:{}", self.folder.path().display(), std::env::var("PATH").unwrap());
        let mut command = Command::new(recipe("slurm.sh"));
        command.env("PATH", path).env("TCCC", program).env("CALLS", self.folder.path().join("calls"));
        command
    }

    /// Logged calls of Slurm's programs.
    fn calls(&self) -> String {
        fs::read_to_string(self.folder.path().join("calls")).unwrap_or_default()
    }
}

/// A recipe is not checked if its checker is missing.
#[test]
fn scripts_are_well_formed() {
    check(0, Command::new("bash").arg("-n").arg(recipe("slurm.sh")));
    if let Ok(output) = Command::new("shellcheck").arg(recipe("slurm.sh")).output() {
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
    }
    // The part of the Snakefile that is Python.
    let text = fs::read_to_string(recipe("Snakefile")).unwrap();
    let python = text.split("\nrule ").next().unwrap();
    let compile = "import sys; compile(sys.argv[1], 'Snakefile', 'exec')";
    if let Ok(output) = Command::new("python3").args(["-c", compile, python]).output() {
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    }
}

#[test]
fn exit_code_of_a_task_decides_whether_and_where_it_is_repeated() {
    let asks = |code: u32, restarts: &str| {
        let cluster = StubCluster::new();
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

/// Blocks, whole machines and times come from the plan.
#[test]
fn array_is_as_long_as_the_plan_and_at_most_as_long_as_asked() {
    let cluster = StubCluster::new();
    let plan = r#"{"blocks":[{"n":1,"runs":["a"],"seconds":60.5,"cores":null},{"n":2,"seconds":7,"cores":null},{"n":3,"seconds":7}]}"#;
    let stub = format!("#!/bin/sh\ncase \"$*\" in *--dry-run*) echo '{plan}' ;; esac\n");
    let program = cluster.put("tccc", &stub);
    let results = cluster.folder.path().join("results");
    let said = check(0, cluster.submit(&program).arg(&results).arg("x.toml")).stdout();
    assert!(said.contains("3 blocks in 3 tasks"), "{said}");
    let calls = cluster.calls();
    assert!(calls.contains("--array=1-3 --requeue --exclusive --time=11 "), "{calls}");
    assert!(calls.contains("--dependency=afterany:1 "), "{calls}");
    for (asked, made) in [("2", "3 blocks in 2 tasks"), ("16", "3 blocks in 3 tasks")] {
        check(0, cluster.submit(&program).env("TASKS", asked).arg(&results).arg("x.toml")).stdout_has(made);
    }
    drop(cluster.submit(&program).env("ARRAY", "2-3").arg(&results).arg("x.toml").output().unwrap());
    assert!(cluster.calls().lines().any(|line| line.contains("--array=2-3 ")), "{}", cluster.calls());
}

/// Numbers once depended on a block's duration on this host, so that they differed between hosts.
#[test]
fn numbers_of_blocks_do_not_depend_on_the_host() {
    for engine in ["kernel", "virtual"] {
        let plan = |jobs: &str| {
            let mut plan = tccc();
            plan.arg("run").arg(in_tree("scenarios/dtcp-2018"));
            check(0, plan.args(["--engine", engine, "--dry-run", "-o", "json", "--jobs", jobs])).stdout()
        };
        assert!(plan("1") == plan("auto") && plan("1") == plan("99"), "{engine}");
    }
}

fn report(results: &Path) -> Value {
    check(0, tccc().arg("report").arg(results).args(["-o", "json"])).json()
}

/// One block is killed, one runs on two machines at once, and the array runs the rest.
#[test]
fn array_gives_the_results_of_one_machine() {
    needs!(guest);
    let bench = Bench::new(include_str!("../../scenarios/smoke/loss-sweep.toml"));
    let (cluster, results) = (StubCluster::new(), bench.out("results"));
    let block = |number: &str, scratch: &Path| {
        let mut command = tccc();
        command.args(["run", "--engine", "virtual", "--runs", "1"]).arg(bench.out("x.toml"));
        command.args(["--block", number, "--publish"]).arg(&results).env("TMPDIR", scratch);
        command.stdout(Stdio::null()).spawn().unwrap()
    };
    let scratch = tempfile::tempdir().unwrap();
    let mut killed = block("1", scratch.path());
    poll_until(PATIENCE, "the block is begun", || fs::read_dir(scratch.path()).unwrap().count() > 0);
    killed.kill().unwrap();
    killed.wait().unwrap();
    assert_eq!(fs::read_dir(&results).unwrap().count(), 0, "a killed block leaves nothing");
    let twice = [block("2", &std::env::temp_dir()), block("2", &std::env::temp_dir())];
    twice.into_iter().for_each(|mut one| assert!(one.wait().unwrap().success()));
    assert_eq!(report(&results)["fleet"]["blocks"][0]["missing"], "1,3");

    let mut submit = cluster.submit(Path::new(TCCC));
    submit.arg(&results).arg(bench.out("x.toml")).args(["--engine", "virtual", "--runs", "1"]);
    let said = check(0, &mut submit).stdout();
    let log = |name: &str| fs::read_to_string(results.join(name)).unwrap();
    assert!(said.contains("3 blocks in 3 tasks"), "{said}");
    assert!(cluster.calls().contains("--ntasks=1 --cpus-per-task=1"), "{}", cluster.calls());
    assert!(log("task-2.log").contains("block 2 is in"), "it is not run again: {}", log("task-2.log"));
    assert!(log("report.log").contains("3 of 3"), "{}", log("report.log"));
    assert!(log("report.html").contains("<!DOCTYPE html>"));
    assert_eq!(fs::read_dir(results.join("progress")).unwrap().count(), 0, "nothing is left to do");

    let (fleet, whole) = (report(&results), report(&bench.runs("whole", "--runs 1")));
    assert!(fleet["digest"].is_string());
    for part in ["digest", "cells", "findings", "host"] {
        assert_eq!(fleet[part], whole[part], "{part}");
    }
}
