//! One direction at work: frames from its port through the shaper into the line of packets on their way, and out when due.

use std::collections::VecDeque;

use nix::errno::Errno;

use super::ack::Ack;
use super::clock;
use super::gate::{Comer, Gate, Passed};
use super::mark::mark_congestion;
use super::meter::Meter;
use super::pool::{Pool, Slot};
use super::port::{Frame, HEADER, Messages, Port};
use super::priority::is_low;
use super::shaper::{PacketVerdict, Shaper, Traits};
use crate::model::run::LinkCounters;
use crate::path::rate_trace::OPPORTUNITY_BYTES;
use crate::path::{LinkConfig, QueueLimit};
use crate::units::BitsPerSec;

/// Frames given to the kernel in one call: it runs the receiver's protocol stack inside that call, so a long batch
/// would hold up the other direction.
const SEND_BATCH: usize = 16;
/// Smallest packet the room of a link is laid out for, bytes: a TCP acknowledgement with options.
const SMALL_PACKET: u64 = 64;
/// Bounds of the packets a direction can hold; the upper one is 400 MB of address space at an MTU of 1500.
const SLOTS: (u64, u64) = (4_096, 262_144);
/// Longest time between two looks at a port. Arrival times come from the kernel, so looking late does no harm as long
/// as nothing that arrived can be due yet.
const LISTEN_MAX: u64 = 1_000_000;
/// Part of the delay that may pass between two looks.
const LISTEN_PART: u64 = 4;
/// Shortest interval worth the trouble.
const LISTEN_MIN: u64 = 100_000;
/// Packets per interval from which on looking at intervals costs less than being woken for each packet.
const LISTEN_PACKETS: usize = 3;

/// A packet on its way.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Parcel {
    pub(crate) due: u64,
    pub(crate) slot: Slot,
    pub(crate) len: u32,
    is_overtaken: bool,
}

/// The packets on their way, in the order in which they leave.
pub(crate) type Line = VecDeque<Parcel>;

/// What a packet meets between its two ports.
struct Way {
    shaper: Shaper,
    gate: Gate,
    line: Line,
    meter: Meter,
}

/// One direction of a link.
pub struct Lane {
    way: Way,
    pool: Pool,
    listen_interval: u64,
    next_look: Option<u64>,
}

impl Lane {
    /// The direction (0 or 1) of this link, with its room set aside.
    pub fn new(config: &LinkConfig, number: usize, limit: QueueLimit) -> Self {
        let direction = &config.directions[number];
        let slots = slots_needed(config, number, limit);
        let interval = (direction.delays()[0].as_nanos() as u64 / LISTEN_PART).min(LISTEN_MAX);
        Lane {
            way: Way {
                shaper: Shaper::new(direction, limit).with_mark(config.mark_limit(number)),
                gate: Gate::new(direction.acks),
                line: VecDeque::with_capacity(slots as usize),
                meter: Meter::new(),
            },
            pool: Pool::new(slots, config.mtu as usize + HEADER),
            listen_interval: if interval < LISTEN_MIN { 0 } else { interval },
            next_look: None,
        }
    }

    /// When the first packet on its way is due.
    pub fn next_due(&self) -> Option<u64> {
        self.way.line.front().map(|parcel| parcel.due)
    }

    /// When to look for packets without being woken.
    pub fn next_look(&self) -> Option<u64> {
        self.next_look
    }

    /// Whether the next packet shall wake the thread: not before the time to look, nor while there is no room for it.
    pub fn listens(&self) -> bool {
        self.next_look.is_none() && !self.pool.is_full()
    }

    /// Takes a batch of packets from the port; returns how many there were.
    ///
    /// Errors: the interface was taken away.
    pub fn receive(&mut self, port: &mut Port, messages: &mut Messages) -> Result<usize, Errno> {
        let Lane { way, pool, .. } = self;
        port.receive(messages, pool, |pool, frame| way.carry(pool, frame))
    }

    /// Decides by what a look brought whether to look again after an interval or to be woken.
    pub fn plan_next_look(&mut self, packets: usize, now: u64) {
        let pays = self.listen_interval > 0 && packets >= LISTEN_PACKETS;
        self.next_look = pays.then(|| now + self.listen_interval);
    }

    /// Sends one batch of packets that are due; returns whether there were any.
    pub fn send_due(&mut self, port: &Port, messages: &mut Messages) -> bool {
        let now = clock::now();
        let mut batch = [(Slot::default(), 0); SEND_BATCH];
        let mut len = 0;
        for parcel in self.way.line.iter().take(SEND_BATCH).take_while(|parcel| parcel.due <= now) {
            batch[len] = (parcel.slot, parcel.len);
            len += 1;
        }
        let mut done = 0;
        while done < len {
            let sent = port.send(messages, &self.pool, &batch[done..len]);
            let left_at = clock::now();
            self.way.line.drain(..sent).for_each(|parcel| {
                self.way.meter.sent(packet_len(parcel.len), left_at, parcel.due);
                self.pool.give_back(parcel.slot);
            });
            done += sent;
            if done < len
                && let Some(refused) = self.way.line.pop_front()
            {
                self.way.meter.counts.failed_pkts += 1;
                self.pool.give_back(refused.slot);
                done += 1;
            }
        }
        len > 0
    }

    /// The counters as a run records them.
    pub fn counters(&mut self, input: &Port) -> LinkCounters {
        self.way.meter.counts.failed_pkts += input.take_drops();
        LinkCounters {
            lost_positions: self.way.shaper.first_lost().to_vec(),
            loss_runs: Some(self.way.shaper.loss_runs()),
            ..self.way.meter.counters(self.way.shaper.max_queue_pkts())
        }
    }

    /// Starts the counters at zero.
    pub fn restart_counters(&mut self, input: &Port) {
        input.take_drops();
        self.way.meter.restart();
        self.way.shaper.restart_counters();
    }

    /// Begins what changes by time.
    pub fn start(&mut self, begin: u64) {
        self.way.shaper.start(begin);
    }

    /// Starts the random numbers anew.
    pub fn reseed(&mut self, seed: u64) {
        self.way.shaper.reseed(seed);
    }
}

/// Puts a packet in its place; returns how many it overtakes that no other has: of those held back, few at any time.
pub(crate) fn line_up(line: &mut Line, due: u64, frame: Frame) -> u64 {
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

impl Way {
    /// Decides what happens to a frame and its copy, and lines up what is due.
    fn carry(&mut self, pool: &mut Pool, frame: Frame) {
        self.meter.counts.received_pkts += 1;
        if frame.len as usize > pool.slot_len() {
            // Longer than the link's MTU: it cannot be carried.
            pool.give_back(frame.slot);
            self.meter.counts.failed_pkts += 1;
            return;
        }
        let bytes = packet_len(frame.len);
        let (ack, is_low) = self.traits(packet(pool, &frame));
        let verdict = self.shaper.admit_as(frame.arrival, bytes, Traits { is_low, is_ack: ack.is_some() });
        let PacketVerdict::Due(due) = verdict else {
            pool.give_back(frame.slot);
            self.count(verdict, frame.arrival);
            return;
        };
        if self.shaper.marks_last() {
            self.meter.counts.marked_pkts += u64::from(mark_congestion(packet(pool, &frame)));
        }
        self.line_up(pool, due, frame, ack);
        if let Some(verdict) = self.shaper.admit_copy(frame.arrival, bytes) {
            self.meter.counts.duplicated_pkts += 1;
            self.add_copy(pool, verdict, frame, ack);
        }
    }

    /// Which acknowledgement a packet is, and whether it is of low priority, as far as either matters here.
    fn traits(&self, packet: &[u8]) -> (Option<Ack>, bool) {
        let minds_acks = self.shaper.minds_acks() || self.gate.minds_acks();
        let ack = if minds_acks { Ack::of(packet) } else { None };
        (ack, self.shaper.minds_priority() && is_low(packet))
    }

    fn line_up(&mut self, pool: &mut Pool, due: u64, frame: Frame, ack: Option<Ack>) {
        let comer = Comer { due, ack, begins_batch: self.shaper.begins_batch() };
        let Passed { reordered, is_held, thinned } =
            self.gate.line_up(&mut self.line, comer, frame, |slot| pool.give_back(slot));
        self.meter.reordered_pkts += reordered;
        self.meter.counts.acks_held_pkts += u64::from(is_held);
        self.meter.counts.acks_thinned_pkts += thinned;
    }

    /// Lines up a copy of a frame; one that finds no room counts as not carried.
    fn add_copy(&mut self, pool: &mut Pool, verdict: PacketVerdict, frame: Frame, ack: Option<Ack>) {
        let PacketVerdict::Due(due) = verdict else {
            self.count(verdict, frame.arrival);
            return;
        };
        match pool.copy(frame.slot) {
            Some(slot) => self.line_up(pool, due, Frame { slot, ..frame }, ack),
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

fn packet<'a>(pool: &'a mut Pool, frame: &Frame) -> &'a mut [u8] {
    pool.bytes_mut(frame.slot).get_mut(HEADER..frame.len as usize).unwrap_or_default()
}

/// Bytes of the IP packet in a frame.
fn packet_len(frame_len: u32) -> u32 {
    frame_len.saturating_sub(HEADER as u32)
}

/// Packets that can be in the queue and on the way at once, within bounds.
fn slots_needed(config: &LinkConfig, number: usize, limit: QueueLimit) -> u32 {
    let direction = &config.directions[number];
    let queued = match limit {
        QueueLimit::Packets(packets) => packets.into(),
        QueueLimit::Bytes(bytes) => bytes / SMALL_PACKET,
    };
    let (fewest, most) = SLOTS;
    let longest = direction.delays()[1] + direction.jitter + direction.held_up();
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
        let mut line = Line::new();
        let mut add = |due| line_up(&mut line, due, Frame { slot: Slot::default(), len: 60, arrival: 0 });
        assert_eq!([add(10), add(90), add(20), add(30), add(95), add(40), add(95)], [0, 0, 1, 0, 0, 1, 0]);
        assert!(line.iter().map(|parcel| parcel.due).eq([10, 20, 30, 40, 90, 95, 95]));
    }
}
