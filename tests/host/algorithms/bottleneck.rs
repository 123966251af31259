//! A connection alone at one bottleneck with an infinite queue.

use std::collections::VecDeque;

use derive_more::{Deref, DerefMut};

use super::*;

pub const MSS_BYTES: u32 = 1448;

/// A sender that only its window limits. Every packet is acknowledged separately.
#[derive(Deref, DerefMut)]
pub struct LoneFlow<'n> {
    #[deref]
    #[deref_mut]
    connection: Endpoint<'n>,
    /// Send times of the packets in flight, oldest first.
    sent_us: VecDeque<u64>,
    /// Without queue.
    pub rtt_us: u64,
    gap_us: u64,
}

impl LoneFlow<'static> {
    /// With default tunables.
    pub fn of(id: &str, cwnd: u32, ssthresh: u32, path: [u64; 2]) -> Self {
        LoneFlow::new(native::find(id), cwnd, ssthresh, path)
    }
}

impl<'n> LoneFlow<'n> {
    /// `path`: RTT without queue, and gap between packets at the bottleneck, microseconds.
    pub fn new(native: &'n Native, cwnd: u32, ssthresh: u32, path: [u64; 2]) -> Self {
        let mut connection = Endpoint::over(native, cwnd, ssthresh);
        connection.wait(1_000_000);
        let sent_us = VecDeque::from(vec![connection.now_us(); connection.tcp.packets_out as usize]);
        LoneFlow { connection, sent_us, rtt_us: path[0], gap_us: path[1] }
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

    /// The largest window at the ends of `times` intervals.
    pub fn largest_window(&mut self, times: usize, time_us: u64) -> u32 {
        let windows = (0..times).map(|_| {
            self.run_for(time_us);
            self.cwnd()
        });
        windows.max().expect("a window")
    }

    /// Passes through a recovery that ends at once.
    pub fn lose(&mut self) {
        self.enter_recovery();
        self.recover();
    }

    /// Delivers a message of one packet, which the window does not limit.
    pub fn deliver_message(&mut self) {
        (self.tcp.is_cwnd_limited, self.tcp.max_packets_out) = (0, 1);
        self.tcp.delivered += 1;
        let rtt_us = self.rtt_us as u32;
        self.connection.acknowledge(1, Some(rtt_us));
    }

    /// Acknowledges everything, then pauses.
    pub fn rest(&mut self, time_us: u64) {
        self.tcp.is_cwnd_limited = 0;
        while !self.sent_us.is_empty() {
            self.acknowledge();
        }
        self.tcp.is_cwnd_limited = 1;
        self.wait(time_us);
        self.send();
    }

    /// Acknowledges the oldest packet an RTT after it was sent, and at least a gap after the last ACK.
    fn acknowledge(&mut self) {
        let sent_us = self.sent_us.pop_front().expect("something is in flight");
        let wait_us = (sent_us + self.rtt_us).saturating_sub(self.now_us()).max(self.gap_us);
        self.wait(wait_us);
        let rtt_us = (self.now_us() - sent_us) as u32;
        let tcp = &mut self.tcp;
        tcp.snd_una += 1;
        tcp.count_acked(1);
        tcp.packets_out -= 1;
        tcp.delivered += 1;
        tcp.srtt_us = 8 * rtt_us;
        self.connection.acknowledge(1, Some(rtt_us));
    }

    fn send(&mut self) {
        let now_us = self.now_us();
        self.call(|cc, tcp| cc.min_tso_segs(tcp));
        let SimulatedKernel { tcp, rate, .. } = &mut **self.connection;
        while tcp.packets_out < tcp.snd_cwnd {
            rate.sent_in_order(tcp, tcp.snd_nxt + 1, now_us);
            tcp.packets_out += 1;
            tcp.snd_nxt += 1;
            tcp.count_sent(1);
            self.sent_us.push_back(now_us);
        }
        tcp.max_packets_out = tcp.packets_out;
    }
}
