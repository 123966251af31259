//! A connection through one bottleneck with an endless queue: ACKs are spaced by its rate.

use std::collections::VecDeque;

use derive_more::{Deref, DerefMut};

use crate::algorithms::connection::Connection;
use crate::algorithms::native::{self, CongestionControl, Native};

pub const MSS_BYTES: u32 = 1448;

/// A sender whose window alone limits it; every packet is acknowledged by itself.
#[derive(Deref, DerefMut)]
pub struct Flow<'n> {
    #[deref]
    #[deref_mut]
    connection: Connection<'n>,
    /// When each packet in flight was sent, oldest first.
    sent_us: VecDeque<u64>,
    rtt_us: u64,
    gap_us: u64,
}

impl Flow<'static> {
    /// With the defaults.
    pub fn of(id: &str, cwnd: u32, ssthresh: u32, path: [u64; 2]) -> Self {
        Flow::new(native::find(id), cwnd, ssthresh, path)
    }
}

impl<'n> Flow<'n> {
    /// `path` is the round trip without queue and the gap between packets, microseconds.
    pub fn new(native: &'n Native, cwnd: u32, ssthresh: u32, path: [u64; 2]) -> Self {
        let mut connection = Connection::over(native, cwnd, ssthresh);
        connection.wait(1_000_000);
        let sent_us = VecDeque::from(vec![connection.now_us(); connection.tcp.packets_out as usize]);
        Flow { connection, sent_us, rtt_us: path[0], gap_us: path[1] }
    }

    /// The route is another one: its round trip without queue, microseconds.
    pub fn change_route(&mut self, rtt_us: u64) {
        self.rtt_us = rtt_us;
    }

    pub fn run_for(&mut self, time_us: u64) {
        let end_us = self.now_us() + time_us;
        self.run_until(|flow| flow.now_us() >= end_us);
    }

    pub fn run_until(&mut self, is_enough: impl Fn(&Self) -> bool) {
        while !is_enough(self) {
            self.acknowledge();
            self.send();
        }
    }

    pub fn run_until_delivered(&mut self, packets: u32) {
        self.run_until(|flow| flow.tcp.delivered >= packets);
    }

    /// The largest of so many windows, one at the end of each of these times.
    pub fn largest_window(&mut self, times: usize, time_us: u64) -> u32 {
        let windows = (0..times).map(|_| {
            self.run_for(time_us);
            self.cwnd()
        });
        windows.max().expect("a window")
    }

    /// A reduction, over at once; the loss was a real one.
    pub fn lose(&mut self) {
        self.enter_recovery();
        self.recover();
    }

    /// A message of one packet arrives; the window was never the limit.
    pub fn deliver_message(&mut self) {
        (self.tcp.is_cwnd_limited, self.tcp.max_packets_out) = (0, 1);
        self.tcp.delivered += 1;
        let rtt_us = self.rtt_us as u32;
        self.connection.acknowledge(1, Some(rtt_us));
    }

    /// Everything is acknowledged, then nothing happens for a time.
    pub fn rest(&mut self, time_us: u64) {
        self.tcp.is_cwnd_limited = 0;
        while !self.sent_us.is_empty() {
            self.acknowledge();
        }
        self.tcp.is_cwnd_limited = 1;
        self.wait(time_us);
        self.send();
    }

    /// The oldest packet's ACK arrives: a round trip after its sending, or a gap after the ACK before.
    fn acknowledge(&mut self) {
        let sent_us = self.sent_us.pop_front().expect("something is in flight");
        let wait_us = (sent_us + self.rtt_us).saturating_sub(self.now_us()).max(self.gap_us);
        self.wait(wait_us);
        let rtt_us = (self.now_us() - sent_us) as u32;
        let tcp = &mut self.tcp;
        tcp.snd_una += 1;
        tcp.packets_out -= 1;
        tcp.delivered += 1;
        tcp.srtt_us = 8 * rtt_us;
        self.connection.acknowledge(1, Some(rtt_us));
    }

    fn send(&mut self) {
        let now_us = self.now_us();
        self.call(|cc, tcp| cc.min_tso_segs(tcp));
        let tcp = &mut self.connection.tcp;
        while tcp.packets_out < tcp.snd_cwnd {
            tcp.packets_out += 1;
            tcp.snd_nxt += 1;
            self.sent_us.push_back(now_us);
        }
        tcp.max_packets_out = tcp.packets_out;
    }
}
