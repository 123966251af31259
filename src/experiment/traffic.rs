//! Traffic: processes in the nodes' namespaces that die with this one, and what they report.
//!
//! Bulk flows are iperf3's ([`bulk`]). Transfers of a size and datagrams at a constant rate are our own ([`own`], and
//! [`child`] in the namespaces): iperf3 opens a control connection for every one, times by its exchange over that, and
//! gives up a UDP flow whose first packet is lost.

pub mod bulk;
pub mod child;
pub mod messages;
pub mod own;

use std::fs::{self, File};
use std::io;
use std::net::{Ipv4Addr, SocketAddrV4};
use std::os::fd::AsRawFd;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

use self::child::{Place, Task};
use crate::experiment::cost;
use crate::experiment::net::topology::{Node, Topology};
use crate::experiment::scenario::{Cell, FlowSpec, Sends};
use crate::failure::Failure;
use crate::kernel::cgroup::RunCgroup;

/// A server listens within this time, or something is wrong with it.
const LISTENING_WITHIN: Duration = Duration::from_secs(10);
/// How often a condition is looked at while waiting for it.
const LOOK_EVERY: Duration = Duration::from_millis(5);
/// First port of the servers, one a flow; iperf3's own default.
pub(super) const FIRST_SERVER_PORT: u16 = 5201;
/// First local port of the senders, one a flow; below the range from which kernels choose ports themselves.
pub(super) const FIRST_SENDER_PORT: u16 = 20001;

/// The version of iperf3 on this host: `3.12` of the `iperf 3.12` that it prints.
///
/// Errors: it is not installed.
pub fn iperf3_version() -> Result<String> {
    let output = match Command::new("iperf3").arg("--version").stdin(Stdio::null()).output() {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            let failure = Failure::unmet("iperf3 is not installed, and experiments send their traffic with it");
            return Err(failure.hint("`apt-get install iperf3`").into());
        }
        other => other.context("run iperf3")?,
    };
    let text = String::from_utf8_lossy(&output.stdout);
    Ok(text.split_whitespace().nth(1).unwrap_or("of unknown version").to_owned())
}

/// A child process that is killed when it is dropped, and by the kernel when this process dies.
#[derive(Debug)]
pub struct Process {
    child: Child,
    what: String,
    file: PathBuf,
}

impl Process {
    /// Starts this program with a task in a node's namespace and the experiment's cgroup; what it says, of its errors
    /// too, goes to a new file in the folder of the run.
    ///
    /// It goes there itself, once it runs: what is done between fork and exec would need a copy of this process, whose
    /// links would have to wait for every page that they write to.
    /// The thread that calls this must live as long as the child: the kernel ends the child with its parent thread.
    fn start(node: &Node, bed: Bed<'_>, task: &Task, file: &str) -> Result<Process> {
        let what = match task {
            Task::Become { program, .. } => format!("{program} on node \"{}\"", node.name),
            _ => format!("the traffic on node \"{}\"", node.name),
        };
        let parent = std::process::id();
        let netns = format!("/proc/{parent}/fd/{}", node.netns.as_raw_fd()).into();
        let place = Place { netns, cgroup: bed.cgroup.joining_file(), parent };
        let program = std::env::current_exe().context("find this program")?;
        let mut command = Command::new(program);
        command.arg("traffic");
        command.arg(serde_json::to_string(&place).context("encode a place")?);
        command.arg(serde_json::to_string(task).context("encode a task")?);
        let file = bed.folder.join(file);
        let output = File::create(&file).with_context(|| format!("create \"{}\"", file.display()))?;
        let errors = output.try_clone().context("use a file twice")?;
        command.stdin(Stdio::piped()).stdout(output).stderr(errors).process_group(0);
        let child = command.spawn().with_context(|| format!("start {what}"))?;
        Ok(Process { child, what, file })
    }

    /// What it said so far.
    fn said(&self) -> Result<String> {
        fs::read_to_string(&self.file).with_context(|| format!("read what {} says", self.what))
    }

    /// Waits for the end of the process.
    ///
    /// Errors: the deadline passed; `stop` was set.
    fn wait(&mut self, deadline: Instant, stop: &AtomicBool) -> Result<()> {
        let what = self.what.clone();
        let ended = wait_until(deadline, stop, || {
            Ok(self.child.try_wait().with_context(|| format!("wait for {what}"))?.is_some())
        })?;
        if !ended {
            bail!("{what} did not end in time");
        }
        Ok(())
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill(); // fails when it has ended, as it should have
        let _ = self.child.wait();
    }
}

/// Whether a condition came true before the deadline.
///
/// Errors: `stop` was set; otherwise what the condition returns.
fn wait_until(deadline: Instant, stop: &AtomicBool, mut condition: impl FnMut() -> Result<bool>) -> Result<bool> {
    loop {
        if condition()? {
            return Ok(true);
        }
        if stop.load(Ordering::Relaxed) {
            bail!("interrupted");
        }
        if Instant::now() >= deadline {
            return Ok(false);
        }
        std::thread::sleep(LOOK_EVERY);
    }
}

/// Where a run's processes live and write.
#[derive(Clone, Copy)]
pub struct Bed<'a> {
    /// The experiment's cgroup.
    pub cgroup: &'a RunCgroup,
    /// Folder of the run.
    pub folder: &'a Path,
    /// Set from outside to give up.
    pub stop: &'a AtomicBool,
}

/// A flow and its two ends in a built network.
#[derive(Debug, Clone, Copy)]
pub struct Ends<'a> {
    /// Its place among the cell's flows.
    pub index: usize,
    /// What it is.
    pub flow: &'a FlowSpec,
    /// The node that sends.
    pub from: &'a Node,
    /// The node that receives.
    pub to: &'a Node,
    /// Local port of the data connection, by which events and conditions know it; the first of several.
    pub sender_port: u16,
    /// How long it sends at most.
    pub length: Duration,
    /// Longest that the empty path holds up a packet behind the one before it.
    pub hold_up: Duration,
}

impl<'a> Ends<'a> {
    /// The ends of every flow of a cell; each connection has a port of its own.
    ///
    /// Errors: a node is missing from the network.
    pub fn of_cell(cell: &'a Cell, topology: &'a Topology) -> Result<Vec<Ends<'a>>> {
        let mut sender_port = FIRST_SENDER_PORT;
        let ends = cell.flows.iter().enumerate().map(|(index, flow)| {
            let [from, to] = [topology.node(&flow.from)?, topology.node(&flow.to)?];
            let ends = Ends {
                index,
                flow,
                from,
                to,
                sender_port,
                length: flow.length(cell.duration),
                hold_up: cost::hold_up(cell, flow),
            };
            sender_port += flow.connections() as u16;
            Ok(ends)
        });
        ends.collect()
    }

    /// Local ports of its connections, in the order in which they start.
    pub fn sender_ports(&self) -> std::ops::Range<u16> {
        self.sender_port..self.sender_port + self.flow.connections() as u16
    }

    fn server_port(&self) -> u16 {
        FIRST_SERVER_PORT + self.index as u16
    }

    fn sender_address(&self) -> SocketAddrV4 {
        SocketAddrV4::new(self.from.address, self.sender_port)
    }

    fn server_address(&self) -> SocketAddrV4 {
        SocketAddrV4::new(self.to.address, self.server_port())
    }
}

/// One flow as it is sent: its processes and its files.
#[derive(Debug)]
pub enum Traffic {
    /// By iperf3.
    Bulk(bulk::Transfer),
    /// By our own processes.
    Own(own::Own),
}

/// What the two ends of a flow say about it.
#[derive(Debug, Clone, PartialEq)]
pub enum Report {
    /// Of a bulk flow.
    Bulk(bulk::TransferReport),
    /// Of transfers of a size, and of messages: each that was begun, in the order of their starts.
    Transfers(Vec<own::Transferred>),
    /// Of a flow of datagrams.
    Datagrams(own::Datagrams),
}

impl Traffic {
    /// Starts the receiving end of a flow and returns when it listens.
    ///
    /// Errors: a process cannot be started or does not listen in time.
    /// Side effects: a process that ends with the returned value.
    pub fn listen(ends: &Ends<'_>, bed: Bed<'_>) -> Result<Traffic> {
        match ends.flow.sends {
            Sends::Bulk => Ok(Traffic::Bulk(bulk::Transfer::listen(ends, bed)?)),
            Sends::Transfers { .. } | Sends::Messages { .. } | Sends::Datagrams { .. } => {
                Ok(Traffic::Own(own::Own::listen(ends, bed)?))
            }
        }
    }

    /// Starts to send.
    ///
    /// `algorithm` is the name under which the kernel knows it.
    ///
    /// Errors: a process cannot be started.
    pub fn send(&mut self, ends: &Ends<'_>, algorithm: &str, bed: Bed<'_>) -> Result<()> {
        match self {
            Traffic::Bulk(transfer) => transfer.send(ends, algorithm, bed),
            Traffic::Own(own) => own.send(ends, algorithm, bed),
        }
    }

    /// Waits until both ends are done and reads what they say.
    ///
    /// Errors: an end reports an error or does not end; iperf3 ran another algorithm; `stop` was set.
    pub fn finish(self, ends: &Ends<'_>, algorithm: &str, stop: &AtomicBool) -> Result<Report> {
        match self {
            Traffic::Bulk(transfer) => Ok(Report::Bulk(transfer.finish(algorithm, stop)?)),
            Traffic::Own(own) => own.finish(ends, stop),
        }
    }
}

/// Connections over a lossy path may need several timeouts to open and close; those double from a second.
pub(super) fn slack(length: Duration) -> Duration {
    Duration::from_secs(60) + length / 2
}

/// A table of sockets in /proc/net, and the state of one that waits there: listening, or bound.
struct Sockets(&'static str, &'static str);

const TCP_LISTENING: Sockets = Sockets("tcp", "0A");
const UDP_BOUND: Sockets = Sockets("udp", "07");

/// Waits until a socket waits on a flow's server port.
///
/// Errors: the process ended, or does not listen in time; `stop` was set.
fn await_listening(server: &mut Process, ends: &Ends<'_>, sockets: &Sockets, stop: &AtomicBool) -> Result<()> {
    let deadline = Instant::now() + LISTENING_WITHIN;
    let what = server.what.clone();
    let listening = wait_until(deadline, stop, || {
        if let Some(status) = server.child.try_wait().with_context(|| format!("look after {what}"))? {
            bail!("{what} ended before it listened ({status}): {}", server.said()?.trim());
        }
        is_listening(ends, sockets)
    })?;
    if !listening {
        bail!("{what} did not listen on port {} within {LISTENING_WITHIN:?}", ends.server_port());
    }
    Ok(())
}

fn is_listening(ends: &Ends<'_>, Sockets(table, state): &Sockets) -> Result<bool> {
    let table = format!("/proc/thread-self/net/{table}");
    let table = ends.to.netns.run(|| fs::read_to_string(table).context("read the sockets"))?;
    let local = local_field(ends.to.address, ends.server_port());
    Ok(table.lines().any(|line| {
        let mut fields = line.split_whitespace().skip(1);
        fields.next() == Some(&local) && fields.nth(1) == Some(state)
    }))
}

/// An address as /proc/net/tcp writes it: the bytes as one number of this machine, then the port.
fn local_field(address: Ipv4Addr, port: u16) -> String {
    format!("{:08X}:{port:04X}", u32::from_ne_bytes(address.octets()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn listening_socket_is_found_as_the_kernel_writes_it() {
        let expected = if cfg!(target_endian = "little") { "010012C6:1451" } else { "C6120001:1451" };
        assert_eq!(local_field(Ipv4Addr::new(198, 18, 0, 1), 5201), expected);
    }
}
