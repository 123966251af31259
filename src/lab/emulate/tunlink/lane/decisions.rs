//! Compares the decisions about packets with those in `tests/fixtures/link/decisions.txt`.
//!
//! Published results are repeated by seed, so a recorded decision never changes. The fixture was written by the emulator
//! in Rust that preceded the C of `bpf/link`. A new link goes to the end of `links`, and its text to the end of the file.

use std::fmt::Write as _;

use rand_pcg::Pcg64;
use rand_pcg::rand_core::SeedableRng;
use sha2::{Digest, Sha256};

use super::*;
use shared::model::queue::QueueState;

mod links;

use links::{TestLink, Traffic, links};

const RECORDED: &str = include_str!("../../../../../tests/fixtures/link/decisions.txt");

/// Arbitrary start of the clock, nanoseconds.
const BEGIN: u64 = 1_000_000_000_000;
/// Longer than any packet of [`links`] is on its way.
const LONGEST: u64 = 1_000_000_000_000;
const SAMPLE: u64 = 700_000;
const SAMPLES: usize = 400;
/// Packets before the run, in the run, and in a second run with another seed.
const PACKETS: [usize; 3] = [100, 1_200, 300];
/// Fates and departures that the fixture has in full.
const SHOWN: (usize, usize) = (120, 8);
/// Bytes of the frame's header that hold the packet's number.
const NUMBER: std::ops::Range<usize> = 0..8;

/// Its name in the fixture, and its value.
type NamedCount = (&'static str, fn(&LinkCounters) -> u64);

/// The first twelve are what a packet may raise.
const COUNTS: [NamedCount; 14] = [
    ("lost", |counters| counters.lost_pkts),
    ("ack-lost", |counters| counters.acks_lost_pkts),
    ("down", |counters| counters.down_pkts),
    ("policed", |counters| counters.policed_pkts),
    ("overflow", |counters| counters.overflow_pkts),
    ("marked", |counters| counters.marked_pkts),
    ("copied", |counters| counters.duplicated_pkts),
    ("held", |counters| counters.acks_held_pkts),
    ("batched", |counters| counters.held_pkts),
    ("thinned", |counters| counters.acks_thinned_pkts),
    ("reordered", |counters| counters.reordered_pkts.unwrap_or(0)),
    ("failed", |counters| counters.failed_pkts),
    ("loss-runs", |counters| counters.loss_runs.unwrap_or(0)),
    ("longest-queue", |counters| counters.max_queue_pkts.unwrap_or(0)),
];

/// A lane without ports, and everything that was seen of it.
struct LaneBench {
    lane: Lane,
    traffic: Traffic,
    draws: Pcg64,
    now: u64,
    number: u64,
    /// How late the thread looks for packets, nanoseconds.
    late: u64,
    log: String,
    fates: Vec<String>,
    departures: Vec<String>,
}

impl LaneBench {
    fn new(link: &TestLink) -> Self {
        LaneBench {
            lane: link.lane(),
            traffic: link.traffic,
            draws: Pcg64::seed_from_u64(link.direction.seed ^ 0x7061_636b_6574),
            now: BEGIN,
            number: 0,
            late: link.late,
            log: String::new(),
            fates: Vec::new(),
            departures: Vec::new(),
        }
    }

    fn counters(&mut self) -> LinkCounters {
        self.lane.path.counters()
    }

    /// Due time, frame, and congestion mark of the packets that are due by a time, in the order in which they leave.
    fn leave(&mut self, until: u64) {
        let Lane { path, pool, .. } = &mut self.lane;
        let mut next = [Departure::default()];
        while path.link.take_due(until, &mut next) == 1 {
            let [packet] = next;
            let frame = pool.bytes_mut(packet.slot());
            let number = u64::from_be_bytes(frame[NUMBER].try_into().unwrap());
            let service = frame[HEADER + 1];
            self.departures.push(format!("{number}+{}", packet.due_ns - BEGIN));
            writeln!(self.log, "leaves {number} {} {service} {}", packet.due_ns - BEGIN, packet.bytes + HEADER as u32)
                .unwrap();
            pool.give_back(packet.slot());
        }
    }

    fn carry(&mut self, packets: usize) {
        for _ in 0..packets {
            self.now += self.traffic.gap(&mut self.draws);
            let packet = self.traffic.packet(&mut self.draws);
            self.leave(self.now + self.late);
            let before = self.counters();
            let Lane { path, pool, .. } = &mut self.lane;
            let slot = pool.take().expect("the pool has room for every packet of a fixture");
            let frame = pool.bytes_mut(slot);
            frame[NUMBER].copy_from_slice(&self.number.to_be_bytes());
            frame[HEADER..HEADER + packet.len()].copy_from_slice(&packet);
            path.carry(pool, EthernetFrame { slot, len: (HEADER + packet.len()) as u32, arrival: self.now });
            let fate = fate(&before, &self.counters());
            writeln!(self.log, "enters {} {fate}", self.number).unwrap();
            self.fates.push(fate);
            self.number += 1;
        }
    }

    fn run(&mut self, seed: u64, packets: usize) {
        self.lane.path.link.reseed(seed);
        self.lane.path.link.start(self.now);
        self.carry(packets);
    }

    /// What the fixture says about this link.
    fn record(mut self, link: &TestLink) -> String {
        self.carry(PACKETS[0]);
        self.lane.path.restart_counters();
        self.lane.path.sample_every(SAMPLE, SAMPLES);
        self.run(link.direction.seed, PACKETS[1]);
        self.leave(self.now + LONGEST);
        let samples = self.lane.path.link.samples(self.now + LONGEST);
        let counters = self.counters();
        self.now += LONGEST;
        self.run(link.direction.seed ^ 5, PACKETS[2]);
        self.leave(self.now + LONGEST);
        let counts = |counters: &LinkCounters| {
            let counts = COUNTS.iter().map(|(name, count)| (name, count(counters))).filter(|(_, count)| *count > 0);
            counts.fold(format!("{} packets", counters.received_pkts), |text, (name, count)| {
                format!("{text}, {count} {name}")
            })
        };
        let last = self.counters();
        for counters in [&counters, &last] {
            writeln!(self.log, "{} {:?}", counts(counters), counters.lost_positions).unwrap();
        }
        samples.iter().for_each(|sample| writeln!(self.log, "{sample:?}").unwrap());
        let sum = |value: fn(&QueueState) -> u64| samples.iter().map(value).sum::<u64>();
        let (fates, departures) = SHOWN;
        let digest = hex::encode(Sha256::digest(&self.log));
        format!(
            "{}\n  fates {}\n  leave {}\n  run {}\n  lost {:?}\n  queue {} samples of {} packets and {} ns\n  all {digest}\n",
            link.name,
            in_runs(&self.fates[PACKETS[0]..][..fates]),
            self.departures[..departures.min(self.departures.len())].join(" "),
            counts(&counters),
            &counters.lost_positions[..counters.lost_positions.len().min(12)],
            samples.len(),
            sum(|sample| sample.queue_pkts),
            sum(|sample| sample.wait_ns),
        )
    }
}

/// The counters that a packet raised: `.` for none, `lost`, `marked+copied`, `held+2thinned`.
fn fate(before: &LinkCounters, after: &LinkCounters) -> String {
    let mut fate = Vec::new();
    for (name, count) in &COUNTS[..12] {
        match count(after) - count(before) {
            0 => {}
            1 => fate.push((*name).to_owned()),
            more => fate.push(format!("{more}{name}")),
        }
    }
    if fate.is_empty() { ".".to_owned() } else { fate.join("+") }
}

/// `3x. lost 2xlost+copied`.
fn in_runs(fates: &[String]) -> String {
    let run = |run: &[String]| match run.len() {
        1 => run[0].clone(),
        count => format!("{count}x{}", run[0]),
    };
    fates.chunk_by(|one, other| one == other).map(run).collect::<Vec<_>>().join(" ")
}

#[test]
fn recorded_decisions_never_change() {
    let mut recorded = RECORDED;
    for link in links() {
        let text = LaneBench::new(&link).record(&link);
        match recorded.strip_prefix(&text) {
            Some(rest) => recorded = rest,
            None => {
                let end =
                    recorded.match_indices('\n').nth(text.lines().count() - 1).map_or(recorded.len(), |(at, _)| at);
                panic!("{} is decided otherwise.\nrecorded:\n{}\nnow:\n{text}", link.name, &recorded[..end]);
            }
        }
    }
    assert_eq!(recorded, "", "a recorded link is missing");
}
