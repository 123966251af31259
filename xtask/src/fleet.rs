//! A real Slurm of three nodes on this machine, in which `scenarios/fleet/slurm.sh` makes an experiment.
//!
//! Everything is below one folder, and the daemons are children of this program: nothing of the machine is changed. The
//! tasks run as an ordinary user.

use std::fs;
use std::os::unix::fs::{PermissionsExt as _, chown};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use clap::Args;
use serde_json::Value;

use crate::setup::{self, Purpose};
use crate::{guest, process};

const SCENARIO: &str = "scenarios/smoke/loss-sweep.toml";
/// What all tasks get: six blocks.
const OPTIONS: [&str; 4] = ["--engine", "virtual", "--runs", "2"];
/// The daemons may take so long to begin, and Slurm to run the array.
const START: Duration = Duration::from_secs(30);
const PATIENCE: Duration = Duration::from_secs(400);
const LOOK_EVERY: Duration = Duration::from_millis(500);
/// User and group of the tasks: `nobody`.
const USER: u32 = 65534;
const NODES: [&str; 3] = ["node1", "node2", "node3"];
/// The environment of a node's daemons names it by this.
const NODE_VARIABLE: &str = "TCCC_FLEET_NODE";
/// The program of the tasks: `node1` lacks something, the third task is interrupted at its first start, and so is the
/// fourth, by the loss of its node.
const WRAPPER: &str = r#"#!/bin/sh
case "$* " in
*"--block "*)
    [ "$SLURMD_NODENAME" = node1 ] && echo "node1 lacks something" >&2 && exit 4
    [ "$SLURM_ARRAY_TASK_ID" = 3 ] && [ ! -e "$MARKS/again" ] && touch "$MARKS/again" && echo "interrupted" >&2 && exit 5
    [ "$SLURM_ARRAY_TASK_ID" = 4 ] && [ ! -e "$MARKS/hangs" ] && echo "$SLURMD_NODENAME" > "$MARKS/hangs" && sleep 600 ;;
esac
exec TCCC "$@"
"#;

/// How to try the recipe.
#[derive(Debug, Args)]
pub struct Arguments {
    /// Name missing packages instead of installing them
    #[arg(long)]
    no_install: bool,
}

/// Starts the cluster, submits the experiment twice, and compares its report with that of one machine: `cargo xtask
/// fleet`.
///
/// Errors: not root; a package is missing; Slurm does not start or end; the report differs.
/// Side effects: installs packages; processes that do not outlive the call; `target/fleet`.
pub fn run(arguments: &Arguments) -> Result<()> {
    ensure!(process::is_root(), "the daemons of Slurm start tasks as their owners: run `cargo xtask fleet` as root");
    setup::set_up(Purpose::Fleet, arguments.no_install)?;
    guest::provide(arguments.no_install)?;
    process::run("build", process::cargo("build").args(["--quiet", "--bin", "tccc"]))?;
    let cluster = Cluster::start(&process::target().join("fleet"))?;
    let results = cluster.folder.join("user/results");
    cluster.submit(&cluster.wrapper()?, &results)?;
    cluster.submit(&tccc(), &results)?;
    let whole = cluster.folder.join("whole");
    process::output(
        "run in one piece",
        Command::new(tccc()).arg("run").arg(SCENARIO).args(OPTIONS).arg("--out").arg(&whole),
    )?;
    let [fleet, whole] = [report(&results)?, report(&whole)?];
    ensure!(fleet["fleet"]["blocks"][0]["missing"] == "", "blocks are missing: {}", fleet["fleet"]["blocks"]);
    for part in ["digest", "cells"] {
        ensure!(fleet[part] == whole[part], "the report of the cluster has other {part}");
    }
    for task in 1..=6 {
        let log = fs::read_to_string(results.join(format!("task-{task}.log"))).context("read the log of a task")?;
        ensure!(log.contains("published: "), "task {task} published nothing:\n{log}");
        ensure!(log.contains(" already"), "task {task} was made twice:\n{log}");
    }
    println!("the cluster's report is that of one machine, digest {}", fleet["digest"]);
    Ok(())
}

fn tccc() -> PathBuf {
    process::target().join("debug/tccc")
}

fn report(results: &Path) -> Result<Value> {
    let text = process::output("report", Command::new(tccc()).arg("report").arg(results).args(["-o", "json"]))?;
    serde_json::from_str(&text).context("read the report")
}

/// Munge, the controller and the nodes; ended when dropped.
struct Cluster {
    folder: PathBuf,
    daemons: Vec<Child>,
}

impl Cluster {
    fn start(folder: &Path) -> Result<Cluster> {
        if folder.exists() {
            fs::remove_dir_all(folder).context("remove the folder of an earlier cluster")?;
        }
        let spools = NODES.map(|node| format!("spool-{node}"));
        for name in ["state", "user/marks"].into_iter().chain(spools.iter().map(String::as_str)) {
            fs::create_dir_all(folder.join(name)).context("make the folder of the cluster")?;
        }
        for name in ["user", "user/marks"] {
            chown(folder.join(name), Some(USER), Some(USER)).context("give the user a folder")?;
        }
        process::output(
            "copy the guest",
            process::program("cp").arg("-r").arg(guest::place()?).arg(folder.join("guest")),
        )?;
        let mut cluster = Cluster { folder: folder.to_owned(), daemons: Vec::new() };
        let [socket, key] = ["munge.socket", "munge.key"].map(|name| folder.join(name));
        process::output("make a key", Command::new("mungekey").arg("--create").arg("--keyfile").arg(&key))?;
        let mut munge = Command::new("munged");
        munge.args(["--foreground", "--force"]).arg("--key-file").arg(&key).arg("--socket").arg(&socket);
        for (option, name) in [("--pid-file", "munge.pid"), ("--log-file", "munge.log"), ("--seed-file", "munge.seed")]
        {
            munge.arg(option).arg(folder.join(name));
        }
        cluster.daemon(&mut munge)?;
        wait_for("munged", START, || Ok(socket.exists()))?;
        fs::write(cluster.config(), configuration(folder)?).context("write slurm.conf")?;
        cluster.daemon(Command::new("slurmctld").args(["-D", "-f"]).arg(cluster.config()))?;
        for node in NODES {
            let mut slurmd = Command::new("slurmd");
            slurmd.env(NODE_VARIABLE, cluster.name(node)).args(["-D", "-N", node, "-f"]).arg(cluster.config());
            cluster.daemon(&mut slurmd)?;
        }
        wait_for("idle nodes", START, || Ok(cluster.ask("sinfo", &["-h", "-o", "%D %t"])?.trim() == "3 idle"))?;
        Ok(cluster)
    }

    /// A node of this cluster and no other.
    fn name(&self, node: &str) -> String {
        format!("{}/{node}", self.folder.display())
    }

    fn config(&self) -> PathBuf {
        self.folder.join("slurm.conf")
    }

    fn daemon(&mut self, command: &mut Command) -> Result<()> {
        let name = Path::new(command.get_program()).to_string_lossy().into_owned();
        let log = fs::File::create(self.folder.join(format!("{name}-{}.out", self.daemons.len())))?;
        let child = command.stdin(Stdio::null()).stdout(log.try_clone()?).stderr(log).spawn();
        self.daemons.push(child.with_context(|| format!("start {name}"))?);
        Ok(())
    }

    /// What a program of Slurm says; nothing while the controller does not answer.
    fn ask(&self, name: &str, words: &[&str]) -> Result<String> {
        let output = Command::new(name).env("SLURM_CONF", self.config()).args(words).output();
        let output = output.with_context(|| format!("start {name}"))?;
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    }

    /// The program of tasks that go wrong at first.
    fn wrapper(&self) -> Result<PathBuf> {
        let file = self.folder.join("tccc");
        fs::write(&file, WRAPPER.replace("TCCC", &tccc().display().to_string())).context("write the program")?;
        fs::set_permissions(&file, fs::Permissions::from_mode(0o755)).context("write the program")?;
        Ok(file)
    }

    /// Kills a node as a loss of power does: its daemon, the daemons of its tasks, and the tasks last, of whose end
    /// nobody hears.
    fn lose(&self, node: &str) -> Result<()> {
        let daemons = self.having(&[format!("{NODE_VARIABLE}={}", self.name(node))])?;
        let config = format!("SLURM_CONF={}", self.config().display());
        let tasks = self.having(&[config, format!("SLURMD_NODENAME={node}")])?;
        let parents = tasks.iter().filter_map(parent).filter(is_step_daemon);
        let all: Vec<String> = daemons.into_iter().chain(parents).chain(tasks.clone()).collect();
        println!("{node} is lost with {} processes", all.len());
        process::output("lose a node", Command::new("kill").arg("-KILL").args(all)).map(drop)
    }

    /// The processes whose environment has all of these.
    fn having(&self, variables: &[String]) -> Result<Vec<String>> {
        let entries = fs::read_dir("/proc").context("list the processes")?;
        let has_all = |process: &PathBuf| {
            let environment = fs::read(process.join("environ")).unwrap_or_default();
            let environment = String::from_utf8_lossy(&environment).into_owned();
            variables.iter().all(|wanted| environment.split('\0').any(|variable| variable == wanted))
        };
        let own = entries.filter_map(|entry| Some(entry.ok()?.path())).filter(has_all);
        Ok(own.filter_map(|process| Some(process.file_name()?.to_str()?.to_owned())).collect())
    }

    /// Submits the experiment and waits until all jobs are over.
    fn submit(&self, program: &Path, results: &Path) -> Result<()> {
        let mut submit = process::program(process::workspace().join("scenarios/fleet/slurm.sh"));
        let user = self.folder.join("user");
        submit.uid(USER).gid(USER).env("HOME", &user).env("XDG_CACHE_HOME", user.join("cache"));
        submit.env("TCCC_GUEST", self.folder.join("guest")).env("MARKS", user.join("marks"));
        submit.env("SLURM_CONF", self.config()).env("TCCC", program).arg(results).arg(SCENARIO).args(OPTIONS);
        print!("{}", process::output("submit", &mut submit)?);
        let (mut said, lost) = (String::new(), self.folder.join("lost"));
        wait_for("the end of all jobs", PATIENCE, || {
            let hangs = fs::read_to_string(user.join("marks/hangs")).unwrap_or_default();
            if !hangs.is_empty() && !lost.exists() {
                fs::write(&lost, &hangs).context("note the loss of a node")?;
                self.lose(hangs.trim())?;
            }
            let jobs = self.ask("squeue", &["-h", "-r", "-o", "%i %T %N %r"])?;
            if jobs != said {
                println!("squeue: {}", jobs.trim().replace('\n', " | "));
                said.clone_from(&jobs);
            }
            Ok(jobs.trim().is_empty())
        })
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        let _ = self.ask("scancel", &["--user=nobody"]); // there may be no job left
        for mut daemon in self.daemons.drain(..).rev() {
            let _ = Command::new("kill").arg(daemon.id().to_string()).status(); // it may have ended
            if wait_for("the end of a daemon", START, || Ok(daemon.try_wait()?.is_some())).is_err() {
                let _ = daemon.kill();
            }
            let _ = daemon.wait();
        }
    }
}

/// The process that started another.
fn parent(process: &String) -> Option<String> {
    let status = fs::read_to_string(format!("/proc/{process}/status")).ok()?;
    status.lines().find_map(|line| line.strip_prefix("PPid:")).map(|id| id.trim().to_owned())
}

fn is_step_daemon(process: &String) -> bool {
    fs::read_to_string(format!("/proc/{process}/comm")).is_ok_and(|name| name.starts_with("slurmstepd"))
}

/// Three nodes of one processor each. A job that is requeued begins soon, and a node that is lost is missed soon.
fn configuration(folder: &Path) -> Result<String> {
    let host = fs::read_to_string("/proc/sys/kernel/hostname").context("read the name of this machine")?;
    let (host, folder) = (host.trim(), folder.display());
    Ok(format!(
        "ClusterName=tccc\nSlurmctldHost={host}(127.0.0.1)\nSlurmUser=root\nSlurmdUser=root\n\
         SlurmctldPort=16817\nAuthType=auth/munge\nCredType=cred/munge\n\
         AuthInfo=socket={folder}/munge.socket,cred_expire=10\n\
         StateSaveLocation={folder}/state\nSlurmdSpoolDir={folder}/spool-%n\n\
         SlurmctldPidFile={folder}/slurmctld.pid\nSlurmdPidFile={folder}/slurmd-%n.pid\n\
         SlurmctldLogFile={folder}/slurmctld.log\nSlurmdLogFile={folder}/slurmd-%n.log\n\
         ProctrackType=proctrack/linuxproc\nTaskPlugin=task/none\nMpiDefault=none\n\
         SelectType=select/cons_tres\nSelectTypeParameters=CR_CPU\nReturnToService=2\nKillWait=5\n\
         SchedulerParameters=batch_sched_delay=0,sched_interval=2\nMailProg=/bin/true\nSlurmdTimeout=10\n\
         NodeName=node[1-3] NodeHostname={host} NodeAddr=127.0.0.1 Port=[17011-17013] CPUs=1\n\
         PartitionName=all Nodes=node[1-3] Default=YES MaxTime=INFINITE State=UP\n"
    ))
}

/// Waits for a condition.
///
/// Errors: it does not hold in time; it cannot be looked at.
fn wait_for(what: &str, time: Duration, mut holds: impl FnMut() -> Result<bool>) -> Result<()> {
    let begun = Instant::now();
    while !holds()? {
        if begun.elapsed() > time {
            bail!("{what} did not come within {} s; see target/fleet", time.as_secs());
        }
        thread::sleep(LOOK_EVERY);
    }
    Ok(())
}
