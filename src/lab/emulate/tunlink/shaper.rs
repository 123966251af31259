//! Decides what happens to a packet that enters one direction of a link: lost, dropped by the queue, or due at a
//! moment.
//!
//! Pure: each packet brings its time. All times are nanoseconds of one monotonic clock.

use std::collections::VecDeque;
use std::time::Duration;

use rand_pcg::Pcg64;
use rand_pcg::rand_core::Rng;

use super::serialiser::Serialiser;
use crate::path::change::DirectionChange;
use crate::path::draws::{Losses, RandomStream, draw};
use crate::path::loss::LossModel;
use crate::path::steps::Steps;
use crate::path::{Direction, QueueLimit};
use shared::model::queue::QueueState;
use shared::model::run::LinkCounters;

/// Queue entries allocated at the start; a longer queue grows once.
const QUEUE_READY: usize = 4_096;

fn nanos(time: Duration) -> u64 {
    time.as_nanos() as u64
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PacketVerdict {
    /// By the loss model.
    Lost,
    /// A pure acknowledgement that passed the loss model, lost by `ack_loss`.
    AckLost,
    /// The link was down.
    Down,
    /// The queue was full.
    Overflow,
    /// Leaves the link at this moment, not before an earlier packet that is not held back.
    Due(u64),
}

/// Properties of a packet that some links treat differently.
#[derive(Debug, Clone, Copy, Default)]
pub struct Traits {
    /// The header asks for low priority.
    pub is_low: bool,
    pub is_ack: bool,
}

/// A packet in the queue.
#[derive(Debug, Clone, Copy)]
struct Waiting {
    serialised_from: u64,
    bytes: u64,
}

/// One direction of a link on a virtual clock: losses, drop-tail queue, serialiser, delay.
#[derive(Debug)]
pub struct Shaper {
    direction: Direction,
    limit: QueueLimit,
    is_up: Steps<bool>,
    loss: Steps<LossModel>,
    losses: Losses,
    serialiser: Serialiser,
    host_delay: u64,
    /// Whether the run has begun. Calibration measures the path without the delay of hosts.
    pub has_begun: bool,
    host_draws: Pcg64,
    last_arrival: u64,
    delay: Steps<u64>,
    jitter: u64,
    jitter_draws: Pcg64,
    mark: Option<QueueLimit>,
    /// Whether the last admitted packet is to be marked.
    pub is_marked: bool,
    reorder_draws: Pcg64,
    duplicate_draws: Pcg64,
    ack_loss_draws: Pcg64,
    ack_hold_draws: Pcg64,
    /// Whether the last admitted packet begins a batch, if it is an acknowledgement and none is held.
    pub begins_batch: bool,
    copy: Option<PacketCopy>,
    last_due: u64,
    queue: VecDeque<Waiting>,
    queue_bytes: u64,
    /// Largest number of packets in the queue.
    max_queue_pkts: u64,
    samples: QueueSamples,
}

/// Samples of the queue at equal intervals. Nothing waits for them: the next packet takes those before it, because the
/// queue knows when each of its packets leaves.
#[derive(Debug, Default)]
struct QueueSamples {
    /// Its room is reserved, because the link's thread must not wait for memory.
    list: Vec<QueueState>,
    room: usize,
    interval: u64,
    next: u64,
}

/// Random draws of one packet.
#[derive(Debug, Clone, Copy)]
struct Chances {
    /// Added to the delay, nanoseconds.
    jitter: u64,
    /// By how much longer it takes than the packets behind it, nanoseconds.
    held_back: u64,
    /// Whether it begins a batch if it is an acknowledgement.
    begins_batch: bool,
}

#[derive(Debug, Clone, Copy)]
struct PacketCopy {
    chances: Chances,
    /// The queue's limit for the packet's priority.
    limit: QueueLimit,
}

impl Shaper {
    /// A shaper that marks packets that find `mark` or more in the queue.
    pub fn new(direction: &Direction, limit: QueueLimit, mark: Option<QueueLimit>) -> Self {
        let ready = match limit {
            QueueLimit::Packets(packets) => (packets as usize).min(QUEUE_READY),
            QueueLimit::Bytes(_) => QUEUE_READY,
        };
        let mut shaper = Shaper {
            limit,
            is_up: Steps::fixed(true),
            loss: Steps::fixed(direction.loss.clone()),
            losses: Losses::new(&direction.loss, direction.seed),
            serialiser: Serialiser::new(Steps::fixed(None)),
            host_delay: nanos(direction.host_delay),
            has_begun: false,
            host_draws: RandomStream::Host.generator(direction.seed),
            last_arrival: 0,
            delay: Steps::fixed(0),
            jitter: nanos(direction.jitter),
            jitter_draws: RandomStream::Jitter.generator(direction.seed),
            mark,
            is_marked: false,
            reorder_draws: RandomStream::Reorder.generator(direction.seed),
            duplicate_draws: RandomStream::Duplicate.generator(direction.seed),
            ack_loss_draws: RandomStream::AckLoss.generator(direction.seed),
            ack_hold_draws: RandomStream::AckHold.generator(direction.seed),
            begins_batch: false,
            copy: None,
            direction: direction.clone(),
            last_due: 0,
            queue: VecDeque::with_capacity(ready),
            queue_bytes: 0,
            max_queue_pkts: 0,
            samples: QueueSamples::default(),
        };
        shaper.reseed(direction.seed);
        shaper
    }

    /// Restarts the random numbers: the next packet is the seed's first. Timed changes are off until [`Shaper::start`].
    pub fn reseed(&mut self, seed: u64) {
        self.follow(u64::MAX);
        self.has_begun = false;
        self.losses = Losses::new(&self.direction.loss, seed);
        self.host_draws = RandomStream::Host.generator(seed);
        self.jitter_draws = RandomStream::Jitter.generator(seed);
        self.reorder_draws = RandomStream::Reorder.generator(seed);
        self.duplicate_draws = RandomStream::Duplicate.generator(seed);
        self.ack_loss_draws = RandomStream::AckLoss.generator(seed);
        self.ack_hold_draws = RandomStream::AckHold.generator(seed);
    }

    /// Takes `room` samples of the queue, nanoseconds apart, from the next start on.
    pub fn sample_every(&mut self, interval: u64, room: usize) {
        let room = if self.direction.has_queue() { room } else { 0 };
        self.samples = QueueSamples { list: Vec::with_capacity(room), room, interval, next: u64::MAX };
    }

    /// Takes the samples that are due by a time, with the packets that the queue dropped and those marked so far.
    /// Times never decrease.
    pub fn sample(&mut self, until: u64, [overflow_pkts, marked_pkts]: [u64; 2]) {
        while self.samples.list.len() < self.samples.room && self.samples.next <= until {
            let time_ns = self.samples.next;
            self.leave_queue(time_ns);
            let wait_ns = self.serialiser.begins_at(time_ns) - time_ns;
            let queue_pkts = self.queue.len() as u64;
            self.samples.list.push(QueueState { time_ns, queue_pkts, wait_ns, overflow_pkts, marked_pkts });
            self.samples.next += self.samples.interval;
        }
    }

    /// The samples since the start.
    pub fn samples(&self) -> &[QueueState] {
        &self.samples.list
    }

    /// Starts timed changes: the rate trace and the changes count from this moment.
    pub fn start(&mut self, begin: u64) {
        self.has_begun = true;
        self.samples.list.clear();
        self.samples.next = begin;
        self.follow(begin);
        if let Some(trace) = &self.direction.trace {
            self.serialiser.follow_trace(trace, begin);
        }
    }

    fn follow(&mut self, begin: u64) {
        let Direction { rate, delay, loss, changes, .. } = &self.direction;
        let at = |change: &DirectionChange| begin.saturating_add(nanos(change.at));
        let changes = || changes.iter().map(move |change| (at(change), change));
        let rates = changes().filter_map(|(at, change)| Some((at, Some(change.rate?.0))));
        self.serialiser.follow_rate(Steps::new(rate.map(|rate| rate.0), rates));
        self.delay = Steps::new(nanos(*delay), changes().filter_map(|(at, change)| Some((at, nanos(change.delay?)))));
        self.is_up = Steps::new(true, changes().filter_map(|(at, change)| Some((at, change.up?))));
        self.loss = Steps::new(loss.clone(), changes().filter_map(|(at, change)| Some((at, change.loss.clone()?))));
    }

    /// When a packet that the host sends now reaches the link. The host's delay never reorders packets.
    pub fn arrival(&mut self, sent: u64) -> u64 {
        self.last_arrival = self.last_arrival.max(sent + draw_up_to(&mut self.host_draws, self.host_delay));
        self.last_arrival
    }

    /// Decides what happens to an IP packet of this many bytes. Call it for packets in the order of their arrival.
    ///
    /// A packet of low priority finds the queue full earlier.
    pub fn admit_as(&mut self, arrival: u64, bytes: u32, traits: Traits) -> PacketVerdict {
        let low = self.direction.queue_low.filter(|_| traits.is_low);
        let limit = low.map_or(self.limit, QueueLimit::Packets);
        if !*self.is_up.at(arrival) {
            return PacketVerdict::Down;
        }
        // Drawn for lost packets too: what happens to a packet depends on its number alone.
        let chances = self.draw_chances();
        let has_copy = draws_share(&mut self.duplicate_draws, self.direction.duplicate.0);
        self.copy = has_copy.then(|| PacketCopy { chances: self.draw_chances(), limit });
        let loses_ack = draws_share(&mut self.ack_loss_draws, self.direction.ack_loss.0) && traits.is_ack;
        if self.loss.pass(arrival) {
            self.losses.change(self.loss.current());
        }
        if self.losses.takes_next() {
            return PacketVerdict::Lost;
        }
        if loses_ack {
            return PacketVerdict::AckLost;
        }
        self.enter_queue(arrival, bytes, chances, limit)
    }

    /// Decides what happens to the copy of the last admitted packet; most packets have none.
    pub fn admit_copy(&mut self, arrival: u64, bytes: u32) -> Option<PacketVerdict> {
        let PacketCopy { chances, limit } = self.copy.take()?;
        Some(self.enter_queue(arrival, bytes, chances, limit))
    }

    fn draw_chances(&mut self) -> Chances {
        let batches = self.direction.acks.map_or(0.0, |acks| acks.share.0);
        let begins_batch = draws_share(&mut self.ack_hold_draws, batches);
        let jitter = draw_up_to(&mut self.jitter_draws, self.jitter);
        let held_back = match self.direction.reorder {
            Some(reorder) if draw(&mut self.reorder_draws) < reorder.share.0 => nanos(reorder.by),
            _ => 0,
        };
        Chances { jitter, held_back, begins_batch }
    }

    fn enter_queue(&mut self, arrival: u64, bytes: u32, chances: Chances, limit: QueueLimit) -> PacketVerdict {
        self.leave_queue(arrival);
        let serialised_from = self.serialiser.begins_at(arrival);
        if serialised_from > arrival && !self.fits(bytes, limit) {
            return PacketVerdict::Overflow;
        }
        self.begins_batch = chances.begins_batch;
        self.is_marked = self.mark.is_some_and(|mark| self.holds(mark));
        if serialised_from > arrival {
            self.queue.push_back(Waiting { serialised_from, bytes: bytes.into() });
            self.queue_bytes += u64::from(bytes);
            self.max_queue_pkts = self.max_queue_pkts.max(self.queue.len() as u64);
        }
        let left = self.serialiser.take(serialised_from, bytes);
        self.last_due = self.last_due.max(left + *self.delay.at(left) + chances.jitter);
        PacketVerdict::Due(self.last_due + chances.held_back)
    }

    /// Whether this direction treats acknowledgements differently.
    pub fn minds_acks(&self) -> bool {
        self.direction.ack_loss.0 > 0.0
    }

    /// Whether this direction treats packets of low priority differently.
    pub fn minds_priority(&self) -> bool {
        self.direction.queue_low.is_some()
    }

    /// Adds the shaper's own counts.
    pub fn counters(&self, counts: LinkCounters) -> LinkCounters {
        LinkCounters {
            lost_positions: self.losses.first_lost().to_vec(),
            loss_runs: Some(self.losses.runs()),
            max_queue_pkts: Some(self.max_queue_pkts),
            ..counts
        }
    }

    pub fn restart_counters(&mut self) {
        self.max_queue_pkts = 0;
        self.losses.restart_runs();
    }

    /// Removes the packets whose serialisation has begun.
    fn leave_queue(&mut self, now: u64) {
        while let Some(first) = self.queue.front().filter(|first| first.serialised_from <= now) {
            self.queue_bytes -= first.bytes;
            self.queue.pop_front();
        }
    }

    /// Whether the queue holds at least this much.
    fn holds(&self, much: QueueLimit) -> bool {
        match much {
            QueueLimit::Packets(packets) => self.queue.len() >= packets as usize,
            QueueLimit::Bytes(bytes) => self.queue_bytes >= bytes,
        }
    }

    fn fits(&self, bytes: u32, limit: QueueLimit) -> bool {
        match limit {
            QueueLimit::Packets(packets) => self.queue.len() < packets as usize,
            QueueLimit::Bytes(most) => self.queue_bytes + u64::from(bytes) <= most,
        }
    }
}

/// Uniform in 0..=most; a `most` of 0 draws no number.
fn draw_up_to(draws: &mut Pcg64, most: u64) -> u64 {
    match most {
        0 => 0,
        // The high half of a 64 by 64 bit product.
        most => ((u128::from(draws.next_u64()) * u128::from(most + 1)) >> 64) as u64,
    }
}

/// True with this probability; a share of 0 draws no number.
fn draws_share(draws: &mut Pcg64, share: f64) -> bool {
    share > 0.0 && draw(draws) < share
}

#[cfg(test)]
mod tests;
