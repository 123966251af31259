//! The plain parts of a scenario: what flows send, the cells of a sweep, and under which conditions they run.

use std::collections::BTreeMap;
use std::time::Duration;

use clap::ValueEnum;
use serde::{Deserialize, Serialize};
use strum::{IntoStaticStr, VariantArray};

use crate::model::run::{At, unless_said};
use crate::path::route::LinkSpec;
use crate::units::{BitsPerSec, Bytes, Share, duration_text, some_duration_text};

/// Most runs of a cell.
pub const RUNS_MAX: u32 = 10_000;
/// Longest run: what iperf3 can time.
pub const DURATION_MAX: Duration = Duration::from_secs(86_400);
/// Most runs of a scenario's plan.
pub const PLANNED_RUNS_MAX: usize = 100_000;

/// Sweep variable that names the bundles of `[variant.NAME]`.
pub const VARIANT: &str = "variant";
/// Sweep variable by which scenarios without variants compare algorithms.
pub const ALGORITHM: &str = "algorithm";

/// Under which socket conditions a scenario runs.
#[derive(
    Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, IntoStaticStr, VariantArray, ValueEnum,
)]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "snake_case")]
pub enum Profile {
    /// The conditions of the papers' simulator, as far as a kernel can give them
    #[default]
    Paper,
    /// The kernel's own defaults
    Native,
}

impl Profile {
    /// The word scenarios, options and reports use.
    pub fn name(self) -> &'static str {
        self.into()
    }
}

/// Tolerance of a verdict where the scenario states none: one 100 s run with random loss scatters by about 8 %.
pub const DEFAULT_TOLERANCE: Share = Share(0.10);

/// A transfer between two nodes.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct FlowSpec {
    /// Unique in the scenario.
    pub name: String,
    pub from: String,
    pub to: String,
    /// Catalogue id, or the kernel's name of one of its own algorithms.
    pub algorithm: String,
    /// Whether it is what the sweep compares: it is of the variant, or it runs the swept algorithm. All are where
    /// nothing is compared.
    #[serde(default = "unless_said")]
    pub compared: bool,
    /// Tunables of a catalogue algorithm that differ from its defaults.
    pub tunables: BTreeMap<String, String>,
    /// Largest cwnd, packets; as in the papers' simulator also the initial ssthresh.
    pub window_cap: Option<u32>,
    /// Initial ssthresh, packets, without a cap.
    pub initial_ssthresh: Option<u32>,
    /// Initial cwnd, packets.
    pub initial_cwnd: Option<u32>,
    /// Whether it asks for selective acknowledgements; Reno without them is NewReno.
    #[serde(default = "unless_said")]
    pub tcp_sack: bool,
    /// Whether it asks for explicit congestion notification.
    #[serde(default)]
    pub ecn: bool,
    /// When it starts, from the start of the run.
    #[serde(with = "duration_text")]
    pub start: Duration,
    /// How long it sends; none until the run ends or all is sent.
    #[serde(default, with = "some_duration_text")]
    pub duration: Option<Duration>,
    #[serde(default)]
    pub sends: Sends,
    /// Who sends it, where it has neither a size nor a rate.
    #[serde(default, skip_serializing_if = "is_iperf3")]
    pub sender: Sender,
}

/// Who sends a bulk flow on a real kernel.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, IntoStaticStr, VariantArray)]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "snake_case")]
pub enum Sender {
    /// iperf3, which counts from the first data, in whole seconds.
    #[default]
    Iperf3,
    /// Our own sender, which counts from the flow's `start`, whenever its connection is made.
    Tccc,
}

fn is_iperf3(sender: &Sender) -> bool {
    *sender == Sender::Iperf3
}

/// What a flow sends.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Sends {
    /// As much as its algorithm lets it, over one TCP connection.
    #[default]
    Bulk,
    /// So many bytes over a TCP connection of their own, so many times.
    Transfers {
        /// Payload of each connection.
        size: Bytes,
        count: u32,
        /// From the start of one to the start of the next, whether that one is done or not.
        #[serde(with = "duration_text")]
        interval: Duration,
    },
    /// So many bytes, so many times, over one TCP connection that stays open between them.
    Messages {
        /// Payload of each.
        size: Bytes,
        count: u32,
        /// From the start of one to the start of the next.
        #[serde(with = "duration_text")]
        interval: Duration,
    },
    /// UDP packets at a constant rate.
    Datagrams {
        /// Rate in whole IP packets.
        rate: BitsPerSec,
        /// Length of each IP packet.
        packet_bytes: u32,
    },
}

/// An algorithm with its tunables, as a flow asks for it.
pub type Asked = (String, BTreeMap<String, String>);

/// What stands for the algorithm of a flow that has none.
pub const UDP: &str = "udp";

impl FlowSpec {
    /// Its algorithm with its tunables.
    pub fn asked(&self) -> Asked {
        (self.algorithm.clone(), self.tunables.clone())
    }

    /// Whether it has an algorithm.
    pub fn is_tcp(&self) -> bool {
        !matches!(self.sends, Sends::Datagrams { .. })
    }

    /// How many connections, or sockets, it takes.
    pub fn connections(&self) -> u32 {
        match self.sends {
            Sends::Transfers { count, .. } => count,
            _ => 1,
        }
    }

    /// How long it may send in a run of this length.
    pub fn length(&self, run: Duration) -> Duration {
        self.duration.unwrap_or(run.saturating_sub(self.start))
    }

    /// Whether it is the flow that the file calls so, or a copy of it.
    pub fn is_of(&self, written: &str) -> bool {
        is_copy_or_itself(&self.name, written)
    }
}

/// Whether a flow is the one of that name, or one of its numbered copies.
pub(super) fn is_copy_or_itself(flow: &str, written: &str) -> bool {
    let number = flow.strip_prefix(written).and_then(|rest| rest.strip_prefix('-'));
    flow == written || number.is_some_and(|number| !number.is_empty() && number.chars().all(|c| c.is_ascii_digit()))
}

/// A sweep variable and the values it takes, in the file's order, as text.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Variable {
    /// Name, as `$name` refers to it.
    pub name: String,
    /// Values as written.
    pub values: Vec<String>,
}

/// One combination of the sweep with everything resolved.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Cell {
    /// Sweep variable to value.
    pub at: At,
    /// Length of one run.
    #[serde(with = "duration_text")]
    pub duration: Duration,
    /// Largest IP packet, bytes.
    pub mtu: u32,
    pub links: Vec<LinkSpec>,
    pub flows: Vec<FlowSpec>,
}

impl Cell {
    /// The label of one flow in comparisons: its variant, else its algorithm with its changed tunables.
    pub fn label(&self, flow: &FlowSpec) -> String {
        if let Some(variant) = self.at.get(VARIANT).filter(|_| flow.compared) {
            return variant.clone();
        }
        if flow.tunables.is_empty() {
            return flow.algorithm.clone();
        }
        let changed: Vec<String> = flow.tunables.iter().map(|(name, value)| format!("{name}={value}")).collect();
        format!("{} {}", flow.algorithm, changed.join(" "))
    }
}

/// A file that a scenario names: a trace.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ScenarioFile {
    /// Its path from the scenario's folder, never out of it.
    pub name: String,
    pub text: String,
}
