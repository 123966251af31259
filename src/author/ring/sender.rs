//! A simulated connection: packets with a fate, a receiver that acknowledges each of them, and a scoreboard.
//!
//! A packet takes the path's round-trip time unless its fate says otherwise. There is a bottleneck, with an infinite queue,
//! only under an algorithm with `cong_control`, which would otherwise find no limit. Its packets are paced. The receiver
//! acknowledges every packet with SACK. A packet or retransmission counts as lost when three packets sent later have
//! arrived (RFC 6675). The retransmission timeout fires when no packet is on its way.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

use super::kernel::{Acked, SimulatedKernel};
use super::native::{CongestionControl, INFINITE_SSTHRESH, Tcp, state};
use super::path::{Fate, SimulatedPath, Transmission};
use super::rate::Sent;

pub const INITIAL_CWND: u32 = 10;
const MSS_BYTES: u32 = 1448;
/// A packet counts as lost when this many packets sent later have arrived.
const REORDERING: usize = 3;
/// The kernel's lowest retransmission timeout.
const RTO_US: u64 = 200_000;
const START_US: u64 = 1_000_000;
/// Bit of `in_ack_event` for an echoed congestion mark (`CA_ACK_ECE`).
const ACK_ECE: u32 = 1 << 2;
/// Time of one packet at the bottleneck: 40 packets fill the usual RTT.
const BOTTLENECK_US: u64 = 1000;
/// The kernel does not pace the first packets of a connection.
const UNPACED_PKTS: u64 = 10;

/// A packet that is not yet acknowledged in sequence.
#[derive(Debug, Clone, Copy, Default)]
struct SentPacket {
    /// Number of its latest transmission.
    sent: u64,
    has_arrived: bool,
    is_lost: bool,
    is_sent_again: bool,
    /// Its latest transmission, until it is delivered.
    rate: Option<Sent>,
}

/// Arrival time, transmission, packet, time sent, whether marked. Ordered by the first two.
type PacketArrival = Reverse<(u64, u64, u32, u64, bool)>;

/// The sender at the end of a round trip, in packets.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Round {
    pub cwnd: u32,
    pub ssthresh: Option<u32>,
    pub ca_state: u32,
    pub now_us: u64,
}

pub struct SimulatedSender<C> {
    pub kernel: SimulatedKernel<C>,
    path: SimulatedPath,
    packets: VecDeque<SentPacket>,
    arrivals: BinaryHeap<PacketArrival>,
    received: VecDeque<bool>,
    receiver_next: u32,
    now_us: u64,
    transmissions: u64,
    timeouts: u32,
    round: u32,
    round_end: u32,
    usage_end: u32,
    is_paused: bool,
    /// When the bottleneck has sent all that waits for it.
    bottleneck_us: u64,
    /// When pacing lets the next packet leave.
    paced_ns: u64,
    /// A packet waits for that time.
    is_held: bool,
}

impl<C: CongestionControl> SimulatedSender<C> {
    pub fn new(mut cc: C, path: SimulatedPath) -> Self {
        cc.set_clock(START_US * 1000);
        let tcp = Tcp {
            snd_cwnd: path.initial_cwnd,
            snd_cwnd_clamp: path.clamp,
            snd_ssthresh: path.initial_ssthresh,
            mss_cache: MSS_BYTES,
            ..Tcp::default()
        };
        let mut sender = SimulatedSender {
            kernel: SimulatedKernel::new(cc, tcp),
            path,
            packets: VecDeque::new(),
            arrivals: BinaryHeap::new(),
            received: VecDeque::new(),
            receiver_next: 0,
            now_us: START_US,
            transmissions: 0,
            timeouts: 0,
            round: 1,
            round_end: 0,
            usage_end: 0,
            is_paused: false,
            bottleneck_us: 0,
            paced_ns: 0,
            is_held: false,
        };
        sender.kernel.now_us = START_US;
        sender.transmit();
        sender.round_end = sender.kernel.tcp.snd_nxt;
        sender
    }

    /// Runs for as many round trips as the path has; calls `watch` at the end of each.
    pub fn run(&mut self, mut watch: impl FnMut(&Round, &C)) {
        while self.round <= self.path.rounds {
            self.step();
            while self.round <= self.path.rounds && self.kernel.tcp.snd_una >= self.round_end {
                let Tcp { snd_cwnd: cwnd, snd_ssthresh, ca_state, .. } = self.kernel.tcp;
                let ssthresh = Some(snd_ssthresh).filter(|&ssthresh| ssthresh < INFINITE_SSTHRESH);
                watch(&Round { cwnd, ssthresh, ca_state, now_us: self.now_us }, &self.kernel.cc);
                self.round += 1;
                self.round_end = self.kernel.tcp.snd_nxt.max(self.round_end + 1);
            }
        }
    }

    /// Processes the next arrival, or sends a packet that pacing held back until then. If no packet is on its way, the
    /// sender times out or resumes.
    pub fn step(&mut self) {
        let paced_us = self.paced_ns.div_ceil(1000);
        match self.arrivals.peek() {
            Some(Reverse((time_us, ..))) if self.is_held && paced_us < *time_us => self.set_clock(paced_us),
            None if self.is_held => self.set_clock(paced_us),
            Some(&Reverse((time_us, _, packet, sent_us, is_marked))) => {
                self.arrivals.pop();
                self.set_clock(time_us);
                self.acknowledge(packet, time_us - sent_us, is_marked);
            }
            None if self.packets.is_empty() => self.resume(),
            None => self.time_out(),
        }
        self.transmit();
        assert!(self.kernel.tcp.snd_cwnd >= 1, "the window is empty");
    }

    fn set_clock(&mut self, now_us: u64) {
        self.now_us = now_us;
        self.kernel.set_clock(now_us);
    }

    /// The receiver acknowledges one packet, and the sender reacts.
    fn acknowledge(&mut self, packet: u32, rtt_us: u64, is_marked: bool) {
        let is_duplicate = !self.receive(packet);
        let mut acked = self.take_in(packet);
        self.kernel.tcp.delivered_ce += if is_marked { acked.delivered } else { 0 };
        let is_sample = acked.delivered > 0;
        acked.rtt_us = is_sample.then_some(rtt_us as u32);
        if is_sample {
            self.kernel.tcp.srtt_us = 8 * rtt_us as u32;
        }
        let tcp = &self.kernel.tcp;
        // Nothing is out of order or lost: only the number of outstanding packets changes.
        if self.received.is_empty() && tcp.sacked_out + tcp.lost_out + tcp.retrans_out == 0 {
            self.kernel.tcp.packets_out = self.packets.len() as u32;
        } else {
            acked.lost = self.mark_lost();
            self.count();
        }
        self.kernel.acked(acked, if is_marked { ACK_ECE } else { 0 });
        if is_duplicate {
            self.kernel.undo_retrans = self.kernel.undo_retrans.saturating_sub(1);
        }
        self.change_state(is_marked, is_duplicate, acked);
        self.kernel.control(acked);
    }

    /// Returns whether the packet is new to the receiver.
    fn receive(&mut self, packet: u32) -> bool {
        if packet < self.receiver_next {
            return false;
        }
        let index = (packet - self.receiver_next) as usize;
        self.received.resize(self.received.len().max(index + 1), false);
        let is_first = !std::mem::replace(&mut self.received[index], true);
        while self.received.front() == Some(&true) {
            self.received.pop_front();
            self.receiver_next += 1;
        }
        is_first
    }

    /// Updates the scoreboard; returns what is new.
    fn take_in(&mut self, packet: u32) -> Acked {
        let mut acked = Acked::default();
        let una = self.kernel.tcp.snd_una;
        if let Some(known) = packet.checked_sub(una).and_then(|index| self.packets.get_mut(index as usize)) {
            acked.delivered = u32::from(!known.has_arrived);
            if let Some(sent) = known.rate.take() {
                self.kernel.rate.delivered(sent);
            }
            *known = SentPacket { has_arrived: true, is_lost: false, is_sent_again: false, ..*known };
        }
        acked.in_order = self.receiver_next - una;
        self.packets.drain(..acked.in_order as usize);
        self.kernel.tcp.snd_una = self.receiver_next;
        self.kernel.tcp.count_acked(acked.in_order);
        self.kernel.tcp.delivered += acked.delivered;
        acked
    }

    fn mark_lost(&mut self) -> u32 {
        let mut arrived: Vec<u64> = self.packets.iter().filter(|p| p.has_arrived).map(|p| p.sent).collect();
        if arrived.len() < REORDERING {
            return 0;
        }
        arrived.sort_unstable();
        let limit = arrived[arrived.len() - REORDERING];
        let mut lost = 0;
        for packet in self.packets.iter_mut().filter(|p| !p.has_arrived && p.sent < limit) {
            if !packet.is_lost || packet.is_sent_again {
                lost += 1;
            }
            (packet.is_lost, packet.is_sent_again) = (true, false);
        }
        self.kernel.tcp.lost += lost;
        lost
    }

    fn count(&mut self) {
        let number = |of: fn(&SentPacket) -> bool| self.packets.iter().filter(|packet| of(packet)).count() as u32;
        let (sacked, lost, again) = (number(|p| p.has_arrived), number(|p| p.is_lost), number(|p| p.is_sent_again));
        let tcp = &mut self.kernel.tcp;
        tcp.packets_out = self.packets.len() as u32;
        (tcp.sacked_out, tcp.lost_out, tcp.retrans_out) = (sacked, lost, again);
    }

    fn change_state(&mut self, is_marked: bool, is_duplicate: bool, acked: Acked) {
        if self.kernel.tcp.ca_state > state::DISORDER && self.kernel.is_recovered() {
            // The mark of a reduction reaches the receiver with the packet after high_seq.
            let holds = self.kernel.tcp.ca_state == state::CWR && self.kernel.tcp.snd_una == self.kernel.high_seq;
            if !holds {
                self.kernel.leave();
            }
        }
        if is_duplicate && self.kernel.undo_if_spurious() && self.kernel.is_reducing() {
            self.kernel.set_state(state::OPEN);
        }
        match self.kernel.tcp.ca_state {
            state::LOSS | state::RECOVERY => {}
            _ if acked.lost > 0 => self.kernel.enter_recovery(),
            _ if is_marked => self.kernel.enter_cwr(),
            state::CWR => {}
            now => {
                let is_waiting = self.kernel.tcp.sacked_out + self.kernel.tcp.lost_out > 0;
                let next = if is_waiting { state::DISORDER } else { state::OPEN };
                if next != now {
                    self.kernel.set_state(next);
                }
            }
        }
    }

    fn time_out(&mut self) {
        self.set_clock(self.now_us + RTO_US);
        for packet in self.packets.iter_mut().filter(|packet| !packet.has_arrived) {
            (packet.is_lost, packet.is_sent_again) = (true, false);
        }
        self.count();
        self.timeouts += 1;
        self.kernel.enter_loss();
    }

    /// The application starts sending again after its pause.
    fn resume(&mut self) {
        assert!(self.is_paused, "the sender stands still with nothing outstanding");
        self.is_paused = false;
        self.path.pause_after = None;
        self.set_clock(self.now_us + self.path.pause_timeouts * RTO_US + 1);
        self.kernel.restart_after_idle(self.path.pause_timeouts as u32, INITIAL_CWND);
    }

    /// Sends as much as the window and the application allow, lost packets first.
    fn transmit(&mut self) {
        self.is_paused |= self.path.pause_after.is_some_and(|round| self.round > round);
        let limit = if self.is_paused { 0 } else { self.path.application_limit };
        let mut next_lost = 0;
        let mut is_limited = true;
        self.is_held = false;
        while self.kernel.tcp.in_flight() < self.kernel.tcp.snd_cwnd {
            if self.must_wait() {
                is_limited = false;
                break;
            }
            let rest = self.packets.iter().skip(next_lost);
            let lost = match self.kernel.tcp.lost_out {
                0 => None,
                _ => rest.enumerate().find(|(_, p)| p.is_lost && !p.is_sent_again).map(|(at, _)| at + next_lost),
            };
            if let Some(index) = lost {
                self.send_again(index);
                next_lost = index + 1;
            } else if self.kernel.tcp.packets_out < limit {
                self.send_new();
            } else {
                is_limited = false;
                self.kernel.limit_by_application();
                break;
            }
        }
        // Notes for a round whether the window, not the application, limits the sender.
        let tcp = &mut self.kernel.tcp;
        let is_over = tcp.snd_una >= self.usage_end;
        if is_over || is_limited || (tcp.is_cwnd_limited == 0 && tcp.packets_out > tcp.max_packets_out) {
            tcp.is_cwnd_limited = u32::from(is_limited);
            tcp.max_packets_out = tcp.packets_out;
            self.usage_end = tcp.snd_nxt;
        }
    }

    /// Whether pacing holds the next packet back.
    fn must_wait(&mut self) -> bool {
        self.is_held = self.kernel.cc.paced_rate().is_some() && self.paced_ns > self.now_us * 1000;
        self.is_held
    }

    /// Sets when the packet after this one may leave: tcp_update_skb_after_send.
    fn pace(&mut self) {
        let Some(rate) = self.kernel.cc.paced_rate().filter(|&rate| rate > 0) else { return };
        if self.transmissions > UNPACED_PKTS {
            let gap_ns = u64::from(MSS_BYTES) * 1_000_000_000 / rate;
            self.paced_ns = self.paced_ns.max(self.now_us * 1000).saturating_add(gap_ns);
            self.kernel.cc.set_wstamp_ns(self.paced_ns);
        }
    }

    /// When a packet that leaves now has passed the bottleneck.
    fn passes_bottleneck_us(&mut self) -> u64 {
        if !self.kernel.cc.controls_rate() {
            return self.now_us;
        }
        self.bottleneck_us = self.bottleneck_us.max(self.now_us) + BOTTLENECK_US;
        self.bottleneck_us
    }

    fn send_new(&mut self) {
        if self.kernel.tcp.in_flight() == 0 {
            self.kernel.start_transmission();
        }
        let number = self.kernel.tcp.snd_nxt;
        self.kernel.tcp.snd_nxt += 1;
        self.packets.push_back(SentPacket::default());
        self.send(number, false);
        self.kernel.tcp.packets_out += 1;
    }

    fn send_again(&mut self, index: usize) {
        self.packets[index].is_sent_again = true;
        self.kernel.undo_retrans += 1;
        self.send(self.kernel.tcp.snd_una + index as u32, true);
        self.kernel.tcp.retrans_out += 1;
    }

    fn send(&mut self, packet: u32, is_again: bool) {
        self.transmissions += 1;
        let sent = self.kernel.rate.sent(&self.kernel.tcp, packet + 1, is_again, self.now_us);
        let known = &mut self.packets[(packet - self.kernel.tcp.snd_una) as usize];
        (known.sent, known.rate) = (self.transmissions, Some(sent));
        self.kernel.tcp.count_sent(1);
        self.pace();
        if self.kernel.is_reducing() {
            self.kernel.prr_out += 1;
        }
        let cwnd = self.kernel.tcp.snd_cwnd;
        let transmission = Transmission { packet, is_again, cwnd, round: self.round, timeouts: self.timeouts };
        let rtt_us = (self.path.rtt_us)(self.round);
        let (delay_us, is_marked) = match (self.path.fate)(&transmission) {
            Fate::Lost => return,
            Fate::Arrives => (0, false),
            Fate::Marked => (0, true),
            Fate::Late(delay_us) => (delay_us, false),
        };
        let passed_us = self.passes_bottleneck_us();
        let arrival = (passed_us + rtt_us + delay_us, self.transmissions, packet, self.now_us, is_marked);
        self.arrivals.push(Reverse(arrival));
    }
}
