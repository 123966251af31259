//! An experiment on the cluster, during which a node is lost and a task is cancelled.

use std::collections::BTreeSet;
use std::os::unix::fs::chown;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use fs_err as fs;

use super::cluster::{CONFIG_VARIABLE, Cluster, users_of, wait_for};
use super::host;
use crate::guest;
use crate::process::{self, command};

/// Time limit for the array.
const PATIENCE: Duration = Duration::from_secs(570);
const ASK_EVERY: Duration = Duration::from_millis(500);
/// Time limit for the end of a cancelled task.
const CANCEL: Duration = Duration::from_secs(60);
/// The program of the tasks. `@FAULTS@` is `placed` for [`Faults::Placed`], else empty.
const WRAPPER: &str = include_str!("wrapper.sh");

/// When a node is lost and a task cancelled.
#[derive(Debug, Clone, Copy)]
pub(super) enum Faults {
    /// At the places that `wrapper.sh` names; the first working task is cancelled.
    Placed,
    /// When this many blocks are published.
    After { loss: usize, cancel: usize },
}

/// An experiment with all its submissions.
pub(super) struct Trial<'a> {
    pub cluster: &'a Cluster,
    /// Arguments of all tasks: a scenario and options.
    pub words: Vec<String>,
    /// Blocks of the experiment.
    pub blocks: usize,
    pub faults: Faults,
    /// User and group of the tasks.
    pub user: u32,
    /// The user's home, which holds the results.
    pub home: PathBuf,
    pub lost: Option<String>,
    pub cancelled: Option<usize>,
}

impl<'a> Trial<'a> {
    /// Creates the user's folders and the wrapper program.
    pub fn prepare(cluster: &'a Cluster, words: Vec<String>, blocks: usize, faults: Faults, user: u32) -> Result<Self> {
        let home = cluster.folder.join("user");
        let trial = Trial { cluster, words, blocks, faults, user, home, lost: None, cancelled: None };
        fs::create_dir_all(trial.marks())?;
        for folder in [&trial.home, &trial.marks()] {
            chown(folder, Some(user), Some(user)).context("give the user a folder")?;
        }
        let guest = trial.home.join("guest");
        let built = guest::place()?;
        process::output("copy the guest", command!("cp -r {built} {guest}"))?;
        let placed = if matches!(faults, Faults::Placed) { "placed" } else { "" };
        let program = process::tccc().display().to_string();
        let text = WRAPPER.replace("@FAULTS@", placed).replace("@TCCC@", &program);
        process::write_program(&trial.wrapper(), &text)?;
        Ok(trial)
    }

    pub fn results(&self) -> PathBuf {
        self.home.join("results")
    }

    fn marks(&self) -> PathBuf {
        self.home.join("marks")
    }

    fn wrapper(&self) -> PathBuf {
        self.home.join("tccc")
    }

    /// Submits the experiment and causes the faults until all jobs are over.
    pub fn submit_with_faults(&mut self) -> Result<()> {
        let job = self.submit(&self.wrapper())?;
        self.wait(|trial| {
            trial.lose_node()?;
            trial.cancel_task(&job)
        })?;
        ensure!(self.lost.is_some() && self.cancelled.is_some(), "a fault did not happen");
        Ok(())
    }

    /// Submits with one task more than there are blocks, and returns the job number of the array.
    ///
    /// # Errors
    /// `slurm.sh` fails, or creates a number of tasks other than the number of blocks.
    pub fn submit(&self, program: &Path) -> Result<String> {
        let mut submit = process::program(process::workspace().join("scenarios/fleet/slurm.sh"));
        submit.uid(self.user).gid(self.user).env("HOME", &self.home).env("XDG_CACHE_HOME", self.home.join("cache"));
        submit.env("TCCC_GUEST", self.home.join("guest")).env("MARKS", self.marks());
        submit.env(CONFIG_VARIABLE, self.cluster.config());
        submit.env("TASKS", (self.blocks + 1).to_string()).env("TCCC", program).arg(self.results()).args(&self.words);
        let said = process::output("submit", &mut submit)?;
        print!("{said}");
        let expected = format!("{0} blocks in {0} tasks", self.blocks);
        ensure!(said.contains(&expected), "slurm.sh did not make {expected}: {said}");
        let job = said.strip_prefix("job ").and_then(|rest| rest.split_once(':'));
        Ok(job.context("slurm.sh names no job")?.0.to_owned())
    }

    pub fn wait(&mut self, mut meanwhile: impl FnMut(&mut Self) -> Result<()>) -> Result<()> {
        let (mut said, mut asked) = (String::new(), None::<Instant>);
        wait_for("the end of all jobs", PATIENCE, || {
            meanwhile(self)?;
            if asked.is_some_and(|asked| asked.elapsed() < ASK_EVERY) {
                return Ok(false);
            }
            asked = Some(Instant::now());
            let jobs = self.cluster.ask("squeue", &["-h", "-r", "-o", "%i %T %N %r"])?;
            if let Some(jobs) = jobs.as_ref().filter(|jobs| **jobs != said) {
                println!("squeue: {}", jobs.replace('\n', " | "));
                said.clone_from(jobs);
            }
            Ok(jobs.is_some_and(|jobs| jobs.is_empty()))
        })
    }

    fn lose_node(&mut self) -> Result<()> {
        let hangs = fs::read_to_string(self.marks().join("hangs")).unwrap_or_default();
        let node = match self.faults {
            Faults::Placed => hangs.trim(),
            Faults::After { loss, .. } if self.published() >= loss && self.is_at_work("node2")? => "node2",
            Faults::After { .. } => "",
        };
        if self.lost.is_none() && !node.is_empty() {
            self.lost = Some(node.to_owned());
            self.cluster.lose(node)?;
        }
        Ok(())
    }

    fn is_at_work(&self, node: &str) -> Result<bool> {
        Ok(!self.cluster.processes(&format!("SLURMD_NODENAME={node}"))?.is_empty())
    }

    /// Cancels a working task. If the task publishes its block nevertheless, the next call cancels another one.
    ///
    /// # Errors
    /// The cancelled task leaves a process or a scratch folder.
    fn cancel_task(&mut self, job: &str) -> Result<()> {
        let is_due = match self.faults {
            Faults::Placed => true,
            Faults::After { cancel, .. } => self.published() >= cancel,
        };
        if self.cancelled.is_some() || !is_due {
            return Ok(());
        }
        let Some(task) = self.working()? else { return Ok(()) };
        let name = format!("{job}_{task}");
        let processes = self.cluster.processes(&format!("SLURM_ARRAY_TASK_ID={task}"))?;
        println!("task {task} is cancelled");
        self.cluster.ask("scancel", &[&name])?;
        let is_over = || Ok(self.cluster.ask("squeue", &["-h", "-j", &name])?.is_some_and(|jobs| jobs.is_empty()));
        wait_for("the end of a cancelled task", CANCEL, is_over)?;
        if !self.block(task).exists() {
            self.leaves_nothing(task)?;
            if self.user == 0 {
                host::has_nothing_of(&processes)?;
            }
            self.cancelled = Some(task);
        }
        Ok(())
    }

    /// Checks that a cancelled task leaves no process and no scratch folder.
    fn leaves_nothing(&self, task: usize) -> Result<()> {
        let scratch = self.marks().join(format!("tmp-{task}"));
        wait_for("the end of a cancelled task's processes", CANCEL, || Ok(users_of(&scratch)?.is_empty()))?;
        let left = process::names_in(&scratch, "");
        ensure!(left.is_empty(), "the cancelled task {task} left {left:?}");
        Ok(())
    }

    /// A task whose runs have begun, on a running node.
    fn working(&self) -> Result<Option<usize>> {
        let names = process::names_in(&self.results().join("progress"), ".json");
        for task in names.iter().filter_map(|name| name.parse().ok()).filter(|task| !self.block(*task).exists()) {
            if !self.cluster.processes(&format!("SLURM_ARRAY_TASK_ID={task}"))?.is_empty() {
                return Ok(Some(task));
            }
        }
        Ok(None)
    }

    /// The folder of a published block.
    pub fn block(&self, number: usize) -> PathBuf {
        self.results().join(format!("block-{number:05}"))
    }

    fn published(&self) -> usize {
        process::names_in(&self.results(), "").iter().filter(|name| name.starts_with("block-")).count()
    }

    /// Task and node of each start, in order.
    pub fn starts(&self) -> Result<Vec<(usize, String)>> {
        let text = fs::read_to_string(self.marks().join("starts"))?;
        let pairs = text.lines().filter_map(|line| line.split_once(' '));
        Ok(pairs.filter_map(|(task, node)| Some((task.parse().ok()?, node.to_owned()))).collect())
    }

    pub fn nodes_of(&self, task: usize) -> Result<BTreeSet<String>> {
        Ok(self.starts()?.into_iter().filter(|(other, _)| *other == task).map(|(_, node)| node).collect())
    }

    /// Runs the same experiment on this machine alone.
    pub fn run_whole(&self, results: &Path) -> Result<()> {
        let mut run = process::program(process::tccc());
        run.env(CONFIG_VARIABLE, self.cluster.config()).arg("run").args(&self.words).arg("--out").arg(results);
        process::output("run in one piece", &mut run).map(drop)
    }
}
