//! Links of every kind, and the packets that enter them.

use std::time::Duration;

use rand_pcg::Pcg64;
use rand_pcg::rand_core::Rng;

use super::super::Lane;
use crate::path::change::DirectionChange;
use crate::path::jitter::Jitter;
use crate::path::loss::{LossModel, LossText};
use crate::path::rate_trace::{RateText, RateTrace};
use crate::path::{Direction, LinkConfig};
use shared::units::{BitsPerSec, QueueSize, Share};

const MTU: u32 = 1_500;
const SERVICE_LOW: u8 = 0x20;
const ECN_CAPABLE: u8 = 2;

/// The kind of packets, and how long they are apart on average, nanoseconds.
#[derive(Debug, Clone, Copy)]
pub enum Traffic {
    /// Full packets of ECN-capable data.
    Bulk(u64),
    /// Packets of all sizes and priorities.
    Mixed(u64),
    /// Acknowledgements of three flows, one over IPv6. Every tenth packet is data.
    Acks(u64),
}

impl Traffic {
    /// Half of the packets follow the one before at once.
    pub fn gap(self, draws: &mut Pcg64) -> u64 {
        let (Traffic::Bulk(mean) | Traffic::Mixed(mean) | Traffic::Acks(mean)) = self;
        let gap = draws.next_u64() % (2 * mean);
        match draws.next_u64() % 16 {
            0..8 => 0,
            8..15 => 2 * gap,
            _ => 4 * gap,
        }
    }

    /// The bytes of the next IP packet.
    pub fn packet(self, draws: &mut Pcg64) -> Vec<u8> {
        let random = draws.next_u64();
        let choice = |bits: u32, of: u64| (random >> bits) % of;
        match self {
            Traffic::Bulk(_) => segment(Segment { service: ECN_CAPABLE, bytes: MTU as usize, ..Segment::default() }),
            Traffic::Mixed(_) => {
                let service = [0, SERVICE_LOW, ECN_CAPABLE, 1, 3, SERVICE_LOW | ECN_CAPABLE][choice(0, 6) as usize];
                let bytes = if choice(8, 3) == 0 { MTU as usize } else { 40 + choice(16, 1_461) as usize };
                segment(Segment { service, bytes, flow: choice(40, 3) as u8, ..Segment::default() })
            }
            Traffic::Acks(_) => {
                let options = if choice(0, 4) == 0 { 0 } else { 12 };
                let flow = choice(8, 3) as u8;
                let header = if flow == 2 { 60 } else { 40 } + options;
                let bytes = if choice(16, 10) == 0 { header + 100 } else { header };
                let number = choice(24, 40) as u32;
                segment(Segment { service: ECN_CAPABLE, bytes, flow, number, options })
            }
        }
    }
}

#[derive(Debug, Clone, Copy, Default)]
struct Segment {
    service: u8,
    /// Of the whole packet.
    bytes: usize,
    /// Flow 2 is over IPv6.
    flow: u8,
    number: u32,
    /// Bytes: 0, or 12 of a timestamp.
    options: usize,
}

fn segment(asked: Segment) -> Vec<u8> {
    let Segment { service, bytes, flow, number, options } = asked;
    let mut packet = match flow {
        2 => [vec![0x60 | service >> 4, service << 4, 0, 0, 0, 0, 6, 64], vec![7; 32]].concat(),
        _ => vec![0x45, service, 0, 0, 0, 0, 0x40, 0, 64, 6, 0, 0, 198, 18, 0, 1, 198, 18, 0, flow],
    };
    let length = bytes.max(packet.len() + 20 + options);
    match flow {
        2 => packet[4..6].copy_from_slice(&((length - 40) as u16).to_be_bytes()),
        _ => packet[2..4].copy_from_slice(&(length as u16).to_be_bytes()),
    }
    packet.extend([0, 80, 1, 2, 0, 0, 0, 9]);
    packet.extend(number.to_be_bytes());
    packet.extend([(5 + options as u8 / 4) << 4, 0x10, 1, 1, 0, 0, 0, 0]);
    if options > 0 {
        packet.extend([1, 1, 8, 10, 0, 0, 0, 1, 0, 0, 0, 2]);
    }
    packet.resize(length, 0);
    packet
}

pub struct TestLink {
    pub name: &'static str,
    pub direction: Direction,
    pub traffic: Traffic,
    /// How late the link's thread sees arrivals, nanoseconds.
    pub late: u64,
}

impl TestLink {
    pub fn lane(&self) -> Lane {
        let back = Direction { delay: Duration::from_millis(20), ..Direction::default() };
        let config = LinkConfig { directions: [self.direction.clone(), back], mtu: MTU };
        config.check().expect(self.name);
        Lane::new(&config, 0).expect(self.name)
    }
}

fn loss(text: &str) -> LossModel {
    match text.parse().expect("a loss model") {
        LossText::Model(model) => model,
        LossText::File(file) => panic!("a file: {file}"),
    }
}

fn ms(time: u64) -> Duration {
    Duration::from_millis(time)
}

/// 10 Mbit/s, 20 ms, 20 packets.
fn plain() -> Direction {
    rate(10_000_000)
}

fn rate(bps: u64) -> Direction {
    let (rate, queue) = (Some(BitsPerSec(bps)), QueueSize::Packets(20));
    Direction { rate, queue, delay: ms(20), seed: 7, ..Direction::default() }
}

fn losing(text: &str) -> Direction {
    Direction { loss: loss(text), ..plain() }
}

fn acks(text: &str) -> Direction {
    Direction { acks: Some(text.parse().expect("a hold")), ..plain() }
}

fn reordering(text: &str) -> Direction {
    Direction { reorder: Some(text.parse().expect("reordering")), ..plain() }
}

fn cellular(text: &str) -> Direction {
    let Ok(RateText::Cellular(model)) = text.parse() else { panic!("a cellular trace") };
    traced(model.trace().expect("a trace"))
}

/// A trace whose last opportunity is long before its end.
fn with_an_outage_at_the_end() -> Direction {
    let direction = cellular("cellular:mean=1mbit,seed=55,length=1s");
    let trace = direction.trace.as_ref().expect("a trace");
    assert!(trace.times_ms.last().is_some_and(|last| last + 50 < trace.length_ms));
    direction
}

fn traced(trace: RateTrace) -> Direction {
    Direction { rate: Some(trace.mean()), trace: Some(trace), ..plain() }
}

/// Changes of every kind. The times are those of about a thousand packets, 600 us apart.
fn changes() -> Vec<DirectionChange> {
    let at = |at: u64| DirectionChange { at: ms(at), ..DirectionChange::default() };
    let rate = |bps| Some(BitsPerSec(bps));
    vec![
        DirectionChange { rate: rate(1_000_000), ..at(50) },
        DirectionChange { rate: rate(30_000_000), delay: Some(ms(5)), ..at(110) },
        DirectionChange { loss: Some(loss("20%")), ..at(180) },
        DirectionChange { loss: Some(loss("bursts:loss=10%,mean=3")), delay: Some(ms(60)), ..at(240) },
        DirectionChange { up: Some(false), ..at(300) },
        DirectionChange { up: Some(true), loss: Some(loss("positions:10,700,701,703,720")), ..at(330) },
        DirectionChange { rate: rate(8_000_000), loss: Some(loss("0%")), ..at(420) },
    ]
}

fn everything() -> Direction {
    Direction {
        host_delay: Duration::from_micros(50),
        jitter: ms(3).into(),
        mark: Some(QueueSize::Packets(6)),
        queue_low: Some(10),
        loss: loss("gilbert:p=2%,r=30%,1-h=80%,1-k=0.5%"),
        changes: changes(),
        duplicate: Share(0.05),
        ack_loss: Share(0.1),
        ..reordering("share=4%,by=9ms")
    }
}

/// A link that no packet waits for long, for traffic of 600 us between packets.
const BULK: Traffic = Traffic::Bulk(600_000);
const MIXED: Traffic = Traffic::Mixed(500_000);
const ACKS: Traffic = Traffic::Acks(300_000);

/// Names are those of the fixture.
pub fn links() -> Vec<TestLink> {
    let link = |(name, direction, traffic, late)| TestLink { name, direction, traffic, late };
    let all = [
        without_chance(),
        with_chance(),
        over_time(),
        of_acknowledgements(),
        of_rates(),
        of_changes(),
        of_wifi(),
        of_batches(),
    ];
    all.into_iter().flatten().map(link).collect()
}

type NamedLinks = Vec<(&'static str, Direction, Traffic, u64)>;

fn of_rates() -> NamedLinks {
    let policer = |text: &str| Direction { policer: Some(text.parse().expect("a policer")), ..plain() };
    vec![
        ("policer", policer("rate=6mbit,burst=9kB"), MIXED, 0),
        ("policer with a long burst", Direction { loss: loss("2%"), ..policer("rate=12mbit,burst=300kB") }, BULK, 0),
    ]
}

fn of_changes() -> NamedLinks {
    let at = |at: u64| DirectionChange { at: ms(at), ..DirectionChange::default() };
    let changes = vec![
        DirectionChange { queue: Some(QueueSize::Packets(3)), ..at(60) },
        DirectionChange { jitter: Some(ms(6).into()), ..at(150) },
        DirectionChange { queue: Some(QueueSize::Bytes(50_000)), jitter: Some(Jitter::default()), ..at(260) },
        DirectionChange { queue: Some(QueueSize::Bdp(0.1)), jitter: Some(ms(1).into()), ..at(400) },
    ];
    vec![("changes of queue and jitter", Direction { changes, ..plain() }, Traffic::Bulk(1_000_000), 0)]
}

fn of_wifi() -> NamedLinks {
    let wifi = |text: &str| text.parse().expect("a jitter");
    let at = |at: u64, jitter| DirectionChange { at: ms(at), jitter: Some(jitter), ..DirectionChange::default() };
    let changes = vec![at(100, wifi("wifi:mean=12ms")), at(250, ms(2).into()), at(400, wifi("wifi:mean=91ms"))];
    vec![
        ("jitter of Wi-Fi", Direction { jitter: wifi("wifi:mean=7ms"), ..plain() }, BULK, 0),
        ("jitter of Wi-Fi that changes", Direction { jitter: wifi("wifi:mean=1ms"), changes, ..plain() }, MIXED, 0),
    ]
}

fn of_batches() -> NamedLinks {
    let hold = |text: &str| Direction { hold: Some(text.parse().expect("a hold")), ..plain() };
    let [aggregated, compressed] = ["aggregated:time=5ms,pkts=9", "compressed:time=9ms,share=4%"].map(hold);
    let together =
        Direction { duplicate: Share(0.1), jitter: ms(2).into(), ack_loss: Share(0.1), ..compressed.clone() };
    vec![
        ("all aggregated", aggregated.clone(), MIXED, 0),
        ("all aggregated, seen late", aggregated, BULK, 4_000_000),
        ("all compressed", compressed, BULK, 0),
        ("all compressed, copied and spread", together, ACKS, 0),
    ]
}

fn without_chance() -> NamedLinks {
    let queue = |queue| Direction { queue, ..plain() };
    vec![
        ("open", Direction { seed: 3, ..Direction::default() }, MIXED, 0),
        ("uneven rate", rate(7_000_001), MIXED, 0),
        ("1 Gbit/s", Direction { queue: QueueSize::Packets(500), ..rate(1_000_000_000) }, Traffic::Bulk(6_000), 0),
        ("10 Gbit/s", rate(10_000_000_000), Traffic::Mixed(600), 0),
        ("1 kbit/s", rate(1_000), Traffic::Mixed(4_000_000_000), 0),
        ("queue of bytes", queue(QueueSize::Bytes(20_000)), MIXED, 0),
        ("queue of 1.5 BDP", queue(QueueSize::Bdp(1.5)), Traffic::Bulk(400_000), 0),
        ("no queue", queue(QueueSize::Packets(0)), BULK, 0),
        ("long queue", Direction { queue: QueueSize::Packets(900), ..plain() }, Traffic::Bulk(100_000), 0),
        ("low priority", Direction { queue_low: Some(4), ..plain() }, MIXED, 0),
        ("marks by packets", Direction { mark: Some(QueueSize::Packets(5)), ..plain() }, MIXED, 0),
        ("marks by bytes", Direction { mark: Some(QueueSize::Bytes(9_000)), ..plain() }, BULK, 0),
    ]
}

fn with_chance() -> NamedLinks {
    let jitter = |most: Duration| Direction { jitter: most.into(), ..plain() };
    let duplicate = |share| Direction { duplicate: Share(share), ..plain() };
    vec![
        ("loss of 1 %", losing("1%"), BULK, 0),
        ("loss of 0.3 %", Direction { seed: 11, ..losing("0.3%") }, BULK, 0),
        ("loss of 100 %", losing("100%"), BULK, 0),
        ("Gilbert", losing("gilbert:p=2%,r=10%,1-h=70%,1-k=0.5%"), BULK, 0),
        ("bursts", losing("bursts:loss=5%,mean=4"), BULK, 0),
        ("positions", losing("positions:1,2,3,50,51,400"), BULK, 0),
        ("jitter", jitter(ms(5)), BULK, 0),
        ("jitter of 1 ns", jitter(Duration::from_nanos(1)), BULK, 0),
        ("reordering", reordering("share=5%,by=7ms"), BULK, 0),
        ("reordering by less than a packet", reordering("share=20%,by=100us"), MIXED, 0),
        ("reordering seen late", reordering("share=10%,by=4ms"), BULK, 5_000_000),
        ("copies", duplicate(0.1), BULK, 0),
        ("a copy of each", duplicate(1.0), Traffic::Mixed(2_000_000), 0),
        ("delay of the host", Direction { host_delay: Duration::from_micros(50), ..plain() }, BULK, 0),
    ]
}

fn over_time() -> NamedLinks {
    let times = |times: &[u32]| RateTrace::new("x".into(), times.to_vec()).expect("a trace");
    let host_delay = Duration::from_micros(80);
    vec![
        ("trace", traced(times(&[0, 2, 5, 5, 10])), MIXED, 0),
        ("trace with pauses", traced(times(&[1, 1, 1, 2, 90, 250])), Traffic::Mixed(9_000_000), 0),
        ("cellular", cellular("cellular:mean=12mbit,seed=1,length=1s"), BULK, 0),
        ("cellular with an outage at its end", with_an_outage_at_the_end(), Traffic::Mixed(4_000_000), 0),
        ("changes", Direction { changes: changes(), ..plain() }, BULK, 0),
        ("changes and a delay of the host", Direction { changes: changes(), host_delay, ..plain() }, MIXED, 0),
        ("everything", everything(), MIXED, 0),
        ("everything seen late", everything(), BULK, 2_000_000),
        ("everything for acknowledgements", everything(), ACKS, 0),
    ]
}

fn of_acknowledgements() -> NamedLinks {
    let (aggregated, thinned, compressed) =
        ("aggregated:time=5ms,pkts=16", "thinned:time=5ms,pkts=9", "compressed:time=9ms,share=5%");
    let together = Direction { ack_loss: Share(0.05), duplicate: Share(0.1), jitter: ms(2).into(), ..acks(thinned) };
    vec![
        ("aggregated", acks(aggregated), ACKS, 0),
        ("aggregated, without a count", acks("aggregated:time=40ms"), ACKS, 0),
        ("thinned", acks(thinned), ACKS, 0),
        ("compressed", acks(compressed), ACKS, 0),
        ("aggregated, seen late", acks(aggregated), ACKS, 28_000_000),
        ("thinned, seen late", acks(thinned), ACKS, 26_000_000),
        ("compressed, seen late", acks(compressed), ACKS, 31_000_000),
        ("acknowledgements lost", Direction { ack_loss: Share(0.1), ..plain() }, ACKS, 0),
        ("thinned, lost, copied and spread", together.clone(), ACKS, 0),
        ("thinned, lost, copied and spread, seen late", together, ACKS, 26_500_000),
        ("held at a slow link", Direction { rate: Some(BitsPerSec(600_000)), ..acks(thinned) }, ACKS, 0),
    ]
}
