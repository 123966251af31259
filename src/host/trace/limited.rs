//! What limited a socket over its life, besides its algorithm.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// `struct tccc_limited` of `bpf/include/trace_event.h`.
const LIMITED_BYTES: usize = 32;

/// As in the kernel's `tcp_info`: `busy_time`, `rwnd_limited` and `sndbuf_limited`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct SocketLimits {
    /// Time with data to send or in flight.
    pub busy: Duration,
    /// Part of it in which the receive window was full.
    pub receive_window: Duration,
    /// Part of it in which the send buffer was full.
    pub send_buffer: Duration,
}

/// The limits of closed sockets by cookie, until the reader takes them.
#[derive(Debug, Clone, Default)]
pub(super) struct Limits(Arc<Mutex<HashMap<u64, SocketLimits>>>);

impl Limits {
    /// Keeps the bytes of a `tccc_limited`. Returns whether they are one.
    pub fn keep(&self, bytes: &[u8]) -> bool {
        let Some((socket, limits)) = decode(bytes) else { return false };
        self.0.lock().expect("no reader of limits panics").insert(socket, limits);
        true
    }

    pub fn take(&self, socket: u64) -> Option<SocketLimits> {
        self.0.lock().expect("no reader of limits panics").remove(&socket)
    }
}

fn decode(bytes: &[u8]) -> Option<(u64, SocketLimits)> {
    let bytes: &[u8; LIMITED_BYTES] = bytes.try_into().ok()?;
    let (numbers, _) = bytes.as_chunks();
    let [socket, busy, receive_window, send_buffer] = *numbers else { return None };
    let time = |number| Duration::from_nanos(u64::from_ne_bytes(number));
    let limits =
        SocketLimits { busy: time(busy), receive_window: time(receive_window), send_buffer: time(send_buffer) };
    Some((u64::from_ne_bytes(socket), limits))
}

#[cfg(test)]
mod tests {
    use super::*;
    use shared::event::EVENT_BYTES;

    #[test]
    fn limits_are_told_from_events_by_their_size_and_taken_once() {
        let limits = Limits::default();
        let bytes = [7u64, 9, 4, 2].map(u64::to_ne_bytes).concat();
        assert!(limits.keep(&bytes) && !limits.keep(&[0; EVENT_BYTES]) && !limits.keep(&[]));
        let time = Duration::from_nanos;
        let expected = SocketLimits { busy: time(9), receive_window: time(4), send_buffer: time(2) };
        assert_eq!([7, 7].map(|socket| limits.take(socket)), [Some(expected), None]);
    }
}
