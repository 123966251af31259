//! Room for the packets on their way, set aside once: no allocation per packet, and a bound on what a link can hold.

use std::cell::UnsafeCell;

/// Slots begin on a cache line.
const CACHE_LINE: usize = 64;

/// A place for one frame.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Slot(u32);

/// Slots of equal length; the one given back last is used first, so few of them are ever touched at low rates.
#[derive(Debug)]
pub struct Pool {
    bytes: Box<[UnsafeCell<u8>]>,
    slot_len: usize,
    free: Vec<Slot>,
}

impl Pool {
    /// Room for `slots` frames of up to `frame_len` bytes; memory the kernel gives only when it is touched.
    pub fn new(slots: u32, frame_len: usize) -> Self {
        let slot_len = frame_len.next_multiple_of(CACHE_LINE);
        let bytes: Box<[u8]> = vec![0; slot_len * slots as usize].into();
        // SAFETY: `UnsafeCell<u8>` has the layout of `u8`, and the box is owned here alone.
        let bytes = unsafe { Box::from_raw(Box::into_raw(bytes) as *mut [UnsafeCell<u8>]) };
        Pool { bytes, slot_len, free: (0..slots).rev().map(Slot).collect() }
    }

    /// A free slot; none when the link holds all it can.
    pub fn take(&mut self) -> Option<Slot> {
        self.free.pop()
    }

    /// A free slot with the bytes of this one; none when the link holds all it can.
    pub fn copy(&mut self, from: Slot) -> Option<Slot> {
        let to = self.take()?;
        // SAFETY: both are whole slots of this pool and distinct, because a slot in use is never free.
        unsafe { std::ptr::copy_nonoverlapping(self.address(from), self.address(to), self.slot_len) };
        Some(to)
    }

    pub fn bytes_mut(&mut self, slot: Slot) -> &mut [u8] {
        // SAFETY: a whole slot of this pool, and nobody else has it while the pool is borrowed: the kernel reads and
        // writes only during calls.
        unsafe { std::slice::from_raw_parts_mut(self.address(slot), self.slot_len) }
    }

    /// Whether no slot is free.
    pub fn is_full(&self) -> bool {
        self.free.is_empty()
    }

    /// Gives a slot back that was taken.
    pub fn give_back(&mut self, slot: Slot) {
        self.free.push(slot);
    }

    /// Where the slot's bytes begin; for the kernel to read or write within [`Pool::slot_len`].
    pub fn address(&self, slot: Slot) -> *mut u8 {
        let start = slot.0 as usize * self.slot_len;
        debug_assert!(start + self.slot_len <= self.bytes.len());
        self.bytes.as_ptr().cast_mut().cast::<u8>().wrapping_add(start)
    }

    pub fn slot_len(&self) -> usize {
        self.slot_len
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_are_distinct_bounded_and_used_again() {
        let mut pool = Pool::new(3, 100);
        assert_eq!(pool.slot_len(), 128);
        let taken: Vec<Slot> = std::iter::from_fn(|| pool.take()).collect();
        assert_eq!((taken.len(), pool.is_full()), (3, true));
        assert_eq!(pool.address(taken[1]) as usize - pool.address(taken[0]) as usize, 128);
        pool.give_back(taken[1]);
        assert!(!pool.is_full());
        assert_eq!(pool.take(), Some(taken[1]));
    }
}
