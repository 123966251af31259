//! What happens to a packet that enters one direction of a link: lost, refused by the queue, or due at a moment.
//!
//! Pure: time comes in with each packet, nothing is read or slept. All times are nanoseconds of one monotonic clock.

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

/// Entries kept ready for the queue; a longer queue grows once and stays.
const QUEUE_READY: usize = 4_096;

fn nanos(time: Duration) -> u64 {
    time.as_nanos() as u64
}

/// What a packet meets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PacketVerdict {
    /// Taken by the loss model.
    Lost,
    /// A pure acknowledgement, lost although the loss model let it pass.
    AckLost,
    /// Dropped because the link was down.
    Down,
    /// Dropped because the queue was full.
    Overflow,
    /// Leaves the link at this moment, never before an earlier packet that is not held back.
    Due(u64),
}

/// What decides how a packet is treated.
#[derive(Debug, Clone, Copy, Default)]
pub struct Traits {
    /// Its header asks for low priority.
    pub is_low: bool,
    pub is_ack: bool,
}

/// A packet in front of the serialiser.
#[derive(Debug, Clone, Copy)]
struct Waiting {
    serialised_from: u64,
    bytes: u64,
}

/// One direction of a link on a virtual clock: the loss draw, the drop-tail queue, the serialiser, the delay.
#[derive(Debug)]
pub struct Shaper {
    direction: Direction,
    limit: QueueLimit,
    is_up: Steps<bool>,
    loss: Steps<LossModel>,
    losses: Losses,
    serialiser: Serialiser,
    delay: Steps<u64>,
    jitter: u64,
    jitter_draws: Pcg64,
    mark: Option<QueueLimit>,
    is_marked: bool,
    reorder_draws: Pcg64,
    duplicate_draws: Pcg64,
    ack_loss_draws: Pcg64,
    ack_hold_draws: Pcg64,
    begins_batch: bool,
    copy: Option<Copied>,
    last_due: u64,
    queue: VecDeque<Waiting>,
    queue_bytes: u64,
    max_queue_pkts: u64,
}

/// What chance does to a packet: what it adds to its time, nanoseconds, and what it is if it is an acknowledgement.
#[derive(Debug, Clone, Copy)]
struct Chances {
    jitter: u64,
    held_back: u64,
    begins_batch: bool,
}

/// The copy of a packet.
#[derive(Debug, Clone, Copy)]
struct Copied {
    chances: Chances,
    /// Of the queue, for its priority.
    limit: QueueLimit,
}

impl Shaper {
    /// A direction that has seen no packet yet.
    pub fn new(direction: &Direction, limit: QueueLimit) -> Self {
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
            delay: Steps::fixed(0),
            jitter: nanos(direction.jitter),
            jitter_draws: RandomStream::Jitter.generator(direction.seed),
            mark: None,
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
        };
        shaper.reseed(direction.seed);
        shaper
    }

    /// The same, with what has to wait for a packet to be marked.
    pub fn with_mark(self, mark: Option<QueueLimit>) -> Self {
        Shaper { mark, ..self }
    }

    /// Starts the random numbers anew: the next packet is the seed's first packet. What changes by time waits for
    /// [`Shaper::start`] again.
    pub fn reseed(&mut self, seed: u64) {
        self.follow(u64::MAX);
        self.losses = Losses::new(&self.direction.loss, seed);
        self.jitter_draws = RandomStream::Jitter.generator(seed);
        self.reorder_draws = RandomStream::Reorder.generator(seed);
        self.duplicate_draws = RandomStream::Duplicate.generator(seed);
        self.ack_loss_draws = RandomStream::AckLoss.generator(seed);
        self.ack_hold_draws = RandomStream::AckHold.generator(seed);
    }

    /// Begins what changes by time: the trace of the rate and the changes count from this moment.
    pub fn start(&mut self, begin: u64) {
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

    /// Decides what happens to a packet of this many bytes (the whole IP packet) that arrives at this moment.
    ///
    /// Packets are given in arrival order. One of low priority finds the queue full earlier.
    pub fn admit_as(&mut self, arrival: u64, bytes: u32, traits: Traits) -> PacketVerdict {
        let low = self.direction.queue_low.filter(|_| traits.is_low);
        let limit = low.map_or(self.limit, QueueLimit::Packets);
        self.with_limit(limit, |shaper| shaper.decide(arrival, bytes, traits.is_ack))
    }

    fn decide(&mut self, arrival: u64, bytes: u32, is_ack: bool) -> PacketVerdict {
        if !*self.is_up.at(arrival) {
            return PacketVerdict::Down;
        }
        // Drawn for lost packets too: what happens to a packet depends on its number alone.
        let chances = self.draw_chances();
        self.copy = self.draw_copy();
        let loses_ack = draws_share(&mut self.ack_loss_draws, self.direction.ack_loss.0) && is_ack;
        if self.loss.pass(arrival) {
            self.losses.change(self.loss.current());
        }
        if self.losses.takes_next() {
            return PacketVerdict::Lost;
        }
        if loses_ack {
            return PacketVerdict::AckLost;
        }
        self.enter_queue(arrival, bytes, chances)
    }

    /// What happens to the copy of the packet that was just admitted, of the same priority; most have none.
    pub fn admit_copy(&mut self, arrival: u64, bytes: u32) -> Option<PacketVerdict> {
        let copy = self.copy.take()?;
        Some(self.with_limit(copy.limit, |shaper| shaper.enter_queue(arrival, bytes, copy.chances)))
    }

    fn draw_chances(&mut self) -> Chances {
        let batches = self.direction.acks.map_or(0.0, |acks| acks.share.0);
        let begins_batch = draws_share(&mut self.ack_hold_draws, batches);
        Chances { jitter: self.draw_jitter(), held_back: self.draw_held_back(), begins_batch }
    }

    fn draw_copy(&mut self) -> Option<Copied> {
        let has_copy = draws_share(&mut self.duplicate_draws, self.direction.duplicate.0);
        has_copy.then(|| Copied { chances: self.draw_chances(), limit: self.limit })
    }

    fn enter_queue(&mut self, arrival: u64, bytes: u32, chances: Chances) -> PacketVerdict {
        self.leave_queue(arrival);
        let serialised_from = self.serialiser.begins_at(arrival);
        if serialised_from > arrival && !self.fits(bytes) {
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

    /// How much longer than those behind it this packet takes.
    fn draw_held_back(&mut self) -> u64 {
        match self.direction.reorder {
            Some(reorder) if draw(&mut self.reorder_draws) < reorder.share.0 => nanos(reorder.by),
            _ => 0,
        }
    }

    /// Whether the packet that was admitted last found so long a queue that it is marked.
    pub fn marks_last(&self) -> bool {
        self.is_marked
    }

    /// Whether the packet that was admitted last begins a batch, if it is an acknowledgement and none is held.
    pub fn begins_batch(&self) -> bool {
        self.begins_batch
    }

    /// Whether acknowledgements are treated apart.
    pub fn minds_acks(&self) -> bool {
        self.direction.ack_loss.0 > 0.0
    }

    /// Whether packets of low priority are treated apart.
    pub fn minds_priority(&self) -> bool {
        self.direction.queue_low.is_some()
    }

    fn with_limit(&mut self, limit: QueueLimit, decide: impl FnOnce(&mut Shaper) -> PacketVerdict) -> PacketVerdict {
        let own = std::mem::replace(&mut self.limit, limit);
        let verdict = decide(self);
        self.limit = own;
        verdict
    }

    /// Largest number of packets that waited in the queue.
    pub fn max_queue_pkts(&self) -> u64 {
        self.max_queue_pkts
    }

    /// Runs of losses without a packet between them that passed.
    pub fn loss_runs(&self) -> u64 {
        self.losses.runs()
    }

    /// Numbers of the packets that were lost first.
    pub fn first_lost(&self) -> &[u64] {
        self.losses.first_lost()
    }

    /// Forgets the largest backlog and counts runs of losses from here.
    pub fn restart_counters(&mut self) {
        self.max_queue_pkts = 0;
        self.losses.restart_runs();
    }

    /// Uniform in 0..=jitter: the high half of a 64 by 64 bit product.
    fn draw_jitter(&mut self) -> u64 {
        if self.jitter == 0 {
            return 0;
        }
        ((u128::from(self.jitter_draws.next_u64()) * u128::from(self.jitter + 1)) >> 64) as u64
    }

    /// Packets whose serialisation has begun are no longer in the queue.
    fn leave_queue(&mut self, now: u64) {
        while let Some(first) = self.queue.front().filter(|first| first.serialised_from <= now) {
            self.queue_bytes -= first.bytes;
            self.queue.pop_front();
        }
    }

    /// Whether as much waits as this, or more.
    fn holds(&self, much: QueueLimit) -> bool {
        match much {
            QueueLimit::Packets(packets) => self.queue.len() >= packets as usize,
            QueueLimit::Bytes(bytes) => self.queue_bytes >= bytes,
        }
    }

    fn fits(&self, bytes: u32) -> bool {
        match self.limit {
            QueueLimit::Packets(packets) => self.queue.len() < packets as usize,
            QueueLimit::Bytes(most) => self.queue_bytes + u64::from(bytes) <= most,
        }
    }
}

/// True with the probability of a share; nothing is drawn for none.
fn draws_share(draws: &mut Pcg64, share: f64) -> bool {
    share > 0.0 && draw(draws) < share
}

#[cfg(test)]
mod tests;
