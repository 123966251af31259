//! One direction of a link: the C of `bpf/link`, which the guest of virtual time has too.
//!
//! This file is the only way to that C. What it passes is checked here, or by C when it reads the request.

use std::mem::MaybeUninit;
use std::ptr::NonNull;
use std::slice;

use anyhow::{Context, Result};

use super::pool::Slot;
pub(crate) use crate::c_types::Departure;
use crate::c_types::{Counters, EnteringPacket, Fate, Generator, QueueSample, SlotNumber, VerdictKind};
use crate::path::request::{self, DirectionRequest, STREAMS};
use crate::path::times::TIME_BUCKETS;
use shared::model::queue::QueueState;
use shared::model::run::LinkCounters;

/// Instead of a slot: there is none.
const NO_SLOT: u32 = SlotNumber::LINK_NO_SLOT.0;
/// Instead of a time: no packet is on its way.
const NEVER: u64 = u64::MAX;

/// `struct link` of `bpf/link/emulator.c`.
#[repr(C)]
struct CLink {
    _private: [u8; 0],
}

unsafe extern "C" {
    fn tunlink_new(request: *const u8, length: u64, slots: u32) -> *mut CLink;
    fn tunlink_free(link: *mut CLink);
    fn tunlink_reseed(link: *mut CLink, generators: *const Generator);
    fn tunlink_start(link: *mut CLink, begin_ns: u64);
    fn tunlink_sample_every(link: *mut CLink, interval_ns: u64, room: u64) -> bool;
    fn tunlink_sample(link: *mut CLink, until_ns: u64) -> u64;
    fn tunlink_samples(link: *const CLink) -> *const QueueSample;
    fn tunlink_counters(link: *const CLink, counters: *mut Counters);
    fn tunlink_first_lost(link: *const CLink) -> *const u64;
    fn tunlink_waits(link: *const CLink) -> *const u64;
    fn tunlink_restart_counters(link: *mut CLink);
    fn tunlink_count_marked(link: *mut CLink);
    fn tunlink_service_after(link: *const CLink, service: u8) -> u8;
    fn tunlink_enter(link: *mut CLink, packet: *const EnteringPacket) -> Fate;
    fn tunlink_enter_copy(link: *mut CLink, slot: u32) -> Fate;
    fn tunlink_take_dropped(link: *mut CLink) -> u32;
    fn tunlink_next_due(link: *mut CLink) -> u64;
    fn tunlink_take_due(link: *mut CLink, now_ns: u64, departures: *mut Departure, most: u32) -> u32;
}

/// What becomes of a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PacketVerdict {
    /// By the loss model.
    Lost,
    /// A pure acknowledgement that passed the loss model, lost by `ack_loss`.
    AckLost,
    /// The link was down.
    Down,
    /// Above the rate of the policer.
    Policed,
    /// The queue was full.
    Overflow,
    /// There was no memory.
    Failed,
    /// Leaves the link at this moment, not before an earlier packet that is not held back.
    Due(u64),
}

/// The effects of a packet that enters.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Entered {
    pub verdict: PacketVerdict,
    /// Whether the packet is to be marked.
    pub is_marked: bool,
    /// Whether it makes acknowledgements redundant, which [`DirectionLink::take_dropped`] returns next.
    pub has_dropped: bool,
    /// Whether [`DirectionLink::enter_copy`] is to be called next.
    pub has_copy: bool,
}

impl Entered {
    pub fn is_due(&self) -> bool {
        matches!(self.verdict, PacketVerdict::Due(_))
    }
}

impl From<Fate> for Entered {
    fn from(fate: Fate) -> Self {
        let verdict = match VerdictKind(fate.kind) {
            VerdictKind::VERDICT_LOST => PacketVerdict::Lost,
            VerdictKind::VERDICT_DOWN => PacketVerdict::Down,
            VerdictKind::VERDICT_POLICED => PacketVerdict::Policed,
            VerdictKind::VERDICT_OVERFLOW => PacketVerdict::Overflow,
            VerdictKind::VERDICT_ACK_LOST => PacketVerdict::AckLost,
            VerdictKind::VERDICT_DUE => PacketVerdict::Due(fate.due_ns),
            _ => PacketVerdict::Failed,
        };
        let [is_marked, has_dropped, has_copy] =
            [fate.is_marked, fate.has_dropped, fate.has_copy].map(|flag| flag != 0);
        Entered { verdict, is_marked, has_dropped, has_copy }
    }
}

impl Departure {
    pub fn slot(&self) -> Slot {
        Slot::of(self.slot)
    }
}

/// A packet that enters, in its slot.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Arrival<'a> {
    /// When the host sent it, nanoseconds.
    pub sent: u64,
    /// The whole IP packet.
    pub packet: &'a [u8],
    pub slot: Slot,
    /// The header asks for low priority.
    pub is_low: bool,
}

/// One direction of a link on a virtual clock: losses, drop-tail queue, serialiser, delay, and the packets on their way.
///
/// All times are nanoseconds of one monotonic clock. A packet stays in its slot until it leaves or is dropped.
#[derive(Debug)]
pub(crate) struct DirectionLink {
    link: NonNull<CLink>,
    slots: u32,
}

// SAFETY: the C has no state besides what the pointer leads to, and nobody else has that pointer.
unsafe impl Send for DirectionLink {}

impl Drop for DirectionLink {
    fn drop(&mut self) {
        // SAFETY: `tunlink_new` returned this pointer, and this is its last use.
        unsafe { tunlink_free(self.link.as_ptr()) }
    }
}

/// Calls a function of C with this link.
macro_rules! call {
    ($link:expr, $function:ident($($argument:expr),*)) => {
        // SAFETY: the pointer is live and not shared. Each caller says why other pointers are valid for the call.
        unsafe { $function($link.link.as_ptr() $(, $argument)*) }
    };
}

impl DirectionLink {
    /// A direction that holds packets in slots below `slots`.
    ///
    /// # Errors
    /// Those of [`DirectionRequest::bytes`]; there is no memory.
    pub(crate) fn new(request: &DirectionRequest<'_>, slots: u32) -> Result<Self> {
        let what = || format!("the link refuses its request, or there is no memory for {slots} packets");
        Self::read(&request.bytes()?, slots).with_context(what)
    }

    /// None: the request is wrong, or there is no memory.
    fn read(request: &[u8], slots: u32) -> Option<Self> {
        // SAFETY: the request is copied and checked within the call.
        let link = unsafe { tunlink_new(request.as_ptr(), request.len() as u64, slots) };
        Some(DirectionLink { link: NonNull::new(link)?, slots })
    }

    /// Restarts the random numbers: the next packet is the seed's first. Timed changes are off until
    /// [`DirectionLink::start`].
    pub(crate) fn reseed(&mut self, seed: u64) {
        let generators: [Generator; STREAMS] = request::generators(seed);
        // The array has a generator for every stream, and C copies it.
        call!(self, tunlink_reseed(generators.as_ptr()));
    }

    /// Starts timed changes: the rate trace and the changes count from this moment.
    pub(crate) fn start(&mut self, begin: u64) {
        call!(self, tunlink_start(begin));
    }

    /// Takes `room` samples of the queue, nanoseconds apart, from the next start on. Without memory it takes none.
    pub(crate) fn sample_every(&mut self, interval: u64, room: usize) {
        call!(self, tunlink_sample_every(interval, room as u64));
    }

    /// Takes the samples that are due by a time. Times never decrease.
    ///
    /// Returns the samples since the start.
    pub(crate) fn samples(&mut self, until: u64) -> Vec<QueueState> {
        let count = call!(self, tunlink_sample(until)) as usize;
        if count == 0 {
            return Vec::new();
        }
        let samples = call!(self, tunlink_samples());
        // SAFETY: C has as many samples as it said, and they stay where they are while the link is borrowed.
        let samples = unsafe { slice::from_raw_parts(samples, count) };
        samples.iter().map(|sample| QueueState::from(*sample)).collect()
    }

    pub(crate) fn counters(&self) -> LinkCounters {
        let mut counters = Counters::default();
        // C fills the whole struct.
        call!(self, tunlink_counters(&raw mut counters));
        let first_lost = call!(self, tunlink_first_lost());
        // SAFETY: C keeps as many positions as its counters say.
        let first_lost = unsafe { slice::from_raw_parts(first_lost, counters.first_lost_count as usize) };
        let waits = call!(self, tunlink_waits());
        // SAFETY: C has a count for every bucket.
        let waits = unsafe { slice::from_raw_parts(waits, TIME_BUCKETS) };
        counters.with(first_lost.to_vec(), waits)
    }

    pub(crate) fn restart_counters(&mut self) {
        call!(self, tunlink_restart_counters());
    }

    /// Counts a packet that was marked.
    pub(crate) fn count_marked(&mut self) {
        call!(self, tunlink_count_marked());
    }

    /// The byte of DSCP and ECN of a packet that enters, after the link's router has written it.
    pub(crate) fn service_after(&self, service: u8) -> u8 {
        call!(self, tunlink_service_after(service))
    }

    /// Decides about a packet. Call it for packets in the order in which they were sent.
    ///
    /// # Panics
    /// There is no such slot.
    pub(crate) fn enter(&mut self, arrival: Arrival<'_>) -> Entered {
        let Arrival { sent: sent_ns, packet, slot, is_low } = arrival;
        let (slot, bytes) = (self.number(slot), packet.len() as u32);
        let (packet, is_low) = (packet.as_ptr().cast_mut(), MaybeUninit::new(is_low));
        let packet = EnteringPacket { sent_ns, packet, bytes, slot, is_low, ..EnteringPacket::default() };
        // C reads no more than the bytes of the packet, and keeps no pointer to them.
        call!(self, tunlink_enter(&raw const packet)).into()
    }

    /// Decides about the copy of the last packet. Without a slot, a copy that would be due fails.
    ///
    /// # Panics
    /// There is no such slot.
    pub(crate) fn enter_copy(&mut self, slot: Option<Slot>) -> Entered {
        let number = slot.map_or(NO_SLOT, |slot| self.number(slot));
        call!(self, tunlink_enter_copy(number)).into()
    }

    /// C has an array of this many packets.
    fn number(&self, slot: Slot) -> u32 {
        assert!(slot.number() < self.slots, "{slot:?} is not one of {}", self.slots);
        slot.number()
    }

    /// The next slot of those that the last packet made redundant.
    pub(crate) fn take_dropped(&mut self) -> Option<Slot> {
        Some(call!(self, tunlink_take_dropped())).filter(|slot| *slot != NO_SLOT).map(Slot::of)
    }

    /// When the first packet on its way is due.
    pub(crate) fn next_due(&self) -> Option<u64> {
        Some(call!(self, tunlink_next_due())).filter(|due| *due != NEVER)
    }

    /// Takes packets that are due by a time, as many as `departures` has room for. Returns their number.
    pub(crate) fn take_due(&mut self, now: u64, departures: &mut [Departure]) -> usize {
        // C writes no more departures than there is room for.
        call!(self, tunlink_take_due(now, departures.as_mut_ptr(), departures.len() as u32)) as usize
    }
}

#[cfg(test)]
mod tests;
