//! A bulk flow: iperf3 at both ends, until the flow's time is over.

use std::io;
use std::process::{Command, Stdio};
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, bail, ensure};
use serde::Deserialize;

use super::child::Task;
use super::ends::{Bed, Ends, slack};
use super::process::{NodeProcess, TCP_LISTENING};
use super::report::TransferReport;
use crate::failure::Failure;

/// One bulk flow as it is sent: its processes.
#[derive(Debug)]
pub struct Transfer {
    server: NodeProcess,
    client: Option<NodeProcess>,
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
        let mut server = NodeProcess::start(ends.to, bed, &task, &format!("flow-{}.server.json", ends.index))?;
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
        self.client = Some(NodeProcess::start(ends.from, bed, &task, &format!("flow-{}.json", ends.index))?);
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
        read_reports([&sent, &self.server.said()?], algorithm, self.length)
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
struct Iperf3Report {
    error: Option<String>,
    #[serde(default)]
    intervals: Vec<Interval>,
    #[serde(default)]
    end: End,
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
    sender_tcp_congestion: String,
}

/// Reads what iperf3 printed at the sender and at the receiver of a flow of this length. Of what was received the
/// receiver's own intervals count: the sender divides it by its own time, which ends before the queue is empty.
///
/// Errors: iperf3 reports an error, or printed no report of its form; it ran another algorithm.
pub fn read_reports([sender, receiver]: [&str; 2], algorithm: &str, length: Duration) -> Result<TransferReport> {
    let (sent, received) = (read_report(sender)?, read_report(receiver).context("at the receiver")?);
    let ran = sent.end.sender_tcp_congestion;
    ensure!(ran == algorithm, "iperf3 ran \"{ran}\" where \"{algorithm}\" was asked");
    // Intervals last a second and end a little late.
    let counted = received.intervals.iter().map(|interval| &interval.sum);
    let counted = counted.filter(|sum| sum.end <= length.as_secs_f64() + 0.5);
    let (received_bytes, receiver_s) =
        counted.fold((0, 0.0), |(bytes, end), sum| (bytes + sum.bytes, f64::max(end, sum.end)));
    Ok(TransferReport { received_bytes, receiver_s, begun_ns: None })
}

/// Errors and warnings may stand before and after the report: from iperf3, and from the way to its namespace.
fn read_report(text: &str) -> Result<Iperf3Report> {
    let report = text.find('{').zip(text.rfind('}')).and_then(|(first, last)| text.get(first..=last));
    let Some(report) = report else { bail!("iperf3 ended without a report: {}", text.trim()) };
    let report: Iperf3Report = serde_json::from_str(report).context("read iperf3's report")?;
    if let Some(error) = report.error {
        bail!("iperf3 reports: {error}");
    }
    Ok(report)
}

#[cfg(test)]
mod tests {
    use super::*;

    const LENGTH: Duration = Duration::from_secs(2);
    const CLIENT: &str = r#"{"end": {"sender_tcp_congestion": "reno"}}"#;

    /// It was divided by the sender's 2 s, and more than the line's rate came out.
    #[test]
    fn what_is_received_after_the_length_does_not_count() {
        let server = r#"{"intervals": [{"sum": {"end": 1.001, "bytes": 40}}, {"sum": {"end": 2.003, "bytes": 50}},
            {"sum": {"end": 2.6, "bytes": 9}}]}"#;
        let of = |client, server| read_reports([client, server], "reno", LENGTH);
        let report = of(CLIENT, server).unwrap();
        assert_eq!((report.received_bytes, report.receiver_s, report.begun_ns), (90, 2.003, None));
        let nothing = of(CLIENT, "{}").unwrap();
        assert_eq!((nothing.received_bytes, nothing.receiver_s), (0, 0.0));
        assert_eq!(of("{}", server).unwrap_err().to_string(), "iperf3 ran \"\" where \"reno\" was asked");
    }

    #[test]
    fn errors_of_iperf3_are_told() {
        let told = |text: &str| read_report(text).err().unwrap().to_string();
        assert_eq!(told(r#"{"error": "unable to connect"}"#), "iperf3 reports: unable to connect");
        assert_eq!(told("no namespace\n"), "iperf3 ended without a report: no namespace");
        assert_eq!(told("warning: old\n{\"error\": \"busy\"}\n"), "iperf3 reports: busy");
    }
}
