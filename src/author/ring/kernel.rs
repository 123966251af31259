//! The kernel's side of congestion control: which callback is called when, and what the kernel itself does to the window.
//!
//! The order is that of net/ipv4/tcp_input.c of Linux 6.18. Left out: TCP without SACK, F-RTO and tail loss probes.

use super::native::{CongestionControl, INFINITE_SSTHRESH, Rate, Tcp, event, state};

pub struct Kernel<C> {
    /// The fields of the socket.
    pub tcp: Tcp,
    pub cc: C,
    /// Threshold to go back to when a reduction proves spurious; zero: none.
    prior_ssthresh: u32,
    /// A reduction was made that may still prove spurious.
    may_undo: bool,
    /// Retransmissions not yet known to be unnecessary.
    pub undo_retrans: u32,
    /// The state holds until this packet is acknowledged.
    pub high_seq: u32,
    /// Timeouts since the last progress.
    retransmits: u32,
    prr_delivered: u32,
    /// Packets sent in the reduction in progress.
    pub prr_out: u32,
}

/// What one ACK told, besides the fields of the socket.
#[derive(Debug, Clone, Copy, Default)]
pub struct Acked {
    /// Packets newly known to have arrived.
    pub delivered: u32,
    /// Packets newly acknowledged in sequence.
    pub in_order: u32,
    /// Packets newly believed lost.
    pub lost: u32,
    pub rtt_us: Option<u32>,
}

impl<C: CongestionControl> Kernel<C> {
    pub fn new(cc: C, tcp: Tcp) -> Self {
        let mut kernel = Kernel {
            tcp,
            cc,
            prior_ssthresh: 0,
            may_undo: false,
            undo_retrans: 0,
            high_seq: 0,
            retransmits: 0,
            prr_delivered: 0,
            prr_out: 0,
        };
        kernel.cc.init(&mut kernel.tcp);
        kernel
    }

    /// The window falls to the threshold.
    pub fn is_reducing(&self) -> bool {
        [state::CWR, state::RECOVERY].contains(&self.tcp.ca_state)
    }

    /// Everything up to `high_seq` has arrived.
    pub fn is_recovered(&self) -> bool {
        (self.tcp.snd_una.wrapping_sub(self.high_seq) as i32) >= 0
    }

    /// Tells the algorithm, then changes the state.
    pub fn set_state(&mut self, new_state: u32) {
        self.cc.set_state(&mut self.tcp, new_state);
        self.tcp.ca_state = new_state;
    }

    /// Before and after the ACK is taken in; the state machine runs between this and [`Kernel::control`].
    pub fn acked(&mut self, acked: Acked) {
        if acked.in_order > 0 {
            self.retransmits = 0;
        }
        self.cc.pkts_acked(&mut self.tcp, acked.in_order, acked.rtt_us);
    }

    /// The end of every ACK: the algorithm, the reduction or the growth moves the window.
    pub fn control(&mut self, acked: Acked) {
        let rtt_us = acked.rtt_us.map_or(-1, i64::from);
        let rate = Rate {
            delivered: acked.delivered.into(),
            interval_us: rtt_us,
            rtt_us,
            losses: acked.lost.into(),
            acked_sacked: acked.delivered.into(),
            prior_in_flight: i64::from(self.tcp.in_flight()) + i64::from(acked.delivered),
            is_app_limited: i64::from(self.tcp.is_cwnd_limited == 0),
        };
        if self.cc.cong_control(&mut self.tcp, &rate) {
            return;
        }
        if self.is_reducing() {
            self.reduce(acked);
        } else if acked.in_order > 0 {
            self.cc.cong_avoid(&mut self.tcp, acked.delivered);
        }
    }

    /// Proportional rate reduction, RFC 6937 with the kernel's conservative bound.
    fn reduce(&mut self, acked: Acked) {
        if acked.delivered == 0 || self.tcp.prior_cwnd == 0 {
            return;
        }
        self.prr_delivered = self.prr_delivered.saturating_add(acked.delivered);
        let (ssthresh, in_flight) = (i64::from(self.tcp.snd_ssthresh), i64::from(self.tcp.in_flight()));
        let (delivered, out) = (i64::from(self.prr_delivered), i64::from(self.prr_out));
        let prior = i64::from(self.tcp.prior_cwnd);
        let room = ssthresh - in_flight;
        let mut send = if room < 0 {
            (ssthresh * delivered + prior - 1) / prior - out
        } else {
            let progress = i64::from(acked.in_order > 0 && acked.lost == 0);
            room.min((delivered - out).max(i64::from(acked.delivered)) + progress)
        };
        send = send.max(i64::from(out == 0));
        self.tcp.snd_cwnd = (in_flight + send) as u32;
    }

    fn current_ssthresh(&self) -> u32 {
        let cwnd = self.tcp.snd_cwnd;
        if self.is_reducing() { self.tcp.snd_ssthresh } else { self.tcp.snd_ssthresh.max(cwnd / 2 + cwnd / 4) }
    }

    fn begin_reduction(&mut self) {
        self.high_seq = self.tcp.snd_nxt;
        self.tcp.snd_cwnd_cnt = 0;
        self.tcp.prior_cwnd = self.tcp.snd_cwnd;
        (self.prr_delivered, self.prr_out) = (0, 0);
        self.tcp.snd_ssthresh = self.cc.ssthresh(&mut self.tcp);
    }

    /// Loss shown by duplicate or selective ACKs.
    pub fn enter_recovery(&mut self) {
        self.prior_ssthresh = 0;
        self.may_undo = true;
        self.undo_retrans = self.tcp.retrans_out;
        if !self.is_reducing() {
            self.prior_ssthresh = self.current_ssthresh();
            self.begin_reduction();
        }
        self.set_state(state::RECOVERY);
    }

    /// The receiver echoed a congestion mark.
    pub fn enter_cwr(&mut self) {
        self.prior_ssthresh = 0;
        if self.tcp.ca_state < state::CWR {
            self.may_undo = false;
            self.begin_reduction();
            self.set_state(state::CWR);
        }
    }

    /// A retransmission timeout, once the fields say which packets are lost.
    pub fn enter_loss(&mut self) {
        let is_new = self.tcp.ca_state <= state::DISORDER
            || self.is_recovered()
            || (self.tcp.ca_state == state::LOSS && self.retransmits == 0);
        if is_new {
            self.prior_ssthresh = self.current_ssthresh();
            self.tcp.prior_cwnd = self.tcp.snd_cwnd;
            self.tcp.snd_ssthresh = self.cc.ssthresh(&mut self.tcp);
            self.cc.cwnd_event(&mut self.tcp, event::LOSS);
            self.may_undo = true;
            self.undo_retrans = self.tcp.retrans_out;
        }
        self.tcp.snd_cwnd = self.tcp.in_flight() + 1;
        self.tcp.snd_cwnd_cnt = 0;
        self.set_state(state::LOSS);
        self.high_seq = self.tcp.snd_nxt;
        self.retransmits += 1;
    }

    /// The path's MTU shrank: packets are retransmitted smaller, and the window stays.
    pub fn shrink_mtu(&mut self) {
        if self.tcp.ca_state == state::LOSS {
            return;
        }
        self.high_seq = self.tcp.snd_nxt;
        self.tcp.snd_ssthresh = self.current_ssthresh();
        (self.prior_ssthresh, self.may_undo) = (0, false);
        self.set_state(state::LOSS);
    }

    /// Everything up to `high_seq` has arrived.
    pub fn leave(&mut self) {
        match self.tcp.ca_state {
            state::CWR => {
                self.end_reduction();
                self.set_state(state::OPEN);
            }
            state::RECOVERY => {
                self.undo_if_spurious();
                self.set_state(state::OPEN);
                self.end_reduction();
            }
            state::LOSS => {
                self.undo_if_spurious();
                self.set_state(state::OPEN);
            }
            _ => {}
        }
    }

    fn end_reduction(&mut self) {
        if self.tcp.snd_ssthresh < INFINITE_SSTHRESH && (self.tcp.ca_state == state::CWR || self.may_undo) {
            self.tcp.snd_cwnd = self.tcp.snd_ssthresh;
        }
        self.cc.cwnd_event(&mut self.tcp, event::COMPLETE_CWR);
    }

    /// Takes the reduction back when every retransmission was unnecessary.
    pub fn undo_if_spurious(&mut self) -> bool {
        let is_spurious = self.may_undo && self.undo_retrans == 0;
        if is_spurious {
            self.undo();
        }
        is_spurious
    }

    pub fn undo(&mut self) {
        if self.prior_ssthresh > 0 {
            self.tcp.snd_cwnd = self.cc.undo_cwnd(&mut self.tcp);
            self.tcp.snd_ssthresh = self.tcp.snd_ssthresh.max(self.prior_ssthresh);
        }
        self.may_undo = false;
    }

    /// Window validation after idle time, RFC 2861: one halving for every timeout that passed.
    pub fn restart_after_idle(&mut self, timeouts: u32, restart_cwnd: u32) {
        self.cc.cwnd_event(&mut self.tcp, event::CWND_RESTART);
        self.tcp.snd_ssthresh = self.current_ssthresh();
        let restart_cwnd = restart_cwnd.min(self.tcp.snd_cwnd);
        let shrunk = self.tcp.snd_cwnd.checked_shr(timeouts).unwrap_or(0);
        self.tcp.snd_cwnd = shrunk.max(restart_cwnd);
    }

    /// The first packet after nothing was in flight.
    pub fn start_transmission(&mut self) {
        self.cc.cwnd_event(&mut self.tcp, event::TX_START);
    }
}
