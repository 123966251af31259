//! Compares the link of virtual time with the emulator: both treat every packet in the same way.
//!
//! `bpf/guest/shaper.h` and `line.h` are compiled natively, with the undefined-behaviour sanitizer. They read the
//! request that a guest gets, so its bytes are tested too.

use std::ffi::c_void;
use std::sync::OnceLock;
use std::time::Duration;

use libloading::Library;
use proptest::prelude::*;

use crate::emulate::tunlink::ack::Ack;
use crate::emulate::tunlink::gate::{AckGate, Comer, Passed};
use crate::emulate::tunlink::lane::ParcelLine;
use crate::emulate::tunlink::pool::Slot;
use crate::emulate::tunlink::port::EthernetFrame;
use crate::emulate::tunlink::shaper::{PacketVerdict, Shaper, Traits};
use crate::path::{Direction, LinkConfig};
use crate::virtual_time::bytes::compile;
use crate::virtual_time::link::{self, Outlet};
use shared::model::queue::{QueueSample, QueueState};
use shared::model::run::LinkCounters;
use shared::units::Share;

mod random;

use random::{Deed, TestPacket, any_config, any_packets};

/// `struct verdict`.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
struct NativeVerdict {
    kind: u32,
    is_held_back: bool,
    begins_batch: bool,
    due_ns: u64,
}

/// `struct host_arrival` of tests/host/link.c.
#[repr(C)]
struct NativeArrival {
    at_ns: u64,
    packet: *const u8,
    packet_length: u64,
    bytes: u32,
    is_low: u32,
}

/// `enum verdict_kind`.
const NONE: u32 = 0;
const LOST: u32 = 1;
const DOWN: u32 = 2;
const OVERFLOW: u32 = 3;
const ACK_LOST: u32 = 5;
const DUE: u32 = 6;

/// `struct tccc_link_counters`.
#[repr(C)]
struct NativeCounters([u64; 17]);
/// Index of the number of positions in the counters.
const FIRST_LOST_COUNT: usize = 16;
/// Interval and number of the samples of a queue.
const SAMPLE: Duration = Duration::from_micros(700);
const SAMPLES: u64 = 300;
/// Returned if no packet is due.
const NO_PACKET: u64 = u64::MAX;

/// The verdict of a packet, whether it was marked, and the verdict of its copy.
type PacketFate = (PacketVerdict, bool, Option<PacketVerdict>);

/// One direction in C.
struct CLink(*mut c_void);

fn library() -> &'static Library {
    static LIBRARY: OnceLock<Library> = OnceLock::new();
    LIBRARY.get_or_init(|| {
        let (_folder, path) = compile::library(&[&compile::in_tree("tests/host/link.c")]);
        // SAFETY: the library is ours and runs no code when loaded.
        unsafe { Library::new(path) }.expect("the link's library loads")
    })
}

/// Declares the functions of tests/host/link.c that take a link.
macro_rules! methods {
    ($($name:ident($($argument:ident: $kind:ty),*) $(-> $result:ty)?;)*) => {
        impl CLink {
            $(fn $name(&self, $($argument: $kind),*) $(-> $result)? {
                // SAFETY: link.c has this signature, the link is live, and what pointers point to outlives the call.
                unsafe {
                    let name = concat!("host_link_", stringify!($name), "\0");
                    let function = library().get::<unsafe extern "C" fn(*mut c_void $(, $kind)*) $(-> $result)?>(name);
                    function.expect(name)(self.0 $(, $argument)*)
                }
            })*
        }
    };
}

methods! {
    free();
    reseed();
    start(begin_ns: u64);
    begin_samples(begin_ns: u64, room: u64);
    sample(until_ns: u64) -> u64;
    samples() -> *const u8;
    restart_counters();
    arrival(now_ns: u64) -> u64;
    admit(arrival: *const NativeArrival) -> NativeVerdict;
    admit_copy(arrival_ns: u64, bytes: u32) -> NativeVerdict;
    is_marked() -> u32;
    counters() -> NativeCounters;
    first_lost() -> *const u64;
    line_add(verdict: *const NativeVerdict, id: u64) -> u64;
    line_take(now_ns: u64) -> u64;
}

impl Drop for CLink {
    fn drop(&mut self) {
        self.free();
    }
}

impl CLink {
    /// None: the laboratory refuses the request.
    fn read(request: &[u8]) -> Option<Self> {
        // SAFETY: link.c has this signature, and copies the bytes within the call.
        let handle = unsafe {
            let new = library().get::<unsafe extern "C" fn(*const u8, u64) -> *mut c_void>("host_link_new");
            new.unwrap()(request.as_ptr(), request.len() as u64)
        };
        (!handle.is_null()).then(|| CLink(handle))
    }

    /// Admits a packet and its copy, and queues those that are due as `id` and `id + 1`. Returns how many were
    /// reordered.
    fn carry(&mut self, arrival: u64, packet: &TestPacket, id: u64) -> (PacketFate, u64) {
        let mut reordered = 0;
        let mut line_up = |verdict: NativeVerdict, id: u64| {
            if verdict.kind == DUE {
                reordered += self.line_add(&raw const verdict, id);
            }
            plain(verdict)
        };
        let native = NativeArrival {
            at_ns: arrival,
            packet: packet.header.as_ptr(),
            packet_length: packet.header.len() as u64,
            bytes: packet.bytes,
            is_low: packet.is_low.into(),
        };
        let Some(verdict) = line_up(self.admit(&raw const native), id) else { panic!("a packet has a verdict") };
        if !matches!(verdict, PacketVerdict::Due(_)) {
            return ((verdict, false, None), 0);
        }
        let is_marked = self.is_marked() != 0;
        let copy = line_up(self.admit_copy(arrival, packet.bytes), id + 1);
        ((verdict, is_marked, copy), reordered)
    }

    fn leaving(&mut self, now: u64) -> Vec<u64> {
        std::iter::repeat_with(|| self.line_take(now)).take_while(|id| *id != NO_PACKET).collect()
    }

    /// The samples of the queue up to a time.
    fn queue(&self, until: u64) -> Vec<QueueState> {
        let count = self.sample(until);
        let mut bytes = count.to_le_bytes().to_vec();
        if count > 0 {
            let length = count as usize * size_of::<link::layout::QueueState>();
            // SAFETY: the link has as many samples as it says.
            bytes.extend_from_slice(unsafe { std::slice::from_raw_parts(self.samples(), length) });
        }
        let samples = link::queues(&bytes, [["a", "b"]]).unwrap();
        samples
            .into_iter()
            .map(|QueueSample { time_ns, queue_pkts, wait_ns, overflow_pkts, marked_pkts, .. }| QueueState {
                time_ns,
                queue_pkts,
                wait_ns,
                overflow_pkts,
                marked_pkts,
            })
            .collect()
    }

    fn link_counters(&self) -> LinkCounters {
        let NativeCounters(counters) = self.counters();
        // SAFETY: the link has as many positions as its counters say.
        let first_lost = unsafe { std::slice::from_raw_parts(self.first_lost(), counters[FIRST_LOST_COUNT] as usize) };
        let bytes: Vec<u8> = counters.iter().chain(first_lost).flat_map(|number| number.to_le_bytes()).collect();
        link::counters(&bytes).unwrap().remove(0)
    }
}

fn plain(verdict: NativeVerdict) -> Option<PacketVerdict> {
    Some(match verdict.kind {
        NONE => return None,
        LOST => PacketVerdict::Lost,
        ACK_LOST => PacketVerdict::AckLost,
        DOWN => PacketVerdict::Down,
        OVERFLOW => PacketVerdict::Overflow,
        DUE => PacketVerdict::Due(verdict.due_ns),
        kind => panic!("kind {kind}"),
    })
}

/// One direction in Rust, as in [`crate::emulate::tunlink::lane::Lane`] between its sockets.
struct RustLink {
    shaper: Shaper,
    gate: AckGate,
    line: ParcelLine,
    counters: LinkCounters,
    seed: u64,
}

impl RustLink {
    fn new(config: &LinkConfig) -> Self {
        let direction = &config.directions[0];
        let limit = config.queue_limits().unwrap()[0];
        RustLink {
            shaper: Shaper::new(direction, limit, config.mark_limit(0)),
            gate: AckGate::new(direction.acks),
            line: ParcelLine::new(),
            counters: LinkCounters::default(),
            seed: direction.seed,
        }
    }

    fn carry(&mut self, arrival: u64, packet: &TestPacket, id: u64) -> (PacketFate, u64) {
        self.counters.received_pkts += 1;
        let minds_acks = self.shaper.minds_acks() || self.gate.minds_acks();
        let ack = Ack::of(&packet.header).filter(|_| minds_acks);
        let traits = Traits { is_low: packet.is_low, is_ack: ack.is_some() };
        self.shaper.sample(arrival, [self.counters.overflow_pkts, 0]);
        let verdict = self.shaper.admit_as(arrival, packet.bytes, traits);
        let PacketVerdict::Due(due) = verdict else {
            self.count(verdict);
            return ((verdict, false, None), 0);
        };
        let is_marked = self.shaper.is_marked;
        let mut reordered = self.line_up(due, frame(id), ack);
        let copy = self.shaper.admit_copy(arrival, packet.bytes);
        self.counters.duplicated_pkts += u64::from(copy.is_some());
        match copy {
            Some(PacketVerdict::Due(due)) => reordered += self.line_up(due, frame(id + 1), ack),
            Some(refused) => self.count(refused),
            None => {}
        }
        ((verdict, is_marked, copy), reordered)
    }

    fn line_up(&mut self, due: u64, frame: EthernetFrame, ack: Option<Ack>) -> u64 {
        let comer = Comer { due, ack, begins_batch: self.shaper.begins_batch };
        let Passed { reordered, is_held, thinned } = self.gate.line_up(&mut self.line, comer, frame, |_| {});
        self.counters.acks_held_pkts += u64::from(is_held);
        self.counters.acks_thinned_pkts += thinned;
        reordered
    }

    fn count(&mut self, refused: PacketVerdict) {
        let LinkCounters { lost_pkts, acks_lost_pkts, down_pkts, overflow_pkts, .. } = &mut self.counters;
        match refused {
            PacketVerdict::Lost => *lost_pkts += 1,
            PacketVerdict::AckLost => *acks_lost_pkts += 1,
            PacketVerdict::Down => *down_pkts += 1,
            _ => *overflow_pkts += 1,
        }
    }

    fn leaving(&mut self, now: u64) -> Vec<u64> {
        let count = self.line.partition_point(|parcel| parcel.due <= now);
        self.line.drain(..count).map(|parcel| parcel.len.into()).collect()
    }

    fn counters(&self) -> LinkCounters {
        self.shaper.counters(LinkCounters { reordered_pkts: Some(0), ..self.counters.clone() })
    }
}

/// A frame that has its number as its length.
fn frame(id: u64) -> EthernetFrame {
    EthernetFrame { slot: Slot::default(), len: id as u32, arrival: 0 }
}

fn both(config: &LinkConfig) -> (CLink, RustLink) {
    let host_delay = config.directions[0].host_delay;
    let outlet = Outlet { device: "veth0", config, direction: 0, host_delay, sample: SAMPLE };
    let native = CLink::read(&outlet.request().unwrap()).expect("the guest reads the request");
    (native, RustLink::new(config))
}

/// Sends packets through both and compares all results. Returns the counters.
fn compare(config: &LinkConfig, packets: &[TestPacket]) -> LinkCounters {
    let (mut native, mut emulated) = both(config);
    let mut now = 0;
    for (index, packet) in packets.iter().enumerate() {
        now += packet.gap;
        match packet.deed {
            Deed::Nothing => {}
            Deed::Start => {
                native.begin_samples(now, if config.directions[0].has_queue() { SAMPLES } else { 0 });
                native.start(now);
                emulated.shaper.sample_every(SAMPLE.as_nanos() as u64, SAMPLES as usize);
                emulated.shaper.start(now);
            }
            Deed::Reseed => {
                native.reseed();
                emulated.shaper.reseed(emulated.seed);
            }
            Deed::RestartCounters => {
                native.restart_counters();
                emulated.shaper.restart_counters();
                emulated.counters = LinkCounters::default();
            }
        }
        let [arrival, same] = [native.arrival(now), emulated.shaper.arrival(now)];
        assert_eq!(arrival, same, "arrival of packet {index}");
        assert_eq!(native.leaving(arrival), emulated.leaving(arrival), "leaving before packet {index}");
        let id = 2 * index as u64;
        let (one, other) = (native.carry(arrival, packet, id), emulated.carry(arrival, packet, id));
        assert_eq!(one, other, "packet {index} of {packet:?} at {arrival}");
        assert_eq!(native.link_counters(), emulated.counters(), "after packet {index}");
    }
    let end = now.max(native.arrival(now)) + 1_000_000_000;
    emulated.shaper.sample(end, [emulated.counters.overflow_pkts, 0]);
    assert_eq!(native.queue(end), emulated.shaper.samples(), "samples of the queue");
    assert_eq!(native.leaving(u64::MAX - 1), emulated.leaving(u64::MAX - 1), "leaving last");
    emulated.counters()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(if cfg!(debug_assertions) { 400 } else { 4_000 }))]

    #[test]
    fn every_packet_is_treated_the_same_in_c_and_rust(
        config in any_config(),
        packets in any_packets(1..500),
    ) {
        compare(&config, &packets);
    }

    /// A request of any bytes is refused, or works without undefined behaviour.
    #[test]
    fn request_of_other_bytes_is_refused_or_harmless(
        config in any_config(),
        patches in prop::collection::vec((any::<prop::sample::Index>(), random::any_word()), 1..6),
        cut in prop::option::of(any::<prop::sample::Index>()),
        packets in any_packets(1..40),
    ) {
        let outlet = Outlet { device: "d", config: &config, direction: 0, host_delay: Duration::ZERO, sample: Duration::ZERO };
        let mut request = outlet.request().unwrap();
        let words = request.len() / 8;
        for (place, word) in &patches {
            let at = 8 * place.index(words);
            request[at..at + 8].copy_from_slice(&word.to_le_bytes());
        }
        if let Some(cut) = cut {
            request.truncate(cut.index(request.len()));
        }
        let mut now = 1 << 40;
        if let Some(mut native) = CLink::read(&request) {
            native.start(now);
            for (index, packet) in packets.iter().enumerate() {
                now += packet.gap;
                let arrival = native.arrival(now);
                native.carry(arrival, packet, 2 * index as u64);
                native.leaving(now);
            }
        }
    }
}

/// The queue has several pages, and fills, drains and fills again.
#[test]
fn long_queue_is_the_same_in_c_and_rust() {
    let direction = random::steady(100_000_000, 2_000);
    let config = LinkConfig { directions: [direction, Direction::default()], mtu: 1500 };
    let burst = |first_gap: u64, packets: usize| {
        let mut burst = vec![TestPacket { bytes: 1500, ..TestPacket::default() }; packets];
        burst[0].gap = first_gap;
        burst
    };
    let packets = [burst(0, 1_000), burst(40_000_000, 1_500), burst(1_000_000_000, 300), burst(90_000, 5_000)].concat();
    let counters = compare(&config, &packets);
    assert_eq!(counters.max_queue_pkts, Some(2_000));
    assert!(counters.overflow_pkts > 2_000, "{counters:?}");
}

/// There are more losses than kept positions.
#[test]
fn first_thousand_losses_are_the_same_in_c_and_rust() {
    let direction = Direction { loss: random::every_other(5_000), ..random::steady(1_000_000_000, 10) };
    let config = LinkConfig { directions: [direction, Direction::default()], mtu: 1500 };
    let counters = compare(&config, &vec![TestPacket { gap: 20_000, bytes: 100, ..TestPacket::default() }; 5_000]);
    assert_eq!((counters.lost_pkts, counters.loss_runs, counters.lost_positions.len()), (2_500, Some(2_500), 1_000));
}

/// Sends ACKs of two flows through every kind of hold. The counters show that each was reached.
#[test]
fn acknowledgements_are_held_thinned_and_lost_alike_in_c_and_rust() {
    let packets: Vec<TestPacket> = (0..4_000u32).map(random::acknowledgement).collect();
    let counters = |acks: &str, ack_loss: f64| {
        let acks = Some(acks.parse().unwrap());
        let direction = Direction { acks, ack_loss: Share(ack_loss), ..random::steady(100_000_000, 50) };
        compare(&LinkConfig { directions: [direction, Direction::default()], mtu: 1500 }, &packets)
    };
    let aggregated = counters("aggregated:time=2ms,pkts=8", 0.0);
    assert_eq!((aggregated.acks_held_pkts, aggregated.acks_thinned_pkts), (3_600, 0), "all but the data");
    let thinned = counters("thinned:time=2ms,pkts=8", 0.05);
    assert!((1_500..3_000).contains(&thinned.acks_thinned_pkts), "{thinned:?}");
    assert!((120..240).contains(&thinned.acks_lost_pkts), "{thinned:?}");
    assert_eq!(thinned.acks_held_pkts + thinned.acks_lost_pkts, 3_600);
    let compressed = counters("compressed:time=5ms,share=2%", 0.0);
    assert!((200..2_500).contains(&compressed.acks_held_pkts), "{compressed:?}");
}
