//! An evaluation that two nodes share, beside the same one on this machine alone.

use std::path::Path;
use std::time::Duration;

use anyhow::{Result, ensure};
use fs_err as fs;

use super::cluster::{CONFIG_VARIABLE, Cluster, wait_for};
use crate::process::{self, command};

/// The example of `bpf/template`: a user's own file.
const SOURCE: &str = "bpf/template/mine.bpf.c";
/// Three criteria of some experiments each.
const OPTIONS: [&str; 8] = ["--runs", "3", "--only", "5.1.5", "--only", "5.2", "--only", "7.9"];
const TASKS: &str = "2";
const PATIENCE: Duration = Duration::from_secs(570);
/// What the evaluation says, without times and paths.
const REPORTS: [&str; 5] = ["report.json", "report.md", "report.html", "overview.md", "figures.json"];

/// # Errors
/// A report differs, or a task measured nothing.
pub fn check() -> Result<()> {
    let cluster = Cluster::start(TASKS.parse()?)?;
    let [shared, whole] = ["shared", "whole"].map(|name| cluster.folder.join(name));
    let (script, source) = (process::workspace().join("scenarios/fleet/slurm.sh"), process::workspace().join(SOURCE));
    let program = process::fast_tccc();
    let mut submit = command!("{script} evaluate {shared} {source}");
    submit.args(OPTIONS).env(CONFIG_VARIABLE, cluster.config()).env("TASKS", TASKS).env("TCCC", &program);
    print!("{}", process::output("submit", &mut submit)?);
    let is_over = || Ok(cluster.ask("squeue", &["-h", "-r"])?.is_some_and(|jobs| jobs.is_empty()));
    wait_for("the end of all jobs", PATIENCE, is_over)?;
    let read = |file: &Path| fs::read_to_string(file);
    for task in 1..=2 {
        let log = read(&shared.join(format!("task-{task}.log")))?;
        ensure!(log.contains("all shares are measured"), "task {task} did not end: {log}");
    }
    let mut alone = command!("{program} evaluate {source} --out {whole}");
    process::output("evaluate", alone.args(OPTIONS))?;
    for name in REPORTS {
        let is_same = read(&shared.join(name))? == read(&whole.join(name))?;
        ensure!(is_same, "{name} of two nodes is not that of one machine: `diff` {shared:?} {whole:?}");
    }
    cluster.end()?;
    println!("the evaluation of two nodes is that of one machine");
    Ok(())
}
