//! Bulk flows by iperf3: the task of each end, and the report from what both print.

use std::io;
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use serde::Deserialize;

use super::child::TrafficTask;
use super::ends::FlowEnds;
use super::report::{TrafficReport, TransferReport};
use crate::path::route::{Hop, RoundTrip};
use crate::scenario::{BulkSender, Cell, Scenario, Sends};
use shared::failure::Failure;
use shared::units::format_duration;

pub fn receiver(ends: &FlowEnds<'_>) -> TrafficTask {
    let (port, address) = (ends.server_port().to_string(), ends.to.address.to_string());
    iperf3(&["-s", "-1", "-4", "-J", "--forceflush", "-p", &port, "-B", &address])
}

/// Sends for the flow's length in whole seconds.
pub fn sender(ends: &FlowEnds<'_>, algorithm: &str) -> TrafficTask {
    let (server, from) = (ends.to.address.to_string(), ends.from.address.to_string());
    let [port, own_port] = [ends.server_port(), ends.sender_port].map(|port| port.to_string());
    let seconds = ends.length.as_secs().to_string();
    let to = ["-c", &server, "-4", "-J", "-C", algorithm, "-p", &port];
    iperf3(&[&to[..], &["-B", &from, "--cport", &own_port, "-t", &seconds]].concat())
}

/// Refuses a flow that iperf3 could not end, because its path is down for good before it could
/// exchange its results.
///
/// # Errors
/// The first of these flows, with its place.
pub fn check<'a>(scenario: &Scenario, cells: impl IntoIterator<Item = &'a Cell>) -> Result<()> {
    let cells = cells.into_iter().filter(|cell| has_outage(cell));
    for (cell, flow) in cells.flat_map(|cell| cell.flows.iter().map(move |flow| (cell, flow))) {
        if !matches!(flow.sends, Sends::Bulk) || flow.sender != BulkSender::Iperf3 {
            continue;
        }
        let Some(way) = RoundTrip::between(&cell.links, &flow.from, &flow.to) else { continue };
        let end = flow.start + flow.length(cell.duration);
        // After its last data, iperf3 still exchanges results over the path.
        let over = end + way.directions(&cell.links).map(|direction| direction.delays()[1]).sum::<Duration>();
        let is_down = |hop: &&Hop| hop.direction(&cell.links).down_for_good().is_some_and(|since| since <= over);
        let Some(hop) = way.there.iter().chain(&way.back).find(is_down) else { continue };
        let since = hop.direction(&cell.links).down_for_good().unwrap_or_default();
        let (link, since) = (cell.links[hop.link].name(), format_duration(since));
        let what = format!("iperf3 cannot end this flow, because link {link} stays down from {since} on");
        let hint = "`sender = \"tccc\"` counts what arrives by the end of the flow";
        return Err(scenario.mistake_in_flow(cell, flow, "sender", Failure::usage(what).hint(hint)).into());
    }
    Ok(())
}

fn has_outage(cell: &Cell) -> bool {
    cell.links.iter().flat_map(|link| &link.directions).any(|direction| direction.down_for_good().is_some())
}

fn iperf3(arguments: &[&str]) -> TrafficTask {
    let arguments = arguments.iter().map(|one| (*one).to_owned()).collect();
    TrafficTask::Become { program: "iperf3".to_owned(), arguments }
}

/// The version of iperf3 on this host, such as `3.12`.
///
/// # Errors
/// Iperf3 is not installed.
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
pub struct Iperf3Report {
    error: Option<String>,
    #[serde(default)]
    intervals: Vec<Interval>,
    #[serde(default)]
    end: Iperf3End,
}

#[derive(Deserialize)]
struct Interval {
    sum: Sum,
}

#[derive(Deserialize)]
struct Sum {
    /// Seconds from the start of the test.
    end: f64,
    bytes: u64,
}

#[derive(Default, Deserialize)]
struct Iperf3End {
    #[serde(default)]
    sender_tcp_congestion: String,
}

/// Combines what iperf3 printed at the sender and at the receiver of a flow of this length.
///
/// Received bytes come from the receiver's own intervals. The sender divides them by its own time, which ends before
/// the queue is empty.
///
/// # Errors
/// Iperf3 reports an error or prints no report; it ran another algorithm.
pub fn report([sender, receiver]: &[String; 2], algorithm: &str, length: Duration) -> Result<TrafficReport> {
    let (sent, received) = (read_report(sender)?, read_report(receiver).context("at the receiver")?);
    let ran = sent.end.sender_tcp_congestion;
    ensure!(ran == algorithm, "iperf3 ran \"{ran}\" where \"{algorithm}\" was requested");
    // Intervals last a second and end a little late.
    let counted = received.intervals.iter().map(|interval| &interval.sum);
    let counted = counted.filter(|sum| sum.end <= length.as_secs_f64() + 0.5);
    let (received_bytes, receiver_s) =
        counted.fold((0, 0.0), |(bytes, end), sum| (bytes + sum.bytes, f64::max(end, sum.end)));
    Ok(TrafficReport::Bulk(TransferReport { received_bytes, receiver_s, begun_ns: None }))
}

/// Reads iperf3's report. Warnings of iperf3 and of the namespace's setup may come before and after it.
pub(super) fn read_report(text: &str) -> Result<Iperf3Report> {
    let report = text.find('{').zip(text.rfind('}')).and_then(|(first, last)| text.get(first..=last));
    let Some(report) = report else { bail!("iperf3 ended without a report: {}", text.trim()) };
    let report: Iperf3Report = serde_json::from_str(report).context("read iperf3's report")?;
    match report.error {
        Some(error) => bail!("iperf3 reports: {error}"),
        None => Ok(report),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scenario::tests::{RENO, flow, link, scenario};

    const CLIENT: &str = r#"{"end": {"sender_tcp_congestion": "reno"}}"#;

    /// Division by the sender's 2 s gave more than the line's rate.
    #[test]
    fn what_is_received_after_the_length_does_not_count() {
        let server = r#"{"intervals": [{"sum": {"end": 1.001, "bytes": 40}}, {"sum": {"end": 2.003, "bytes": 50}},
            {"sum": {"end": 2.6, "bytes": 9}}]}"#;
        let of =
            |client: &str, server: &str| report(&[client, server].map(String::from), "reno", Duration::from_secs(2));
        let bulk = |received_bytes, receiver_s| {
            TrafficReport::Bulk(TransferReport { received_bytes, receiver_s, begun_ns: None })
        };
        assert_eq!(of(CLIENT, server).unwrap(), bulk(90, 2.003));
        assert_eq!(of(CLIENT, "{}").unwrap(), bulk(0, 0.0));
        assert_eq!(of("{}", server).unwrap_err().to_string(), "iperf3 ran \"\" where \"reno\" was requested");
    }

    /// A cut at the end itself was once accepted.
    #[test]
    fn path_that_is_cut_before_the_results_are_exchanged_is_refused() {
        let is_refused = |cut: &str| {
            let link = link(["a", "b"], &format!("delay=\"50ms\"\nchange=[{{at=\"{cut}\",up=false}}]"));
            let scenario = scenario(9, &(link + &flow("f", ["a", "b"], &format!("{RENO}\nduration=\"5s\""))));
            check(&scenario, &scenario.cells).is_err()
        };
        assert_eq!(["5s", "5100ms", "5101ms"].map(is_refused), [true, true, false]);
    }

    #[test]
    fn errors_of_iperf3_are_told() {
        for (text, expected) in [
            (r#"{"error": "unable to connect"}"#, "iperf3 reports: unable to connect"),
            ("no namespace\n", "iperf3 ended without a report: no namespace"),
            ("warning: old\n{\"error\": \"busy\"}\n", "iperf3 reports: busy"),
        ] {
            assert_eq!(read_report(text).err().unwrap().to_string(), expected);
        }
    }
}
