//! What a finished run left in the result directory: plain data that experiments write and reports read.
//!
//! Record raw, derive late: everything a table shows is computed from these and from the events again.

mod block;
mod calibration;
mod engine;
mod machine;

use std::collections::BTreeMap;

pub use self::block::{Block, BlockPlan};
pub use self::calibration::{At, Calibration, Quantity};
pub use self::engine::Engine;
pub use self::machine::Machine;
use serde::{Deserialize, Serialize};

/// Version of the files in a result directory.
pub const RESULT_SCHEMA: u32 = 1;
/// Folders of runs in progress begin with this; the next start of the experiment removes what is left of them.
pub const UNFINISHED: &str = ".unfinished-";

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct LinkCounters {
    /// Packets that entered the link.
    pub received_pkts: u64,
    /// Packets that left it.
    pub sent_pkts: u64,
    /// Bytes that left it (whole IP packets).
    pub sent_bytes: u64,
    /// Packets that the loss model took.
    pub lost_pkts: u64,
    /// The first of these, by their numbers from 1 in the order in which packets entered the run; none for a kernel link,
    /// and in older records.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub lost_positions: Vec<u64>,
    /// Runs of such packets without one between them that passed; none for a kernel link, and in older records.
    #[serde(default)]
    pub loss_runs: Option<u64>,
    /// Packets that entered while the link was down. Older records lack it.
    #[serde(default)]
    pub down_pkts: u64,
    /// Packets dropped because the queue was full.
    pub overflow_pkts: u64,
    /// Packets that were marked because the queue was long (ECN). Older records lack it.
    #[serde(default)]
    pub marked_pkts: u64,
    /// Copies that the link made. Older records lack it.
    #[serde(default)]
    pub duplicated_pkts: u64,
    /// Pure acknowledgements that were lost beside those that the loss model took.
    #[serde(default, skip_serializing_if = "is_none_counted")]
    pub acks_lost_pkts: u64,
    /// Pure acknowledgements that were held to leave with others.
    #[serde(default, skip_serializing_if = "is_none_counted")]
    pub acks_held_pkts: u64,
    /// Pure acknowledgements that were held and dropped, because a newer one of the flow came.
    #[serde(default, skip_serializing_if = "is_none_counted")]
    pub acks_thinned_pkts: u64,
    /// Packets that left the link behind one that entered after them (RFC 4737's reordered packets); none for a kernel
    /// link, and in older records.
    #[serde(default)]
    pub reordered_pkts: Option<u64>,
    /// Packets the emulator itself could not carry (a full socket or device queue): not part of the path.
    pub failed_pkts: u64,
    /// Largest backlog seen in the queue, packets; none for a kernel link, which keeps only the one of the moment.
    pub max_queue_pkts: Option<u64>,
    /// How late packets left compared with when they were due: percentiles, microseconds; none for a kernel link.
    pub lateness_us: Option<Lateness>,
    /// When the emulator held packets up, and when the queue was full; none for a kernel link, where there were too many
    /// to keep, and in every file: they are for judging a run that just ended.
    #[serde(skip)]
    pub moments: Option<Moments>,
}

fn is_none_counted(count: &u64) -> bool {
    *count == 0
}

/// Moments of one direction, on the monotonic clock.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Moments {
    /// Times in which packets left late, in their order.
    pub stalls: Vec<Stall>,
    /// When the full queue dropped packets, nanoseconds, ascending; those of one millisecond count once.
    pub overflows_ns: Vec<u64>,
}

/// Lateness from which on it is a stall, nanoseconds: far above the usual, and shorter than nearly every queue lasts.
pub const STALL_MIN_NS: u64 = 500_000;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stall {
    /// When the last of them left, nanoseconds.
    pub end_ns: u64,
    /// How late the latest of them was, nanoseconds.
    pub length_ns: u64,
}

/// Percentiles of the emulator's own lateness, microseconds.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Lateness {
    pub p50: f64,
    pub p99: f64,
    pub p999: f64,
    pub max: f64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RunStatus {
    /// Measured as asked.
    Done,
    /// An emulated link, or a sender of datagrams, was late; kept for inspection, repeated, and never part of a result.
    Late,
    /// Traffic or tracing did not work; `RunRecord::why` says how.
    Failed,
}

/// One finished run: `runs/<id>/run.json`. Events lie beside it in `events.jsonl`, iperf3's output in `flow-N.json`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RunRecord {
    pub schema: u32,
    /// Unique in its directory; also the folder's name.
    pub id: String,
    /// The cell, without the repeat.
    pub at: At,
    /// Repeat number, from 0; runs of one repeat share their seed over all algorithms, so they pair.
    pub repeat: u32,
    /// Seed of the links in this run; the simulator's own seed where that made the run.
    pub seed: u64,
    #[serde(default)]
    pub engine: Engine,
    pub status: RunStatus,
    /// Why it is not `Done`.
    pub why: Option<String>,
    /// Attempts before this one whose link or sender was late.
    pub late_attempts: u32,
    /// Start, RFC 3339.
    pub started: String,
    /// Length that was asked for, seconds.
    pub duration_s: f64,
    /// Flows in the scenario's order.
    pub flows: Vec<FlowRecord>,
    /// Links in the scenario's order.
    pub links: Vec<LinkRecord>,
    /// Runs that sent at once while this one did, at most, this one included.
    pub jobs: u32,
    /// Events the tracer had to drop during this run.
    pub events_dropped: u64,
    /// Share of all processors that others than this experiment used meanwhile, 0 to 1. None in older records, and in
    /// virtual time, which others only slow down.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub others_share: Option<f64>,
    /// [`Machine::id`] of the machine that made it. None in older records, and in virtual time, where a run is the same
    /// on every machine.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub host: Option<String>,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct FlowRecord {
    pub name: String,
    /// Kernel name of the algorithm it ran.
    pub algorithm: String,
    /// Label that identifies the variant: the algorithm, or the algorithm with its changed tunables.
    pub variant: String,
    /// Whether it is what the sweep compares, and not traffic beside that. Older records lack it.
    #[serde(default = "unless_said")]
    pub compared: bool,
    /// Socket cookie of the sender, to find its events.
    pub socket: Option<u64>,
    /// Packets the sender knew delivered when the flow's time was over, counted from its first data.
    pub delivered_pkts: u64,
    /// Payload bytes the receiver got.
    pub received_bytes: u64,
    /// New payload bytes per second at the receiver, as bits per second.
    pub goodput_bps: f64,
    pub retrans_pkts: u64,
    pub lost_pkts: u64,
    /// Payload bytes per packet.
    pub mss_bytes: u32,
    /// When its time began, on the clock of timed changes of links, seconds: a little after its start, which takes a
    /// handshake. Older records lack it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub begin_s: Option<f64>,
    /// Seconds from the flow's first to its last delivery.
    pub active_s: f64,
    /// Each transfer of a flow that has a size, in the order of their starts; empty for any other flow.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub completions: Vec<Completion>,
    /// Whether its receiver acknowledged selectively. Without, the kernel's own count of what was delivered is a guess
    /// from duplicate ACKs, which runs ahead of the truth, so that what was acknowledged counts instead.
    #[serde(default = "unless_said")]
    pub tcp_sack: bool,
    /// Whether it sent datagrams at a constant rate: it has no socket to trace and is no part of a comparison.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub datagrams: bool,
}

/// One transfer of a size.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Completion {
    /// When it began to connect, from the first of its flow, seconds.
    pub start_s: f64,
    /// From there until the receiver had its last byte, seconds; until the end of the flow's time when that came first.
    pub took_s: f64,
    /// Whether the receiver had all of it.
    pub done: bool,
}

/// What a field means in old records that lack it: every flow was compared, and had selective acknowledgements.
pub fn unless_said() -> bool {
    true
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct LinkRecord {
    /// "s-r".
    pub name: String,
    pub driver: String,
    pub counters: [LinkCounters; 2],
}

/// The machine and tools of a result directory: `host.json`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct HostRecord {
    pub schema: u32,
    /// What made every run of the directory.
    #[serde(default)]
    pub engine: Engine,
    /// The machines that made the runs, each once. Empty in older records and in virtual time.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub machines: Vec<Machine>,
    /// `uname -r`.
    pub kernel: String,
    pub cpus: u32,
    /// Link driver; `ns2` where the simulator made the runs.
    pub link: String,
    /// `netns` or `mininet`; `ns2` where the simulator made the runs.
    pub network: String,
    /// Offloads on the path as they were measured, as one phrase: "off" or what is on.
    pub offloads: String,
    /// `paper` or `native`.
    pub profile: String,
    /// Sysctls of every namespace, set or inherited, name to value.
    pub sysctls: BTreeMap<String, String>,
    /// Tool to version: iperf3, tccc.
    pub tools: BTreeMap<String, String>,
    /// Algorithm to the digest of the object that ran; kernel's own algorithms are absent.
    pub algorithms: BTreeMap<String, String>,
    /// Calibration of the first run of each distinct path; a resumed experiment adds its own.
    pub calibration: Vec<Calibration>,
}
