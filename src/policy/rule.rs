//! The rules of a policy as somebody wrote them, before names are looked up on this host.
//!
//! Pure: what a cgroup or a network namespace is called here is resolved when the policy is applied.

use std::fmt;
use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use strum::{Display, IntoStaticStr};

use crate::units::prefix::Prefix;
use crate::units::{BitsPerSec, ParseError, format_duration};

/// Most rules of one policy: a decision is a bit in a 64-bit word.
pub const RULES_MAX: usize = 64;
/// Most arms of all rules together.
pub const ARMS_MAX: usize = 256;
/// Longest name of a rule, bytes.
pub const RULE_NAME_MAX: usize = 32;

/// Rules in order: the first one that matches a connection decides.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Policy {
    /// Shape: at most [`RULES_MAX`], with names that differ.
    pub rules: Vec<Rule>,
}

/// One rule: which connections it is for, and what they get.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Rule {
    /// Its name, as `explain`, metrics and incidents use it.
    pub name: String,
    /// Line of the file where the rule begins.
    pub line: usize,
    pub when: Match,
    pub split: Split,
    /// Also replaces an algorithm that a program chose by `setsockopt(TCP_CONGESTION)`.
    pub overrides: bool,
    /// Also replaces an algorithm that a route names (`ip route … congctl`). Rules of a file do.
    pub overrides_route: bool,
    /// Limits and steps of a trial; none when the rule simply holds.
    pub trial: Option<RuleTrial>,
}

/// Conditions of a rule. Values of one kind are alternatives; kinds narrow each other; an empty list matches all.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Match {
    /// cgroups, with all below them.
    pub cgroups: Vec<CgroupName>,
    /// Network namespaces by name, path or process id.
    pub netns: Vec<String>,
    /// Prefixes of the remote address.
    pub to: Vec<Prefix>,
    pub local_port: Vec<Ports>,
    pub remote_port: Vec<Ports>,
    /// Which end began the connection; none for both.
    pub direction: Option<Way>,
    /// Algorithms that the connection would have without a policy, by kernel name.
    pub current: Vec<String>,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, derive_more::Display, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CgroupName {
    /// By its path below the cgroup v2 mount: `/system.slice/nginx.service`.
    #[display("{}", _0.display())]
    Path(PathBuf),
    /// By the name of a systemd unit, wherever it is: `nginx.service`.
    Unit(String),
}

/// One port or a range of ports, both ends included.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ports(pub RangeInclusive<u16>);

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, Display, IntoStaticStr)]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "snake_case")]
pub enum Way {
    /// Accepted by a listening socket of this host.
    In,
    /// Made by this host.
    Out,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Split {
    /// Shape: at least one; shares add up to [`Portion::ALL`]; in the order of the file, `keep` last.
    pub arms: Vec<Arm>,
    /// What is hashed to choose the arm.
    pub by: SplitBy,
}

/// A part of a rule's connections, and what it gets.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Arm {
    pub treatment: Treatment,
    pub portion: Portion,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, derive_more::Display, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Treatment {
    /// The algorithm it would have without a policy.
    #[display("keep")]
    Keep,
    /// An algorithm by its kernel name.
    Algorithm(String),
}

/// A share of connections in hundredths of a percent: 500 is 5 %.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, derive_more::Display, Serialize, Deserialize)]
#[display("{} %", self.percent())]
pub struct Portion(pub u16);

/// What decides which arm of a split a connection is in; the kernel program has the same numbers.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SplitBy {
    /// Both addresses and both ports.
    #[default]
    Connection,
    /// The remote address.
    Peer,
    /// The first 24 bits of a remote IPv4 address, the first 48 of an IPv6 address.
    Prefix,
}

/// What makes a rule a trial: limits that the guard watches, and steps by which the share rises.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct RuleTrial {
    /// Limits; a connection that crosses one ends the trial.
    pub limits: Vec<GuardLimit>,
    /// How long the guard watches before it ends as `undecided` says; none: until a person ends it, or the last step does.
    pub deadline: Option<Duration>,
    /// What happens at the deadline, or at the end of a step, when a limit is neither crossed nor shown to hold.
    pub undecided: Undecided,
    /// What happens when a limit is crossed.
    pub on_fail: OnFail,
    /// Shares of the first arm, one after another; empty: the share of the split, throughout.
    pub steps: Vec<RolloutStep>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, derive_more::Display, Serialize, Deserialize)]
#[display("{portion} for {}", format_duration(*duration))]
pub struct RolloutStep {
    /// Share of the rule's connections that get the algorithm.
    pub portion: Portion,
    /// How long at least.
    pub duration: Duration,
}

/// What happens when the time is over and the guard cannot tell.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Undecided {
    /// Everything is as before the trial.
    #[default]
    Revert,
    /// As if every limit were shown to hold.
    Proceed,
    /// The trial goes on, and the guard with it, until it can tell or a person decides.
    Hold,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OnFail {
    /// Everything is as before the trial.
    #[default]
    Revert,
    /// The share stays as it is until a person decides.
    Freeze,
}

/// A limit on a measured quantity of the connections that a rule changed.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct GuardLimit {
    pub metric: GuardMetric,
    pub allowed: Allowed,
}

/// A quantity that the guard measures of each arm.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, Display, IntoStaticStr)]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "snake_case")]
pub enum GuardMetric {
    /// Share of the data segments that were retransmissions.
    Retransmitted,
    /// Retransmission timeouts per connection.
    Timeouts,
    /// Smoothed RTT over the lowest RTT, geometric mean over connections and looks.
    RttInflation,
    /// Payload acknowledged per second in which the sender had data to send and was not limited by the receiver or by
    /// its own buffer, bits per second.
    Goodput,
    /// Share of the connections that ended by a reset or a timeout.
    AbnormalEnds,
}

#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Allowed {
    /// Times the value of the connections that did not change.
    Relative(f64),
    /// The value itself, in the metric's unit.
    Absolute(f64),
}

impl Portion {
    pub const ALL: Portion = Portion(10_000);

    /// Reads a number of percent.
    ///
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
    /// All of them, in the order they are shown.
    pub const ALL: [GuardMetric; 5] = [
        GuardMetric::Retransmitted,
        GuardMetric::Timeouts,
        GuardMetric::RttInflation,
        GuardMetric::Goodput,
        GuardMetric::AbnormalEnds,
    ];

    /// The word for it in limits, metrics and JSON.
    pub fn name(self) -> &'static str {
        self.into()
    }

    /// Whether more of it is better.
    pub fn is_better_when_high(self) -> bool {
        self == GuardMetric::Goodput
    }
}

impl Rule {
    /// A rule as a file without options has it: routes yield to it, and programs do not.
    pub fn new(name: impl Into<String>, when: Match, split: Split) -> Self {
        Rule { name: name.into(), line: 0, when, split, overrides: false, overrides_route: true, trial: None }
    }
}

impl From<&str> for Treatment {
    fn from(name: &str) -> Self {
        if name == "keep" { Treatment::Keep } else { Treatment::Algorithm(name.to_owned()) }
    }
}

impl Treatment {
    /// The algorithm's kernel name; none for `keep`.
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

/// Writes a share as percent by moving the decimal point, so that the text means exactly this number.
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

impl RuleTrial {
    pub fn is_guarded(&self) -> bool {
        !self.limits.is_empty()
    }
}
