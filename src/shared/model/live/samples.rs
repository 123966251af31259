//! Constructed events with round numbers, for tests of the model and the views.

use crate::arrival::Arrival;
use crate::event::{CaState, Event, EventKind, PRIVATE_BYTES};

pub const SECOND: u64 = 1_000_000_000;

/// A sample of a socket. Sockets differ by their remote port.
pub fn sample(socket: u64, time_ns: u64) -> Event {
    Event {
        kind: EventKind::Sample,
        time_ns,
        socket,
        cgroup: 7,
        netns: 1,
        uid: 0,
        local: "10.0.0.1:5201".parse().unwrap(),
        remote: format!("10.0.0.2:{}", 1000 + socket % 60_000).parse().unwrap(),
        algorithm: "reno".into(),
        cwnd_pkts: 10,
        ssthresh_pkts: None,
        srtt_us: Some(40_000),
        min_rtt_us: Some(38_000),
        rtt_us: Some(41_000),
        rto_us: 240_000,
        inflight_pkts: 9,
        delivered_pkts: 0,
        delivered_ce_pkts: 0,
        lost_pkts: 0,
        retrans_pkts: 0,
        bytes_acked: 0,
        bytes_received: 0,
        mss_bytes: 1448,
        pacing_rate_bps: None,
        ca_state: CaState::Open,
        prior_ca_state: CaState::Open,
        tcp_state: 1,
        app_limited: false,
        private_state: [0; PRIVATE_BYTES],
    }
}

pub fn arrival(event: Event) -> Arrival {
    Arrival::Event(event)
}
