//! Checks whether the emulated links and the senders were on time. Pure.

use std::time::Duration;

use crate::cost::{longest_round_trip, queue_time};
use crate::path::route::Hop;
use crate::scenario::Cell;
use crate::traffic::ends::FlowEnds;
use crate::traffic::report::TrafficReport;
use shared::model::run::{LinkCounters, LinkMoments, LinkRecord, STALL_MIN_NS, Stall};
use shared::units::nanos;

/// A link is late if 1 % of its packets are later than this, or than [`LATE_SHARE`] if that is more.
const LATE: Duration = Duration::from_millis(1);
/// Share of the round-trip time.
const LATE_SHARE: f64 = 0.02;
/// A link is also late if it delays one packet by more than this: the sender's timer may expire, and its window
/// collapse, although the path lost nothing.
///
/// Source: the kernel's TCP_RTO_MIN, which it adds to the round-trip time; a shorter stall expires no timer.
const STALL: Duration = Duration::from_millis(200);
/// The same for a sender of datagrams: delayed datagrams leave at once and overfill queues.
const SENDER_STALL: Duration = Duration::from_millis(50);
/// A stall releases a burst of packets, directly or by late acknowledgements. The burst has passed every queue of the
/// path after this many of the longest round trips, including a full queue; that queue then spreads the burst.
const WAKE_ROUND_TRIPS: u32 = 2;

/// Why the links were late; `None` if they were on time.
pub fn lateness(cell: &Cell, links: &[LinkRecord]) -> Option<String> {
    let limit_us = (LATE.as_secs_f64().max(longest_round_trip(cell).as_secs_f64() * LATE_SHARE)) * 1e6;
    let all = || links.iter().flat_map(|link| link.counters.iter().map(move |counters| (&link.name, counters)));
    let late = |counters: &LinkCounters| counters.lateness_us.map_or(0.0, |lateness| lateness.p99);
    if let Some((name, counters)) = all().find(|(_, counters)| counters.failed_pkts > 0) {
        return Some(format!("the link {name} could not carry {} packets", counters.failed_pkts));
    }
    if let Some((name, dropped)) = drops_without_a_queue(cell, links) {
        return Some(format!("the link {name} has no rate, and dropped {dropped} packets"));
    }
    if let Some((name, counters)) = all().find(|(_, counters)| late(counters) > limit_us) {
        let p99 = late(counters);
        return Some(format!("the link {name} was late: p99 {p99:.0} us, allowed {limit_us:.0} us"));
    }
    let stall_us = all().filter_map(|(_, counters)| counters.lateness_us).map(|one| one.max).fold(0.0, f64::max);
    if stall_us > STALL.as_secs_f64() * 1e6 {
        let (stall, most) = (stall_us / 1e3, STALL.as_millis());
        return Some(format!("a link stalled for {stall:.1} ms, allowed {most} ms: a retransmission timer may expire"));
    }
    overflow_by_stall(cell, links, stall_us)
}

/// A link without a rate, and how many packets this host dropped there. The path never drops packets on a link without
/// a rate if another link has one.
fn drops_without_a_queue<'a>(cell: &Cell, links: &'a [LinkRecord]) -> Option<(&'a str, u64)> {
    let has_rate = |link: usize, side: usize| {
        let direction = Hop { link, side }.direction(&cell.links);
        direction.rate.is_some() || direction.changes.iter().any(|change| change.rate.is_some())
    };
    let hops = || links.iter().enumerate().flat_map(|(number, link)| [0, 1].map(|side| (number, side, link)));
    let dropped = |(number, side, link): (usize, usize, &'a LinkRecord)| {
        let dropped = link.counters[side].overflow_pkts;
        (dropped > 0 && !has_rate(number, side)).then_some((link.name.as_str(), dropped))
    };
    if hops().any(|(number, side, _)| has_rate(number, side)) { hops().find_map(dropped) } else { None }
}

/// Why the senders were late; `None` if they were on time.
pub fn sender_lateness(ends: &[FlowEnds<'_>], reports: &[TrafficReport]) -> Option<String> {
    ends.iter().zip(reports).find_map(|(ends, report)| {
        let TrafficReport::Datagrams(datagrams) = report else { return None };
        let (name, latest, most) = (&ends.flow.name, datagrams.latest, SENDER_STALL.as_millis());
        let stall_ms = latest.as_secs_f64() * 1e3;
        let stalled = || format!("the sender of flow \"{name}\" stalled for {stall_ms:.1} ms, allowed {most} ms");
        (latest > SENDER_STALL).then(stalled)
    })
}

/// Reports drops that a stall may have caused: after a stall that is longer than a queue lasts, the released burst may
/// overflow that queue.
///
/// Drops long after every such stall are the path's own. Any stall counts if the moments were not recorded.
fn overflow_by_stall(cell: &Cell, links: &[LinkRecord], stall_us: f64) -> Option<String> {
    for (number, (_, link)) in cell.links.iter().zip(links).enumerate() {
        for (side, counters) in link.counters.iter().enumerate() {
            let Some(drained) = queue_time(cell, &Hop { link: number, side }) else { continue };
            let drained_us = drained.as_secs_f64() * 1e6;
            if counters.overflow_pkts == 0 || stall_us <= drained_us {
                continue;
            }
            let wake = WAKE_ROUND_TRIPS * (longest_round_trip(cell) + drained);
            if follows_a_stall(counters.moments.as_ref(), links, [drained, wake]) != Some(false) {
                let (name, dropped) = (&link.name, counters.overflow_pkts);
                let stall = format!("a link stalled for {:.1} ms", stall_us / 1e3);
                let queue = format!("the queue of {name} lasts {:.1} ms", drained_us / 1e3);
                return Some(format!("{stall}, {queue}, and it dropped {dropped} packets"));
            }
        }
    }
    None
}

/// Whether a queue was full during a stall that is longer than the queue lasts, or in its wake.
///
/// `None` if the moments were not recorded, or if the queue is too short for the shortest recorded stall.
fn follows_a_stall(queue: Option<&LinkMoments>, links: &[LinkRecord], [drained, wake]: [Duration; 2]) -> Option<bool> {
    if drained.as_nanos() < u128::from(STALL_MIN_NS) {
        return None;
    }
    let mut stalls: Vec<Stall> = Vec::new();
    for counters in links.iter().flat_map(|link| &link.counters) {
        let of_link = &counters.moments.as_ref()?.stalls;
        stalls.extend(of_link.iter().filter(|stall| u128::from(stall.length_ns) > drained.as_nanos()));
    }
    let overflows_ns = &queue?.overflows_ns;
    Some(stalls.iter().any(|stall| {
        let from = overflows_ns.partition_point(|at| *at < stall.end_ns.saturating_sub(stall.length_ns));
        overflows_ns.get(from).is_some_and(|at| *at <= stall.end_ns.saturating_add(nanos(wake)))
    }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scenario::tests::{self, RENO, flow, link};
    use shared::model::run::Lateness;

    const MS: u64 = 1_000_000;

    /// One link of 8 Mbit/s with a queue of 50 packets of 1500 bytes: 75 ms.
    fn cell() -> Cell {
        let link = link(["a", "b"], "rate=\"8mbit\"\ndelay=\"10ms\"\nqueue=\"50pkts\"");
        tests::cell(&(link + &flow("f", ["a", "b"], RENO)))
    }

    fn record(failed_pkts: u64, overflow_pkts: u64, [p99, max]: [f64; 2]) -> LinkRecord {
        let lateness_us = Some(Lateness { p50: 1.0, p99, p999: p99, max });
        let counters = LinkCounters {
            received_pkts: 1000,
            sent_pkts: 1000,
            overflow_pkts,
            failed_pkts,
            max_queue_pkts: Some(50),
            lateness_us,
            ..LinkCounters::default()
        };
        LinkRecord {
            name: "a-b".into(),
            driver: "x".into(),
            host_delay_us: None,
            counters: [counters.clone(), counters],
        }
    }

    #[test]
    fn link_in_time_is_kept_and_a_late_one_is_not() {
        for (failed_pkts, overflow_pkts, lateness_us, expected) in [
            (0, 0, [100.0, 200_000.0], None),
            (0, 0, [100.0, 200_001.0], Some("stalled for 200.0 ms, allowed 200 ms")),
            (0, 9, [999.0, 70_000.0], None), // the queue lasts longer than the stall
            (1, 0, [1.0, 1.0], Some("could not carry 1 packets")),
            (0, 0, [1001.0, 2000.0], Some("p99 1001 us, allowed 1000 us")),
            (0, 9, [100.0, 80_000.0], Some("stalled for 80.0 ms, the queue of a-b lasts 75.0 ms")),
        ] {
            let why = lateness(&cell(), &[record(failed_pkts, overflow_pkts, lateness_us)]);
            let is_expected = expected.map_or(why.is_none(), |part| why.as_ref().is_some_and(|why| why.contains(part)));
            assert!(is_expected, "{why:?} for {expected:?}");
        }
    }

    #[test]
    fn link_without_a_rate_drops_nothing_beside_one_that_has_one() {
        let access = link(["b", "c"], "");
        let one = tests::cell(&(link(["a", "b"], "rate=\"8mbit\"") + &access + &flow("f", ["a", "c"], RENO)));
        let why = |cell, dropped| lateness(cell, &[record(0, 0, [1.0, 1.0]), record(0, dropped, [1.0, 1.0])]);
        assert_eq!(why(&one, 0), None);
        assert!(why(&one, 3).unwrap().contains("has no rate, and dropped 3 packets"));
        let open = tests::cell(&(link(["a", "b"], "") + &access + &flow("f", ["a", "c"], RENO)));
        assert_eq!(why(&open, 3), None, "without any rate, this is the path's only queue");
    }

    /// `stalls` are end and length, `overflows` are moments of a full queue; milliseconds.
    fn why_by_moments(stalls: &[[u64; 2]], overflows: &[u64]) -> Option<String> {
        let longest_us = stalls.iter().map(|stall| stall[1]).max().unwrap_or(0) as f64 * 1e3;
        let stall = |[end, length]: &[u64; 2]| Stall { end_ns: end * MS, length_ns: length * MS };
        let mut record = record(0, overflows.len() as u64, [100.0, longest_us]);
        record.counters[1].overflow_pkts = 0;
        record.counters[0].moments =
            Some(LinkMoments { stalls: Vec::new(), overflows_ns: overflows.iter().map(|at| at * MS).collect() });
        let stalls = stalls.iter().map(stall).collect();
        record.counters[1].moments = Some(LinkMoments { stalls, overflows_ns: Vec::new() });
        lateness(&cell(), &[record])
    }

    /// Queue of 75 ms, round trip of 20 ms: the wake of a stall is 190 ms.
    #[test]
    fn drops_far_from_every_stall_are_the_paths_own() {
        assert_eq!(why_by_moments(&[[1000, 80]], &[500, 1191, 3000]), None);
        assert!(why_by_moments(&[[1000, 80]], &[500, 1190]).unwrap().contains("dropped 2 packets"), "in its wake");
        assert!(why_by_moments(&[[1000, 80]], &[930]).is_some(), "while it lasts");
        assert_eq!(why_by_moments(&[[1000, 70], [5000, 80]], &[1010]), None, "a stall that the queue outlasts");
        assert!(why_by_moments(&[[1000, 201]], &[]).is_some(), "whatever the queues do, timers may expire");
    }
}
