//! A connection through one bottleneck with an endless queue: ACKs are spaced by its rate.

use std::collections::VecDeque;

use tccc::catalog;

use crate::algorithms::kernel::{Acked, Kernel};
use crate::algorithms::native::{self, CongestionControl, INFINITE_SSTHRESH, Native, Socket, Tcp};
use crate::algorithms::operations::{self, Operation};

pub const MSS_BYTES: u32 = 1448;

/// A sender whose window alone limits it; every packet is acknowledged by itself.
pub struct Flow<'n> {
    pub kernel: Kernel<Socket<'n>>,
    /// When each packet in flight was sent, oldest first.
    sent_us: VecDeque<u64>,
    now_us: u64,
    rtt_us: u64,
    gap_us: u64,
}

impl<'n> Flow<'n> {
    /// `path` is the round trip without queue and the gap between packets, microseconds.
    pub fn new(native: &'n Native, cwnd: u32, ssthresh: u32, path: [u64; 2]) -> Self {
        let clamp = INFINITE_SSTHRESH;
        let tcp = Tcp { snd_cwnd: cwnd, snd_ssthresh: ssthresh, snd_cwnd_clamp: clamp, ..Tcp::default() };
        let now_us = 1_000_000;
        let mut socket = native.socket(0xaa);
        socket.set_clock(now_us * 1000);
        let kernel = Kernel::new(socket, Tcp { is_cwnd_limited: 1, mss_cache: MSS_BYTES, ..tcp });
        let mut flow = Flow { kernel, sent_us: VecDeque::new(), now_us, rtt_us: path[0], gap_us: path[1] };
        flow.send();
        flow
    }

    pub fn cwnd(&self) -> u32 {
        self.kernel.tcp.snd_cwnd
    }

    pub fn now_us(&self) -> u64 {
        self.now_us
    }

    pub fn field(&self, id: &str, name: &str) -> u64 {
        native::field(&self.kernel.cc, id, name)
    }

    pub fn phase(&self, id: &str) -> &'static str {
        catalog::find(id).unwrap().layout.phase_name(&self.kernel.cc.private()).unwrap()
    }

    /// The route is another one: its round trip without queue, microseconds.
    pub fn change_route(&mut self, rtt_us: u64) {
        self.rtt_us = rtt_us;
    }

    pub fn run_for(&mut self, time_us: u64) {
        let end_us = self.now_us + time_us;
        self.run_until(|flow| flow.now_us >= end_us);
    }

    pub fn run_until(&mut self, is_enough: impl Fn(&Self) -> bool) {
        while !is_enough(self) {
            self.acknowledge();
            self.send();
        }
    }

    /// A reduction, over at once; the loss was a real one.
    pub fn lose(&mut self) {
        self.kernel.enter_recovery();
        self.kernel.undo_retrans = 1;
        self.kernel.leave();
    }

    pub fn time_out(&mut self) {
        operations::apply(&mut self.kernel, Operation::TimeOut, self.now_us * 1000);
    }

    /// Everything is acknowledged, then nothing happens for a time.
    pub fn rest(&mut self, time_us: u64) {
        self.kernel.tcp.is_cwnd_limited = 0;
        while !self.sent_us.is_empty() {
            self.acknowledge();
        }
        self.kernel.tcp.is_cwnd_limited = 1;
        self.set_clock(self.now_us + time_us);
        self.send();
    }

    fn set_clock(&mut self, now_us: u64) {
        self.now_us = now_us;
        self.kernel.cc.set_clock(now_us * 1000);
    }

    /// The oldest packet's ACK arrives: a round trip after its sending, or a gap after the ACK before.
    fn acknowledge(&mut self) {
        let sent_us = self.sent_us.pop_front().expect("something is in flight");
        self.set_clock((sent_us + self.rtt_us).max(self.now_us + self.gap_us));
        let tcp = &mut self.kernel.tcp;
        tcp.snd_una += 1;
        tcp.packets_out -= 1;
        tcp.delivered += 1;
        tcp.srtt_us = 8 * (self.now_us - sent_us) as u32;
        let acked = Acked { delivered: 1, in_order: 1, lost: 0, rtt_us: Some((self.now_us - sent_us) as u32) };
        self.kernel.acked(acked);
        self.kernel.control(acked);
    }

    fn send(&mut self) {
        self.kernel.cc.min_tso_segs(&mut self.kernel.tcp);
        let tcp = &mut self.kernel.tcp;
        while tcp.packets_out < tcp.snd_cwnd {
            tcp.packets_out += 1;
            tcp.snd_nxt += 1;
            self.sent_us.push_back(self.now_us);
        }
        tcp.max_packets_out = tcp.packets_out;
    }
}
