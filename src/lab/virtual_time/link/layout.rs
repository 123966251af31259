//! The structs of `/proc/tccc/links` and `/proc/tccc/queues`, as in `bpf/guest/layout.h`. All numbers have 64 bits.

use super::super::bytes::structs;
use shared::model::queue;

/// Size of a device's name with its final zero.
pub const DEVICE_NAME: usize = 16;
/// Largest request, bytes.
pub const REQUEST_BYTES_MAX: u64 = 32 << 20;

/// Number of streams in `enum tccc_stream`.
pub const STREAMS: usize = 8;
/// Number of kinds in `enum tccc_change`.
const CHANGES: usize = 4;
/// `enum tccc_loss_kind`.
pub const LOSS_INDEPENDENT: u64 = 1;
pub const LOSS_STATES: u64 = 2;
pub const LOSS_POSITIONS: u64 = 3;
/// `enum tccc_limit_unit`; 0 is no limit.
pub const LIMIT_PKTS: u64 = 1;
pub const LIMIT_BYTES: u64 = 2;

structs! {
    /// State of a PCG64 generator.
    Generator in C: "tccc_generator" { state_low: u64, state_high: u64, increment_low: u64, increment_high: u64 }

    /// Capacity of a queue.
    Limit in C: "tccc_limit" { unit: u64, most: u64 }

    AckHold in C: "tccc_ack_hold" { time_ns: u64, pkts: u64, share: u64, newest: u64 }

    /// A value that applies from a time on, counted from the start of the run.
    TimedValue in C: "tccc_step" { at_ns: u64, value: u64 }

    /// A loss model.
    Loss in C: "tccc_loss" {
        kind: u64,
        good_loss: u64,
        bad_loss: u64,
        to_bad: u64,
        to_good: u64,
        first_position: u64,
        positions: u64,
    }

    /// Request that configures one direction of a link.
    LinkRequest in C: "tccc_link_request" {
        device: [u8; DEVICE_NAME],
        rate_bps: u64,
        delay_ns: u64,
        jitter_ns: u64,
        held_back_ns: u64,
        held_back: u64,
        duplicate: u64,
        ack_loss: u64,
        host_delay_ns: u64,
        sample_ns: u64,
        queue: Limit,
        queue_low: Limit,
        mark: Limit,
        ack_hold: AckHold,
        generators: [Generator; STREAMS],
        step_counts: [u64; CHANGES],
        loss_count: u64,
        position_count: u64,
        opportunity_count: u64,
    }

    /// Counters of one direction.
    Counters in C: "tccc_link_counters" {
        received_pkts: u64,
        sent_pkts: u64,
        sent_bytes: u64,
        lost_pkts: u64,
        loss_runs: u64,
        down_pkts: u64,
        overflow_pkts: u64,
        marked_pkts: u64,
        duplicated_pkts: u64,
        acks_lost_pkts: u64,
        acks_held_pkts: u64,
        acks_thinned_pkts: u64,
        reordered_pkts: u64,
        failed_pkts: u64,
        max_queue_pkts: u64,
        late_ns: u64,
        first_lost_count: u64,
    }

    /// The queue of one direction at one moment.
    QueueState in C: "tccc_queue_sample" {
        at_ns: u64,
        queue_pkts: u64,
        wait_ns: u64,
        overflow_pkts: u64,
        marked_pkts: u64,
    }
}

impl Loss {
    /// A model of a kind, without losses.
    pub fn of(kind: u64) -> Self {
        Loss { kind, ..Loss::default() }
    }
}

impl From<QueueState> for queue::QueueState {
    fn from(state: QueueState) -> queue::QueueState {
        let QueueState { at_ns: time_ns, queue_pkts, wait_ns, overflow_pkts, marked_pkts } = state;
        queue::QueueState { time_ns, queue_pkts, wait_ns, overflow_pkts, marked_pkts }
    }
}
