//! Estimates what a run costs this host, how long it takes, and how many runs may be active at once. Pure.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::path::Direction;
use crate::path::rate_trace::RateTrace;
use crate::path::route::{Hop, RoundTrip, shortest_path};
use crate::scenario::{Cell, DatagramSpec, FlowSpec, Sends};

/// Bits per second that emulated links may carry per processor; a flow counts once for every link on its path.
///
/// Two processors carried 1.5 to 2 times this on time (Linux 6.18: 18 runs of DTCP's table 4, 12 of Mehta's table 2,
/// p99 0.2 and 0.9 ms). The rest is a reserve for other work of the host.
const CARRIED_PER_PROCESSOR_BPS: f64 = 80e6;
/// The load of a saturated link, as a share of its rate. Its packets are evenly spaced, so a busy thread sends several
/// at once. A thread never uses more than one processor.
///
/// Two processors carried eight transfers of 50 Mbit/s on time, and two of 500 Mbit/s (Linux 6.18).
const EVEN_SHARE: f64 = 0.4;
/// Up to this rate every packet wakes the thread, so the load is the full rate.
const EVEN_BPS: f64 = 10e6;
/// A shorter queue overflows when a busy host delays its link, so its link counts in full.
const SHORT_QUEUE: Duration = Duration::from_millis(5);
/// The least load of a run: its processes, namespaces and timers.
const LEAST_RUN_BPS: f64 = 1e6;
/// With random loss of probability p, a window stays below this many packets divided by the square root of p.
///
/// Source: M. Mathis et al., "The macroscopic behavior of the TCP congestion avoidance algorithm", 1997, equation 3,
/// with C = 1.22 for Reno; twice that for algorithms that yield less.
const LOSS_CONSTANT: f64 = 2.4;
/// Most bytes in flight of one socket: the largest buffer of the profile `paper`; a new namespace has smaller ones.
const BUFFER_BYTES: f64 = 67_108_864.0;
/// Round trips that a run takes for connecting and closing.
const EXTRA_ROUND_TRIPS: u32 = 8;
/// Time that a run takes for its network and processes.
const EXTRA: Duration = Duration::from_millis(500);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Jobs {
    /// As many runs as this host carries.
    Auto,
    Fixed(u32),
}

/// Limits the runs that are active at the same time.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum RunLimit {
    /// Expected traffic, bits per second over all links.
    Traffic(f64),
    Runs(u32),
}

impl RunLimit {
    pub fn of(jobs: Jobs, processors: u32) -> RunLimit {
        match jobs {
            Jobs::Auto => RunLimit::Traffic(f64::from(processors) * CARRIED_PER_PROCESSOR_BPS),
            Jobs::Fixed(runs) => RunLimit::Runs(runs.max(1)),
        }
    }

    /// Whether one more run of this cost fits beside the active ones; a run alone always fits.
    pub fn allows(&self, running: u32, traffic_bps: f64, cost_bps: f64) -> bool {
        running == 0
            || match self {
                RunLimit::Traffic(most) => traffic_bps + cost_bps <= *most,
                RunLimit::Runs(most) => running < *most,
            }
    }

    /// A quarter more, up to `most`. The limit rises after many on-time runs, so that one disturbance of the host does
    /// not slow down all later runs.
    pub fn raised(&self, most: &RunLimit) -> RunLimit {
        match (self, most) {
            (RunLimit::Traffic(now), RunLimit::Traffic(most)) => RunLimit::Traffic((now * 1.25).min(*most)),
            (RunLimit::Runs(now), RunLimit::Runs(most)) => RunLimit::Runs((now + now.div_ceil(4)).min(*most)),
            _ => *self,
        }
    }

    /// Half of the runs or traffic that were active when a link was late.
    pub fn halved(&self, running: u32, traffic_bps: f64) -> RunLimit {
        match self {
            RunLimit::Traffic(most) => RunLimit::Traffic(most.min(traffic_bps / 2.0)),
            RunLimit::Runs(most) => RunLimit::Runs((*most).min(running / 2).max(1)),
        }
    }
}

/// Expected bits per second of a run, summed over all links. Flows that share a link send no more than its rate.
pub(crate) fn traffic_bps(cell: &Cell) -> f64 {
    sent_bps(cell).iter().map(|(hop, sent)| sent.min(rate_bps(cell, hop))).sum()
}

/// Packets of a run over all links, without acknowledgements.
pub fn packets(cell: &Cell) -> f64 {
    traffic_bps(cell) * cell.duration.as_secs_f64() / 8.0 / f64::from(cell.mtu)
}

/// The load of a run, bits per second: its traffic, reduced on links that cost less.
pub fn load_bps(cell: &Cell) -> f64 {
    let load = |(hop, sent): (&Hop, &f64)| {
        let rate = rate_bps(cell, hop);
        let is_short = || queue_time(cell, hop).is_some_and(|time| time < SHORT_QUEUE);
        let is_even = *sent >= rate && hop.direction(&cell.links).trace.is_none() && !is_short();
        if is_even { rate.min(EVEN_BPS.max(EVEN_SHARE * rate)).min(CARRIED_PER_PROCESSOR_BPS) } else { sent.min(rate) }
    };
    sent_bps(cell).iter().map(load).sum::<f64>().max(LEAST_RUN_BPS)
}

fn rate_bps(cell: &Cell, hop: &Hop) -> f64 {
    hop.direction(&cell.links).rate.map_or(f64::INFINITY, |rate| rate.0 as f64)
}

/// What the flows would send over each link that they use if it had no rate, bits per second.
fn sent_bps(cell: &Cell) -> BTreeMap<Hop, f64> {
    let mut sent = BTreeMap::new();
    for flow in &cell.flows {
        let flow_bps = flow_bps(cell, flow);
        way(cell, flow).into_iter().for_each(|hop| *sent.entry(hop).or_default() += flow_bps);
    }
    sent
}

/// How long a full queue takes to empty at the link's highest rate; `None` without a rate.
pub(crate) fn queue_time(cell: &Cell, hop: &Hop) -> Option<Duration> {
    let rate = hop.direction(&cell.links).fastest_rate()?;
    let bytes = cell.links[hop.link].config(cell.mtu).queue_limits().ok()?[hop.side].bytes(cell.mtu);
    Some(Duration::from_secs_f64(8.0 * bytes as f64 / rate.0 as f64))
}

fn way(cell: &Cell, flow: &FlowSpec) -> Vec<Hop> {
    shortest_path(&cell.links, &flow.from, &flow.to).unwrap_or_default()
}

/// The lowest rate on a flow's path; infinite if no link has one.
fn way_bps(cell: &Cell, flow: &FlowSpec) -> f64 {
    let way = way(cell, flow);
    let rates = way.iter().filter_map(|hop| hop.direction(&cell.links).rate);
    rates.map(|rate| rate.0 as f64).fold(f64::INFINITY, f64::min)
}

/// Rate of an endless flow, one window per round trip; `None` if a link on its path has a rate.
pub(crate) fn window_bps(cell: &Cell, flow: &FlowSpec) -> Option<f64> {
    way_bps(cell, flow).is_infinite().then(|| flow_bps(cell, flow))
}

/// What a flow sends over each link of its path.
fn flow_bps(cell: &Cell, flow: &FlowSpec) -> f64 {
    let way = way(cell, flow);
    let rate = way_bps(cell, flow);
    match &flow.sends {
        Sends::Datagrams(DatagramSpec { rate: own, .. }) => return rate.min(own.0 as f64),
        Sends::Transfers { size, count, interval } | Sends::Messages { size, count, interval } if *count > 1 => {
            return rate.min(8.0 * size.0 as f64 / interval.as_secs_f64().max(1e-3));
        }
        Sends::Load(load) => {
            if let Some(load_bps) = load.mean_bps(flow.starting(cell.duration)) {
                return rate.min(load_bps);
            }
        }
        _ => {}
    }
    let passing: f64 = way.iter().map(|hop| 1.0 - hop.direction(&cell.links).loss.long_run().0).product();
    let by_loss = LOSS_CONSTANT / (1.0 - passing).sqrt();
    let by_buffer = BUFFER_BYTES / f64::from(cell.mtu);
    let window = flow.window_cap.map_or(by_buffer, f64::from).min(by_loss).min(by_buffer);
    let per_window = 8.0 * f64::from(cell.mtu) / round_trip(cell, flow).as_secs_f64().max(1e-4);
    rate.min(window * per_window)
}

pub(crate) fn round_trip(cell: &Cell, flow: &FlowSpec) -> Duration {
    let way = RoundTrip::between(&cell.links, &flow.from, &flow.to);
    way.map_or(Duration::ZERO, |way| way.directions(&cell.links).map(|direction| direction.delay).sum())
}

/// The longest time by which a flow's empty path may delay a packet behind the one before it: delay, jitter,
/// reordering, and the longest outages of its links.
pub(crate) fn hold_up(cell: &Cell, flow: &FlowSpec) -> Duration {
    let way = way(cell, flow);
    let on_link = |hop: &Hop| {
        let direction = hop.direction(&cell.links);
        let outage = direction.trace.as_ref().map_or(Duration::ZERO, RateTrace::longest_gap);
        direction.spread() + direction.held_up() + outage
    };
    round_trip(cell, flow) + way.iter().map(on_link).sum::<Duration>()
}

pub(crate) fn longest_round_trip(cell: &Cell) -> Duration {
    cell.flows.iter().map(|flow| round_trip(cell, flow)).max().unwrap_or_default()
}

/// Time to measure one empty path once, besides round trips: probes, loss, and rate.
const CALIBRATION: Duration = Duration::from_secs(4);

pub(crate) fn calibration_time(cell: &Cell) -> Duration {
    CALIBRATION + longest_round_trip(cell) * EXTRA_ROUND_TRIPS
}

pub(crate) fn run_time(cell: &Cell) -> Duration {
    let last = cell.flows.iter().map(|flow| end(cell, flow)).max().unwrap_or(cell.duration);
    last.min(cell.duration) + longest_round_trip(cell) * EXTRA_ROUND_TRIPS + EXTRA
}

/// When a flow is expected to end. A scenario's duration usually gives a single transfer far more time than it takes.
/// The estimate assumes that every flow gets the same share of the path.
fn end(cell: &Cell, flow: &FlowSpec) -> Duration {
    let Some(way) = RoundTrip::between(&cell.links, &flow.from, &flow.to) else { return cell.duration };
    let is_even = |direction: &Direction| {
        direction.loss.long_run().0 == 0.0 && direction.changes.is_empty() && direction.trace.is_none()
    };
    match flow.sends {
        Sends::Transfers { size, count: 1, .. } if way.directions(&cell.links).all(is_even) => {
            let bits = 8.0 * size.0 as f64 * cell.flows.len() as f64;
            let sending = Duration::try_from_secs_f64(bits / flow_bps(cell, flow)).unwrap_or(cell.duration);
            flow.start.saturating_add(sending)
        }
        _ => cell.duration,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scenario::tests::{RENO, cell, flow, link, scenario};

    #[test]
    fn one_run_starts_whatever_it_costs_and_more_as_they_fit() {
        let limit = RunLimit::of(Jobs::Auto, 2);
        for (limit, running, traffic_bps, cost_bps, allows) in [
            (limit, 0, 0.0, 1e12, true),
            (limit, 1, 50e6, 60e6, true),
            (limit, 1, 101e6, 60e6, false),
            (RunLimit::Runs(3), 3, 0.0, 0.0, false),
        ] {
            assert_eq!(limit.allows(running, traffic_bps, cost_bps), allows, "{limit:?} {running} {traffic_bps}");
        }
    }

    #[test]
    fn lateness_halves_the_active_runs_and_never_ends_at_none() {
        assert_eq!(RunLimit::Runs(12).halved(8, 0.0), RunLimit::Runs(4));
        assert_eq!(RunLimit::Runs(1).halved(1, 0.0), RunLimit::Runs(1));
        assert_eq!(RunLimit::Traffic(100e6).halved(3, 60e6), RunLimit::Traffic(30e6));
        assert_eq!(RunLimit::Runs(1).raised(&RunLimit::Runs(12)), RunLimit::Runs(2));
        assert_eq!(RunLimit::Runs(11).raised(&RunLimit::Runs(12)), RunLimit::Runs(12));
        assert_eq!(RunLimit::Traffic(30e6).raised(&RunLimit::Traffic(100e6)), RunLimit::Traffic(37.5e6));
    }

    #[test]
    fn saturated_link_counts_less_unless_its_queue_is_short() {
        for (rate, queue, load) in [
            ("50mbit", "100pkts", 20e6),
            ("50mbit", "10pkts", 50e6),
            ("5mbit", "100pkts", 5e6),
            ("500mbit", "1000pkts", 80e6), // two on two processors
        ] {
            let link = link(["a", "b"], &format!("rate=\"{rate}\"\ndelay=\"10ms\"\nqueue=\"{queue}\""));
            assert_eq!(load_bps(&cell(&(link + &flow("f", ["a", "b"], RENO)))), load, "{rate} {queue}");
        }
    }

    /// Without this limit the forecast was six days, and the size of the guest's memory overflowed.
    #[test]
    fn flow_that_no_link_limits_is_limited_by_its_buffers() {
        let sent = traffic_bps(&cell(&(link(["a", "b"], "delay=\"10ms\"") + &flow("f", ["a", "b"], RENO))));
        assert!((sent / (8.0 * 67_108_864.0 / 20e-3) - 1.0).abs() < 1e-9, "{sent}");
    }

    /// The forecast was once the duration: an hour for twenty minutes.
    #[test]
    fn transfer_takes_as_long_as_its_bytes_and_no_longer_than_the_duration() {
        for (size, loss, seconds) in [("10MB", "0", 10), ("1GB", "0", 300), ("10MB", "1%", 300)] {
            let link = link(["a", "b"], &format!("rate=\"8mbit\"\ndelay=\"10ms\"\nloss=\"{loss}\""));
            let flow = flow("f", ["a", "b"], &format!("{RENO}\nsize=\"{size}\""));
            assert_eq!(run_time(&scenario(300, &(link + &flow)).cells[0]).as_secs(), seconds, "{size} {loss}");
        }
    }

    #[test]
    fn flows_that_share_a_link_cost_what_it_carries() {
        let narrow = |ends: [&str; 2], rate: &str| link(ends, &format!("rate=\"{rate}\"\ndelay=\"10ms\""));
        let path = narrow(["a", "b"], "50mbit") + &narrow(["b", "c"], "20mbit");
        for (froms, cost) in [
            (&["a"][..], 40e6), // 20 Mbit/s over two links
            (&["b", "b"], 20e6),
            (&["a", "a", "a"], 50e6 + 20e6),
        ] {
            let flows = froms.iter().enumerate().map(|(number, from)| flow(&format!("f{number}"), [from, "c"], RENO));
            assert_eq!(traffic_bps(&cell(&(path.clone() + &flows.collect::<String>()))), cost, "{froms:?}");
        }
    }
}
