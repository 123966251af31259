//! Memory for the packets of one direction, reserved once: it bounds their number and saves an allocation per packet.

use std::cell::UnsafeCell;

/// Slots begin on a cache line.
const CACHE_LINE: usize = 64;

/// Memory of one frame.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Slot(u32);

impl Slot {
    pub fn of(number: u32) -> Self {
        Slot(number)
    }

    pub fn number(self) -> u32 {
        self.0
    }
}

/// Slots of equal length. The last one given back is used first, so low rates touch few of them.
#[derive(Debug)]
pub struct FramePool {
    bytes: Box<[UnsafeCell<u8>]>,
    slot_len: usize,
    free: Vec<Slot>,
}

impl FramePool {
    /// Reserves `slots` frames of up to `frame_len` bytes; the kernel allocates a page at its first use.
    pub fn new(slots: u32, frame_len: usize) -> Self {
        let slot_len = frame_len.next_multiple_of(CACHE_LINE);
        let bytes: Box<[u8]> = vec![0; slot_len * slots as usize].into();
        // SAFETY: `UnsafeCell<u8>` has the layout of `u8`, and the box is owned here alone.
        let bytes = unsafe { Box::from_raw(Box::into_raw(bytes) as *mut [UnsafeCell<u8>]) };
        FramePool { bytes, slot_len, free: (0..slots).rev().map(Slot).collect() }
    }

    /// `None` if no slot is free.
    pub fn take(&mut self) -> Option<Slot> {
        self.free.pop()
    }

    /// Copies a slot's bytes to a free slot; `None` if none is free.
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

    pub fn is_full(&self) -> bool {
        self.free.is_empty()
    }

    pub fn give_back(&mut self, slot: Slot) {
        self.free.push(slot);
    }

    /// The slot's first byte, for the kernel to read or write up to [`FramePool::slot_len`] bytes.
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
        let mut pool = FramePool::new(3, 100);
        assert_eq!(pool.slot_len(), 128);
        let taken: Vec<Slot> = std::iter::from_fn(|| pool.take()).collect();
        assert_eq!((taken.len(), pool.is_full()), (3, true));
        assert_eq!(pool.address(taken[1]) as usize - pool.address(taken[0]) as usize, 128);
        pool.give_back(taken[1]);
        assert!(!pool.is_full());
        assert_eq!(pool.take(), Some(taken[1]));
    }
}
