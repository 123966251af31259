//! The empty path measured against what the scenario asks: rate, round-trip time and loss, before anything else.
//!
//! An experiment on a path that is not what it says is worth nothing, so a measurement outside its tolerance stops it.

mod losses;
mod probe;

use std::time::Duration;

use anyhow::{Context, Result, anyhow};

use crate::emulate::Link;
use crate::emulate::topology::{Node, Topology};
use crate::failure::Failure;
use crate::lab::plan::mix;
use crate::model::run::{At, Calibration, LinkCounters, Quantity};
use crate::path::loss::LossModel;
use crate::path::route::{Hop, RoundTrip};
use crate::path::{Direction, QueueLimit};
use crate::scenario::{Cell, LinkSpec};
use crate::units::{BitsPerSec, Share};

use losses::{FLOOD_GROUPS, expected_ratio, share_of_flood};
use probe::Receiver;

/// How far the delivered rate may lie from the asked one.
const RATE_TOLERANCE: f64 = 0.02;
/// How far the median round-trip time may lie above the asked one: this, or the share below if that is more.
const RTT_TOLERANCE: Duration = Duration::from_millis(1);
/// Share of the asked round-trip time that it may be longer.
const RTT_TOLERANCE_SHARE: f64 = 0.02;
/// A clock reads no earlier than this before the packet is due.
const RTT_TOLERANCE_BELOW: Duration = Duration::from_micros(100);
/// Attempts: a busy host or an unlikely sample passes, a wrong path fails them all.
const ATTEMPTS: u32 = 3;

/// IP packets that show the loss: small, so that many fit into a second.
const LOSS_PACKET_BYTES: u32 = 100;
/// IP packets that show the round-trip time.
const RTT_PACKET_BYTES: u32 = 64;
const RTT_PROBES: u32 = 21;
/// Time between them: this, or as often as a slow link can send one, so that none waits for another.
const RTT_PROBE_SPACING: Duration = Duration::from_millis(10);
const RTT_PROBE_SERIALISATIONS: u32 = 2;
/// Fewest probes that must be expected not to be held back for these to be told from the others.
const RTT_PROBES_IN_ORDER: f64 = 4.0;
/// Packets that show the loss, and the longest time for sending them.
const LOSS_PACKETS: u32 = 10_000;
const LOSS_TIME: Duration = Duration::from_millis(1500);
/// Most probe packets a second, so that sending them does not hold the host up.
const LOSS_PACKETS_PER_SECOND: f64 = 15_000.0;
/// Share of the rate that the loss probes use, so that queues stay empty.
const LOSS_LOAD: f64 = 0.5;
/// The flood that shows the rate: how much faster than asked, how long, and how many packets at least.
const FLOOD_LOAD: f64 = 1.15;
const FLOOD_TIME: Duration = Duration::from_millis(800);
const FLOOD_PACKETS: f64 = 80.0;

/// Measures the path of every pair of nodes that a flow of the cell joins, once for those that are alike; `seed` seeds
/// the links, `at` says which path of the sweep it is, and is empty when there is one only.
///
/// Errors: a measurement lies outside its tolerance at every attempt (a failure of kind `Outside` with the numbers);
/// a node has no path; sockets cannot be used.
pub fn calibrate(cell: &Cell, topology: &Topology, seed: u64, at: &At) -> Result<Vec<Calibration>> {
    let mut measured = Vec::new();
    for (from, to, way) in distinct_ways(cell)? {
        let path = Path { cell, topology, way, from, to, at };
        measured.extend(path.measure(seed).with_context(|| format!("calibrate the path {from}-{to}"))?);
    }
    Ok(measured)
}

/// The ways of a cell's flows, each with its ends; of ways over links that are alike, only the first.
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

/// The failure that names every measurement outside its tolerance; none when all are within.
pub fn outside(measured: &[Calibration]) -> Option<Failure> {
    let wrong: Vec<String> = measured.iter().filter(|one| !one.within).map(describe).collect();
    (!wrong.is_empty()).then(|| {
        let what = format!("the path is not what the scenario asks: {}", wrong.join("; "));
        Failure::outside(what).hint("a busy or slow host cannot carry it: stop other work, or ask for less rate")
    })
}

/// One measurement as a phrase.
pub fn describe(one: &Calibration) -> String {
    let text = |value: f64| match one.unit.as_str() {
        "bit/s" => BitsPerSec(value.round() as u64).to_string(),
        "us" => format!("{:.3}ms", value / 1e3),
        _ => Share(value.clamp(0.0, 1.0)).to_string(),
    };
    let [low, high] = one.allowed;
    let (measured, asked) = (text(one.measured), text(one.asked));
    format!("{} measured {measured}, asked {asked}, allowed {} to {}", one.quantity, text(low), text(high))
}

/// What an empty path should measure.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
struct Asked {
    /// Delivered rate under overload, bits per second; none when nothing limits it.
    rate_bps: Option<f64>,
    /// Round trip of a small packet.
    rtt: Duration,
    /// Most that jitter adds to a round trip.
    jitter: Duration,
    /// Most that reordering adds to a round trip.
    held_back: Duration,
    /// Share of round trips to which it adds nothing.
    in_order: f64,
    /// Longest that one link takes to send a small packet.
    serialisation: Duration,
    /// Loss over all hops while the rate is measured.
    loss: f64,
    /// Smallest queue on the way, packets of the given size.
    queue_pkts: u32,
}

/// Rate, delay and loss of a way through the links.
fn asked(links: &[LinkSpec], way: &RoundTrip, mtu: u32) -> Asked {
    let mut rate_bps = f64::INFINITY;
    let mut passing = 1.0;
    let mut queue_pkts = u32::MAX;
    let slowest = way.there.iter().filter_map(|hop| hop.direction(links).rate).min();
    let flood = slowest.map_or(0.0, |rate| flood_packets(rate.0 as f64, mtu)) as u64;
    for hop in &way.there {
        let there = hop.direction(links);
        let loss = share_of_flood(&there.loss, flood);
        passing *= 1.0 - loss;
        rate_bps *= 1.0 - loss; // what the loss takes does not reach the queue
        rate_bps = there.rate.map_or(rate_bps, |rate| rate_bps.min(rate.0 as f64));
        let limits = links[hop.link].config(mtu).queue_limits();
        queue_pkts = queue_pkts.min(limits.map_or(u32::MAX, |limits| match limits[hop.side] {
            QueueLimit::Packets(packets) => packets,
            QueueLimit::Bytes(bytes) => (bytes / u64::from(mtu)).clamp(1, u64::from(u32::MAX)) as u32,
        }));
    }
    let rate_bps = rate_bps.is_finite().then_some(rate_bps);
    Asked { rate_bps, loss: 1.0 - passing, queue_pkts, ..asked_of_probes(links, way) }
}

/// What becomes of small packets, there and back.
fn asked_of_probes(links: &[LinkSpec], way: &RoundTrip) -> Asked {
    let mut asked = Asked { in_order: 1.0, ..Asked::default() };
    for direction in way.directions(links) {
        let serialisation = direction.rate.map_or(0.0, |rate| f64::from(8 * RTT_PACKET_BYTES) / rate.0 as f64);
        let serialisation = Duration::from_secs_f64(serialisation);
        asked.rtt += direction.delay + serialisation + direction.jitter / 2;
        asked.jitter += direction.jitter;
        asked.serialisation = asked.serialisation.max(serialisation);
        if let Some(reorder) = direction.reorder {
            asked.held_back += reorder.by;
            asked.in_order *= 1.0 - reorder.share.0;
        }
    }
    asked
}

impl Asked {
    /// After which a packet is lost: longer than anything on the way holds it up, and this.
    fn patience(&self, beyond: Duration) -> Duration {
        self.rtt + self.jitter + self.held_back + beyond
    }
}

/// One way between two nodes of a built network.
struct Path<'a> {
    cell: &'a Cell,
    topology: &'a Topology,
    way: RoundTrip,
    from: &'a str,
    to: &'a str,
    at: &'a At,
}

impl Path<'_> {
    fn measure(&self, seed: u64) -> Result<Vec<Calibration>> {
        let asked = asked(&self.cell.links, &self.way, self.cell.mtu);
        let [from, to] = [self.topology.node(self.from)?, self.topology.node(self.to)?];
        let receiver = Receiver::start(to)?;
        let mut measured = Vec::new();
        measured.push(self.attempts(seed, || self.rtt(&asked, receiver.probe_rtt(from, &self.rtt_plan(&asked))?))?);
        measured.push(self.attempts(seed, || self.loss(&asked, from, &receiver))?);
        if asked.rate_bps.is_some() {
            measured.push(self.attempts(seed, || self.rate(&asked, from, &receiver))?);
        }
        Ok(measured)
    }

    /// Measures until a result is within its tolerance, with other random numbers each time; returns the last.
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
        last.expect("at least one attempt was made")
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

    fn rtt_plan(&self, asked: &Asked) -> probe::RttPlan {
        let patience = asked.patience(Duration::from_millis(300));
        let spacing = RTT_PROBE_SPACING.max(asked.serialisation * RTT_PROBE_SERIALISATIONS);
        probe::RttPlan { probes: RTT_PROBES, spacing, bytes: RTT_PACKET_BYTES, patience }
    }

    /// The median of those probes that came back, but for those that reordering held back: they are the last.
    fn rtt(&self, asked: &Asked, mut answers: Vec<Duration>) -> Result<Calibration> {
        answers.sort_unstable();
        let median = answers.get((answers.len() as f64 * asked.in_order / 2.0) as usize).ok_or_else(|| {
            let what = format!("none of {RTT_PROBES} probes came back from {} to {}", self.to, self.from);
            Failure::outside(what)
                .hint("a busy host answers too late: stop other work; a path that loses all cannot be measured")
        })?;
        let median = median.as_secs_f64() * 1e6;
        let rtt = asked.rtt.as_secs_f64() * 1e6;
        let spread = asked.jitter.as_secs_f64() * 1e6 / 2.0;
        let are_told = f64::from(RTT_PROBES) * asked.in_order >= RTT_PROBES_IN_ORDER;
        let held_back = if are_told { 0.0 } else { asked.held_back.as_secs_f64() * 1e6 };
        let above = (RTT_TOLERANCE.as_secs_f64() * 1e6).max(rtt * RTT_TOLERANCE_SHARE) + spread + held_back;
        let below = RTT_TOLERANCE_BELOW.as_secs_f64() * 1e6 + spread;
        Ok(self.calibration("rtt", "us", [rtt, median], [rtt - below, rtt + above]))
    }

    /// The share of small packets that did not arrive and were not dropped by a full queue.
    fn loss(&self, asked: &Asked, from: &Node, receiver: &Receiver) -> Result<Calibration> {
        let limit = asked.rate_bps.map_or(f64::INFINITY, |rate| LOSS_LOAD * rate / f64::from(8 * LOSS_PACKET_BYTES));
        let per_second = limit.min(LOSS_PACKETS_PER_SECOND);
        let packets = LOSS_PACKETS.min((per_second * LOSS_TIME.as_secs_f64()) as u32).max(1);
        let stream = probe::Stream {
            packets,
            per_second,
            bytes: LOSS_PACKET_BYTES,
            burst: (asked.queue_pkts / 2).max(1),
            settle: asked.patience(Duration::from_millis(100)),
        };
        let got = receiver.count(from, &stream)?;
        let overflow: u64 = self.way.there.iter().map(|hop| self.counters(hop).overflow_pkts).sum();
        let copies: u64 = self.way.there.iter().map(|hop| self.counters(hop).duplicated_pkts).sum();
        let offered = got.sent.saturating_sub(overflow);
        let lost = (offered + copies).saturating_sub(got.arrivals.len() as u64);
        let models: Vec<&LossModel> = self.way.there.iter().map(|hop| &hop.direction(&self.cell.links).loss).collect();
        let expected = expected_ratio(&models, offered)?;
        let measured = lost as f64 / offered.max(1) as f64;
        Ok(self.calibration("loss", "ratio", [expected.asked, measured], expected.allowed))
    }

    fn counters(&self, hop: &Hop) -> LinkCounters {
        let link: &dyn Link = self.topology.links[hop.link].as_ref();
        link.counters()[hop.side].clone()
    }

    /// The rate at which whole packets arrive while more are sent than fit.
    fn rate(&self, asked: &Asked, from: &Node, receiver: &Receiver) -> Result<Calibration> {
        let rate = asked.rate_bps.ok_or_else(|| anyhow!("the path has no rate"))?;
        let sent_bps = rate / (1.0 - asked.loss).max(0.01);
        let bits = f64::from(8 * self.cell.mtu);
        let stream = probe::Stream {
            packets: flood_packets(sent_bps, self.cell.mtu) as u32,
            per_second: FLOOD_LOAD * sent_bps / bits,
            bytes: self.cell.mtu,
            burst: u32::MAX, // what does not fit is dropped, as it should be
            settle: asked.patience(Duration::from_millis(200)),
        };
        let got = receiver.count(from, &stream)?;
        let measured = arrival_rate(&got.arrivals).unwrap_or(0.0) * bits;
        let allowed = [rate * (1.0 - RATE_TOLERANCE), rate * (1.0 + RATE_TOLERANCE)];
        Ok(self.calibration("rate", "bit/s", [rate, measured], allowed))
    }
}

/// How many whole packets show a rate, bits per second.
fn flood_packets(rate_bps: f64, mtu: u32) -> f64 {
    (FLOOD_LOAD * rate_bps / f64::from(8 * mtu) * FLOOD_TIME.as_secs_f64()).max(FLOOD_PACKETS)
}

/// Packets per second: the median over groups of arrivals, which a short stall of this host does not change.
///
/// The first group is left out: until the queue is full, arrivals follow the sender.
///
/// None: too few packets.
fn arrival_rate(arrivals: &[Duration]) -> Option<f64> {
    let size = arrivals.len() / FLOOD_GROUPS;
    if size < 2 {
        return None;
    }
    let mut rates: Vec<f64> = (1..FLOOD_GROUPS)
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

    fn asked_of(links: &str) -> Asked {
        let scenario = scenario(1, &format!("{links}{}", flow("f", ["a", "c"], RENO)));
        let links = &scenario.cells[0].links;
        asked(links, &RoundTrip::between(links, "a", "c").unwrap(), 1500)
    }

    #[test]
    fn path_over_two_links_adds_delays_and_multiplies_what_passes() {
        let asked = asked_of(
            "[[link]]\nends=[\"a\",\"b\"]\nrate=\"10mbit\"\ndelay=\"10ms\"\nqueue=\"50pkts\"\n\
             [[link]]\nends=[\"b\",\"c\"]\nrate=\"10mbit\"\ndelay=\"5ms\"\nloss=\"10%\"\nreverse={delay=\"1ms\"}\n",
        );
        assert!((asked.loss - 0.1).abs() < 1e-12);
        assert_eq!(asked.rate_bps, Some(9e6));
        assert_eq!(asked.queue_pkts, 50);
        let serialisation = Duration::from_secs_f64(4.0 * 64.0 * 8.0 / 10e6);
        assert_eq!(asked.rtt, Duration::from_millis(26) + serialisation);
    }

    #[test]
    fn probes_wait_for_what_is_held_back_and_are_as_far_apart_as_a_slow_link_needs() {
        let asked = asked_of(
            "[[link]]\nends=[\"a\",\"b\"]\nrate=\"8kbit\"\ndelay=\"10ms\"\nreorder=\"share=25%,by=500ms\"\n\
             [[link]]\nends=[\"b\",\"c\"]\ndelay=\"5ms\"\nreverse={reorder=\"share=50%,by=20ms\"}\n",
        );
        assert_eq!((asked.held_back, asked.in_order), (Duration::from_millis(520), 0.375));
        assert_eq!(asked.serialisation, Duration::from_millis(64));
        assert_eq!(asked.patience(Duration::ZERO), Duration::from_millis(30 + 2 * 64 + 520));
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
        assert!((arrival_rate(&arrivals).unwrap() - 1000.0).abs() < 1.0);
        assert_eq!(arrival_rate(&arrivals[..10]), None);
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
        assert!(failure.what.contains("s-r rate measured 18mbit, asked 20mbit, allowed 19.6mbit to 20.4mbit"));
        assert_eq!(outside(&[Calibration { within: true, ..one }]), None);
    }
}
