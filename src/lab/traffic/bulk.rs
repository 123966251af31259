//! A bulk flow: iperf3 at both ends, until the flow's time is over.

use std::io;
use std::process::{Command, Stdio};
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, bail, ensure};
use serde::Deserialize;

use super::child::Task;
use super::ends::{Bed, Ends, slack};
use super::process::{Process, TCP_LISTENING};
use super::report::TransferReport;
use crate::failure::Failure;

/// One bulk flow as it is sent: its processes.
#[derive(Debug)]
pub struct Transfer {
    server: Process,
    client: Option<Process>,
    length: Duration,
    deadline: Instant,
}

impl Transfer {
    /// Starts the server of a flow and returns when it listens.
    ///
    /// Errors: iperf3 cannot be started or does not listen in time.
    /// Side effects: a process that ends with the returned value.
    pub fn listen(ends: &Ends<'_>, bed: Bed<'_>) -> Result<Transfer> {
        let (port, address) = (ends.server_port().to_string(), ends.to.address.to_string());
        let task = iperf3(&["-s", "-1", "-4", "-J", "--forceflush", "-p", &port, "-B", &address]);
        let mut server = Process::start(ends.to, bed, &task, &format!("flow-{}.server.json", ends.index))?;
        server.await_listening(ends, &TCP_LISTENING, bed.stop)?;
        Ok(Transfer { server, client: None, length: ends.length, deadline: Instant::now() })
    }

    /// Starts to send for its length in whole seconds.
    ///
    /// `algorithm` is the name under which the kernel knows it.
    ///
    /// Errors: iperf3 cannot be started.
    pub fn send(&mut self, ends: &Ends<'_>, algorithm: &str, bed: Bed<'_>) -> Result<()> {
        let (server, from) = (ends.to.address.to_string(), ends.from.address.to_string());
        let [port, own_port] = [ends.server_port(), ends.sender_port].map(|port| port.to_string());
        let seconds = ends.length.as_secs().to_string();
        let to = ["-c", &server, "-4", "-J", "-C", algorithm, "-p", &port];
        let task = iperf3(&[&to[..], &["-B", &from, "--cport", &own_port, "-t", &seconds]].concat());
        self.client = Some(Process::start(ends.from, bed, &task, &format!("flow-{}.json", ends.index))?);
        self.deadline = Instant::now() + ends.length + slack(ends.length);
        Ok(())
    }

    /// Waits until both ends are done and reads what they say.
    ///
    /// Errors: iperf3 reports an error, ran another algorithm, or does not end; `stop` was set.
    pub fn finish(mut self, algorithm: &str, stop: &AtomicBool) -> Result<TransferReport> {
        let mut client = self.client.take().ok_or_else(|| anyhow!("the flow was never started"))?;
        client.wait(self.deadline, stop)?;
        let sent = client.said()?;
        read_report(&sent)?; // the receiver may still wait for a sender that failed
        self.server.wait(self.deadline, stop)?;
        let report = read_reports(&sent, &self.server.said()?, self.length)?;
        ensure!(report.algorithm == algorithm, "iperf3 ran \"{}\" where \"{algorithm}\" was asked", report.algorithm);
        Ok(report)
    }
}

fn iperf3(arguments: &[&str]) -> Task {
    let arguments = arguments.iter().map(|one| (*one).to_owned()).collect();
    Task::Become { program: "iperf3".to_owned(), arguments }
}

/// The version of iperf3 on this host: `3.12` of the `iperf 3.12` that it prints.
///
/// Errors: it is not installed.
pub(crate) fn iperf3_version() -> Result<String> {
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

#[derive(Deserialize)]
struct Report {
    error: Option<String>,
    #[serde(default)]
    start: Start,
    #[serde(default)]
    intervals: Vec<Interval>,
    #[serde(default)]
    end: End,
}

#[derive(Default, Deserialize)]
struct Start {
    #[serde(default)]
    tcp_mss_default: u32,
}

#[derive(Deserialize)]
struct Interval {
    sum: Sum,
}

#[derive(Deserialize)]
struct Sum {
    /// From the start of the test, seconds.
    end: f64,
    bytes: u64,
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
    sender: Sender,
}

#[derive(Deserialize)]
struct Sender {
    #[serde(default)]
    retransmits: u64,
}

/// Reads what iperf3 printed at both ends of a flow of this length.
///
/// Errors: iperf3 reports an error, or printed no report of its form.
pub fn read_reports(sender: &str, receiver: &str, length: Duration) -> Result<TransferReport> {
    transfer_report(&read_report(sender)?, &read_report(receiver).context("at the receiver")?, length)
}

/// What both ends say; of what was received the receiver's own intervals: the sender divides it by its own time, which
/// ends before the queue is empty.
fn transfer_report(sent: &Report, received: &Report, length: Duration) -> Result<TransferReport> {
    let stream = sent.end.streams.first().ok_or_else(|| anyhow!("iperf3's report has no stream"))?;
    let intervals = || received.intervals.iter().map(|interval| &interval.sum);
    // Intervals last a second and end a little late.
    let counted = || intervals().filter(|sum| sum.end <= length.as_secs_f64() + 0.5);
    Ok(TransferReport {
        algorithm: sent.end.sender_tcp_congestion.clone(),
        received_bytes: counted().map(|sum| sum.bytes).sum(),
        receiver_s: counted().map(|sum| sum.end).fold(0.0, f64::max),
        retrans_pkts: stream.sender.retransmits,
        mss_bytes: sent.start.tcp_mss_default,
    })
}

/// Errors and warnings may stand before and after the report: from iperf3, and from the way to its namespace.
fn read_report(text: &str) -> Result<Report> {
    let report = text.find('{').zip(text.rfind('}')).and_then(|(first, last)| text.get(first..=last));
    let Some(report) = report else { bail!("iperf3 ended without a report: {}", text.trim()) };
    let report: Report = serde_json::from_str(report).context("read iperf3's report")?;
    if let Some(error) = report.error {
        bail!("iperf3 reports: {error}");
    }
    Ok(report)
}

#[cfg(test)]
mod tests {
    use super::*;

    const LENGTH: Duration = Duration::from_secs(2);
    const CLIENT: &str = r#"{"start": {"tcp_mss_default": 1460}, "end": {"sender_tcp_congestion": "reno", "streams": [
        {"sender": {"seconds": 2.0, "bytes": 100, "retransmits": 3}, "receiver": {"seconds": 2.0, "bytes": 99}}]}}"#;

    /// It was divided by the sender's 2 s, and more than the line's rate came out.
    #[test]
    fn what_is_received_after_the_length_does_not_count() {
        let server = r#"{"intervals": [{"sum": {"end": 1.001, "bytes": 40}}, {"sum": {"end": 2.003, "bytes": 50}},
            {"sum": {"end": 2.6, "bytes": 9}}]}"#;
        let of = |client, server| read_reports(client, server, LENGTH);
        let report = of(CLIENT, server).unwrap();
        assert_eq!((report.received_bytes, report.retrans_pkts, report.mss_bytes), (90, 3, 1460));
        assert_eq!((report.algorithm.as_str(), report.receiver_s), ("reno", 2.003));
        let nothing = of(CLIENT, "{}").unwrap();
        assert_eq!((nothing.received_bytes, nothing.receiver_s), (0, 0.0));
        assert_eq!(of("{}", server).unwrap_err().to_string(), "iperf3's report has no stream");
    }

    #[test]
    fn errors_of_iperf3_are_told() {
        let told = |text: &str| read_report(text).err().unwrap().to_string();
        assert_eq!(told(r#"{"error": "unable to connect"}"#), "iperf3 reports: unable to connect");
        assert_eq!(told("no namespace\n"), "iperf3 ended without a report: no namespace");
        assert_eq!(told("warning: old\n{\"error\": \"busy\"}\n"), "iperf3 reports: busy");
    }
}
