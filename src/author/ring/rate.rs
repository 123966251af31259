//! Delivery-rate samples, as net/ipv4/tcp_rate.c of Linux 6.12 takes them.

use std::collections::VecDeque;

use super::kernel::Acked;
use super::native::{Rate, Tcp};

/// Consecutive packets sent at one time, and the socket at that time.
#[derive(Debug, Clone, Copy)]
pub struct Sent {
    /// Sequence number after the last of them.
    end: u32,
    sent_us: u64,
    /// When the interval of the sample begins: the first transmission and the last delivery before these packets.
    first_sent_us: u64,
    delivered_us: u64,
    delivered: u32,
    delivered_ce: u32,
    is_app_limited: bool,
    is_again: bool,
}

/// Remembers transmissions and turns each ACK into a sample.
#[derive(Debug, Default)]
pub struct RateSampler {
    first_sent_us: u64,
    delivered_us: u64,
    /// The packet sent last among those that the current ACK delivers.
    latest: Option<Sent>,
    min_rtt_us: Option<u32>,
    /// In-order transmissions by sequence number, for senders that do not keep them by packet.
    batches: VecDeque<Sent>,
}

impl RateSampler {
    /// Notes packets that leave now. Called before they count as sent.
    pub fn sent(&mut self, tcp: &Tcp, end: u32, is_again: bool, now_us: u64) -> Sent {
        if tcp.packets_out == 0 {
            (self.first_sent_us, self.delivered_us) = (now_us, now_us);
        }
        Sent {
            end,
            sent_us: now_us,
            first_sent_us: self.first_sent_us,
            delivered_us: self.delivered_us,
            delivered: tcp.delivered,
            delivered_ce: tcp.delivered_ce,
            is_app_limited: tcp.app_limited != 0,
            is_again,
        }
    }

    /// As [`RateSampler::sent`], for packets that are acknowledged in order. The sampler keeps them.
    pub fn sent_in_order(&mut self, tcp: &Tcp, end: u32, now_us: u64) {
        let batch = self.sent(tcp, end, false, now_us);
        self.batches.push_back(batch);
    }

    /// Notes that every packet before `una` arrived, of those sent in order.
    pub fn delivered_in_order(&mut self, una: u32) {
        while let Some(batch) = self.batches.front().copied() {
            let before_una = |seq: u32| (seq.wrapping_sub(una) as i32) <= 0;
            self.delivered(batch);
            if !before_una(batch.end) {
                break;
            }
            self.batches.pop_front();
            if batch.end == una {
                break;
            }
        }
    }

    /// Notes that a packet arrived. The sample is that of the packet sent last.
    pub fn delivered(&mut self, sent: Sent) {
        let is_later = |other: Sent| (sent.sent_us, sent.end) > (other.sent_us, other.end);
        if self.latest.is_none_or(is_later) {
            self.latest = Some(sent);
            self.first_sent_us = sent.sent_us;
        }
    }

    /// The sample of this ACK. The counts in `tcp` already include it.
    pub fn sample(&mut self, tcp: &mut Tcp, acked: Acked, now_us: u64) -> Rate {
        if let Some(rtt_us) = acked.rtt_us {
            self.min_rtt_us = Some(self.min_rtt_us.map_or(rtt_us, |least| least.min(rtt_us)));
        }
        if tcp.app_limited != 0 && (tcp.app_limited.wrapping_sub(tcp.delivered) as i32) < 0 {
            tcp.app_limited = 0;
        }
        if acked.delivered > 0 {
            self.delivered_us = now_us;
        }
        let rate = Rate {
            delivered: -1,
            interval_us: -1,
            rtt_us: acked.rtt_us.map_or(-1, i64::from),
            losses: acked.lost.into(),
            acked_sacked: acked.delivered.into(),
            prior_in_flight: i64::from(tcp.in_flight()) + i64::from(acked.delivered),
            ..Rate::default()
        };
        let Some(sent) = self.latest.take() else { return rate };
        let (send_us, ack_us) = (sent.sent_us - sent.first_sent_us, now_us - sent.delivered_us);
        let interval_us = send_us.max(ack_us);
        let is_plausible = self.min_rtt_us.is_none_or(|least| interval_us >= u64::from(least));
        let between = |count: u32, prior: u32| i64::from(count.wrapping_sub(prior) as i32);
        Rate {
            prior_mstamp: sent.delivered_us as i64,
            prior_delivered: sent.delivered.into(),
            prior_delivered_ce: sent.delivered_ce.into(),
            delivered: between(tcp.delivered, sent.delivered),
            delivered_ce: between(tcp.delivered_ce, sent.delivered_ce),
            interval_us: if is_plausible { interval_us as i64 } else { -1 },
            snd_interval_us: send_us as i64,
            rcv_interval_us: ack_us as i64,
            last_end_seq: sent.end.into(),
            is_app_limited: sent.is_app_limited.into(),
            is_retrans: sent.is_again.into(),
            ..rate
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Ten packets leave at once and their ACKs come one by one: RFC-draft delivery-rate estimation, section 3.
    #[test]
    fn sample_spans_the_longer_of_sending_and_acknowledging() {
        let (mut sampler, mut tcp) = (RateSampler::default(), Tcp::default());
        sampler.sent_in_order(&tcp, 10, 1_000);
        (tcp.packets_out, tcp.delivered) = (9, 1);
        sampler.delivered_in_order(1);
        let acked = Acked { delivered: 1, in_order: 1, lost: 0, rtt_us: Some(40_000) };
        let first = sampler.sample(&mut tcp, acked, 41_000);
        assert_eq!((first.delivered, first.interval_us, first.prior_mstamp), (1, 40_000, 1_000));
        sampler.sent_in_order(&tcp, 12, 41_000);
        (tcp.packets_out, tcp.delivered) = (2, 10);
        sampler.delivered_in_order(10);
        let rest = sampler.sample(&mut tcp, Acked { delivered: 9, in_order: 9, ..acked }, 50_000);
        assert_eq!((rest.delivered, rest.interval_us), (10, 49_000));
        (tcp.packets_out, tcp.delivered) = (0, 12);
        sampler.delivered_in_order(12);
        let next = sampler.sample(&mut tcp, Acked { delivered: 2, in_order: 2, ..acked }, 81_000);
        let sent_later = (next.prior_delivered, next.delivered, next.snd_interval_us, next.rcv_interval_us);
        assert_eq!(sent_later, (1, 11, 40_000, 40_000), "the interval begins with the delivery before its packets");
    }

    #[test]
    fn sample_is_invalid_without_a_packet_or_below_the_lowest_rtt() {
        let (mut sampler, mut tcp) = (RateSampler::default(), Tcp::default());
        let none = sampler.sample(&mut tcp, Acked::default(), 5);
        assert_eq!((none.delivered, none.interval_us, none.rtt_us), (-1, -1, -1));
        tcp.app_limited = 1;
        sampler.sent_in_order(&tcp, 2, 0);
        (tcp.packets_out, tcp.delivered) = (0, 2);
        sampler.delivered_in_order(2);
        let acked = Acked { delivered: 2, in_order: 2, lost: 0, rtt_us: Some(100) };
        let early = sampler.sample(&mut tcp, acked, 50);
        assert_eq!((early.delivered, early.interval_us, early.is_app_limited), (2, -1, 1));
        assert_eq!(tcp.app_limited, 0, "the bubble is gone");
    }
}
