//! The kernel's side of congestion control: the order of the callbacks, and the kernel's own changes to the window.
//!
//! The order is that of net/ipv4/tcp_input.c in Linux 6.18. Not modelled: TCP without SACK, F-RTO, tail loss probes.

use super::native::{CongestionControl, INFINITE_SSTHRESH, Tcp, event, state};
use super::rate::RateSampler;

pub struct SimulatedKernel<C> {
    pub tcp: Tcp,
    pub cc: C,
    /// Threshold restored when a reduction proves spurious. 0: none.
    prior_ssthresh: u32,
    may_undo: bool,
    /// Retransmissions that may still prove unnecessary.
    pub undo_retrans: u32,
    /// The congestion state lasts until this packet is acknowledged.
    pub high_seq: u32,
    /// Timeouts since the last progress.
    retransmits: u32,
    prr_delivered: u32,
    pub prr_out: u32,
    pub rate: RateSampler,
    /// Time of the ACK or timer being handled.
    pub now_us: u64,
}

/// What one ACK reports, in packets.
#[derive(Debug, Clone, Copy, Default)]
pub struct Acked {
    pub delivered: u32,
    pub in_order: u32,
    pub lost: u32,
    pub rtt_us: Option<u32>,
}

impl<C: CongestionControl> SimulatedKernel<C> {
    pub fn new(cc: C, tcp: Tcp) -> Self {
        let mut kernel = SimulatedKernel {
            tcp,
            cc,
            prior_ssthresh: 0,
            may_undo: false,
            undo_retrans: 0,
            high_seq: 0,
            retransmits: 0,
            prr_delivered: 0,
            prr_out: 0,
            rate: RateSampler::default(),
            now_us: 0,
        };
        kernel.call("init", |cc, tcp| cc.init(tcp));
        kernel
    }

    /// Calls the algorithm.
    ///
    /// # Panics
    /// The callback leaves a window or a threshold that the kernel cannot use.
    fn call<R>(&mut self, name: &str, callback: impl FnOnce(&mut C, &mut Tcp) -> R) -> R {
        let before = self.tcp.clone();
        let result = callback(&mut self.cc, &mut self.tcp);
        let Tcp { snd_cwnd, snd_cwnd_clamp, snd_ssthresh, .. } = self.tcp;
        assert!(snd_cwnd >= 1, "{name} emptied the window: {before:?}");
        assert!(snd_cwnd <= before.snd_cwnd.max(snd_cwnd_clamp), "{name} passed the clamp: {before:?}");
        let sound = before.snd_ssthresh.min(2)..=INFINITE_SSTHRESH;
        assert!(sound.contains(&snd_ssthresh), "{name} left the threshold {snd_ssthresh}: {before:?}");
        result
    }

    fn ssthresh(&mut self) -> u32 {
        let ssthresh = self.call("ssthresh", |cc, tcp| cc.ssthresh(tcp));
        assert!((2..=INFINITE_SSTHRESH).contains(&ssthresh), "ssthresh returned {ssthresh}: {:?}", self.tcp);
        ssthresh
    }

    fn cwnd_event(&mut self, event: u32) {
        self.call("cwnd_event", |cc, tcp| cc.cwnd_event(tcp, event));
    }

    /// Asks for the fewest packets to hand down at once, as the kernel does before each transmission.
    pub(super) fn ask_for_segments(&mut self) {
        let before = self.tcp.clone();
        let packets = self.call("min_tso_segs", |cc, tcp| cc.min_tso_segs(tcp));
        assert!(packets >= 1, "min_tso_segs holds every packet back: {before:?}");
        assert_eq!(self.tcp, before, "min_tso_segs moves the window");
    }

    /// Data of the other end arrives in one packet or several, all marked or none.
    pub fn data_arrives(&mut self, packets: u32, is_marked: bool) {
        self.call("cwnd_event", |cc, tcp| cc.data_arrives(tcp, packets, is_marked.into()));
    }

    /// Whether the window is falling to the threshold.
    pub fn is_reducing(&self) -> bool {
        [state::CWR, state::RECOVERY].contains(&self.tcp.ca_state)
    }

    /// Whether everything up to `high_seq` has arrived.
    pub fn is_recovered(&self) -> bool {
        (self.tcp.snd_una.wrapping_sub(self.high_seq) as i32) >= 0
    }

    pub fn set_state(&mut self, new_state: u32) {
        self.call("set_state", |cc, tcp| cc.set_state(tcp, new_state));
        self.tcp.ca_state = new_state;
    }

    /// Sets the clock that the algorithm reads.
    pub fn set_clock(&mut self, now_us: u64) {
        self.now_us = now_us;
        self.cc.set_clock(now_us * 1000);
    }

    /// The first half of processing an ACK. The state machine runs between this and [`SimulatedKernel::control`].
    pub fn acked(&mut self, acked: Acked, flags: u32) {
        if acked.in_order > 0 {
            self.retransmits = 0;
        }
        self.call("pkts_acked", |cc, tcp| cc.pkts_acked(tcp, acked.in_order, acked.rtt_us));
        self.call("in_ack_event", |cc, tcp| cc.in_ack_event(tcp, flags));
    }

    /// The second half of processing an ACK: the algorithm or the reduction moves the window.
    pub fn control(&mut self, acked: Acked) {
        let rate = self.rate.sample(&mut self.tcp, acked, self.now_us);
        if self.call("cong_control", |cc, tcp| cc.cong_control(tcp, &rate)) {
            return;
        }
        if self.is_reducing() {
            self.reduce(acked);
        } else if acked.in_order > 0 {
            self.call("cong_avoid", |cc, tcp| cc.cong_avoid(tcp, acked.delivered));
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
        // The kernel has no such limit and needs none: sequence numbers allow only 2^31 bytes in flight.
        self.tcp.snd_cwnd = (in_flight + send).min(i64::from(INFINITE_SSTHRESH)) as u32;
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
        self.tcp.snd_ssthresh = self.ssthresh();
    }

    /// Duplicate or selective ACKs show a loss.
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

    /// The retransmission timer fired. The caller has already marked the lost packets in the fields.
    pub fn enter_loss(&mut self) {
        let is_new = self.tcp.ca_state <= state::DISORDER
            || self.is_recovered()
            || (self.tcp.ca_state == state::LOSS && self.retransmits == 0);
        if is_new {
            self.prior_ssthresh = self.current_ssthresh();
            self.tcp.prior_cwnd = self.tcp.snd_cwnd;
            self.tcp.snd_ssthresh = self.ssthresh();
            self.cwnd_event(event::LOSS);
            self.may_undo = true;
            self.undo_retrans = self.tcp.retrans_out;
        }
        self.tcp.snd_cwnd = self.tcp.in_flight() + 1;
        self.tcp.snd_cwnd_cnt = 0;
        self.set_state(state::LOSS);
        self.high_seq = self.tcp.snd_nxt;
        self.retransmits += 1;
    }

    /// The path's MTU shrank: packets are retransmitted in smaller pieces, and the window stays.
    pub fn shrink_mtu(&mut self) {
        if self.tcp.ca_state == state::LOSS {
            return;
        }
        self.high_seq = self.tcp.snd_nxt;
        self.tcp.snd_ssthresh = self.current_ssthresh();
        (self.prior_ssthresh, self.may_undo) = (0, false);
        self.set_state(state::LOSS);
    }

    /// Leaves the congestion state because everything up to `high_seq` has arrived.
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

    /// With `cong_control`, the kernel leaves the window alone here.
    fn end_reduction(&mut self) {
        if self.cc.controls_rate() {
            return;
        }
        if self.tcp.snd_ssthresh < INFINITE_SSTHRESH && (self.tcp.ca_state == state::CWR || self.may_undo) {
            self.tcp.snd_cwnd = self.tcp.snd_ssthresh;
        }
        self.cwnd_event(event::COMPLETE_CWR);
    }

    /// Undoes the reduction if every retransmission was unnecessary; returns whether it did.
    pub fn undo_if_spurious(&mut self) -> bool {
        let is_spurious = self.may_undo && self.undo_retrans == 0;
        if is_spurious {
            self.undo();
        }
        is_spurious
    }

    pub fn undo(&mut self) {
        if self.prior_ssthresh > 0 {
            let cwnd = self.call("undo_cwnd", |cc, tcp| cc.undo_cwnd(tcp));
            let sound = self.tcp.snd_cwnd..=INFINITE_SSTHRESH;
            assert!(sound.contains(&cwnd), "undo_cwnd returned {cwnd}: {:?}", self.tcp);
            self.tcp.snd_cwnd = cwnd;
            self.tcp.snd_ssthresh = self.tcp.snd_ssthresh.max(self.prior_ssthresh);
        }
        self.may_undo = false;
    }

    /// Window validation after idle time, RFC 2861: halves the window once per timeout that passed, unless the algorithm
    /// has `cong_control`.
    pub fn restart_after_idle(&mut self, timeouts: u32, restart_cwnd: u32) {
        if self.cc.controls_rate() {
            return;
        }
        self.cwnd_event(event::CWND_RESTART);
        self.tcp.snd_ssthresh = self.current_ssthresh();
        let restart_cwnd = restart_cwnd.min(self.tcp.snd_cwnd);
        let shrunk = self.tcp.snd_cwnd.checked_shr(timeouts).unwrap_or(0);
        self.tcp.snd_cwnd = shrunk.max(restart_cwnd);
    }

    /// Notes that the application has nothing to send: the samples of what is sent now say nothing about the path.
    pub fn limit_by_application(&mut self) {
        let tcp = &mut self.tcp;
        if tcp.in_flight() < tcp.snd_cwnd && tcp.lost_out <= tcp.retrans_out {
            tcp.app_limited = tcp.delivered.wrapping_add(tcp.in_flight()).max(1);
        }
    }

    /// Sends the first packet after nothing was in flight.
    pub fn start_transmission(&mut self) {
        self.cwnd_event(event::TX_START);
    }
}
