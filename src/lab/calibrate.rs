//! Measures the empty path before an experiment: round-trip time, loss and rate. A measurement outside its tolerance
//! stops the experiment.

mod losses;
mod probe;

use std::time::Duration;

use anyhow::{Context, Result, anyhow};

use crate::emulate::topology::{Node, Topology};
use crate::path::Direction;
use crate::path::discipline::Discipline;
use crate::path::loss::LossModel;
use crate::path::route::{Hop, RoundTrip};
use crate::plan::mix;
use crate::scenario::{Cell, LinkSpec};
use shared::failure::Failure;
use shared::model::run::{At, Calibration, LinkCounters, Quantity};
use shared::units::{BitsPerSec, Share};

use losses::{FLOOD_GROUPS, expected_ratio, share_of_flood};
use probe::{ProbeReceiver, ProbeStream, RTT_PACKET_BYTES, RTT_PROBES};

/// Tolerance of the rate, as a share.
const RATE_TOLERANCE: f64 = 0.02;
/// Most by which the median round-trip time may exceed the requested one: this or the next share, whichever is more.
const RTT_TOLERANCE: Duration = Duration::from_millis(1);
const RTT_TOLERANCE_SHARE: f64 = 0.02;
/// Most by which the median may be below the requested time: a clock's error.
const RTT_TOLERANCE_BELOW: Duration = Duration::from_micros(100);
/// Attempts at a measurement. A busy host or an unlikely sample passes in one of them; a wrong path fails them all.
const ATTEMPTS: u32 = 3;

/// Bytes of the IP packets that measure the loss; small, so that many fit into a second.
const LOSS_PACKET_BYTES: u32 = 100;
/// Shortest interval between two probes of the round-trip time.
const RTT_PROBE_SPACING: Duration = Duration::from_millis(10);
/// A slow link needs the time of this many serialisations between two probes, so that no probe waits for another.
const RTT_PROBE_SERIALISATIONS: u32 = 2;
/// If fewer probes than this are expected in order, held-back probes cannot be told from the others.
const RTT_PROBES_IN_ORDER: f64 = 4.0;
/// Most packets that measure the loss.
const LOSS_PACKETS: u32 = 10_000;
/// Longest time for sending the loss packets.
const LOSS_TIME: Duration = Duration::from_millis(1500);
/// Highest packet rate, per second, so that sending does not occupy the host.
const LOSS_PACKETS_PER_SECOND: f64 = 15_000.0;
/// Share of the path's rate that the loss packets use, so that queues stay empty.
const LOSS_LOAD: f64 = 0.5;
/// Rate of the flood that measures the path's rate, as a share of that rate.
const FLOOD_LOAD: f64 = 1.15;
const FLOOD_TIME: Duration = Duration::from_millis(800);
/// Groups of a flood whose packets arrive in bursts: a long group, after one that does not count.
const BUNCHED_GROUPS: usize = 2;
/// Fewest packets of a flood.
const FLOOD_PACKETS: f64 = 80.0;

/// Measures the path of every pair of nodes that a flow of the cell joins; of equal paths, only the first.
///
/// `seed` is for the links. `at` names the path within the sweep, and is empty if there is only one.
///
/// # Errors
/// A node has no path; sockets cannot be used; no probe came back. A measurement outside its tolerance is a result.
pub fn calibrate(cell: &Cell, topology: &Topology, seed: u64, at: &At) -> Result<Vec<Calibration>> {
    let mut measured = Vec::new();
    for (from, to, way) in distinct_ways(cell)? {
        let path = CalibratedPath { cell, topology, way, from, to, at };
        measured.extend(path.measure(seed).with_context(|| format!("calibrate the path {from}-{to}"))?);
    }
    Ok(measured)
}

/// The ends and the path of each flow; of paths over equal links, only the first.
fn distinct_ways(cell: &Cell) -> Result<Vec<(&str, &str, RoundTrip)>> {
    let mut seen: Vec<Vec<&Direction>> = Vec::new();
    let mut ways = Vec::new();
    for flow in &cell.flows {
        let (from, to) = (flow.from.as_str(), flow.to.as_str());
        let way = RoundTrip::between(&cell.links, from, to);
        let way = way.ok_or_else(|| anyhow!("no links lead from {from} to {to}"))?;
        let is = way.directions(&cell.links).collect();
        if !seen.contains(&is) {
            seen.push(is);
            ways.push((from, to, way));
        }
    }
    Ok(ways)
}

/// A failure that names every measurement outside its tolerance, such as `s-r rate measured 18mbit, requested 20mbit,
/// allowed 19.6mbit to 20.4mbit`; `None` if all are within.
pub fn outside(measured: &[Calibration]) -> Option<Failure> {
    let describe = |one: &Calibration| {
        let text = |value: f64| match one.unit.as_str() {
            "bit/s" => BitsPerSec(value.round() as u64).to_string(),
            "us" => format!("{:.3}ms", value / 1e3),
            _ => Share(value.clamp(0.0, 1.0)).to_string(),
        };
        let [measured, asked, low, high] = [one.measured, one.asked, one.allowed[0], one.allowed[1]].map(text);
        format!("{} measured {measured}, requested {asked}, allowed {low} to {high}", one.quantity)
    };
    let wrong: Vec<String> = measured.iter().filter(|one| !one.within).map(describe).collect();
    (!wrong.is_empty()).then(|| {
        let what = format!("the path does not match the scenario: {}", wrong.join("; "));
        Failure::outside(what).hint("a busy or slow host cannot carry it: stop other work, or lower the rate")
    })
}

/// The measurements expected of a path that matches the scenario.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
struct ExpectedPath {
    /// Delivered rate under overload, bits per second; `None` if no link has a rate.
    rate_bps: Option<f64>,
    /// Round trip of a small packet.
    rtt: Duration,
    /// Most that jitter adds to a round trip.
    jitter: Duration,
    /// Most by which packets of one direction wait for others and arrive in bursts.
    bunched: Duration,
    /// Most that reordering adds to a round trip.
    held_back: Duration,
    /// Share of round trips that reordering does not delay.
    in_order: f64,
    /// Longest serialisation of a small packet on one link.
    serialisation: Duration,
    /// Loss over all links while the rate is measured.
    loss: f64,
    /// Smallest queue of the path, packets of the MTU.
    queue_pkts: u32,
}

fn expected(links: &[LinkSpec], way: &RoundTrip, mtu: u32) -> ExpectedPath {
    let mut rate_bps = f64::INFINITY;
    let mut passing = 1.0;
    let mut queue_pkts = u32::MAX;
    let mut bunched = Duration::ZERO;
    let slowest = way.there.iter().filter_map(|hop| hop.direction(links).rate).min();
    let flood = slowest.map_or(0.0, |rate| flood_packets(rate.0 as f64, mtu)) as u64;
    for hop in &way.there {
        let there = hop.direction(links);
        let loss = share_of_flood(&there.loss, flood);
        passing *= 1.0 - loss;
        bunched += there.bunched_up();
        rate_bps *= 1.0 - loss; // lost packets do not reach the queue
        let own = there.discipline.as_ref().and_then(Discipline::own_rate);
        rate_bps = [there.rate, own].into_iter().flatten().fold(rate_bps, |least, rate| least.min(rate.0 as f64));
        let limits = links[hop.link].config(mtu).queue_limits();
        queue_pkts = queue_pkts.min(limits.map_or(u32::MAX, |limits| limits[hop.side].full_pkts(mtu)));
    }
    let rate_bps = rate_bps.is_finite().then_some(rate_bps);
    let loss = 1.0 - passing;
    let mut expected = ExpectedPath { rate_bps, loss, queue_pkts, bunched, in_order: 1.0, ..Default::default() };
    for direction in way.directions(links) {
        let serialisation = direction.rate.map_or(0.0, |rate| f64::from(8 * RTT_PACKET_BYTES) / rate.0 as f64);
        let serialisation = Duration::from_secs_f64(serialisation);
        expected.rtt += direction.delay + serialisation + direction.mean_spread_at_start() + direction.batched_up() / 2;
        expected.jitter += direction.spread_at_start() + direction.batched_up();
        expected.serialisation = expected.serialisation.max(serialisation);
        if let Some(reorder) = direction.reorder {
            expected.held_back += reorder.by;
            expected.in_order *= 1.0 - reorder.share.0;
        }
    }
    expected
}

impl ExpectedPath {
    /// The time after which a packet counts as lost: the longest delay of the path plus `beyond`.
    fn patience(&self, beyond: Duration) -> Duration {
        self.rtt + self.jitter + self.held_back + beyond
    }
}

/// A path between two nodes of a built network.
struct CalibratedPath<'a> {
    cell: &'a Cell,
    topology: &'a Topology,
    way: RoundTrip,
    from: &'a str,
    to: &'a str,
    at: &'a At,
}

impl CalibratedPath<'_> {
    fn measure(&self, seed: u64) -> Result<Vec<Calibration>> {
        let expected = expected(&self.links(), &self.way, self.cell.mtu);
        let [from, to] = [self.topology.node(self.from)?, self.topology.node(self.to)?];
        let receiver = ProbeReceiver::start(to)?;
        let mut measured = Vec::new();
        measured.push(self.attempts(seed, || self.rtt(&expected, from, &receiver))?);
        measured.push(self.attempts(seed, || self.loss(&expected, from, &receiver))?);
        if let Some(rate) = expected.rate_bps {
            measured.push(self.attempts(seed, || self.rate(rate, &expected, from, &receiver))?);
        }
        Ok(measured)
    }

    /// The links before the run begins, when hosts add no delay.
    fn links(&self) -> Vec<LinkSpec> {
        let mut links = self.cell.links.clone();
        let directions = links.iter_mut().flat_map(|link| &mut link.directions);
        directions.for_each(|direction| direction.host_delay = Duration::ZERO);
        links
    }

    /// Measures until a result is within its tolerance, each time with other random numbers; returns the last result.
    fn attempts(&self, seed: u64, measure: impl Fn() -> Result<Calibration>) -> Result<Calibration> {
        let mut last = None;
        for attempt in 0..ATTEMPTS {
            for (index, link) in self.topology.links.iter().enumerate() {
                let own = mix(seed, u64::from(attempt) * 1000 + index as u64);
                link.reseed([mix(own, 0), mix(own, 1)]);
                link.restart_counters();
            }
            let measured = measure().map(|measured| Calibration { attempts: attempt + 1, ..measured });
            if measured.as_ref().is_ok_and(|measured| measured.within) {
                return measured;
            }
            last = Some(measured);
        }
        last.expect("there is at least one attempt")
    }

    fn calibration(&self, what: &str, unit: &str, [asked, measured]: [f64; 2], allowed: [f64; 2]) -> Calibration {
        let [from, to, kind] = [self.from, self.to, what].map(str::to_owned);
        Calibration {
            quantity: Quantity { from, to, kind, at: self.at.clone() },
            unit: unit.to_owned(),
            asked,
            measured,
            allowed,
            within: (allowed[0]..=allowed[1]).contains(&measured),
            attempts: 1,
            ..Calibration::default()
        }
    }

    /// The median of the probes that came back in order. Held-back probes are the slowest, so sorting puts them last.
    fn rtt(&self, expected: &ExpectedPath, from: &Node, receiver: &ProbeReceiver) -> Result<Calibration> {
        let spacing = RTT_PROBE_SPACING.max(expected.serialisation * RTT_PROBE_SERIALISATIONS);
        let mut answers = receiver.probe_rtt(from, spacing, expected.patience(Duration::from_millis(300)))?;
        answers.sort_unstable();
        let median = answers.get((answers.len() as f64 * expected.in_order / 2.0) as usize).ok_or_else(|| {
            let what = format!("none of {RTT_PROBES} probes came back from {} to {}", self.to, self.from);
            Failure::outside(what).hint(
                "a busy host answers too late: stop other work; a path that loses every packet cannot be measured",
            )
        })?;
        let median = median.as_secs_f64() * 1e6;
        let rtt = expected.rtt.as_secs_f64() * 1e6;
        let spread = expected.jitter.as_secs_f64() * 1e6 / 2.0;
        let are_told = f64::from(RTT_PROBES) * expected.in_order >= RTT_PROBES_IN_ORDER;
        let held_back = if are_told { 0.0 } else { expected.held_back.as_secs_f64() * 1e6 };
        let above = (RTT_TOLERANCE.as_secs_f64() * 1e6).max(rtt * RTT_TOLERANCE_SHARE) + spread + held_back;
        let below = RTT_TOLERANCE_BELOW.as_secs_f64() * 1e6 + spread;
        Ok(self.calibration("rtt", "us", [rtt, median], [rtt - below, rtt + above]))
    }

    /// The share of small packets that did not arrive and were not dropped by a full queue.
    fn loss(&self, expected: &ExpectedPath, from: &Node, receiver: &ProbeReceiver) -> Result<Calibration> {
        let limit = expected.rate_bps.map_or(f64::INFINITY, |rate| LOSS_LOAD * rate / f64::from(8 * LOSS_PACKET_BYTES));
        let per_second = limit.min(LOSS_PACKETS_PER_SECOND);
        let packets = LOSS_PACKETS.min((per_second * LOSS_TIME.as_secs_f64()) as u32).max(1);
        let stream = ProbeStream {
            packets,
            per_second,
            bytes: LOSS_PACKET_BYTES,
            burst: (expected.queue_pkts / 2).max(1),
            settle: expected.patience(Duration::from_millis(100)),
        };
        let (sent, arrivals) = receiver.count(from, &stream)?;
        let of_hop = |hop: &Hop| self.topology.links[hop.link].counters()[hop.side].clone();
        let counters: Vec<LinkCounters> = self.way.there.iter().map(of_hop).collect();
        let overflow: u64 = counters.iter().map(|counters| counters.overflow_pkts).sum();
        let copies: u64 = counters.iter().map(|counters| counters.duplicated_pkts).sum();
        let offered = sent.saturating_sub(overflow);
        let lost = (offered + copies).saturating_sub(arrivals.len() as u64);
        let models: Vec<&LossModel> = self.way.there.iter().map(|hop| &hop.direction(&self.cell.links).loss).collect();
        let (asked, allowed) = expected_ratio(&models, offered)?;
        let measured = lost as f64 / offered.max(1) as f64;
        Ok(self.calibration("loss", "ratio", [asked, measured], allowed))
    }

    /// The rate at which packets of the MTU arrive while the path is overloaded.
    fn rate(&self, rate: f64, expected: &ExpectedPath, from: &Node, receiver: &ProbeReceiver) -> Result<Calibration> {
        let sent_bps = rate / (1.0 - expected.loss).max(0.01);
        let bits = f64::from(8 * self.cell.mtu);
        let stream = ProbeStream {
            packets: flood_packets(sent_bps, self.cell.mtu) as u32,
            per_second: FLOOD_LOAD * sent_bps / bits,
            bytes: self.cell.mtu,
            burst: u32::MAX, // the queue is to overflow
            settle: expected.patience(Duration::from_millis(200)),
        };
        let (_, arrivals) = receiver.count(from, &stream)?;
        let groups = if expected.bunched.is_zero() { FLOOD_GROUPS } else { BUNCHED_GROUPS };
        let measured = arrival_rate(&arrivals, groups).unwrap_or(0.0) * bits;
        let group = FLOOD_TIME / groups as u32;
        let tolerance = RATE_TOLERANCE + expected.bunched.as_secs_f64() / group.as_secs_f64();
        let allowed = [1.0 - tolerance.min(1.0), 1.0 + tolerance].map(|share| rate * share);
        Ok(self.calibration("rate", "bit/s", [rate, measured], allowed))
    }
}

/// Number of packets of the MTU that measure this rate.
fn flood_packets(rate_bps: f64, mtu: u32) -> f64 {
    (FLOOD_LOAD * rate_bps / f64::from(8 * mtu) * FLOOD_TIME.as_secs_f64()).max(FLOOD_PACKETS)
}

/// Packets per second: the median over this many groups of arrivals, which a short stall of this host does not change.
///
/// The first group does not count, because arrivals follow the sender until the queue is full. `None` if there are too
/// few packets.
fn arrival_rate(arrivals: &[Duration], groups: usize) -> Option<f64> {
    let size = arrivals.len() / groups;
    if size < 2 {
        return None;
    }
    let mut rates: Vec<f64> = (1..groups)
        .map(|group| {
            let group = &arrivals[group * size - 1..(group + 1) * size];
            size as f64 / (group[size] - group[0]).as_secs_f64()
        })
        .collect();
    rates.sort_by(f64::total_cmp);
    Some(rates[rates.len() / 2])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scenario::tests::{RENO, flow, scenario};

    fn expected_of(links: &str) -> ExpectedPath {
        let scenario = scenario(1, &format!("{links}{}", flow("f", ["a", "c"], RENO)));
        let links = &scenario.cells[0].links;
        expected(links, &RoundTrip::between(links, "a", "c").unwrap(), 1500)
    }

    #[test]
    fn path_over_two_links_adds_delays_and_multiplies_what_passes() {
        let path = expected_of(
            "[[link]]\nends=[\"a\",\"b\"]\nrate=\"10mbit\"\ndelay=\"10ms\"\nqueue=\"50pkts\"\n\
             [[link]]\nends=[\"b\",\"c\"]\nrate=\"10mbit\"\ndelay=\"5ms\"\nloss=\"10%\"\nreverse={delay=\"1ms\"}\n",
        );
        assert_eq!((path.rate_bps, path.queue_pkts, (path.loss * 1e12).round()), (Some(9e6), 50, 1e11));
        let serialisation = Duration::from_secs_f64(4.0 * 64.0 * 8.0 / 10e6);
        assert_eq!(path.rtt, Duration::from_millis(26) + serialisation);
        let path = expected_of(
            "[[link]]\nends=[\"a\",\"b\"]\nrate=\"8kbit\"\ndelay=\"10ms\"\nreorder=\"share=25%,by=500ms\"\n\
             [[link]]\nends=[\"b\",\"c\"]\ndelay=\"5ms\"\nreverse={reorder=\"share=50%,by=20ms\"}\n",
        );
        let ms = Duration::from_millis;
        assert_eq!((path.held_back, path.in_order, path.serialisation), (ms(520), 0.375, ms(64)));
        assert_eq!(path.patience(Duration::ZERO), ms(30 + 2 * 64 + 520), "probes wait for packets that are held back");
    }

    #[test]
    fn pairs_over_links_that_are_alike_are_measured_once() {
        let shape = "[dumbbell]\npairs=4\nbottleneck={rate=\"10mbit\"}\ns3={delay=\"5ms\"}\n";
        let flows = flow("f", ["s#", "r#"], &format!("copies=4\n{RENO}"));
        let scenario = scenario(1, &(shape.to_owned() + &flows));
        let ways = distinct_ways(&scenario.cells[0]).unwrap();
        let pairs: Vec<(&str, &str)> = ways.iter().map(|way| (way.0, way.1)).collect();
        assert_eq!(pairs, [("s1", "r1"), ("s3", "r3")]);
    }

    #[test]
    fn arrival_rate_survives_a_stall() {
        let mut arrivals: Vec<Duration> = (0..800).map(Duration::from_millis).collect();
        for late in &mut arrivals[450..] {
            *late += Duration::from_millis(300);
        }
        assert!((arrival_rate(&arrivals, FLOOD_GROUPS).unwrap() - 1000.0).abs() < 1.0);
        assert_eq!(arrival_rate(&arrivals[..10], FLOOD_GROUPS), None);
    }

    #[test]
    fn measurement_outside_its_tolerance_is_told_with_its_numbers() {
        let one = Calibration {
            quantity: "s-r rate".into(),
            unit: "bit/s".into(),
            asked: 20e6,
            measured: 18e6,
            allowed: [19.6e6, 20.4e6],
            ..Calibration::default()
        };
        let failure = outside(std::slice::from_ref(&one)).unwrap();
        assert!(failure.what.contains("s-r rate measured 18mbit, requested 20mbit, allowed 19.6mbit to 20.4mbit"));
        assert_eq!(outside(&[Calibration { within: true, ..one }]), None);
    }
}
