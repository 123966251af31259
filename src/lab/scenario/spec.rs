//! The plain data of a scenario: flows, cells of the sweep, and profiles.

use std::collections::BTreeMap;
use std::time::Duration;

use clap::ValueEnum;
use serde::{Deserialize, Serialize};
use strum::{IntoStaticStr, VariantArray};

use super::datagrams::DatagramSpec;
use super::reference::VirtualSpec;
use crate::load::{BurstSpec, Bursts, Load, PlannedTransfer, alike};
use crate::path::route::LinkSpec;
use shared::model::run::{At, unless_said};
use shared::units::{Bytes, Share, duration_text, some_duration_text};

pub const RUNS_MAX: u32 = 10_000;
/// Longest run that iperf3 can time.
pub const DURATION_MAX: Duration = Duration::from_secs(86_400);
/// Most runs of all cells together.
pub const PLANNED_RUNS_MAX: usize = 100_000;

/// Sweep variable with the names of `[variant.NAME]`.
pub const VARIANT: &str = "variant";
/// Sweep variable that scenarios without variants compare.
pub const ALGORITHM: &str = "algorithm";

/// In [`Cell::at`] of a perturbed path: what differs, such as `1% more delay`.
pub const PERTURBED: &str = "perturbed";

/// Socket settings of all flows.
#[derive(
    Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, IntoStaticStr, VariantArray, ValueEnum,
)]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "snake_case")]
pub enum Profile {
    /// The conditions of the papers' simulator, as far as a kernel can provide them
    #[default]
    Paper,
    /// The kernel's own defaults
    Native,
}

/// The kernel of virtual time.
#[derive(
    Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, IntoStaticStr, VariantArray, ValueEnum,
)]
pub enum GuestKernel {
    /// Linux 6.12, which plans without a name for their kernel ran on
    #[default]
    #[serde(rename = "6.12")]
    #[strum(serialize = "6.12")]
    #[value(name = "6.12")]
    Linux6,
    /// Linux 7.3, which has Accurate ECN and the discipline `dualpi2`
    #[serde(rename = "7.3")]
    #[strum(serialize = "7.3")]
    #[value(name = "7.3")]
    Linux7,
}

impl GuestKernel {
    /// As Debian names the source: `6.12`.
    pub fn series(self) -> &'static str {
        self.into()
    }

    pub fn is_default(&self) -> bool {
        *self == GuestKernel::default()
    }
}

impl Profile {
    pub fn name(self) -> &'static str {
        self.into()
    }

    /// The kernel of virtual time, unless a scenario or the command line names one. Linux 7.3 always finds losses by RACK,
    /// which the papers' simulator has not.
    pub fn kernel(self) -> GuestKernel {
        if self == Profile::Paper { GuestKernel::Linux6 } else { GuestKernel::Linux7 }
    }
}

/// Default of `report.tolerance`. One run of 100 s with random loss scatters by about 8 %.
pub const DEFAULT_TOLERANCE: Share = Share(0.10);

/// A flow between two nodes.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct FlowSpec {
    /// Unique in the scenario.
    pub name: String,
    pub from: String,
    pub to: String,
    /// Catalogue id, or the kernel's name of one of its own algorithms.
    pub algorithm: String,
    /// Whether the report compares it: the variant applies to it, or it runs the swept algorithm. Without variants or
    /// a swept algorithm, all TCP flows are compared.
    #[serde(default = "unless_said")]
    pub compared: bool,
    #[serde(default, skip_serializing_if = "LeftOut::is_none")]
    pub left_out_before: LeftOut,
    /// Tunables of a catalogue algorithm that differ from its defaults.
    pub tunables: BTreeMap<String, String>,
    /// Largest cwnd, packets. As in the papers' simulator, it is also the initial ssthresh.
    pub window_cap: Option<u32>,
    /// Packets. `None` if there is a `window_cap`.
    pub initial_ssthresh: Option<u32>,
    /// Packets.
    pub initial_cwnd: Option<u32>,
    #[serde(default = "unless_said")]
    pub tcp_sack: bool,
    #[serde(default)]
    pub ecn: Ecn,
    /// Largest socket buffer of the sending node, instead of the profile's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub send_buffer: Option<Bytes>,
    /// Largest socket buffer of the receiving node, instead of the profile's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub receive_buffer: Option<Bytes>,
    #[serde(default, skip_serializing_if = "Receiver::is_honest")]
    pub receiver: Receiver,
    /// Time after the start of the run.
    #[serde(with = "duration_text")]
    pub start: Duration,
    /// `None`: until the run ends or everything is sent. Of a load: how long transfers start.
    #[serde(default, with = "some_duration_text")]
    pub duration: Option<Duration>,
    #[serde(default)]
    pub sends: Sends,
    /// `None`: it never pauses.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bursts: Option<BurstSpec>,
    /// Payload of the receiver's request before each transfer or message.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub request: Option<Bytes>,
    /// Program that sends, if the flow has neither a size nor a rate.
    #[serde(default, skip_serializing_if = "is_iperf3")]
    pub sender: BulkSender,
}

/// What a variant leaves out before a flow. Ports and random numbers count it, so that the flow has the same ones in
/// the variant that leaves nothing out.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LeftOut {
    pub flows: u32,
    pub connections: u32,
}

impl LeftOut {
    fn is_none(&self) -> bool {
        *self == LeftOut::default()
    }
}

/// Explicit congestion notification of a flow.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "EcnText", into = "EcnText")]
pub enum Ecn {
    #[default]
    Off,
    /// RFC 3168: the receiver echoes a mark until the sender has answered.
    Classic,
    /// RFC 9768: the receiver counts marks.
    Accurate,
}

/// What the receiver of a flow does wrong.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, IntoStaticStr, VariantArray)]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "snake_case")]
pub enum Receiver {
    #[default]
    Honest,
    /// It never echoes a mark.
    HidesMarks,
    /// It acknowledges in ten parts what it should acknowledge at once.
    DividesAcks,
    /// It also acknowledges data that has not arrived.
    AcksEarly,
    /// It does not support selective acknowledgements.
    NoSack,
}

impl Receiver {
    pub fn is_honest(&self) -> bool {
        *self == Receiver::Honest
    }

    /// Whether a setting of Linux makes it. Only virtual time has the others.
    pub fn is_setting(self) -> bool {
        matches!(self, Receiver::Honest | Receiver::NoSack)
    }
}

/// How plans write it. Older ones have only the first form.
#[derive(Clone, Serialize, Deserialize)]
#[serde(untagged)]
enum EcnText {
    IsOn(bool),
    Kind(EcnKind),
}

#[derive(Clone, Copy, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum EcnKind {
    Accurate,
}

impl From<EcnText> for Ecn {
    fn from(text: EcnText) -> Ecn {
        match text {
            EcnText::IsOn(false) => Ecn::Off,
            EcnText::IsOn(true) => Ecn::Classic,
            EcnText::Kind(EcnKind::Accurate) => Ecn::Accurate,
        }
    }
}

impl From<Ecn> for EcnText {
    fn from(ecn: Ecn) -> EcnText {
        match ecn {
            Ecn::Off => EcnText::IsOn(false),
            Ecn::Classic => EcnText::IsOn(true),
            Ecn::Accurate => EcnText::Kind(EcnKind::Accurate),
        }
    }
}

/// Program that sends a bulk flow on a real kernel.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, IntoStaticStr, VariantArray)]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "snake_case")]
pub enum BulkSender {
    /// Counts whole seconds from the first data.
    #[default]
    Iperf3,
    /// Counts from the flow's `start`, even if the connection is made later.
    Tccc,
}

fn is_iperf3(sender: &BulkSender) -> bool {
    *sender == BulkSender::Iperf3
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Sends {
    /// As much as the algorithm allows, over one TCP connection.
    #[default]
    Bulk,
    /// `count` transfers, each over a TCP connection of its own.
    Transfers {
        /// Payload of each connection.
        size: Bytes,
        count: u32,
        /// From the start of one to the start of the next, even if the first has not finished.
        #[serde(with = "duration_text")]
        interval: Duration,
    },
    /// Transfers at random times, of random sizes, or from a file, each over a TCP connection of its own.
    Load(Load),
    /// `count` messages over one TCP connection that stays open between them.
    Messages {
        /// Payload of each.
        size: Bytes,
        count: u32,
        /// From the start of one to the start of the next.
        #[serde(with = "duration_text")]
        interval: Duration,
    },
    /// UDP packets at a constant rate, or frames of them.
    Datagrams(DatagramSpec),
}

/// An algorithm with the tunables that a flow sets.
pub type AlgorithmRequest = (String, BTreeMap<String, String>);

/// [`FlowSpec::algorithm`] of a UDP flow.
pub const UDP: &str = "udp";

impl FlowSpec {
    pub fn asked(&self) -> AlgorithmRequest {
        (self.algorithm.clone(), self.tunables.clone())
    }

    pub fn is_tcp(&self) -> bool {
        !matches!(self.sends, Sends::Datagrams(_))
    }

    /// Whether both ends use selective acknowledgements.
    pub fn uses_sack(&self) -> bool {
        self.tcp_sack && self.receiver != Receiver::NoSack
    }

    /// Number of sockets at the sender in a run of this length. For a load it is the expected number.
    pub fn connections(&self, run: Duration) -> u32 {
        match &self.sends {
            Sends::Load(load) => load.expected(self.starting(run)),
            _ => self.fixed_connections(),
        }
    }

    /// Number of sockets at the sender, which is the same in every run. A load has none of these.
    pub fn fixed_connections(&self) -> u32 {
        match &self.sends {
            Sends::Transfers { count, .. } => *count,
            Sends::Load(_) => 0,
            _ => 1,
        }
    }

    /// Longest time for which the flow sends in a run of this length. Transfers of a load that have begun may go on until
    /// the end of the run.
    pub fn length(&self, run: Duration) -> Duration {
        let until_the_end = run.saturating_sub(self.start);
        match self.sends {
            Sends::Load(_) => until_the_end,
            _ => self.duration.unwrap_or(until_the_end),
        }
    }

    /// How long transfers of the flow may start in a run of this length.
    pub fn starting(&self, run: Duration) -> Duration {
        self.duration.unwrap_or(run.saturating_sub(self.start))
    }

    /// The transfers of a run of this length, in the order of their starts. Each has its own connection.
    ///
    /// `index` is the flow's index in its cell, `seed` that of the run.
    ///
    /// None: the flow has one connection.
    pub fn transfers(&self, run: Duration, index: usize, seed: u64) -> Option<Vec<PlannedTransfer>> {
        let starting = self.starting(run);
        match &self.sends {
            Sends::Transfers { size, count, interval } => Some(alike(*count, *interval, size.0, starting)),
            Sends::Load(load) => Some(load.transfers(starting, index, seed)),
            _ => None,
        }
    }

    /// Whether this is the flow with this name in the file, or a copy of that flow.
    pub fn is_of(&self, written: &str) -> bool {
        is_copy_or_itself(&self.name, written)
    }
}

pub(super) fn is_copy_or_itself(flow: &str, written: &str) -> bool {
    let number = flow.strip_prefix(written).and_then(|rest| rest.strip_prefix('-'));
    flow == written || number.is_some_and(|number| !number.is_empty() && number.chars().all(|c| c.is_ascii_digit()))
}

/// A sweep variable. Its values are texts, in the order of the file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Variable {
    pub name: String,
    pub values: Vec<String>,
}

/// One combination of sweep values, with every `$name` replaced.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Cell {
    pub at: At,
    #[serde(with = "duration_text")]
    pub duration: Duration,
    /// Largest IP packet, bytes.
    pub mtu: u32,
    pub links: Vec<LinkSpec>,
    pub flows: Vec<FlowSpec>,
    /// Names of the flows that the variant leaves out, as the file has them, without the numbers of copies.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub left_out: Vec<String>,
}

/// A flow with its place among all flows of the scenario, which does not depend on what a variant leaves out.
#[derive(Debug, Clone)]
pub struct NumberedFlow<'a> {
    pub flow: &'a FlowSpec,
    /// From 0.
    pub number: u32,
    /// Number of its first connection, from 0.
    pub connection: u32,
    /// Its transfers, each over its own connection; `None` for a flow of one connection.
    pub transfers: Option<Vec<PlannedTransfer>>,
    /// `None`: it never pauses.
    pub bursts: Option<Bursts>,
}

impl Cell {
    /// The flows in order, with their numbers in a run with this seed.
    ///
    /// The connections of loads come last, because their number depends on the seed.
    pub fn numbered_flows(&self, seed: u64) -> Vec<NumberedFlow<'_>> {
        let mut next = 0;
        let numbered = (0..).zip(&self.flows).map(|(index, flow)| {
            let LeftOut { flows: left_out, connections: unused } = flow.left_out_before;
            let (number, connection) = (index + left_out, next + unused);
            next += flow.fixed_connections();
            let index = number as usize;
            let transfers = flow.transfers(self.duration, index, seed);
            let bursts = |spec| Bursts::of_flow(spec, flow.length(self.duration), index, seed);
            NumberedFlow { flow, number, connection, transfers, bursts: flow.bursts.map(bursts) }
        });
        let mut flows: Vec<NumberedFlow<'_>> = numbered.collect();
        let end = |numbered: &NumberedFlow<'_>| numbered.connection + numbered.flow.fixed_connections();
        let mut next = flows.iter().map(end).max().unwrap_or_default();
        for load in flows.iter_mut().filter(|numbered| matches!(numbered.flow.sends, Sends::Load(_))) {
            load.connection = next;
            next += load.transfers.as_ref().map_or(0, Vec::len) as u32;
        }
        flows
    }

    /// Whether the variant leaves out the flow with this name in the file, or a copy of that flow.
    pub fn leaves_out(&self, name: &str) -> bool {
        self.left_out.iter().any(|written| is_copy_or_itself(name, written))
    }

    /// Label of a flow in comparisons: its variant, else its algorithm with the tunables that it sets.
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

/// A trace or source file that a scenario names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ScenarioFile {
    /// Path relative to the folder of the scenario, never outside of it.
    pub name: String,
    pub text: String,
}

/// Roughly the time that a process takes to start.
impl Default for VirtualSpec {
    fn default() -> Self {
        VirtualSpec { start_spread: Duration::from_millis(10), host_delay: None }
    }
}

/// Largest start spread and host delay.
pub const VIRTUAL_MAX: [Duration; 2] = [Duration::from_secs(10), Duration::from_millis(100)];
