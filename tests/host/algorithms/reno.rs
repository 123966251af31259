//! Reno in Rust, written from RFC 5681 and the kernel's documented behaviour, to compare with `bpf_reno`.

use super::*;

pub struct Reno;

impl CongestionControl for Reno {
    fn init(&mut self, _: &mut Tcp) {}

    fn in_ack_event(&mut self, _: &mut Tcp, _: u32) {}

    fn pkts_acked(&mut self, _: &mut Tcp, _: u32, _: Option<u32>) {}

    fn cong_control(&mut self, _: &mut Tcp, _: &Rate) -> bool {
        false
    }

    fn cong_avoid(&mut self, tcp: &mut Tcp, mut acked: u32) {
        // The kernel's product has 32 bits and wraps at windows that no path can fill.
        let is_probing = tcp.in_slow_start() && tcp.snd_cwnd < tcp.max_packets_out.wrapping_mul(2);
        if tcp.is_cwnd_limited == 0 && !is_probing {
            return;
        }
        if tcp.in_slow_start() {
            let growth = acked.min(tcp.snd_ssthresh - tcp.snd_cwnd);
            tcp.snd_cwnd = (tcp.snd_cwnd + growth).min(tcp.snd_cwnd_clamp);
            acked -= growth;
            if acked == 0 {
                return;
            }
        }
        // One packet per acknowledged window. A credit from a larger window gives at most one packet.
        let window = tcp.snd_cwnd;
        let mut credit = tcp.snd_cwnd_cnt;
        if credit >= window {
            credit = 0;
            tcp.snd_cwnd += 1;
        }
        credit += acked;
        tcp.snd_cwnd += credit / window;
        tcp.snd_cwnd_cnt = credit % window;
        tcp.snd_cwnd = tcp.snd_cwnd.min(tcp.snd_cwnd_clamp);
    }

    fn ssthresh(&mut self, tcp: &mut Tcp) -> u32 {
        (tcp.snd_cwnd / 2).max(2)
    }

    fn set_state(&mut self, _: &mut Tcp, _: u32) {}

    fn cwnd_event(&mut self, _: &mut Tcp, _: u32) {}

    fn undo_cwnd(&mut self, tcp: &mut Tcp) -> u32 {
        tcp.snd_cwnd.max(tcp.prior_cwnd)
    }

    fn set_clock(&mut self, _: u64) {}
}
