//! A bulk flow: iperf3 at both ends, until the flow's time is over.

use std::sync::atomic::AtomicBool;
use std::time::Instant;

use anyhow::{Context, Result, anyhow, bail};
use serde::Deserialize;

use super::child::Task;
use super::{Bed, Ends, Process, TCP_LISTENING, await_listening, slack};

/// One bulk flow as it is sent: its processes.
#[derive(Debug)]
pub struct Transfer {
    server: Process,
    client: Option<Process>,
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

impl Transfer {
    /// Starts the server of a flow and returns when it listens.
    ///
    /// Errors: iperf3 cannot be started or does not listen in time.
    /// Side effects: a process that ends with the returned value.
    pub fn listen(ends: &Ends<'_>, bed: Bed<'_>) -> Result<Transfer> {
        let (port, address) = (ends.server_port().to_string(), ends.to.address.to_string());
        let task = iperf3(&["-s", "-1", "-4", "-J", "--forceflush", "-p", &port, "-B", &address]);
        let mut server = Process::start(ends.to, bed, &task, &format!("flow-{}.server.json", ends.index))?;
        await_listening(&mut server, ends, &TCP_LISTENING, bed.stop)?;
        Ok(Transfer { server, client: None, deadline: Instant::now() })
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
        let report = parse_report(&client.said()?)?;
        self.server.wait(self.deadline, stop)?;
        if report.algorithm != algorithm {
            bail!("iperf3 ran \"{}\" where \"{algorithm}\" was asked", report.algorithm);
        }
        Ok(report)
    }
}

fn iperf3(arguments: &[&str]) -> Task {
    let arguments = arguments.iter().map(|one| (*one).to_owned()).collect();
    Task::Become { program: "iperf3".to_owned(), arguments }
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

/// Errors and warnings may stand before and after the report: from iperf3, and from the way to its namespace.
fn parse_report(text: &str) -> Result<TransferReport> {
    let report = text.find('{').zip(text.rfind('}')).and_then(|(first, last)| text.get(first..=last));
    let Some(report) = report else { bail!("iperf3 ended without a report: {}", text.trim()) };
    let report: Report = serde_json::from_str(report).context("read iperf3's report")?;
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
        assert_eq!(told("no namespace\n"), "iperf3 ended without a report: no namespace");
        assert_eq!(told("warning: old\n{\"error\": \"busy\"}\n"), "iperf3 reports: busy");
        assert_eq!(told("{}"), "iperf3's report has no stream");
    }
}
