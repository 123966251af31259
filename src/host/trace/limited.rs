//! What limited a socket over its life, besides its algorithm.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use shared::event::RawLimited;
use zerocopy::FromBytes as _;

/// As in the kernel's `tcp_info`: `busy_time`, `rwnd_limited` and `sndbuf_limited`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct SocketLimits {
    /// Time with data to send or in flight.
    pub busy: Duration,
    /// Part of it in which the receive window was full.
    pub receive_window: Duration,
    /// Part of it in which the sender slept because the send buffer was full. The kernel counts less than all of it.
    pub send_buffer: Duration,
}

/// The limits of closed sockets by cookie, until the reader takes them.
#[derive(Debug, Clone, Default)]
pub(super) struct Limits(Arc<Mutex<HashMap<u64, SocketLimits>>>);

impl Limits {
    /// Keeps the bytes of a [`RawLimited`]. Returns whether they are one.
    pub fn keep(&self, bytes: &[u8]) -> bool {
        let Ok(raw) = RawLimited::read_from_bytes(bytes) else { return false };
        let [busy, receive_window, send_buffer] = [raw.busy_ns, raw.rwnd_ns, raw.sndbuf_ns].map(Duration::from_nanos);
        let limits = SocketLimits { busy, receive_window, send_buffer };
        self.0.lock().expect("no reader of limits panics").insert(raw.socket, limits);
        true
    }

    pub fn take(&self, socket: u64) -> Option<SocketLimits> {
        self.0.lock().expect("no reader of limits panics").remove(&socket)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use shared::event::EVENT_BYTES;
    use zerocopy::IntoBytes as _;

    #[test]
    fn limits_are_told_from_events_by_their_size_and_taken_once() {
        let limits = Limits::default();
        let raw = RawLimited { socket: 7, busy_ns: 9, rwnd_ns: 4, sndbuf_ns: 2 };
        assert!(limits.keep(raw.as_bytes()) && !limits.keep(&[0; EVENT_BYTES]) && !limits.keep(&[]));
        let time = Duration::from_nanos;
        let expected = SocketLimits { busy: time(9), receive_window: time(4), send_buffer: time(2) };
        assert_eq!([7, 7].map(|socket| limits.take(socket)), [Some(expected), None]);
    }
}
