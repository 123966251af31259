//! Flows of our own processes: the task of each end, and one report from the output of both.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Result, anyhow, bail};

use super::child::{Told, TrafficTask};
use super::ends::FlowEnds;
use super::messages::Requests;
use super::report::{Datagrams, TrafficReport, TransferReport, Transferred};
use super::socket::Sending;
use super::stream::StreamSent;
use crate::load::Schedule;
use crate::scenario::Sends;
use crate::scenario::pattern::Pattern;
use shared::model::run::Frames;
use shared::units::Bytes;

/// A path counts as empty when nothing has arrived for this long plus the path's longest hold-up. No queue or delay of
/// a scenario holds up a packet longer behind the one before it.
pub(crate) const QUIET: Duration = Duration::from_millis(300);

pub fn receiver(ends: &FlowEnds<'_>) -> TrafficTask {
    let at = ends.server_address();
    match ends.flow.sends {
        Sends::Datagrams(spec) => {
            let (pattern, settle) = (Pattern::of(&spec), QUIET + ends.hold_up);
            TrafficTask::ReceiveDatagrams { at, pattern, length: ends.length, settle }
        }
        Sends::Messages { size, count, interval } => {
            let requests = ends.flow.request.map(|size| Requests { size, count, interval });
            TrafficTask::ReceiveMessages { at, size, requests }
        }
        Sends::Transfers { .. } | Sends::Load(_) => TrafficTask::ReceiveTransfers { at, request: ends.flow.request },
        Sends::Bulk => TrafficTask::ReceiveStream { at, length: ends.length },
    }
}

/// `transfers` is a file with those of the flow.
pub fn sender(ends: &FlowEnds<'_>, algorithm: &str, transfers: PathBuf) -> TrafficTask {
    let (from, to, length) = (ends.sender_address(), ends.server_address(), ends.length);
    let sending = |size: Bytes, count: u32, interval: Duration| {
        let algorithm = algorithm.to_owned();
        let count = Schedule::of(ends.bursts).started(count, interval, length);
        Sending { from, to, algorithm, size, count, interval, request: ends.flow.request, bursts: ends.bursts, length }
    };
    match ends.flow.sends {
        Sends::Transfers { .. } | Sends::Load(_) => {
            TrafficTask::SendTransfers { sending: sending(Bytes(0), 0, Duration::ZERO), transfers }
        }
        Sends::Messages { size, count, interval } => TrafficTask::SendMessages(sending(size, count, interval)),
        Sends::Datagrams(spec) => {
            let (pattern, bursts) = (Pattern::of(&spec), ends.bursts);
            TrafficTask::SendDatagrams { from, to, pattern, bursts, length }
        }
        Sends::Bulk => TrafficTask::SendStream(sending(Bytes(u64::MAX), 1, Duration::ZERO)),
    }
}

/// Combines what the sender and the receiver printed.
///
/// # Errors
/// An end printed no report; a connection ended before its time.
pub fn report(outputs: &[String; 2], ends: &FlowEnds<'_>) -> Result<TrafficReport> {
    let name = &ends.flow.name;
    let read = |text: &String| serde_json::from_str(text).map_err(|_| anyhow!("flow \"{name}\" says: {}", text.trim()));
    let size = match ends.flow.sends {
        Sends::Messages { size, .. } => size.0,
        _ => 0,
    };
    let size_at = |port: u16| {
        let planned = ends.transfers.as_ref().and_then(|all| all.get(usize::from(port - ends.sender_port)));
        planned.map_or(0, |planned| planned.bytes)
    };
    Ok(match (read(&outputs[0])?, read(&outputs[1])?) {
        (Told::Begun(begun), Told::Arrived(arrived)) => {
            let one = |(port, begun_ns)| {
                let arrived = arrived.get(&port).copied().unwrap_or_default();
                let times = [begun_ns, arrived.requested_ns.unwrap_or(begun_ns)];
                transferred([port, ends.server_port()], times, arrived.bytes, arrived.last_ns, size_at(port))
            };
            TrafficReport::Transfers(begun.at_ns.into_iter().map(one).collect())
        }
        (Told::MessagesBegun(begun), Told::MessagesArrived(arrived)) => {
            let one = |(number, times)| {
                let (bytes, last_ns) = arrived.of(number, size);
                transferred([ends.sender_port, ends.server_port()], times, bytes, last_ns, size)
            };
            let times = begun.times(ends.flow.request.map(|_| &arrived.requested_ns[..]));
            TrafficReport::Transfers(times.into_iter().enumerate().map(one).collect())
        }
        (Told::StreamSent(StreamSent { error: Some(why), .. }), _) => {
            bail!("the connection ended before its time: {why}")
        }
        (Told::StreamSent(sent), Told::StreamReceived(received)) => TrafficReport::Bulk(TransferReport {
            received_bytes: received.bytes,
            receiver_s: ends.length.as_secs_f64(),
            begun_ns: Some(sent.begun_ns),
        }),
        (Told::Sent(sent), Told::Counted(counted)) => TrafficReport::Datagrams(Datagrams {
            latest: sent.latest,
            lost_pkts: sent.packets.saturating_sub(counted.arrived_ever),
            received_pkts: counted.packets,
            received_bytes: counted.bytes,
            active_s: counted.last_ns.saturating_sub(counted.first_ns) as f64 / 1e9,
            delay_us: counted.delay_us,
            frames: counted.in_time.map(|in_time| Frames { sent: sent.frames, in_time }),
        }),
        _ => bail!("the two ends of flow \"{name}\" sent different kinds of report"),
    })
}

/// `last_ns` counts only if any byte arrived.
fn transferred(
    [port, to_port]: [u16; 2],
    [opened_ns, begun_ns]: [u64; 2],
    received_bytes: u64,
    last_ns: u64,
    size: u64,
) -> Transferred {
    let last_ns = (received_bytes > 0).then_some(last_ns);
    let done_ns = last_ns.filter(|_| received_bytes >= size);
    Transferred { port, to_port, opened_ns, begun_ns, last_ns, done_ns, received_bytes, bytes: size }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn transfer_is_done_when_all_of_it_arrived() {
        let of = |bytes| transferred([7, 8], [100; 2], bytes, 900, 1000);
        assert_eq!([of(1000), of(999), of(0)].map(|one| one.done_ns), [Some(900), None, None]);
        assert_eq!([of(999), of(0)].map(|one| one.last_ns), [Some(900), None]);
    }
}
