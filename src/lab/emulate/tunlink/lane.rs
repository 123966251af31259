//! One direction of a link: frames go from its port through the shaper into a line, and leave when due.

use std::collections::VecDeque;

use nix::errno::Errno;

use super::ack::Ack;
use super::clock;
use super::gate::{AckGate, Comer, Passed};
use super::header::{is_low, mark_congestion};
use super::meter::Meter;
use super::pool::{FramePool, Slot};
use super::port::{EthernetFrame, HEADER, Messages, Port};
use super::shaper::{PacketVerdict, Shaper, Traits};
use crate::path::rate_trace::OPPORTUNITY_BYTES;
use crate::path::{LinkConfig, QueueLimit};
use shared::model::run::LinkCounters;
use shared::units::BitsPerSec;

/// Frames sent in one call. The kernel runs the receiver's protocol stack inside that call, so a long batch would delay
/// the other direction.
const SEND_BATCH: usize = 16;
/// Bytes of the smallest packet for which a link reserves room: a TCP acknowledgement with options.
const SMALL_PACKET: u64 = 64;
/// Fewest and most packets that a direction can hold; the most are 400 MB of address space at an MTU of 1500.
const SLOTS: (u64, u64) = (4_096, 262_144);
/// Longest interval between two looks at a port. The kernel stamps arrivals, so looking late does no harm as long as
/// no packet that arrived can be due yet.
const LISTEN_MAX: u64 = 1_000_000;
/// The interval is at most the delay divided by this.
const LISTEN_PART: u64 = 4;
/// Below this interval, the thread waits for each packet.
const LISTEN_MIN: u64 = 100_000;
/// With at least this many packets per interval, looking at intervals costs less than waking for each packet.
const LISTEN_PACKETS: usize = 3;

/// A packet in the line.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Parcel {
    pub(crate) due: u64,
    pub(crate) slot: Slot,
    pub(crate) len: u32,
    is_overtaken: bool,
}

/// Packets in the order in which they leave.
pub(crate) type ParcelLine = VecDeque<Parcel>;

/// The part of a direction between its two ports.
pub struct PacketPath {
    pub shaper: Shaper,
    gate: AckGate,
    line: ParcelLine,
    meter: Meter,
}

pub struct Lane {
    pub path: PacketPath,
    pool: FramePool,
    listen_interval: u64,
    /// When to look for packets, if at intervals.
    pub next_look: Option<u64>,
}

impl Lane {
    /// Direction `number` (0 or 1) of a link, with its room reserved.
    pub fn new(config: &LinkConfig, number: usize, limit: QueueLimit) -> Self {
        let direction = &config.directions[number];
        let slots = slots_needed(config, number, limit);
        let interval = (direction.delays()[0].as_nanos() as u64 / LISTEN_PART).min(LISTEN_MAX);
        Lane {
            path: PacketPath {
                shaper: Shaper::new(direction, limit, config.mark_limit(number)),
                gate: AckGate::new(direction.acks),
                line: VecDeque::with_capacity(slots as usize),
                meter: Meter::new(),
            },
            pool: FramePool::new(slots, config.mtu as usize + HEADER),
            listen_interval: if interval < LISTEN_MIN { 0 } else { interval },
            next_look: None,
        }
    }

    /// When the first packet in the line is due.
    pub fn next_due(&self) -> Option<u64> {
        self.path.line.front().map(|parcel| parcel.due)
    }

    /// Whether the next packet wakes the thread: not when looking at intervals, nor when there is no room for it.
    pub fn listens(&self) -> bool {
        self.next_look.is_none() && !self.pool.is_full()
    }

    /// Receives a batch of packets; returns their number.
    ///
    /// Errors: the interface was deleted.
    pub fn receive(&mut self, port: &mut Port, messages: &mut Messages) -> Result<usize, Errno> {
        let Lane { path, pool, .. } = self;
        port.receive(messages, pool, |pool, frame| path.carry(pool, frame))
    }

    /// Decides, by the number of packets of the last look, whether to look at intervals or to be woken.
    pub fn plan_next_look(&mut self, packets: usize, now: u64) {
        let pays = self.listen_interval > 0 && packets >= LISTEN_PACKETS;
        self.next_look = pays.then(|| now + self.listen_interval);
    }

    /// Sends one batch of due packets; returns whether there were any.
    pub fn send_due(&mut self, port: &Port, messages: &mut Messages) -> bool {
        let now = clock::now();
        let mut batch = [(Slot::default(), 0); SEND_BATCH];
        let mut len = 0;
        for parcel in self.path.line.iter().take(SEND_BATCH).take_while(|parcel| parcel.due <= now) {
            batch[len] = (parcel.slot, parcel.len);
            len += 1;
        }
        let mut done = 0;
        while done < len {
            let sent = port.send(messages, &self.pool, &batch[done..len]);
            let left_at = clock::now();
            self.path.line.drain(..sent).for_each(|parcel| {
                self.path.meter.sent(packet_len(parcel.len), left_at, parcel.due);
                self.pool.give_back(parcel.slot);
            });
            done += sent;
            if done < len
                && let Some(refused) = self.path.line.pop_front()
            {
                self.path.meter.counts.failed_pkts += 1;
                self.pool.give_back(refused.slot);
                done += 1;
            }
        }
        len > 0
    }

    pub fn counters(&mut self, input: &Port) -> LinkCounters {
        self.path.meter.counts.failed_pkts += input.take_drops();
        self.path.shaper.counters(self.path.meter.counters())
    }

    pub fn restart_counters(&mut self, input: &Port) {
        input.take_drops();
        self.path.meter.restart();
        self.path.shaper.restart_counters();
    }
}

/// Puts a packet in its place; returns how many packets it overtakes that no other has overtaken. Only held-back
/// packets can be overtaken, and these are few.
pub(crate) fn line_up(line: &mut ParcelLine, due: u64, frame: EthernetFrame) -> u64 {
    let parcel = Parcel { due, slot: frame.slot, len: frame.len, is_overtaken: false };
    if line.back().is_none_or(|last| last.due <= due) {
        line.push_back(parcel);
        return 0;
    }
    let place = line.partition_point(|other| other.due <= due);
    let mut overtaken = 0;
    for other in line.range_mut(place..).filter(|other| !other.is_overtaken) {
        other.is_overtaken = true;
        overtaken += 1;
    }
    line.insert(place, parcel);
    overtaken
}

impl PacketPath {
    /// Decides what happens to a frame and its copy, and puts both into the line.
    fn carry(&mut self, pool: &mut FramePool, frame: EthernetFrame) {
        self.meter.counts.received_pkts += 1;
        if frame.len as usize > pool.slot_len() {
            // Longer than the link's MTU.
            pool.give_back(frame.slot);
            self.meter.counts.failed_pkts += 1;
            return;
        }
        let bytes = packet_len(frame.len);
        let (ack, is_low) = self.traits(packet(pool, &frame));
        let arrival = if self.shaper.has_begun { self.shaper.arrival(frame.arrival) } else { frame.arrival };
        self.sample(arrival);
        let verdict = self.shaper.admit_as(arrival, bytes, Traits { is_low, is_ack: ack.is_some() });
        let PacketVerdict::Due(due) = verdict else {
            pool.give_back(frame.slot);
            self.count(verdict, frame.arrival);
            return;
        };
        if self.shaper.is_marked {
            self.meter.counts.marked_pkts += u64::from(mark_congestion(packet(pool, &frame)));
        }
        self.line_up(pool, due, frame, ack);
        if let Some(verdict) = self.shaper.admit_copy(arrival, bytes) {
            self.meter.counts.duplicated_pkts += 1;
            self.add_copy(pool, verdict, frame, ack);
        }
    }

    /// Takes the samples of the queue that are due by a time.
    pub fn sample(&mut self, until: u64) {
        let counts = &self.meter.counts;
        self.shaper.sample(until, [counts.overflow_pkts, counts.marked_pkts]);
    }

    /// The acknowledgement, and whether the packet is of low priority; only as far as the link treats these
    /// differently.
    fn traits(&self, packet: &[u8]) -> (Option<Ack>, bool) {
        let minds_acks = self.shaper.minds_acks() || self.gate.minds_acks();
        let ack = if minds_acks { Ack::of(packet) } else { None };
        (ack, self.shaper.minds_priority() && is_low(packet))
    }

    fn line_up(&mut self, pool: &mut FramePool, due: u64, frame: EthernetFrame, ack: Option<Ack>) {
        let comer = Comer { due, ack, begins_batch: self.shaper.begins_batch };
        let Passed { reordered, is_held, thinned } =
            self.gate.line_up(&mut self.line, comer, frame, |slot| pool.give_back(slot));
        self.meter.reordered_pkts += reordered;
        self.meter.counts.acks_held_pkts += u64::from(is_held);
        self.meter.counts.acks_thinned_pkts += thinned;
    }

    /// Puts a copy of a frame into the line; a copy without room counts as failed.
    fn add_copy(&mut self, pool: &mut FramePool, verdict: PacketVerdict, frame: EthernetFrame, ack: Option<Ack>) {
        let PacketVerdict::Due(due) = verdict else {
            self.count(verdict, frame.arrival);
            return;
        };
        match pool.copy(frame.slot) {
            Some(slot) => self.line_up(pool, due, EthernetFrame { slot, ..frame }, ack),
            None => self.meter.counts.failed_pkts += 1,
        }
    }

    fn count(&mut self, refused: PacketVerdict, at: u64) {
        match refused {
            PacketVerdict::Lost => self.meter.counts.lost_pkts += 1,
            PacketVerdict::AckLost => self.meter.counts.acks_lost_pkts += 1,
            PacketVerdict::Down => self.meter.counts.down_pkts += 1,
            _ => self.meter.overflowed(at),
        }
    }
}

fn packet<'a>(pool: &'a mut FramePool, frame: &EthernetFrame) -> &'a mut [u8] {
    pool.bytes_mut(frame.slot).get_mut(HEADER..frame.len as usize).unwrap_or_default()
}

/// Bytes of the IP packet in a frame.
fn packet_len(frame_len: u32) -> u32 {
    frame_len.saturating_sub(HEADER as u32)
}

/// Packets that can be queued and delayed at once, within [`SLOTS`].
fn slots_needed(config: &LinkConfig, number: usize, limit: QueueLimit) -> u32 {
    let direction = &config.directions[number];
    let queued = match limit {
        QueueLimit::Packets(packets) => packets.into(),
        QueueLimit::Bytes(bytes) => bytes / SMALL_PACKET,
    };
    let (fewest, most) = SLOTS;
    let longest = direction.delays()[1] + direction.spread() + direction.held_up();
    let at_rate = |rate: BitsPerSec| (rate.0 as f64 / 8.0 * longest.as_secs_f64()) as u64;
    let bytes = match &direction.trace {
        Some(trace) => Some(trace.most_within(longest).saturating_mul(OPPORTUNITY_BYTES.into())),
        None => direction.fastest_rate().map(at_rate),
    };
    let on_the_way = bytes.map_or(most, |bytes| (bytes / SMALL_PACKET).min(most));
    (queued + on_the_way + fewest).min(most) as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packet_that_leaves_before_others_takes_its_place_and_counts_each_once() {
        let mut line = ParcelLine::new();
        let mut add = |due| line_up(&mut line, due, EthernetFrame { slot: Slot::default(), len: 60, arrival: 0 });
        assert_eq!([add(10), add(90), add(20), add(30), add(95), add(40), add(95)], [0, 0, 1, 0, 0, 1, 0]);
        assert!(line.iter().map(|parcel| parcel.due).eq([10, 20, 30, 40, 90, 95, 95]));
    }
}
