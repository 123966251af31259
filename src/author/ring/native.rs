//! An algorithm as native code: its library, and sockets that are driven through the shim.

use std::ffi::c_void;
use std::path::Path;

use anyhow::{Context, Result};
use libloading::Library;

use crate::catalog::STATE_BYTES_MAX;

/// `enum tcp_ca_state`.
pub mod state {
    pub const OPEN: u32 = 0;
    pub const DISORDER: u32 = 1;
    pub const CWR: u32 = 2;
    pub const RECOVERY: u32 = 3;
    pub const LOSS: u32 = 4;
}

/// `enum tcp_ca_event`, those that the simulated kernel sends.
pub mod event {
    pub const TX_START: u32 = 0;
    pub const CWND_RESTART: u32 = 1;
    pub const COMPLETE_CWR: u32 = 2;
    pub const LOSS: u32 = 3;
}

/// The kernel's "no threshold yet".
pub const INFINITE_SSTHRESH: u32 = 0x7fff_ffff;

type Host = *mut c_void;

macro_rules! shim {
    (fields: $($field:ident),*; samples: $($sample:ident),*; calls: $($call:ident($($kind:ty),*) $(-> $result:ty)?),*;) => {
        /// The fields of a socket that the kernel and the algorithms share; each is the kernel's own.
        #[derive(Debug, Clone, Default, PartialEq, Eq)]
        pub struct Tcp { $(pub $field: u32),* }

        /// What `cong_control` learns about an ACK.
        #[derive(Debug, Clone, Default, PartialEq, Eq)]
        pub struct Rate { $(pub $sample: i64),* }

        struct Shim {
            $($field: (unsafe extern "C" fn(Host) -> u32, unsafe extern "C" fn(Host, u32)),)*
            rate: RateSetters,
            $($call: unsafe extern "C" fn($($kind),*) $(-> $result)?,)*
        }

        struct RateSetters { $($sample: unsafe extern "C" fn(Host, i64)),* }

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
            unsafe fn store(&self, host: Host, tcp: &Tcp) {
                // SAFETY: the caller's.
                unsafe { $((self.$field.1)(host, tcp.$field);)* }
            }

            /// SAFETY: as [`Shim::store`].
            unsafe fn fetch(&self, host: Host) -> Tcp {
                // SAFETY: the caller's.
                unsafe { Tcp { $($field: (self.$field.0)(host)),* } }
            }

            /// SAFETY: as [`Shim::store`].
            unsafe fn store_rate(&self, host: Host, rate: &Rate) {
                // SAFETY: the caller's.
                unsafe { $((self.rate.$sample)(host, rate.$sample);)* }
            }
        }
    };
}

shim! {
    fields: snd_una, snd_nxt, snd_cwnd, snd_cwnd_cnt, snd_cwnd_clamp, snd_ssthresh, prior_cwnd, srtt_us, rttvar_us,
        mss_cache, packets_out, sacked_out, lost_out, retrans_out, max_packets_out, delivered, lost, is_cwnd_limited, ca_state;
    samples: delivered, interval_us, rtt_us, losses, acked_sacked, prior_in_flight, is_app_limited;
    calls: new(u8) -> Host, free(Host), private(Host) -> *const u8, set_clock(u64), init(Host), release(Host),
        in_ack_event(Host, u32), pkts_acked(Host, u32, i32, u32), cong_control(Host, u32, u32) -> u32,
        cong_avoid(Host, u32, u32), ssthresh(Host) -> u32, set_state(Host, u32), cwnd_event(Host, u32),
        cwnd_event_tx_start(Host), min_tso_segs(Host) -> u32, undo_cwnd(Host) -> u32, storage(Host) -> *mut u8,
        get_pacing_rate(Host) -> u64, get_pacing_status(Host) -> u32, set_pacing_status(Host, u32),
        get_priority(Host) -> i32, set_priority(Host, i32);
}

impl Tcp {
    /// Packets sent and neither arrived nor lost, as far as the sender can tell.
    ///
    /// Subtracts first, as the kernel does, so that no intermediate sum overflows.
    pub fn in_flight(&self) -> u32 {
        self.packets_out - self.sacked_out - self.lost_out + self.retrans_out
    }

    /// The window is below the threshold.
    pub fn in_slow_start(&self) -> bool {
        self.snd_cwnd < self.snd_ssthresh
    }
}

/// What the kernel calls. The window is in `tcp` before and after, wherever the algorithm's code lives.
pub trait CongestionControl {
    fn init(&mut self, tcp: &mut Tcp);
    /// An ACK arrived, with these flags.
    fn in_ack_event(&mut self, tcp: &mut Tcp, flags: u32);
    /// Acknowledged packets and, where there is one, the RTT sample in microseconds.
    fn pkts_acked(&mut self, tcp: &mut Tcp, acked: u32, rtt_us: Option<u32>);
    /// Whether the algorithm decides alone; if not, `cong_avoid` and the kernel's reduction do.
    fn cong_control(&mut self, tcp: &mut Tcp, rate: &Rate) -> bool;
    /// An ACK of new data outside of reductions.
    fn cong_avoid(&mut self, tcp: &mut Tcp, acked: u32);
    /// The threshold after a reduction, packets.
    fn ssthresh(&mut self, tcp: &mut Tcp) -> u32;
    /// Called while `tcp.ca_state` is still the old one.
    fn set_state(&mut self, tcp: &mut Tcp, new_state: u32);
    /// One of [`event`].
    fn cwnd_event(&mut self, tcp: &mut Tcp, event: u32);
    /// Asked before each transmission: the fewest packets to hand down at once.
    fn min_tso_segs(&mut self, _: &mut Tcp) -> u32 {
        2
    }
    /// The window after a reduction that proved spurious, packets.
    fn undo_cwnd(&mut self, tcp: &mut Tcp) -> u32;
    /// Nanoseconds on the clock that the algorithm reads.
    fn set_clock(&mut self, now_ns: u64);
}

/// The library of one algorithm, with tunables of its own.
pub struct Native {
    pub id: String,
    shim: Shim,
    library: Library,
}

impl Native {
    /// Loads a library that was compiled from `bpf/host/shim.c` and an algorithm's file.
    ///
    /// Errors: it cannot be loaded; it lacks a function of the shim.
    pub fn open(library: &Path, id: &str) -> Result<Self> {
        // SAFETY: the library runs no code when it is loaded.
        let library = unsafe { Library::new(library) }.context("load the native build")?;
        // SAFETY: the caller's; a library of another origin lacks these names.
        let shim = unsafe { Shim::load(&library) }.context("find the functions of the native build")?;
        Ok(Native { id: id.to_owned(), shim, library })
    }

    /// Sets a tunable to bytes of its own size.
    ///
    /// Panics: there is no such variable.
    pub fn set(&mut self, name: &str, bytes: &[u8]) {
        // SAFETY: the symbol is a variable of at least these bytes, and nothing runs in the library now.
        unsafe {
            let place = self.library.get::<*mut u8>(name).expect("the tunable is a variable");
            std::ptr::copy_nonoverlapping(bytes.as_ptr(), *place, bytes.len());
        }
    }

    /// A function of the library that is no callback.
    ///
    /// # Safety
    ///
    /// `F` is its signature, and it is not called after the library is gone.
    pub unsafe fn function<F: Copy>(&self, name: &str) -> F {
        // SAFETY: the caller's.
        unsafe { *self.library.get::<F>(name).expect("the function is in the library") }
    }

    /// A socket whose private memory holds `poison` everywhere.
    pub fn socket(&self, poison: u8) -> Socket<'_> {
        // SAFETY: no precondition.
        let host = unsafe { (self.shim.new)(poison) };
        assert!(!host.is_null(), "there is no memory for a socket");
        Socket { native: self, host }
    }
}

/// One socket that uses a native algorithm.
pub struct Socket<'n> {
    native: &'n Native,
    host: Host,
}

impl Drop for Socket<'_> {
    fn drop(&mut self) {
        // SAFETY: the socket is live until here.
        unsafe {
            (self.native.shim.release)(self.host);
            (self.native.shim.free)(self.host);
        }
    }
}

/// Functions of a socket that call one of the shim's and leave the fields of the socket alone.
macro_rules! accessors {
    ($($(#[$about:meta])* fn $name:ident($($argument:ident: $kind:ty)?) $(-> $result:ty)? = $call:ident;)*) => {$(
        $(#[$about])*
        pub fn $name(&self $(, $argument: $kind)?) $(-> $result)? {
            // SAFETY: the socket is live.
            unsafe { (self.native.shim.$call)(self.host $(, $argument)?) }
        }
    )*};
}

impl Socket<'_> {
    pub fn private(&self) -> [u8; STATE_BYTES_MAX] {
        // SAFETY: the shim returns the beginning of that many bytes.
        unsafe { *(self.native.shim.private)(self.host).cast() }
    }

    accessors! {
        /// Bytes per second at which the socket's packets are spaced where its status asks for it.
        fn pacing_rate() -> u64 = get_pacing_rate;
        /// `enum sk_pacing`: 0 nobody paces, 1 TCP itself does, 2 the fq qdisc does.
        fn pacing_status() -> u32 = get_pacing_status;
        /// The mark of the socket's packets: IP_TOS or IPV6_TCLASS.
        fn priority() -> i32 = get_priority;
        /// The mark that the application chooses.
        fn set_priority(priority: i32) = set_priority;
        /// As what the algorithm finds when the application chose it.
        fn set_pacing_status(status: u32) = set_pacing_status;
    }

    /// Writes to what a companion program shares with the algorithm.
    pub fn share(&mut self, at: usize, bytes: &[u8]) {
        const STORAGE_BYTES: usize = 64;
        assert!(at + bytes.len() <= STORAGE_BYTES);
        // SAFETY: the shim returns the beginning of that many bytes, and the socket is live.
        unsafe {
            let place = (self.native.shim.storage)(self.host).add(at);
            std::ptr::copy_nonoverlapping(bytes.as_ptr(), place, bytes.len());
        }
    }

    /// How a kernel from 7.1 on tells of the first transmission after nothing was in flight.
    pub fn cwnd_event_tx_start(&mut self, tcp: &mut Tcp) {
        // SAFETY: the socket is live.
        self.call(tcp, |shim, host| unsafe { (shim.cwnd_event_tx_start)(host) });
    }

    fn call<R>(&mut self, tcp: &mut Tcp, call: impl FnOnce(&Shim, Host) -> R) -> R {
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

/// Callbacks of the trait that hand their arguments to the shim's function of the same name.
macro_rules! callbacks {
    ($($name:ident($($argument:ident),*) $(-> $result:ty)?),*) => {$(
        fn $name(&mut self, tcp: &mut Tcp $(, $argument: u32)*) $(-> $result)? {
            // SAFETY: the socket is live and of this library.
            self.call(tcp, |shim, host| unsafe { (shim.$name)(host $(, $argument)*) })
        }
    )*};
}

impl CongestionControl for Socket<'_> {
    callbacks!(init(), in_ack_event(flags), ssthresh() -> u32, set_state(new_state), cwnd_event(event));
    callbacks!(min_tso_segs() -> u32, undo_cwnd() -> u32);

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
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packets_in_flight_are_counted_up_to_the_largest_window() {
        let most = i32::MAX as u32;
        let tcp = Tcp { packets_out: most, lost_out: most, retrans_out: most, ..Tcp::default() };
        assert_eq!(tcp.in_flight(), most);
        let all =
            Tcp { packets_out: u32::MAX, sacked_out: 5, lost_out: u32::MAX - 5, retrans_out: 7, ..Tcp::default() };
        assert_eq!(all.in_flight(), 7);
    }
}
