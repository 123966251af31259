//! An algorithm as native code: its library, and sockets driven through the shim.

use std::ffi::c_void;
use std::path::Path;

use anyhow::{Context, Result};
use libloading::Library;

use shared::catalog::STATE_BYTES_MAX;

/// `enum tcp_ca_state`.
pub mod state {
    pub const OPEN: u32 = 0;
    pub const DISORDER: u32 = 1;
    pub const CWR: u32 = 2;
    pub const RECOVERY: u32 = 3;
    pub const LOSS: u32 = 4;
}

/// The part of `enum tcp_ca_event` that the simulated kernel sends.
pub mod event {
    pub const TX_START: u32 = 0;
    pub const CWND_RESTART: u32 = 1;
    pub const COMPLETE_CWR: u32 = 2;
    pub const LOSS: u32 = 3;
}

/// The kernel's value for "no threshold yet".
pub const INFINITE_SSTHRESH: u32 = 0x7fff_ffff;

/// A socket of the shim.
type RawSocket = *mut c_void;

macro_rules! shim {
    (fields: $($field:ident),*; samples: $($sample:ident),*; calls: $($call:ident($($kind:ty),*) $(-> $result:ty)?),*;) => {
        /// The fields of a socket that the kernel and the algorithms share, under the kernel's names.
        #[derive(Debug, Clone, Default, PartialEq, Eq)]
        pub struct Tcp { $(pub $field: u32),* }

        /// The rate sample that `cong_control` gets with an ACK.
        #[derive(Debug, Clone, Default, PartialEq, Eq)]
        pub struct Rate { $(pub $sample: i64),* }

        struct Shim {
            $($field: (unsafe extern "C" fn(RawSocket) -> u32, unsafe extern "C" fn(RawSocket, u32)),)*
            rate: RateSetters,
            $($call: unsafe extern "C" fn($($kind),*) $(-> $result)?,)*
        }

        struct RateSetters { $($sample: unsafe extern "C" fn(RawSocket, i64)),* }

        impl Shim {
            /// SAFETY: the library was compiled from shim.c, whose signatures these are.
            unsafe fn load(library: &Library) -> Result<Self, libloading::Error> {
                // SAFETY: the caller's.
                unsafe {
                    Ok(Shim {
                        $($field: (
                            *library.get(concat!("host_get_", stringify!($field)))?,
                            *library.get(concat!("host_set_", stringify!($field)))?,
                        ),)*
                        rate: RateSetters {
                            $($sample: *library.get(concat!("host_set_rate_", stringify!($sample)))?),*
                        },
                        $($call: *library.get(concat!("host_", stringify!($call)))?,)*
                    })
                }
            }

            /// SAFETY: `host` is a live socket of this library.
            unsafe fn store(&self, host: RawSocket, tcp: &Tcp) {
                // SAFETY: the caller's.
                unsafe { $((self.$field.1)(host, tcp.$field);)* }
            }

            /// SAFETY: as [`Shim::store`].
            unsafe fn fetch(&self, host: RawSocket) -> Tcp {
                // SAFETY: the caller's.
                unsafe { Tcp { $($field: (self.$field.0)(host)),* } }
            }

            /// SAFETY: as [`Shim::store`].
            unsafe fn store_rate(&self, host: RawSocket, rate: &Rate) {
                // SAFETY: the caller's.
                unsafe { $((self.rate.$sample)(host, rate.$sample);)* }
            }
        }
    };
}

shim! {
    fields: rcv_nxt, snd_una, snd_nxt, snd_cwnd, snd_cwnd_cnt, snd_cwnd_clamp, snd_ssthresh, prior_cwnd, srtt_us, rttvar_us,
        mss_cache, packets_out, sacked_out, lost_out, retrans_out, max_packets_out, delivered, delivered_ce, lost,
        bytes_sent, bytes_acked, is_cwnd_limited, app_limited, ecn_flags, ack_pending, ca_state;
    samples: prior_mstamp, prior_delivered, prior_delivered_ce, delivered, delivered_ce, interval_us, snd_interval_us,
        rcv_interval_us, rtt_us, losses, acked_sacked, prior_in_flight, last_end_seq, is_app_limited, is_retrans,
        is_ack_delayed;
    calls: new(u8) -> RawSocket, free(RawSocket), private(RawSocket) -> *const u8, set_clock(u64), init(RawSocket),
        release(RawSocket), in_ack_event(RawSocket, u32), pkts_acked(RawSocket, u32, i32, u32),
        cong_control(RawSocket, u32, u32) -> u32, cong_avoid(RawSocket, u32, u32), ssthresh(RawSocket) -> u32,
        set_state(RawSocket, u32), cwnd_event(RawSocket, u32), cwnd_event_tx_start(RawSocket),
        min_tso_segs(RawSocket) -> u32, undo_cwnd(RawSocket) -> u32, storage(RawSocket) -> *mut u8,
        get_pacing_rate(RawSocket) -> u64, get_pacing_status(RawSocket) -> u32, set_pacing_status(RawSocket, u32),
        get_mark(RawSocket) -> i32, set_mark(RawSocket, i32), get_priority(RawSocket) -> i32,
        data_arrives(RawSocket, u32, u32), get_acks_sent(RawSocket) -> u32, get_echoed(RawSocket) -> u32,
        set_priority(RawSocket, i32), set_max_pacing_rate(RawSocket, u64), set_wstamp_ns(RawSocket, u64),
        controls_rate() -> u32, seed(u64), get_has_block(RawSocket) -> u32, set_lacks_storage(RawSocket, u32);
}

impl Tcp {
    /// Packets in flight, as far as the sender can tell.
    ///
    /// Subtracts first, as the kernel does, so no intermediate sum overflows.
    pub fn in_flight(&self) -> u32 {
        self.packets_out - self.sacked_out - self.lost_out + self.retrans_out
    }

    /// Adds packets that leave to the bytes sent, whose low 32 bits are kept.
    pub fn count_sent(&mut self, packets: u32) {
        self.bytes_sent = self.bytes_sent.wrapping_add(packets.wrapping_mul(self.mss_cache));
    }

    /// Adds packets that are acknowledged in sequence to the bytes acknowledged, whose low 32 bits are kept.
    pub fn count_acked(&mut self, packets: u32) {
        self.bytes_acked = self.bytes_acked.wrapping_add(packets.wrapping_mul(self.mss_cache));
    }

    pub fn in_slow_start(&self) -> bool {
        self.snd_cwnd < self.snd_ssthresh
    }
}

/// The kernel's callbacks. The window is in `tcp` before and after each.
pub trait CongestionControl {
    fn init(&mut self, tcp: &mut Tcp);
    /// Called when another algorithm takes over.
    fn release(&mut self, _: &mut Tcp) {}
    fn in_ack_event(&mut self, tcp: &mut Tcp, flags: u32);
    fn pkts_acked(&mut self, tcp: &mut Tcp, acked: u32, rtt_us: Option<u32>);
    /// Returns false to leave the window to `cong_avoid` and to the kernel's reduction.
    fn cong_control(&mut self, tcp: &mut Tcp, rate: &Rate) -> bool;
    /// Called for an ACK of new data outside reductions.
    fn cong_avoid(&mut self, tcp: &mut Tcp, acked: u32);
    /// Returns the threshold after a reduction, in packets.
    fn ssthresh(&mut self, tcp: &mut Tcp) -> u32;
    /// Called while `tcp.ca_state` still holds the old state.
    fn set_state(&mut self, tcp: &mut Tcp, new_state: u32);
    /// `event` is one of [`event`].
    fn cwnd_event(&mut self, tcp: &mut Tcp, event: u32);
    /// The rate at which `cong_control` wants the packets to be spaced, bytes per second.
    ///
    /// None: the algorithm has no `cong_control`, or nobody spaces the packets.
    fn paced_rate(&self) -> Option<u64> {
        None
    }
    /// Whether the algorithm has `cong_control`, and so sets window and pacing rate itself.
    fn controls_rate(&self) -> bool {
        false
    }
    /// Tells the socket when the next packet may leave.
    fn set_wstamp_ns(&mut self, _: u64) {}
    /// Returns the fewest packets to hand down at once. Called before each transmission.
    fn min_tso_segs(&mut self, _: &mut Tcp) -> u32 {
        2
    }
    /// Called when data of the other end arrives. `is_marked` is 0 or 1.
    fn data_arrives(&mut self, _: &mut Tcp, _packets: u32, _is_marked: u32) {}
    /// Returns the window after a reduction that proved spurious, in packets.
    fn undo_cwnd(&mut self, tcp: &mut Tcp) -> u32;
    /// Sets the clock that the algorithm reads.
    fn set_clock(&mut self, now_ns: u64);
}

/// The library of one algorithm, with tunables of its own.
pub struct Native {
    pub id: String,
    shim: Shim,
    library: Library,
}

impl Native {
    /// Loads a library compiled from `bpf/host/shim.c` and an algorithm's file.
    ///
    /// # Errors
    /// The library cannot be loaded, or lacks a function of the shim.
    pub fn open(library: &Path, id: &str) -> Result<Self> {
        // SAFETY: the library runs no code when it is loaded.
        let library = unsafe { Library::new(library) }.context("load the native build")?;
        // SAFETY: the caller's. A library of another origin lacks these names.
        let shim = unsafe { Shim::load(&library) }.context("find the functions of the native build")?;
        Ok(Native { id: id.to_owned(), shim, library })
    }

    /// Writes a tunable; `bytes` has the variable's size.
    ///
    /// # Panics
    /// The library has no such variable.
    pub fn set(&mut self, name: &str, bytes: &[u8]) {
        // SAFETY: the symbol is a variable of at least these bytes, and nothing runs in the library now.
        unsafe {
            let place = self.library.get::<*mut u8>(name).expect("the tunable is a variable");
            std::ptr::copy_nonoverlapping(bytes.as_ptr(), *place, bytes.len());
        }
    }

    /// Finds a function of the library that is not a callback.
    ///
    /// # Safety
    ///
    /// `F` is the function's signature. The caller does not use it after the library is dropped.
    pub unsafe fn function<F: Copy>(&self, name: &str) -> F {
        // SAFETY: the caller's.
        unsafe { *self.library.get::<F>(name).expect("the function is in the library") }
    }

    /// Whether the algorithm has `cong_control`, and so sets window and pacing rate itself.
    pub fn controls_rate(&self) -> bool {
        // SAFETY: no precondition.
        unsafe { (self.shim.controls_rate)() != 0 }
    }

    /// Begins the random numbers of this thread anew.
    pub fn seed(&self, seed: u64) {
        // SAFETY: no precondition.
        unsafe { (self.shim.seed)(seed) }
    }

    /// A socket whose private memory holds `poison` everywhere. Random numbers begin anew with it.
    pub fn socket(&self, poison: u8) -> NativeSocket<'_> {
        // SAFETY: no precondition.
        let host = unsafe { (self.shim.new)(poison) };
        assert!(!host.is_null(), "there is no memory for a socket");
        NativeSocket { native: self, host }
    }
}

pub struct NativeSocket<'n> {
    native: &'n Native,
    host: RawSocket,
}

impl Drop for NativeSocket<'_> {
    fn drop(&mut self) {
        // SAFETY: the socket is live until here.
        unsafe {
            (self.native.shim.release)(self.host);
            (self.native.shim.free)(self.host);
        }
    }
}

/// Methods that call one function of the shim and leave the fields of the socket alone.
macro_rules! accessors {
    ($($(#[$about:meta])* fn $name:ident($($argument:ident: $kind:ty)?) $(-> $result:ty)? = $call:ident;)*) => {$(
        $(#[$about])*
        pub fn $name(&self $(, $argument: $kind)?) $(-> $result)? {
            // SAFETY: the socket is live.
            unsafe { (self.native.shim.$call)(self.host $(, $argument)?) }
        }
    )*};
}

impl NativeSocket<'_> {
    pub fn private(&self) -> [u8; STATE_BYTES_MAX] {
        // SAFETY: the shim's pointer leads to that many bytes.
        unsafe { *(self.native.shim.private)(self.host).cast() }
    }

    accessors! {
        /// Bytes per second; in effect if the pacing status asks for it.
        fn pacing_rate() -> u64 = get_pacing_rate;
        /// `enum sk_pacing`: 0 no pacing, 1 by TCP itself, 2 by the fq qdisc.
        fn pacing_status() -> u32 = get_pacing_status;
        /// IP_TOS or IPV6_TCLASS of the socket's packets.
        fn mark() -> i32 = get_mark;
        fn set_mark(mark: i32) = set_mark;
        /// SO_PRIORITY, which the kernel derives from IP_TOS whenever that is set.
        fn priority() -> i32 = get_priority;
        fn set_priority(priority: i32) = set_priority;
        /// SO_MAX_PACING_RATE, bytes per second.
        fn set_max_pacing_rate(rate: u64) = set_max_pacing_rate;
        fn set_pacing_status(status: u32) = set_pacing_status;
        /// Takes away the memory for new private storage, or gives it back.
        fn set_lacks_storage(lacks: u32) = set_lacks_storage;
        /// ACKs of data that arrived, sent by the algorithm or the kernel.
        fn acks_sent() -> u32 = get_acks_sent;
        /// Packets acknowledged by ACKs that echo a mark.
        fn echoed_pkts() -> u32 = get_echoed;
    }

    /// Whether the algorithm has private storage in this socket.
    pub fn has_storage(&self) -> bool {
        // SAFETY: the socket is live.
        unsafe { (self.native.shim.get_has_block)(self.host) != 0 }
    }

    /// Writes to the storage that a companion program shares with the algorithm.
    pub fn share(&mut self, at: usize, bytes: &[u8]) {
        const STORAGE_BYTES: usize = 64;
        assert!(at + bytes.len() <= STORAGE_BYTES);
        // SAFETY: the shim's pointer leads to that many bytes, and the socket is live.
        unsafe {
            let place = (self.native.shim.storage)(self.host).add(at);
            std::ptr::copy_nonoverlapping(bytes.as_ptr(), place, bytes.len());
        }
    }

    /// Announces the first transmission after nothing was in flight, as kernels since 7.1 do.
    pub fn cwnd_event_tx_start(&mut self, tcp: &mut Tcp) {
        // SAFETY: the socket is live.
        self.call(tcp, |shim, host| unsafe { (shim.cwnd_event_tx_start)(host) });
    }

    fn call<R>(&mut self, tcp: &mut Tcp, call: impl FnOnce(&Shim, RawSocket) -> R) -> R {
        let shim = &self.native.shim;
        // SAFETY: the socket is live; the functions are the shim's.
        unsafe {
            shim.store(self.host, tcp);
            let result = call(shim, self.host);
            *tcp = shim.fetch(self.host);
            result
        }
    }
}

/// Callbacks that pass their arguments to the shim's function of the same name.
macro_rules! callbacks {
    ($($name:ident($($argument:ident),*) $(-> $result:ty)?),*) => {$(
        fn $name(&mut self, tcp: &mut Tcp $(, $argument: u32)*) $(-> $result)? {
            // SAFETY: the socket is live and of this library.
            self.call(tcp, |shim, host| unsafe { (shim.$name)(host $(, $argument)*) })
        }
    )*};
}

impl CongestionControl for NativeSocket<'_> {
    callbacks!(init(), release(), in_ack_event(flags), ssthresh() -> u32, set_state(new_state), cwnd_event(event));
    callbacks!(min_tso_segs() -> u32, undo_cwnd() -> u32, data_arrives(packets, is_marked));

    fn pkts_acked(&mut self, tcp: &mut Tcp, acked: u32, rtt_us: Option<u32>) {
        let rtt_us = rtt_us.map_or(-1, |rtt| rtt as i32);
        let in_flight = tcp.in_flight();
        // SAFETY: the socket is live and of this library.
        self.call(tcp, |shim, host| unsafe { (shim.pkts_acked)(host, acked, rtt_us, in_flight) });
    }

    fn cong_control(&mut self, tcp: &mut Tcp, rate: &Rate) -> bool {
        let ack = tcp.snd_una;
        // SAFETY: the socket is live and of this library.
        self.call(tcp, |shim, host| unsafe {
            shim.store_rate(host, rate);
            (shim.cong_control)(host, ack, 0) != 0
        })
    }

    fn cong_avoid(&mut self, tcp: &mut Tcp, acked: u32) {
        let ack = tcp.snd_una;
        // SAFETY: the socket is live and of this library.
        self.call(tcp, |shim, host| unsafe { (shim.cong_avoid)(host, ack, acked) });
    }

    fn set_clock(&mut self, now_ns: u64) {
        // SAFETY: no precondition.
        unsafe { (self.native.shim.set_clock)(now_ns) }
    }

    fn controls_rate(&self) -> bool {
        self.native.controls_rate()
    }

    fn paced_rate(&self) -> Option<u64> {
        (self.native.controls_rate() && self.pacing_status() != 0).then(|| self.pacing_rate())
    }

    fn set_wstamp_ns(&mut self, wstamp_ns: u64) {
        // SAFETY: the socket is live.
        unsafe { (self.native.shim.set_wstamp_ns)(self.host, wstamp_ns) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packets_in_flight_are_counted_up_to_the_largest_window() {
        let all =
            Tcp { packets_out: u32::MAX, sacked_out: 5, lost_out: u32::MAX - 5, retrans_out: 7, ..Tcp::default() };
        assert_eq!(all.in_flight(), 7);
    }
}
