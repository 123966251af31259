//! What finished runs leave in a result directory: plain data that experiments write and reports read.
//!
//! Result files hold raw data: reports compute every number of a table from these records and the events.

mod calibration;
mod delays;

use std::collections::BTreeMap;

use clap::ValueEnum;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use strum::IntoStaticStr;

pub use self::calibration::{At, Calibration, Quantity};
pub use self::delays::{Delays, Frames, LinkWait};

/// Version of the files in a result directory.
pub const RESULT_SCHEMA: u32 = 1;
/// File of a run's folder with the queues of its links over time: [`QueueSample`](super::queue::QueueSample) lines.
pub const QUEUES: &str = "queues.jsonl";
/// Prefix of the folders of runs in progress. The next start of the experiment removes leftover ones.
pub const UNFINISHED: &str = ".unfinished-";
/// Packets that leave later than this count as a stall, nanoseconds: far above usual lateness, and less
/// than most queues take to drain.
pub const STALL_MIN_NS: u64 = 500_000;

/// What runs an experiment.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, IntoStaticStr, ValueEnum, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "snake_case")]
pub enum Engine {
    /// Linux, over emulated links
    #[default] // of older records, which do not name the engine
    Kernel,
    /// Linux' own TCP in virtual time, with a native build of the same algorithm files; needs no root
    Virtual,
    /// The simulator ns-2 with its own TCP agents, if the scenario names them in [ns2]; needs no root
    Ns2,
}

impl Engine {
    /// The word in options, files and reports.
    pub fn name(self) -> &'static str {
        self.into()
    }
}

/// The machine that made runs, described well enough to tell machines apart. Unknown fields are empty.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Machine {
    /// Beginning of the SHA-256 digest of `/etc/machine-id`.
    pub id: String,
    /// `uname -n`.
    pub node: String,
    pub processor: String,
    /// Name of the hypervisor, or `none`.
    pub virtualisation: String,
    /// CPU frequency governor, such as `performance`.
    pub governor: String,
    /// `uname -v`.
    pub kernel_build: String,
}

/// `plan.json` of one published block: one part of a plan, without the others.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct BlockPlan {
    pub schema: u32,
    pub scenario: String,
    pub engine: Engine,
    /// `paper` or `native`.
    pub profile: String,
    /// Runs of each cell in the whole plan.
    pub repeats: u32,
    pub seed: u64,
    pub block: PlanBlock,
    pub runs: Vec<String>,
}

/// Which block of which plan, and the machine that made it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PlanBlock {
    /// Digest of the plan, the same in all its blocks.
    pub plan: String,
    /// Number of the block, from 1.
    pub n: usize,
    /// Number of blocks in the plan.
    pub of: usize,
    #[serde(default)]
    pub machine: Machine,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct LinkCounters {
    /// Packets that arrived at the link.
    pub received_pkts: u64,
    /// Packets that left the link.
    pub sent_pkts: u64,
    /// Bytes of whole IP packets that left the link.
    pub sent_bytes: u64,
    /// Packets dropped by the loss model.
    pub lost_pkts: u64,
    /// The first packets dropped by the loss model, numbered from 1 in the order of arrival. Empty for kernel links and
    /// in older records.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub lost_positions: Vec<u64>,
    /// Loss bursts: sequences of packets dropped by the loss model with none passed between them. `None` for kernel
    /// links and in older records.
    #[serde(default)]
    pub loss_runs: Option<u64>,
    /// Packets that arrived while the link was down.
    #[serde(default)]
    pub down_pkts: u64,
    /// Packets dropped by the policer.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub policed_pkts: u64,
    /// Packets dropped because the queue was full, or by its discipline.
    pub overflow_pkts: u64,
    /// Packets marked with ECN because the queue was long, or by its discipline.
    #[serde(default)]
    pub marked_pkts: u64,
    /// Copies of packets that the link added.
    #[serde(default)]
    pub duplicated_pkts: u64,
    /// Pure ACKs dropped in addition to those of the loss model.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub acks_lost_pkts: u64,
    /// Pure ACKs held back to leave together.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub acks_held_pkts: u64,
    /// Packets held in batches, of a link that holds all packets.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub held_pkts: u64,
    /// Pure ACKs held back and then dropped for a newer one of the same flow.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub acks_thinned_pkts: u64,
    /// Reordered packets as in RFC 4737. `None` for kernel links and in older records.
    #[serde(default)]
    pub reordered_pkts: Option<u64>,
    /// Packets the emulator itself could not carry (a full socket or device queue): not a property of the path.
    pub failed_pkts: u64,
    /// Longest queue seen, packets. `None` for kernel links, which report only the current length.
    pub max_queue_pkts: Option<u64>,
    /// How long packets waited in the queue until their first bit was sent. `None` for kernel links, a direction without a
    /// rate, and in older records.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wait_us: Option<Delays>,
    /// How late packets left the link. `None` for kernel links.
    pub lateness_us: Option<Lateness>,
    /// Only for judging a run that just ended, never written. `None` for kernel links and after too many stalls.
    #[serde(skip)]
    pub moments: Option<LinkMoments>,
}

impl LinkCounters {
    /// Packets that reached the policer and the queue: those that no loss or outage took, and copies.
    fn offered_pkts(&self) -> u64 {
        let taken = self.lost_pkts + self.down_pkts + self.acks_lost_pkts;
        (self.received_pkts + self.duplicated_pkts).saturating_sub(taken)
    }

    fn dropped_pkts(&self) -> u64 {
        self.overflow_pkts + self.policed_pkts
    }

    /// Share of the packets that reached the policer and the queue and were dropped there.
    ///
    /// None: no packet reached them.
    pub fn drop_ratio(&self) -> Option<f64> {
        ratio(self.dropped_pkts(), self.offered_pkts())
    }

    /// Share of the packets that left the queue marked.
    ///
    /// None: no packet left it.
    pub fn mark_ratio(&self) -> Option<f64> {
        ratio(self.marked_pkts, self.offered_pkts().saturating_sub(self.dropped_pkts()))
    }
}

fn ratio(part: u64, whole: u64) -> Option<f64> {
    (whole > 0).then(|| part as f64 / whole as f64)
}

fn is_zero(count: &u64) -> bool {
    *count == 0
}

/// Stalls and overflows of one direction, on the monotonic clock.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct LinkMoments {
    /// Shape: sorted by time.
    pub stalls: Vec<Stall>,
    /// When the full queue dropped packets, nanoseconds. Shape: ascending; drops within a millisecond count once.
    pub overflows_ns: Vec<u64>,
}

/// A span in which packets left late.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stall {
    /// When the last late packet left.
    pub end_ns: u64,
    pub length_ns: u64,
}

/// Percentiles of the emulator's own lateness, microseconds.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Lateness {
    /// Median.
    pub p50: f64,
    /// 99th percentile.
    pub p99: f64,
    /// 99.9th percentile.
    pub p999: f64,
    /// Largest.
    pub max: f64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum RunStatus {
    /// It counts.
    Done,
    /// An emulated link or a sender of datagrams was late. The run is kept for inspection, repeated, and never part of a
    /// result.
    Late,
    /// Traffic or tracing did not work; [`RunRecord::why`] gives the reason.
    Failed,
}

/// One run: `runs/<id>/run.json`. Beside it are its events in `events.jsonl`, the queues of links over time in
/// `queues.jsonl`, and iperf3's output in `flow-N.json`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct RunRecord {
    /// Version of the format.
    pub schema: u32,
    /// Unique in its directory; also the folder's name.
    pub id: String,
    /// The cell, without the repeat.
    pub at: At,
    /// Repeat number, from 0. Runs of one repeat share their seed over all algorithms, so they can be paired.
    pub repeat: u32,
    /// Seed of the links, or of the simulator.
    pub seed: u64,
    /// What ran the experiment.
    #[serde(default)]
    pub engine: Engine,
    /// How it ended.
    pub status: RunStatus,
    /// Why it is not `done`.
    pub why: Option<String>,
    /// Earlier attempts at this run that were late.
    pub late_attempts: u32,
    /// Start, RFC 3339.
    pub started: String,
    /// Length of the run in the scenario, seconds.
    pub duration_s: f64,
    /// The flows, in the scenario's order.
    pub flows: Vec<FlowRecord>,
    /// The links, in the scenario's order.
    pub links: Vec<LinkRecord>,
    /// Largest number of runs that sent at the same time, this one included.
    pub jobs: u32,
    /// Events that the tracer had no room for.
    pub events_dropped: u64,
    /// Share of all processors used by anything but this experiment, 0 to 1. `None` in older records and in virtual
    /// time, which other load only slows down.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub others_share: Option<f64>,
    /// [`Machine::id`]. `None` in older records and in virtual time, where a run is the same on every machine.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub host: Option<String>,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct FlowRecord {
    /// Name in the scenario. Copies have a number at the end.
    pub name: String,
    /// The kernel's name of its algorithm.
    pub algorithm: String,
    /// The algorithm, with its changed tunables if there are any.
    pub variant: String,
    /// Whether the sweep compares this flow; background traffic is not compared.
    #[serde(default = "unless_said")]
    pub compared: bool,
    /// Cookie of the sender's socket, by which its events are found. `None` for flows of several connections, for
    /// datagrams, and if it never connected.
    pub socket: Option<u64>,
    /// Packets the sender knew to be delivered at the end of the flow, counted from its first data.
    pub delivered_pkts: u64,
    /// New payload that its receiver got, bytes.
    pub received_bytes: u64,
    /// New payload per second at the receiver.
    pub goodput_bps: f64,
    /// Retransmitted packets.
    pub retrans_pkts: u64,
    /// Packets that the sender marked lost.
    pub lost_pkts: u64,
    /// Payload of a full packet, bytes.
    pub mss_bytes: u32,
    /// When its first data was sent, on the clock of the links' timed changes, seconds. Later than its planned start by
    /// at least a handshake. `None` in older records, and if nothing was delivered.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub begin_s: Option<f64>,
    /// Seconds from its first to its last delivery; to the end of the flow if a transfer was not done by then.
    pub active_s: f64,
    /// One per transfer of a flow with a size, by start time; empty for other flows.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub completions: Vec<Completion>,
    /// Whether it was still sending when the grace after the run was over. A path that was down or lost half of the
    /// packets at the end excuses it. Absent on real kernels.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub given_up: bool,
    /// Whether its receiver sent selective acknowledgements. Without them, the kernel infers deliveries from duplicate
    /// ACKs and overestimates them, so acknowledged bytes are counted instead.
    #[serde(default = "unless_said")]
    pub tcp_sack: bool,
    /// What limited its sender other than its algorithm. `None` in older records, in ns-2 and for datagrams.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limited: Option<LimitedTime>,
    /// What its sender learned of marks. Only in virtual time, for a flow that negotiated ECN.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ecn: Option<FlowEcn>,
    /// Whether it sent datagrams. Such a flow has no socket to trace and is never compared.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub datagrams: bool,
    /// How long its datagrams were on their way, those that arrived. `None` for TCP, in ns-2, if none arrived, and in older
    /// records. On a real kernel, datagrams need 44 bytes for the time at which they were sent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub delay_us: Option<Delays>,
    /// How long its packets from sender to receiver waited at each link with a rate. Only in virtual time; absent in older
    /// records.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub waits: Vec<LinkWait>,
    /// Its frames. A datagram that is not part of one is its own. `None` as for `delay_us`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub frames: Option<Frames>,
}

impl FlowRecord {
    /// Whether it sent in bulk and its receiver got nothing.
    pub fn is_silent(&self) -> bool {
        !self.datagrams && self.completions.is_empty() && self.received_bytes == 0 && self.delivered_pkts == 0
    }

    /// Whether its only connection was never made, so that it has no events.
    pub fn never_connected(&self) -> bool {
        self.is_silent() && self.socket.is_none()
    }
}

/// What the sender of a flow learned of marks, over all its connections.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct FlowEcn {
    /// Whether Accurate ECN was negotiated (RFC 9768).
    pub accurate: bool,
    /// Packets that the receiver reported as marked: the kernel's `delivered_ce`. Without Accurate ECN, a mark is repeated
    /// until the sender has answered, and each ACK that repeats it counts.
    pub delivered_ce_pkts: u64,
}

/// How long a sender had data, and how much of that time buffers were its limit: the kernel's `busy_time`,
/// `rwnd_limited` and `sndbuf_limited`, over all connections of a flow.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct LimitedTime {
    /// Time with data to send or in flight.
    pub busy_s: f64,
    /// Part of it in which the receive window was full.
    pub receive_window_s: f64,
    /// Part of it in which the sender slept because the send buffer was full. The kernel counts less than all of it.
    pub send_buffer_s: f64,
}

/// One transfer of a flow with a size.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Completion {
    /// When it began to connect, or with requests when its request was sent, seconds after the flow's first transfer began to
    /// connect.
    pub start_s: f64,
    /// Seconds until the receiver had its last byte, or until the end of the flow if that came first.
    pub took_s: f64,
    /// Whether its receiver has all of it.
    pub done: bool,
    /// Its payload, if the transfers of the flow differ in size. `None` also in older records.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub size_bytes: Option<u64>,
}

/// Value of flags that old records lack: all their flows were compared and had selective acknowledgements.
pub fn unless_said() -> bool {
    true
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct LinkRecord {
    /// Both ends, such as `s-r`.
    pub name: String,
    /// What emulated it: `netem`, `tunlink`, `virtual` or another link driver.
    pub driver: String,
    /// Longest random delay of a packet in the node that sends it, microseconds, in each direction. `None` if the
    /// driver adds none, and in older records.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub host_delay_us: Option<[f64; 2]>,
    /// From the first end to the second, then back.
    pub counters: [LinkCounters; 2],
}

/// The machine and tools of a result directory: `host.json`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct HostRecord {
    pub schema: u32,
    #[serde(default)]
    pub engine: Engine,
    /// Machines that made the runs, each once. Empty in older records and in virtual time.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub machines: Vec<Machine>,
    /// `uname -r`.
    pub kernel: String,
    pub cpus: u32,
    /// Link driver, or `ns2`.
    pub link: String,
    /// `netns`, `mininet` or `ns2`.
    pub network: String,
    /// Offloads active on the path: "off", or their names.
    pub offloads: String,
    /// `paper` or `native`.
    pub profile: String,
    /// Sysctls of every namespace, set or inherited, name to value.
    pub sysctls: BTreeMap<String, String>,
    /// Version of each tool, such as iperf3 and tccc.
    pub tools: BTreeMap<String, String>,
    /// Digest of the object of each algorithm; the kernel's own algorithms are absent.
    pub algorithms: BTreeMap<String, String>,
    /// One entry per quantity of each distinct path; a resumed experiment adds more.
    pub calibration: Vec<Calibration>,
}
