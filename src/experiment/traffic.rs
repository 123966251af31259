//! Traffic by iperf3: processes in the nodes' namespaces that die with this one, and what they report.

use std::fs::{self, File};
use std::io;
use std::net::Ipv4Addr;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, bail};
use serde::Deserialize;

use crate::experiment::net::topology::Node;
use crate::experiment::scenario::FlowSpec;
use crate::failure::Failure;
use crate::kernel::cgroup::RunCgroup;

/// A server listens within this time, or something is wrong with it.
const LISTENING_WITHIN: Duration = Duration::from_secs(10);
/// How often a condition is looked at while waiting for it.
const LOOK_EVERY: Duration = Duration::from_millis(5);
/// First port of the servers, one a flow; iperf3's own default.
const FIRST_SERVER_PORT: u16 = 5201;
/// First local port of the senders, one a flow; below the range from which kernels choose ports themselves.
const FIRST_SENDER_PORT: u16 = 20001;

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
}

impl Process {
    /// Starts iperf3 in a node's namespace and the experiment's cgroup.
    ///
    /// The thread that calls this must live as long as the child: the kernel ends the child with its parent thread.
    fn start(node: &Node, cgroup: &RunCgroup, command: &mut Command, what: String) -> Result<Process> {
        let netns = node.netns.try_clone()?;
        let joining: OwnedFd = cgroup.joining_file()?.into();
        let parent = std::process::id() as libc::pid_t;
        command.stdin(Stdio::null()).process_group(0);
        let enter = move || {
            netns.enter_for_good()?;
            // SAFETY: plain system calls on descriptors that the closure owns; no memory is allocated.
            unsafe {
                if libc::write(joining.as_raw_fd(), c"0".as_ptr().cast(), 1) != 1
                    || libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL) != 0
                {
                    return Err(io::Error::last_os_error());
                }
                if libc::getppid() != parent {
                    libc::_exit(1); // the parent died before the kernel knew that we go with it
                }
            }
            Ok(())
        };
        // SAFETY: the closure makes async-signal-safe system calls only.
        unsafe { command.pre_exec(enter) };
        let child = command.spawn().with_context(|| format!("start {what}"))?;
        Ok(Process { child, what })
    }

    /// Waits for the end of the process.
    ///
    /// Errors: the deadline passed; `stop` was set.
    fn wait(&mut self, deadline: Instant, stop: &AtomicBool) -> Result<()> {
        let what = self.what.clone();
        let ended = wait_until(deadline, stop, || Ok(self.child.try_wait().context("wait for iperf3")?.is_some()))?;
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

/// One flow as it is sent: its ports, its processes, its files.
#[derive(Debug)]
pub struct Transfer {
    /// Local port of the data connection, by which events and conditions know it.
    pub sender_port: u16,
    server_port: u16,
    server: Process,
    client: Option<Process>,
    client_file: PathBuf,
    deadline: Instant,
}

/// What the two iperf3 processes of a flow say about it.
#[derive(Debug, Clone, PartialEq)]
pub struct TransferReport {
    /// Algorithm of the data connection.
    pub algorithm: String,
    /// Payload bytes that reached the receiver.
    pub received_bytes: u64,
    /// Time over which it counted them, seconds.
    pub receiver_s: f64,
    /// Segments the sender retransmitted.
    pub retrans_pkts: u64,
    /// Segment size the sender reports, bytes.
    pub mss_bytes: u32,
}

/// Ports of the flow with this index: the sender's and the server's.
pub fn ports(index: usize) -> (u16, u16) {
    (FIRST_SENDER_PORT + index as u16, FIRST_SERVER_PORT + index as u16)
}

impl Transfer {
    /// Starts the server of a flow and returns when it listens.
    ///
    /// Errors: iperf3 cannot be started or does not listen in time.
    /// Side effects: a process that ends with the returned value.
    pub fn listen(index: usize, node: &Node, cgroup: &RunCgroup, folder: &Path, stop: &AtomicBool) -> Result<Transfer> {
        let (sender_port, server_port) = ports(index);
        let what = format!("the iperf3 server on node \"{}\"", node.name);
        let output =
            File::create(folder.join(format!("flow-{index}.server.json"))).context("create a file for iperf3")?;
        let mut command = Command::new("iperf3");
        command.args(["-s", "-1", "-4", "-J", "--forceflush", "-p", &server_port.to_string()]);
        command.args(["-B", &node.address.to_string()]).stdout(output).stderr(Stdio::null());
        let mut server = Process::start(node, cgroup, &mut command, what.clone())?;
        let deadline = Instant::now() + LISTENING_WITHIN;
        let listening = wait_until(deadline, stop, || {
            if let Some(status) = server.child.try_wait().context("look after iperf3")? {
                bail!("{what} ended before it listened ({status})");
            }
            is_listening(node, server_port)
        })?;
        if !listening {
            bail!("{what} did not listen on port {server_port} within {LISTENING_WITHIN:?}");
        }
        let client_file = folder.join(format!("flow-{index}.json"));
        Ok(Transfer { sender_port, server_port, server, client: None, client_file, deadline })
    }

    /// Starts to send.
    ///
    /// `algorithm` is the name under which the kernel knows it; `length` what is left of the run.
    ///
    /// Errors: iperf3 cannot be started.
    pub fn send(
        &mut self,
        flow: &FlowSpec,
        algorithm: &str,
        [from, to]: [&Node; 2],
        cgroup: &RunCgroup,
        length: Duration,
    ) -> Result<()> {
        let what = format!("iperf3 for flow \"{}\"", flow.name);
        let mut command = Command::new("iperf3");
        command.args(["-c", &to.address.to_string(), "-4", "-J", "-C", algorithm]);
        command.args(["-p", &self.server_port.to_string(), "-B", &from.address.to_string()]);
        command.args(["--cport", &self.sender_port.to_string()]);
        match flow.size {
            Some(size) => command.args(["-n", &size.0.to_string()]),
            None => command.args(["-t", &length.as_secs().to_string()]),
        };
        let output = File::create(&self.client_file).context("create a file for iperf3")?;
        command.stdout(output).stderr(Stdio::null());
        self.client = Some(Process::start(from, cgroup, &mut command, what)?);
        self.deadline = Instant::now() + length + slack(length);
        Ok(())
    }

    /// Waits until both ends are done and reads what they say.
    ///
    /// Errors: iperf3 reports an error, ran another algorithm, or does not end; `stop` was set.
    pub fn finish(mut self, algorithm: &str, stop: &AtomicBool) -> Result<TransferReport> {
        let mut client = self.client.take().ok_or_else(|| anyhow!("the flow was never started"))?;
        client.wait(self.deadline, stop)?;
        let text = fs::read_to_string(&self.client_file).context("read iperf3's output")?;
        let report = parse_report(&text)?;
        self.server.wait(self.deadline, stop)?;
        if report.algorithm != algorithm {
            bail!("iperf3 ran \"{}\" where \"{algorithm}\" was asked", report.algorithm);
        }
        Ok(report)
    }
}

/// Connections over a lossy path may need several timeouts to open and close; those double from a second.
fn slack(length: Duration) -> Duration {
    Duration::from_secs(60) + length / 2
}

/// Whether a socket listens on the port in the node's namespace: state 0A in /proc/net/tcp.
fn is_listening(node: &Node, port: u16) -> Result<bool> {
    let table = node.netns.run(|| fs::read_to_string("/proc/thread-self/net/tcp").context("read the sockets"))?;
    let local = local_field(node.address, port);
    Ok(table.lines().any(|line| {
        let mut fields = line.split_whitespace().skip(1);
        fields.next() == Some(&local) && fields.nth(1) == Some("0A")
    }))
}

/// An address as /proc/net/tcp writes it: the bytes as one number of this machine, then the port.
fn local_field(address: Ipv4Addr, port: u16) -> String {
    format!("{:08X}:{port:04X}", u32::from_ne_bytes(address.octets()))
}

#[derive(Deserialize)]
struct Report {
    error: Option<String>,
    #[serde(default)]
    start: Start,
    #[serde(default)]
    end: End,
}

#[derive(Default, Deserialize)]
struct Start {
    #[serde(default)]
    tcp_mss_default: u32,
}

#[derive(Default, Deserialize)]
struct End {
    #[serde(default)]
    streams: Vec<Stream>,
    #[serde(default)]
    sender_tcp_congestion: String,
}

#[derive(Deserialize)]
struct Stream {
    sender: Side,
    receiver: Side,
}

#[derive(Deserialize)]
struct Side {
    seconds: f64,
    bytes: u64,
    #[serde(default)]
    retransmits: u64,
}

fn parse_report(text: &str) -> Result<TransferReport> {
    if text.trim().is_empty() {
        bail!("iperf3 ended without a report");
    }
    let report: Report = serde_json::from_str(text).context("read iperf3's report")?;
    if let Some(error) = report.error {
        bail!("iperf3 reports: {error}");
    }
    let stream = report.end.streams.first().ok_or_else(|| anyhow!("iperf3's report has no stream"))?;
    Ok(TransferReport {
        algorithm: report.end.sender_tcp_congestion,
        received_bytes: stream.receiver.bytes,
        receiver_s: stream.receiver.seconds,
        retrans_pkts: stream.sender.retransmits,
        mss_bytes: report.start.tcp_mss_default,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn report_of_iperf3_is_read() {
        let text = r#"{"start": {"tcp_mss_default": 1460}, "end": {"sender_tcp_congestion": "reno", "streams": [
            {"sender": {"seconds": 2.0, "bytes": 100, "retransmits": 3}, "receiver": {"seconds": 2.1, "bytes": 90}}]}}"#;
        let report = parse_report(text).unwrap();
        assert_eq!((report.received_bytes, report.retrans_pkts, report.mss_bytes), (90, 3, 1460));
        assert_eq!((report.algorithm.as_str(), report.receiver_s), ("reno", 2.1));
    }

    #[test]
    fn errors_of_iperf3_are_told() {
        let told = |text: &str| parse_report(text).unwrap_err().to_string();
        assert_eq!(told(r#"{"error": "unable to connect"}"#), "iperf3 reports: unable to connect");
        assert_eq!(told(" "), "iperf3 ended without a report");
        assert_eq!(told("{}"), "iperf3's report has no stream");
    }

    #[test]
    fn listening_socket_is_found_as_the_kernel_writes_it() {
        let expected = if cfg!(target_endian = "little") { "010012C6:1451" } else { "C6120001:1451" };
        assert_eq!(local_field(Ipv4Addr::new(198, 18, 0, 1), 5201), expected);
    }
}
