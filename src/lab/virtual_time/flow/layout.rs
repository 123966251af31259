//! The structs of `/proc/tccc/flows`, `/proc/tccc/events` and `/proc/tccc/run`, as in `bpf/guest/layout.h`.

use super::super::bytes::structs;

/// Size of an algorithm's name with its final zero.
pub const ALGORITHM_NAME: usize = 16;

/// `enum tccc_end`.
pub const END_RECEIVES: u32 = 1;
pub const END_SENDS: u32 = 2;
/// `enum tccc_sends`.
pub const SENDS_BULK: u32 = 1;
pub const SENDS_TRANSFERS: u32 = 2;
pub const SENDS_MESSAGES: u32 = 3;
pub const SENDS_DATAGRAMS: u32 = 4;

structs! {
    /// Request to one end of a flow.
    FlowRequest in C: "tccc_flow_request" {
        start_ns: u64,
        length_ns: u64,
        from_start: u64,
        interval_ns: u64,
        bytes: u64,
        settle_ns: u64,
        flow: u32,
        end: u32,
        sends: u32,
        count: u32,
        window_cap: u32,
        initial_ssthresh: u32,
        initial_cwnd: u32,
        netns: u32,
        from_address: [u8; 4],
        to_address: [u8; 4],
        from_port: u32,
        to_port: u32,
        algorithm: [u8; ALGORITHM_NAME],
    }

    /// Report of both ends of a flow.
    FlowReport in C: "tccc_flow_report" {
        received_bytes: u64,
        counted_ns: u64,
        sent_pkts: u64,
        arrived_pkts: u64,
        received_pkts: u64,
        first_ns: u64,
        last_ns: u64,
        latest_ns: u64,
        busy_us: u64,
        rwnd_limited_us: u64,
        sndbuf_limited_us: u64,
        flow: u32,
        is_done: u32,
        error: i32,
        retrans_pkts: u32,
        mss_bytes: u32,
        transfers: u32,
        algorithm: [u8; ALGORITHM_NAME],
    }

    /// Report of a transfer or message that was begun.
    TransferReport in C: "tccc_transfer_report" {
        begun_ns: u64,
        last_ns: u64,
        received_bytes: u64,
        port: u32,
        error: i32,
    }

    /// Request to the tracer.
    WatchRequest in C: "tccc_watch_request" { interval_ns: u64, loss_gap_ns: u64, bytes_max: u64 }

    /// Header of the events.
    WatchReport in C: "tccc_watch_report" { dropped: u64, version: u32, event_bytes: u32 }

    RunReport in C: "tccc_run_report" { begin_ns: u64, end_ns: u64, unfinished: u64 }
}
