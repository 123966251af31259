//! One direction of a link between its ports: frames go from one port through the link, and leave when due.

use std::time::Duration;

use anyhow::Result;
use nix::errno::Errno;

use super::clock;
use super::header::{is_low, mark_congestion, remark};
use super::link::{Arrival, Departure, DirectionLink, Entered, PacketVerdict};
use super::meter::Meter;
use super::pool::{FramePool, Slot};
use super::port::{EthernetFrame, HEADER, Messages, Port};
use crate::path::rate_trace::OPPORTUNITY_BYTES;
use crate::path::request::DirectionRequest;
use crate::path::{LinkConfig, QueueLimit};
use shared::model::run::LinkCounters;
use shared::units::{BitsPerSec, nanos};

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

/// The part of a direction between its two ports.
#[derive(Debug)]
pub struct PacketPath {
    pub(super) link: DirectionLink,
    meter: Meter,
    /// Whether packets of low priority are treated differently.
    inspects_priority: bool,
    remarks: bool,
    /// Whether packets can wait.
    has_queue: bool,
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
    ///
    /// # Errors
    /// A field is out of range; there is no memory.
    pub fn new(config: &LinkConfig, number: usize) -> Result<Self> {
        let direction = &config.directions[number];
        let slots = slots_needed(config, number)?;
        let interval = (nanos(direction.delays()[0]) / LISTEN_PART).min(LISTEN_MAX);
        let (host_delay, sample) = (direction.host_delay, Duration::ZERO);
        let request = DirectionRequest { device: None, config, direction: number, host_delay, sample };
        Ok(Lane {
            path: PacketPath {
                link: DirectionLink::new(&request, slots)?,
                meter: Meter::new(),
                inspects_priority: direction.queue_low.is_some(),
                remarks: direction.remark.is_some(),
                has_queue: direction.has_queue(),
            },
            pool: FramePool::new(slots, config.mtu as usize + HEADER),
            listen_interval: if interval < LISTEN_MIN { 0 } else { interval },
            next_look: None,
        })
    }

    /// When the first packet in the line is due.
    pub fn next_due(&self) -> Option<u64> {
        self.path.link.next_due()
    }

    /// Whether the next packet wakes the thread: not when looking at intervals, nor when there is no room for it.
    pub fn listens(&self) -> bool {
        self.next_look.is_none() && !self.pool.is_full()
    }

    /// Receives a batch of packets; returns their number.
    ///
    /// # Errors
    /// The interface was deleted.
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
        let mut due = [Departure::default(); SEND_BATCH];
        let len = self.path.link.take_due(clock::now(), &mut due);
        let due = &due[..len];
        let frames = due.iter().map(|packet| (packet.slot(), packet.bytes + HEADER as u32));
        let mut batch = [(Slot::default(), 0); SEND_BATCH];
        batch.iter_mut().zip(frames).for_each(|(to, frame)| *to = frame);
        let mut done = 0;
        while done < len {
            let sent = port.send(messages, &self.pool, &batch[done..len]);
            let left_at = clock::now();
            for packet in &due[done..done + sent] {
                self.path.meter.sent(packet.bytes, left_at, packet.due_ns);
                self.pool.give_back(packet.slot());
            }
            done += sent;
            if let Some(refused) = due.get(done) {
                self.path.meter.failed_pkts += 1;
                self.pool.give_back(refused.slot());
                done += 1;
            }
        }
        len > 0
    }

    pub fn counters(&mut self, input: &Port) -> LinkCounters {
        self.path.meter.failed_pkts += input.take_drops();
        self.path.counters()
    }

    pub fn restart_counters(&mut self, input: &Port) {
        input.take_drops();
        self.path.restart_counters();
    }
}

impl PacketPath {
    /// Decides what happens to a frame and its copy, and puts both into the line.
    fn carry(&mut self, pool: &mut FramePool, frame: EthernetFrame) {
        if frame.len as usize > pool.slot_len() {
            // Longer than the link's MTU.
            pool.give_back(frame.slot);
            self.meter.oversized_pkts += 1;
            return;
        }
        let EthernetFrame { slot, arrival: sent, .. } = frame;
        if self.remarks {
            remark(packet_of(pool, &frame), |service| self.link.service_after(service));
        }
        let packet = &*packet_of(pool, &frame);
        let is_low = self.inspects_priority && is_low(packet);
        let entered = self.link.enter(Arrival { sent, packet, slot, is_low });
        if !entered.is_due() {
            self.refused(pool, slot, &entered, sent);
            return;
        }
        if entered.is_marked && mark_congestion(packet_of(pool, &frame)) {
            self.link.count_marked();
        }
        self.drop_redundant(pool, &entered);
        if entered.has_copy {
            self.add_copy(pool, frame);
        }
    }

    /// Enters a copy of a frame. A copy without room fails.
    fn add_copy(&mut self, pool: &mut FramePool, frame: EthernetFrame) {
        let copy = pool.copy(frame.slot);
        let entered = self.link.enter_copy(copy);
        match copy.filter(|_| !entered.is_due()) {
            Some(slot) => self.refused(pool, slot, &entered, frame.arrival),
            None => self.drop_redundant(pool, &entered),
        }
    }

    fn refused(&mut self, pool: &mut FramePool, slot: Slot, entered: &Entered, at: u64) {
        pool.give_back(slot);
        if entered.verdict == PacketVerdict::Overflow {
            self.meter.overflowed(at);
        }
    }

    /// Frees the slots of acknowledgements that the last packet made redundant.
    fn drop_redundant(&mut self, pool: &mut FramePool, entered: &Entered) {
        if entered.has_dropped {
            std::iter::from_fn(|| self.link.take_dropped()).for_each(|slot| pool.give_back(slot));
        }
    }

    /// Takes `room` samples of the queue, nanoseconds apart, from the next start on. A direction without a queue has none.
    pub fn sample_every(&mut self, interval: u64, room: usize) {
        self.link.sample_every(interval, if self.has_queue { room } else { 0 });
    }

    fn counters(&self) -> LinkCounters {
        self.meter.counters(self.link.counters())
    }

    fn restart_counters(&mut self) {
        self.meter.restart();
        self.link.restart_counters();
    }
}

fn packet_of<'a>(pool: &'a mut FramePool, frame: &EthernetFrame) -> &'a mut [u8] {
    pool.bytes_mut(frame.slot).get_mut(HEADER..frame.len as usize).unwrap_or_default()
}

/// Packets that can be queued and delayed at once, within [`SLOTS`].
fn slots_needed(config: &LinkConfig, number: usize) -> Result<u32> {
    let direction = &config.directions[number];
    let queued = config.queue_limits_over_time(number)?.into_iter().map(|limit| match limit {
        QueueLimit::Packets(packets) => packets.into(),
        QueueLimit::Bytes(bytes) => bytes / SMALL_PACKET,
    });
    let queued = queued.max().unwrap_or_default();
    let (fewest, most) = SLOTS;
    let longest = direction.delays()[1] + direction.spread() + direction.held_up();
    let at_rate = |rate: BitsPerSec| (rate.0 as f64 / 8.0 * longest.as_secs_f64()) as u64;
    let bytes = match &direction.trace {
        Some(trace) => Some(trace.most_within(longest).saturating_mul(OPPORTUNITY_BYTES.into())),
        None => direction.fastest_rate().map(at_rate),
    };
    let on_the_way = bytes.map_or(most, |bytes| (bytes / SMALL_PACKET).min(most));
    Ok((queued + on_the_way + fewest).min(most) as u32)
}

#[cfg(test)]
mod decisions;
