//! The rules of a policy as written. Names of cgroups and network namespaces are looked up when the policy is applied.

use std::borrow::Cow;
use std::fmt;
use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use strum::{Display, IntoStaticStr, VariantArray};

use shared::units::prefix::Prefix;
use shared::units::{BitsPerSec, ParseError, format_duration};

/// The kernel program has one bit per rule in a 64-bit word.
pub const RULES_MAX: usize = 64;
/// Arms of all rules together.
pub const ARMS_MAX: usize = 256;
/// Bytes.
pub const RULE_NAME_MAX: usize = 32;

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Policy {
    /// The first rule that matches a connection decides. Shape: at most [`RULES_MAX`], with distinct names.
    pub rules: Vec<Rule>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Rule {
    pub name: String,
    /// Line of the file where the rule begins.
    pub line: usize,
    pub when: Match,
    pub split: Split,
    /// Also replaces an algorithm that a program chose by `setsockopt(TCP_CONGESTION)`.
    pub overrides: bool,
    /// Also replaces an algorithm that a route names (`ip route … congctl`). True for all rules of a file.
    pub overrides_route: bool,
    /// `None` for a permanent rule.
    pub trial: Option<RuleTrial>,
}

/// Conditions of a rule. A connection has to match one value of each list. An empty list matches all.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Match {
    /// A cgroup includes all cgroups below it.
    pub cgroups: Vec<CgroupName>,
    /// Network namespaces by name, path or process id.
    pub netns: Vec<String>,
    /// Prefixes of the remote address.
    pub to: Vec<Prefix>,
    pub local_port: Vec<Ports>,
    pub remote_port: Vec<Ports>,
    /// `None` matches both directions.
    pub direction: Option<Way>,
    /// Kernel names of algorithms that connections have without a policy.
    pub current: Vec<String>,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, derive_more::Display, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CgroupName {
    /// A path below the cgroup v2 mount: `/system.slice/nginx.service`.
    #[display("{}", _0.display())]
    Path(PathBuf),
    /// A systemd unit at any place: `nginx.service`.
    Unit(String),
}

/// The folder of a unit's cgroup: its name, which systemd escapes if it could be a file of the kernel.
///
/// Source: systemd, src/basic/cgroup-util.c, `cg_needs_escape`.
pub fn folder_of(unit: &str) -> Cow<'_, str> {
    let is_of_controller =
        CONTROLLERS.iter().any(|name| unit.strip_prefix(name).is_some_and(|rest| rest.starts_with('.')));
    let is_escaped = unit.starts_with(['_', '.']) || unit.starts_with("cgroup.") || is_of_controller;
    if is_escaped { format!("_{unit}").into() } else { unit.into() }
}

/// Names of controllers in systemd, also of those that are BPF programs.
const CONTROLLERS: [&str; 14] = [
    "cpu",
    "cpuacct",
    "cpuset",
    "io",
    "blkio",
    "memory",
    "devices",
    "pids",
    "bpf-firewall",
    "bpf-devices",
    "bpf-foreign",
    "bpf-socket-bind",
    "bpf-restrict-network-interfaces",
    "bpf-bind-network-interface",
];

/// Both ends are included.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ports(pub RangeInclusive<u16>);

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, Display, IntoStaticStr, VariantArray)]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "snake_case")]
pub enum Way {
    /// Accepted by a listening socket of this host.
    In,
    /// Opened by this host.
    Out,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Split {
    /// Shape: at least one; portions add up to [`Portion::ALL`]; in the order of the file, `keep` last.
    pub arms: Vec<Arm>,
    pub by: SplitBy,
}

/// A part of a rule's connections, and what they get.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Arm {
    pub treatment: Treatment,
    pub portion: Portion,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, derive_more::Display, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Treatment {
    /// The algorithm without a policy.
    #[display("keep")]
    Keep,
    /// An algorithm's kernel name.
    Algorithm(String),
}

/// A share of connections in hundredths of a percent. 500 is 5 %.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, derive_more::Display, Serialize, Deserialize)]
#[display("{} %", self.percent())]
pub struct Portion(pub u16);

/// What is hashed to choose the arm of a connection. The kernel program uses the same numbers.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, IntoStaticStr, VariantArray)]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "snake_case")]
pub enum SplitBy {
    /// Both addresses and both ports.
    #[default]
    Connection,
    /// The remote address.
    Peer,
    /// The first 24 bits of a remote IPv4 address, the first 48 of an IPv6 address.
    Prefix,
}

/// What makes a rule a trial: limits that the guard watches, and steps of a rising share.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct RuleTrial {
    /// An arm that crosses a limit ends the trial.
    pub limits: Vec<GuardLimit>,
    /// `None` runs until a person ends the trial, or until the last step is over.
    pub deadline: Option<Duration>,
    pub undecided: Undecided,
    pub on_fail: OnFail,
    /// Portions of the first arm in turn. If empty, the split's portions apply throughout.
    pub steps: Vec<RolloutStep>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, derive_more::Display, Serialize, Deserialize)]
#[display("{portion} for {}", format_duration(*duration))]
pub struct RolloutStep {
    pub portion: Portion,
    /// A minimum.
    pub duration: Duration,
}

/// What happens after a step or at the deadline if some limit is neither crossed nor shown to hold.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, IntoStaticStr, VariantArray)]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "snake_case")]
pub enum Undecided {
    /// Restores the state before the trial.
    #[default]
    Revert,
    /// As if every limit were shown to hold.
    Proceed,
    /// The trial continues until the guard has enough data or a person decides.
    Hold,
}

/// What happens when a limit is crossed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, IntoStaticStr, VariantArray)]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "snake_case")]
pub enum OnFail {
    /// Restores the state before the trial.
    #[default]
    Revert,
    /// The share stays until a person decides.
    Freeze,
}

/// A limit for the connections that a rule changed.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct GuardLimit {
    pub metric: GuardMetric,
    pub allowed: Allowed,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, Display, IntoStaticStr)]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "snake_case")]
pub enum GuardMetric {
    /// Share of data segments that are retransmissions.
    Retransmitted,
    /// Retransmission timeouts per connection.
    Timeouts,
    /// Smoothed RTT divided by the lowest RTT; geometric mean over connections and looks.
    RttInflation,
    /// Acknowledged payload per second of busy time, bits per second. The sender is busy while it has data to send and
    /// neither the receiver nor its own buffer limits it.
    Goodput,
    /// Share of connections that ended by a reset or a timeout.
    AbnormalEnds,
}

#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Allowed {
    /// A multiple of the value of the unchanged connections.
    Relative(f64),
    /// In the metric's unit.
    Absolute(f64),
}

impl Portion {
    pub const ALL: Portion = Portion(10_000);

    /// None: below 0, above 100, or finer than a hundredth of a percent.
    pub fn of_percent(percent: f64) -> Option<Self> {
        let hundredths = (percent * 100.0).round();
        let is_whole = (percent * 100.0 - hundredths).abs() < 1e-9;
        (is_whole && (0.0..=10_000.0).contains(&hundredths)).then_some(Portion(hundredths as u16))
    }

    pub fn percent(self) -> f64 {
        f64::from(self.0) / 100.0
    }

    /// Between 0 and 1.
    pub fn fraction(self) -> f64 {
        f64::from(self.0) / 10_000.0
    }
}

impl GuardMetric {
    /// In the order of output.
    pub const ALL: [Self; 5] =
        [Self::Retransmitted, Self::Timeouts, Self::RttInflation, Self::Goodput, Self::AbnormalEnds];

    /// The word in limits, metrics and JSON.
    pub fn name(self) -> &'static str {
        self.into()
    }

    pub fn is_better_when_high(self) -> bool {
        self == GuardMetric::Goodput
    }
}

impl Policy {
    pub fn rule(&self, name: &str) -> Option<&Rule> {
        self.rules.iter().find(|rule| rule.name == name)
    }

    /// Rules with limits or steps.
    pub fn on_trial(&self) -> impl Iterator<Item = &Rule> {
        self.rules.iter().filter(|rule| rule.trial.is_some())
    }
}

impl Rule {
    /// A rule with a file's defaults: it overrides routes, but not the choices of programs.
    pub fn new(name: impl Into<String>, when: Match, split: Split) -> Self {
        Rule { name: name.into(), line: 0, when, split, overrides: false, overrides_route: true, trial: None }
    }

    pub fn is_guarded(&self) -> bool {
        self.trial.as_ref().is_some_and(|trial| !trial.limits.is_empty())
    }

    pub fn steps(&self) -> &[RolloutStep] {
        self.trial.as_ref().map_or(&[], |trial| &trial.steps)
    }

    /// How long a step takes. Without steps, the time until the deadline.
    pub fn duration_of(&self, step: usize) -> Option<Duration> {
        let step = self.steps().get(step).map(|step| step.duration);
        step.or(self.trial.as_ref().and_then(|trial| trial.deadline))
    }
}

impl Arm {
    /// An arm, and one that keeps the rest of the connections as they are.
    pub fn with_rest(treatment: Treatment, portion: Portion) -> Vec<Self> {
        let rest = Portion(Portion::ALL.0 - portion.0);
        let keep = (rest > Portion(0)).then_some(Arm { treatment: Treatment::Keep, portion: rest });
        [Arm { treatment, portion }].into_iter().chain(keep).collect()
    }
}

impl From<&str> for Treatment {
    fn from(name: &str) -> Self {
        if name == "keep" { Treatment::Keep } else { Treatment::Algorithm(name.to_owned()) }
    }
}

impl Treatment {
    /// `None` for `keep`.
    pub fn algorithm(&self) -> Option<&str> {
        match self {
            Treatment::Keep => None,
            Treatment::Algorithm(name) => Some(name),
        }
    }
}

impl fmt::Display for Ports {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.0.start(), self.0.end()) {
            (first, last) if first == last => write!(f, "{first}"),
            (first, last) => write!(f, "{first}-{last}"),
        }
    }
}

impl FromStr for Ports {
    type Err = ParseError;

    /// Reads `443` or `8000-8099`.
    fn from_str(text: &str) -> Result<Self, ParseError> {
        const EXPECTED: &str = "a port from 1 to 65535, or a range such as \"8000-8099\"";
        let refuse = || ParseError::new(text, EXPECTED);
        let is_plain = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
        let number = |text: &str| text.parse::<u16>().ok().filter(|&port| port > 0 && is_plain(text));
        let port = |text: &str| number(text.trim()).ok_or_else(refuse);
        let (first, last) = text.split_once('-').unwrap_or((text, text));
        let range = port(first)?..=port(last)?;
        if range.is_empty() { Err(refuse()) } else { Ok(Ports(range)) }
    }
}

/// Writes a share as percent by moving the decimal point in the text, which loses no precision.
fn percent_text(share: f64) -> String {
    let text = share.to_string();
    let (whole, fraction) = text.split_once('.').unwrap_or((&text, ""));
    let fraction = format!("{fraction:0<2}");
    let (moved, rest) = fraction.split_at(2);
    let whole = format!("{whole}{moved}");
    let whole = whole[..whole.len() - 1].trim_start_matches('0').to_owned() + &whole[whole.len() - 1..];
    if rest.is_empty() { whole } else { format!("{whole}.{rest}") }
}

impl fmt::Display for GuardLimit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let sign = if self.metric.is_better_when_high() { '>' } else { '<' };
        write!(f, "{}{sign}", self.metric)?;
        match (self.allowed, self.metric) {
            (Allowed::Relative(times), _) => write!(f, "{times}x"),
            (Allowed::Absolute(share), GuardMetric::Retransmitted | GuardMetric::AbnormalEnds) => {
                write!(f, "{}%", percent_text(share))
            }
            (Allowed::Absolute(bits), GuardMetric::Goodput) => f.write_str(&BitsPerSec(bits as u64).exact()),
            (Allowed::Absolute(value), GuardMetric::Timeouts | GuardMetric::RttInflation) => write!(f, "{value}"),
        }
    }
}
