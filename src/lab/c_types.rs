//! The structs and constants that links and the guest kernel share with Rust: types made from `bpf/types/link.bpf.c`.

use zerocopy::FromBytes;

include!(concat!(env!("OUT_DIR"), "/link.types.rs"));
pub use types::{
    link_departure as Departure, link_fate as Fate, link_packet as EnteringPacket, link_slot as SlotNumber,
    tccc_burst as GuestBurst, tccc_connections as Connections, tccc_ecn as NegotiatedEcn, tccc_end as FlowEnd,
    tccc_flow_report as FlowReport, tccc_flow_request as FlowRequest, tccc_frame as FlowFrame,
    tccc_generator as Generator, tccc_hold as HeldPackets, tccc_limit as Limit, tccc_limit_unit as LimitUnit,
    tccc_link_counters as Counters, tccc_link_limit as LinkLimit, tccc_link_request as LinkRequest, tccc_loss as Loss,
    tccc_loss_kind as LossKind, tccc_queue_sample as QueueSample, tccc_receiver as ReceiverKind,
    tccc_run_report as RunReport, tccc_run_request as RunRequest, tccc_sends as SendsKind, tccc_step as TimedValue,
    tccc_stream as Stream, tccc_times_layout as TimesLayout, tccc_transfer_report as TransferReport,
    tccc_transfer_request as TransferRequest, tccc_watch_report as WatchReport, tccc_watch_request as WatchRequest,
    verdict_kind as VerdictKind,
};

/// Takes a value from the front of bytes. None: there are too few.
pub fn take<T: FromBytes>(bytes: &mut &[u8]) -> Option<T> {
    let (value, rest) = T::read_from_prefix(bytes).ok()?;
    *bytes = rest;
    Some(value)
}

/// As [`take`], for several values one after the other.
pub fn take_all<T: FromBytes>(bytes: &mut &[u8], count: impl Into<u64>) -> Option<Vec<T>> {
    (0..count.into()).map(|_| take(bytes)).collect()
}
