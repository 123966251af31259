//! A real Slurm cluster on this machine: munge, the controller and some nodes, all below one folder.

use std::iter::successors;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use fs_err::{self as fs, File};
use procfs::process::{FDTarget, Process, all_processes};

use crate::process::{self, command};

/// Time limit for daemons to start or end.
const START: Duration = Duration::from_secs(30);
const POLL_EVERY: Duration = Duration::from_millis(100);
/// Time limit for processes of an earlier cluster to end after `SIGTERM`.
const LAST_WORDS: Duration = Duration::from_secs(10);
/// Set in the environment of every process of a cluster, including Slurm's own step daemons.
pub(super) const CONFIG_VARIABLE: &str = "SLURM_CONF";
const PARTITION: &str = "all";

/// The running daemons; dropping the value ends them.
pub(super) struct Cluster {
    pub folder: PathBuf,
    daemons: Vec<Child>,
    /// Keeps a second cluster out of the folder.
    _lock: File,
}

impl Cluster {
    /// Starts the nodes `node1` to `node{nodes}`, one processor each, in an empty `target/fleet`.
    ///
    /// Side effects: ends the processes of a killed cluster, and removes its folder.
    ///
    /// # Errors
    /// Another cluster runs there; a program is missing; the nodes do not become idle.
    pub fn start(nodes: usize) -> Result<Cluster> {
        let folder = process::target().join("fleet");
        fs::create_dir_all(process::target())?;
        let lock = File::create(folder.with_extension("lock"))?;
        lock.try_lock().with_context(|| format!("another cluster runs in {}", folder.display()))?;
        end_former(&folder)?;
        process::remove(&folder)?;
        fs::create_dir_all(folder.join("state"))?;
        let mut cluster = Cluster { folder, daemons: Vec::new(), _lock: lock };
        cluster.start_munge()?;
        let config = cluster.config();
        fs::write(&config, configuration(&cluster.folder, nodes)?)?;
        cluster.daemon("slurmctld", command!("slurmctld -D -f {config}"))?;
        for node in (1..=nodes).map(|number| format!("node{number}")) {
            fs::create_dir_all(cluster.folder.join(format!("spool-{node}")))?;
            cluster.daemon(&node, command!("slurmd -D -N {node} -f {config}"))?;
        }
        let idle = Some(format!("{nodes} idle"));
        wait_for("idle nodes", START, || Ok(cluster.ask("sinfo", &["-h", "-o", "%D %t"])? == idle))?;
        Ok(cluster)
    }

    fn start_munge(&mut self) -> Result<()> {
        let folder = self.folder.clone();
        process::output("make a key", command!("mungekey --create --keyfile {folder}/munge.key"))?;
        let files = ["key", "socket", "pid", "log", "seed"].map(|name| match name {
            "socket" => format!("--socket={}/munge.socket", folder.display()),
            _ => format!("--{name}-file={}/munge.{name}", folder.display()),
        });
        self.daemon("munged", command!("munged --foreground --force {files...}"))?;
        wait_for("munged", START, || Ok(folder.join("munge.socket").exists()))
    }

    pub fn config(&self) -> PathBuf {
        self.folder.join("slurm.conf")
    }

    /// Starts a program that ends when this process ends or is killed.
    fn daemon(&mut self, name: &str, program: Command) -> Result<()> {
        let log = std::fs::File::create(self.folder.join(format!("{name}.out")))?;
        let mut daemon = command!("setpriv --pdeathsig TERM");
        daemon.arg(program.get_program()).args(program.get_args());
        daemon.env(CONFIG_VARIABLE, self.config()).stdout(log.try_clone()?).stderr(log);
        self.daemons.push(daemon.spawn().with_context(|| format!("start {name}"))?);
        Ok(())
    }

    /// The output of a program of Slurm; `None` while the controller does not answer.
    pub fn ask(&self, name: &str, words: &[&str]) -> Result<Option<String>> {
        let output = Command::new(name).env(CONFIG_VARIABLE, self.config()).args(words).output();
        let output = output.with_context(|| format!("start {name}"))?;
        Ok(output.status.success().then(|| String::from_utf8_lossy(&output.stdout).trim().to_owned()))
    }

    /// Kills a node's daemons, which have its log open, then its tasks, as a loss of power does.
    pub fn lose(&self, node: &str) -> Result<()> {
        let log = FDTarget::Path(self.folder.join(format!("slurmd-{node}.log")));
        let daemons = processes(|process| process.fd().into_iter().flatten().flatten().any(|open| open.target == log))?;
        let tasks = self.processes(&format!("SLURMD_NODENAME={node}"))?;
        println!("{node} is lost with {} daemons and {} processes of tasks", daemons.len(), tasks.len());
        signal("-KILL", daemons.iter().chain(&tasks));
        Ok(())
    }

    /// The processes of this cluster with a variable in their environment.
    pub fn processes(&self, variable: &str) -> Result<Vec<String>> {
        having(&[&marker(&self.folder), variable])
    }

    /// Cancels the remaining jobs, waits for their end, and ends the daemons.
    ///
    /// # Errors
    /// A job does not end; a process of the cluster is left.
    pub fn end(mut self) -> Result<()> {
        self.stop()
    }

    fn stop(&mut self) -> Result<()> {
        if self.daemons.is_empty() {
            return Ok(());
        }
        let jobs = wait_for("the end of cancelled jobs", START, || {
            self.ask("scancel", &["--partition", PARTITION])?;
            Ok(self.ask("squeue", &["-h"])?.is_some_and(|jobs| jobs.is_empty()))
        });
        for mut daemon in self.daemons.drain(..).rev() {
            signal("-TERM", [&daemon.id().to_string()]);
            if wait_for("the end of a daemon", START, || Ok(daemon.try_wait()?.is_some())).is_err() {
                let _ = daemon.kill();
            }
            let _ = daemon.wait();
        }
        jobs?;
        let left = having(&[&marker(&self.folder)])?;
        ensure!(left.is_empty(), "the cluster left the processes {}", left.join(", "));
        Ok(())
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        if let Err(error) = self.stop() {
            eprintln!("xtask: fleet: {error:#}");
        }
    }
}

/// Ends the tasks of a killed cluster, by `SIGKILL` where `SIGTERM` fails.
fn end_former(folder: &Path) -> Result<()> {
    let marker = marker(folder);
    let ours = ancestors();
    let left =
        || having(&[&marker]).map(|found| found.into_iter().filter(|one| !ours.contains(one)).collect::<Vec<_>>());
    for (how, time) in [("-TERM", LAST_WORDS), ("-KILL", START)] {
        let found = left()?;
        if found.is_empty() {
            return Ok(());
        }
        println!("a killed cluster left the processes {}: kill {how}", found.join(", "));
        signal(how, &found);
        let _ = wait_for("their end", time, || Ok(left()?.is_empty())); // checked again below
    }
    let found = left()?;
    ensure!(found.is_empty(), "the processes {} of a killed cluster do not end", found.join(", "));
    Ok(())
}

fn marker(folder: &Path) -> String {
    format!("{CONFIG_VARIABLE}={}/slurm.conf", folder.display())
}

/// Signals processes, of which any may have ended meanwhile.
fn signal<'a>(signal: &str, processes: impl IntoIterator<Item = &'a String>) {
    let _ = Command::new("kill").arg(signal).args(processes).stderr(Stdio::null()).status();
}

/// The processes whose environment has all of these variables.
fn having(variables: &[&str]) -> Result<Vec<String>> {
    processes(|process| {
        let environment = fs::read(format!("/proc/{}/environ", process.pid)).unwrap_or_default();
        variables.iter().all(|wanted| environment.split(|byte| *byte == 0).any(|one| one == wanted.as_bytes()))
    })
}

/// This process and its ancestors: a developer's shell may have the variable too.
fn ancestors() -> Vec<String> {
    let parent = |pid: &i32| Process::new(*pid).and_then(|process| process.stat()).map(|stat| stat.ppid);
    let above = successors(i32::try_from(std::process::id()).ok(), |pid| parent(pid).ok());
    above.map(|pid| pid.to_string()).collect()
}

/// The processes whose working folder, command or environment is in or names the folder.
pub(super) fn users_of(folder: &Path) -> Result<Vec<String>> {
    processes(|process| {
        let read = |file: &str| fs::read(format!("/proc/{}/{file}", process.pid)).unwrap_or_default();
        let works_there = process.cwd().is_ok_and(|place| place.starts_with(folder));
        let names_it = |file| names(&String::from_utf8_lossy(&read(file)), folder);
        works_there || names_it("environ") || names_it("cmdline")
    })
}

/// Whether a list of words and variables names the folder or a path in it.
fn names(text: &str, folder: &Path) -> bool {
    text.split(['\0', '=', ':']).any(|word| Path::new(word).starts_with(folder))
}

fn processes(is_wanted: impl Fn(&Process) -> bool) -> Result<Vec<String>> {
    let wanted = all_processes().context("list the processes")?.flatten().filter(is_wanted);
    Ok(wanted.map(|process| process.pid.to_string()).collect())
}

/// The text of slurm.conf. Requeued jobs start soon, and a lost node is noticed soon.
fn configuration(folder: &Path, nodes: usize) -> Result<String> {
    let host = fs::read_to_string("/proc/sys/kernel/hostname")?;
    let (host, folder) = (host.trim(), folder.display());
    let ports = free_ports(1 + nodes)?;
    let nodes = (1..).zip(&ports[1..]).map(|(number, port)| {
        format!("NodeName=node{number} NodeHostname={host} NodeAddr=127.0.0.1 Port={port} CPUs=1\n")
    });
    let (controller, nodes): (_, String) = (ports[0], nodes.collect());
    let ours = include_str!("slurm.conf").replace("FOLDER", &folder.to_string());
    let partition = format!("PartitionName={PARTITION} Nodes=ALL Default=YES MaxTime=INFINITE State=UP\n");
    Ok(format!("SlurmctldHost={host}(127.0.0.1)\nSlurmctldPort={controller}\n{ours}{nodes}{partition}"))
}

/// Finds unused ports.
fn free_ports(number: usize) -> Result<Vec<u16>> {
    let sockets: Vec<_> = (0..number).map(|_| TcpListener::bind(("127.0.0.1", 0))).collect::<Result<_, _>>()?;
    sockets.iter().map(|socket| Ok(socket.local_addr().context("read the number of a port")?.port())).collect()
}

/// Waits until a condition holds; an error after `time`.
pub(super) fn wait_for(what: &str, time: Duration, mut holds: impl FnMut() -> Result<bool>) -> Result<()> {
    let begun = Instant::now();
    while !holds()? {
        if begun.elapsed() > time {
            bail!("{what} did not happen within {} s; see target/fleet", time.as_secs());
        }
        thread::sleep(POLL_EVERY);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn folder_is_named_by_whole_components() {
        let folder = Path::new("/a/tmp-1");
        let named = ["TMPDIR=/a/tmp-1\0", "tccc\0--out=/a/tmp-1/b\0", "PATH=/bin:/a/tmp-1/bin\0"];
        let others = ["TMPDIR=/a/tmp-12\0", "PATH=/b/a/tmp-1\0", "tmp-1\0"];
        assert_eq!(named.map(|text| names(text, folder)), [true; 3], "{named:?}");
        assert_eq!(others.map(|text| names(text, folder)), [false; 3], "{others:?}");
    }
}
