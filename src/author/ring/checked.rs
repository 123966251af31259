//! Any algorithm, with a check after each callback that it left the window sound.

use super::native::{CongestionControl, INFINITE_SSTHRESH, Rate, Tcp};

/// Passes every call on to the algorithm inside.
pub struct Checked<C>(pub C);

impl<C: CongestionControl> Checked<C> {
    fn call<R>(&mut self, tcp: &mut Tcp, name: &str, call: impl FnOnce(&mut C, &mut Tcp) -> R) -> R {
        let before = tcp.clone();
        let result = call(&mut self.0, tcp);
        assert!(tcp.snd_cwnd >= 1, "{name} emptied the window: {before:?}");
        assert!(tcp.snd_cwnd <= before.snd_cwnd.max(tcp.snd_cwnd_clamp), "{name} passed the clamp: {before:?}");
        let sound = before.snd_ssthresh.min(2)..=INFINITE_SSTHRESH;
        assert!(sound.contains(&tcp.snd_ssthresh), "{name} left the threshold {}: {before:?}", tcp.snd_ssthresh);
        result
    }
}

impl<C: CongestionControl> CongestionControl for Checked<C> {
    fn init(&mut self, tcp: &mut Tcp) {
        self.call(tcp, "init", |cc, tcp| cc.init(tcp));
    }

    fn in_ack_event(&mut self, tcp: &mut Tcp, flags: u32) {
        self.call(tcp, "in_ack_event", |cc, tcp| cc.in_ack_event(tcp, flags));
    }

    fn pkts_acked(&mut self, tcp: &mut Tcp, acked: u32, rtt_us: Option<u32>) {
        self.call(tcp, "pkts_acked", |cc, tcp| cc.pkts_acked(tcp, acked, rtt_us));
    }

    fn cong_control(&mut self, tcp: &mut Tcp, rate: &Rate) -> bool {
        self.call(tcp, "cong_control", |cc, tcp| cc.cong_control(tcp, rate))
    }

    fn cong_avoid(&mut self, tcp: &mut Tcp, acked: u32) {
        self.call(tcp, "cong_avoid", |cc, tcp| cc.cong_avoid(tcp, acked));
    }

    fn ssthresh(&mut self, tcp: &mut Tcp) -> u32 {
        let ssthresh = self.call(tcp, "ssthresh", |cc, tcp| cc.ssthresh(tcp));
        assert!((2..=INFINITE_SSTHRESH).contains(&ssthresh), "ssthresh returned {ssthresh}: {tcp:?}");
        ssthresh
    }

    fn set_state(&mut self, tcp: &mut Tcp, new_state: u32) {
        self.call(tcp, "set_state", |cc, tcp| cc.set_state(tcp, new_state));
    }

    fn cwnd_event(&mut self, tcp: &mut Tcp, event: u32) {
        self.call(tcp, "cwnd_event", |cc, tcp| cc.cwnd_event(tcp, event));
    }

    fn min_tso_segs(&mut self, tcp: &mut Tcp) -> u32 {
        let before = tcp.clone();
        let packets = self.call(tcp, "min_tso_segs", |cc, tcp| cc.min_tso_segs(tcp));
        assert!(packets >= 1, "min_tso_segs holds every packet back: {before:?}");
        assert_eq!(*tcp, before, "min_tso_segs moves the window");
        packets
    }

    fn undo_cwnd(&mut self, tcp: &mut Tcp) -> u32 {
        let cwnd = self.call(tcp, "undo_cwnd", |cc, tcp| cc.undo_cwnd(tcp));
        assert!((tcp.snd_cwnd..=INFINITE_SSTHRESH).contains(&cwnd), "undo_cwnd returned {cwnd}: {tcp:?}");
        cwnd
    }

    fn set_clock(&mut self, now_ns: u64) {
        self.0.set_clock(now_ns);
    }
}
