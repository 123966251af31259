//! A real Slurm on this machine: munge, the controller and some nodes, all below one folder.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

use crate::process;

/// The daemons may take so long to begin or to end.
const START: Duration = Duration::from_secs(30);
const LOOK_EVERY: Duration = Duration::from_millis(100);
/// The environment of a node's daemons names it by this.
const NODE_VARIABLE: &str = "TCCC_FLEET_NODE";

/// Munge, the controller and the nodes; ended when dropped.
pub(super) struct Cluster {
    pub folder: PathBuf,
    daemons: Vec<Child>,
}

impl Cluster {
    /// Starts the nodes `node1` to `node{nodes}`, one processor each, in an empty folder.
    ///
    /// Errors: a program is missing; the nodes are not idle soon.
    pub fn start(folder: &Path, nodes: usize) -> Result<Cluster> {
        let mut cluster = Cluster { folder: folder.to_owned(), daemons: Vec::new() };
        fs::create_dir_all(folder.join("state")).context("make the folder of the controller")?;
        cluster.start_munge()?;
        fs::write(cluster.config(), configuration(folder, nodes)?).context("write slurm.conf")?;
        cluster.daemon(Command::new("slurmctld").args(["-D", "-f"]).arg(cluster.config()))?;
        for node in (1..=nodes).map(|number| format!("node{number}")) {
            fs::create_dir_all(folder.join(format!("spool-{node}"))).context("make the folder of a node")?;
            let mut slurmd = Command::new("slurmd");
            slurmd.env(NODE_VARIABLE, cluster.name(&node)).args(["-D", "-N", &node, "-f"]).arg(cluster.config());
            cluster.daemon(&mut slurmd)?;
        }
        let idle = Some(format!("{nodes} idle"));
        wait_for("idle nodes", START, || Ok(cluster.ask("sinfo", &["-h", "-o", "%D %t"])? == idle))?;
        Ok(cluster)
    }

    fn start_munge(&mut self) -> Result<()> {
        let [socket, key] = ["munge.socket", "munge.key"].map(|name| self.folder.join(name));
        process::output("make a key", Command::new("mungekey").arg("--create").arg("--keyfile").arg(&key))?;
        let mut munge = Command::new("munged");
        munge.args(["--foreground", "--force"]).arg("--key-file").arg(&key).arg("--socket").arg(&socket);
        for (option, name) in [("--pid-file", "munge.pid"), ("--log-file", "munge.log"), ("--seed-file", "munge.seed")]
        {
            munge.arg(option).arg(self.folder.join(name));
        }
        self.daemon(&mut munge)?;
        wait_for("munged", START, || Ok(socket.exists()))
    }

    /// A node of this cluster and no other.
    fn name(&self, node: &str) -> String {
        format!("{}/{node}", self.folder.display())
    }

    /// What `SLURM_CONF` names.
    pub fn config(&self) -> PathBuf {
        self.folder.join("slurm.conf")
    }

    fn daemon(&mut self, command: &mut Command) -> Result<()> {
        let name = Path::new(command.get_program()).to_string_lossy().into_owned();
        let log = fs::File::create(self.folder.join(format!("{name}-{}.out", self.daemons.len())))?;
        let child = command.stdin(Stdio::null()).stdout(log.try_clone()?).stderr(log).spawn();
        self.daemons.push(child.with_context(|| format!("start {name}"))?);
        Ok(())
    }

    /// What a program of Slurm says; none while the controller does not answer.
    pub fn ask(&self, name: &str, words: &[&str]) -> Result<Option<String>> {
        let output = Command::new(name).env("SLURM_CONF", self.config()).args(words).output();
        let output = output.with_context(|| format!("start {name}"))?;
        Ok(output.status.success().then(|| String::from_utf8_lossy(&output.stdout).trim().to_owned()))
    }

    /// Kills a node as a loss of power does: its daemon, the daemons of its tasks, and the tasks last, of whose end
    /// nobody hears.
    pub fn lose(&self, node: &str) -> Result<()> {
        let daemons = having(&[format!("{NODE_VARIABLE}={}", self.name(node))])?;
        let tasks = self.processes(&format!("SLURMD_NODENAME={node}"))?;
        let parents = tasks.iter().filter_map(parent).filter(is_step_daemon);
        let all: Vec<String> = daemons.into_iter().chain(parents).chain(tasks.clone()).collect();
        println!("{node} is lost with {} processes", all.len());
        let mut kill = Command::new("kill");
        kill.arg("-KILL").args(all).stderr(Stdio::null());
        let _ = kill.status(); // a process may have ended since it was listed
        Ok(())
    }

    /// The processes of this cluster's tasks that have a variable of Slurm's.
    pub fn processes(&self, variable: &str) -> Result<Vec<String>> {
        having(&[format!("SLURM_CONF={}", self.config().display()), variable.to_owned()])
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        let _ = self.ask("scancel", &["--state=PENDING,RUNNING,SUSPENDED"]); // there may be no job left
        for mut daemon in self.daemons.drain(..).rev() {
            let _ = Command::new("kill").arg(daemon.id().to_string()).status(); // it may have ended
            if wait_for("the end of a daemon", START, || Ok(daemon.try_wait()?.is_some())).is_err() {
                let _ = daemon.kill();
            }
            let _ = daemon.wait();
        }
    }
}

/// The processes whose environment has all of these.
fn having(variables: &[String]) -> Result<Vec<String>> {
    let entries = fs::read_dir("/proc").context("list the processes")?;
    let has_all = |process: &PathBuf| {
        let environment = fs::read(process.join("environ")).unwrap_or_default();
        let environment = String::from_utf8_lossy(&environment).into_owned();
        variables.iter().all(|wanted| environment.split('\0').any(|variable| variable == wanted))
    };
    let own = entries.filter_map(|entry| Some(entry.ok()?.path())).filter(has_all);
    Ok(own.filter_map(|process| Some(process.file_name()?.to_str()?.to_owned())).collect())
}

/// The processes that work in a folder, or whose command or environment names it.
pub(super) fn users_of(folder: &Path) -> Result<Vec<PathBuf>> {
    let name = folder.display().to_string();
    let entries = fs::read_dir("/proc").context("list the processes")?;
    let uses = |process: &PathBuf| {
        let texts = ["environ", "cmdline"].map(|file| fs::read(process.join(file)).unwrap_or_default());
        let works_there = fs::read_link(process.join("cwd")).is_ok_and(|place| place.starts_with(folder));
        works_there || texts.iter().any(|text| String::from_utf8_lossy(text).contains(&name))
    };
    Ok(entries.filter_map(|entry| Some(entry.ok()?.path())).filter(uses).collect())
}

/// The process that started another.
fn parent(process: &String) -> Option<String> {
    let status = fs::read_to_string(format!("/proc/{process}/status")).ok()?;
    status.lines().find_map(|line| line.strip_prefix("PPid:")).map(|id| id.trim().to_owned())
}

fn is_step_daemon(process: &String) -> bool {
    fs::read_to_string(format!("/proc/{process}/comm")).is_ok_and(|name| name.starts_with("slurmstepd"))
}

/// A job that is requeued begins soon, and a node that is lost is missed soon.
fn configuration(folder: &Path, nodes: usize) -> Result<String> {
    let host = fs::read_to_string("/proc/sys/kernel/hostname").context("read the name of this machine")?;
    let (host, folder, last_port) = (host.trim(), folder.display(), 17010 + nodes);
    Ok(format!(
        "ClusterName=tccc\nSlurmctldHost={host}(127.0.0.1)\nSlurmUser=root\nSlurmdUser=root\n\
         SlurmctldPort=16817\nAuthType=auth/munge\nCredType=cred/munge\n\
         AuthInfo=socket={folder}/munge.socket,cred_expire=5\n\
         StateSaveLocation={folder}/state\nSlurmdSpoolDir={folder}/spool-%n\n\
         SlurmctldPidFile={folder}/slurmctld.pid\nSlurmdPidFile={folder}/slurmd-%n.pid\n\
         SlurmctldLogFile={folder}/slurmctld.log\nSlurmdLogFile={folder}/slurmd-%n.log\n\
         ProctrackType=proctrack/linuxproc\nTaskPlugin=task/none\nMpiDefault=none\n\
         SelectType=select/cons_tres\nSelectTypeParameters=CR_CPU\nReturnToService=2\nKillWait=5\n\
         SchedulerParameters=batch_sched_delay=0,sched_interval=1\nMailProg=/bin/true\n\
         SlurmdTimeout=6\nMessageTimeout=5\n\
         NodeName=node[1-{nodes}] NodeHostname={host} NodeAddr=127.0.0.1 Port=[17011-{last_port}] CPUs=1\n\
         PartitionName=all Nodes=node[1-{nodes}] Default=YES MaxTime=INFINITE State=UP\n"
    ))
}

/// Waits for a condition.
///
/// Errors: it does not hold in time; it cannot be looked at.
pub(super) fn wait_for(what: &str, time: Duration, mut holds: impl FnMut() -> Result<bool>) -> Result<()> {
    let begun = Instant::now();
    while !holds()? {
        if begun.elapsed() > time {
            bail!("{what} did not come within {} s; see target/fleet", time.as_secs());
        }
        thread::sleep(LOOK_EVERY);
    }
    Ok(())
}
