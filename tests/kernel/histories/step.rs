//! What a person, a unit or an accident does to a host, one step at a time, and the policies and declarations of these steps.

use std::collections::BTreeMap;

use derive_more::Display;
use serde::{Deserialize, Serialize};

/// An algorithm that the histories load. Each has one tunable, whose value stands for the version of its code.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, Display)]
#[serde(rename_all = "lowercase")]
pub enum Algorithm {
    #[display("msack")]
    Msack,
    #[display("bpf_cubic")]
    Cubic,
}

pub const ALGORITHMS: [Algorithm; 2] = [Algorithm::Msack, Algorithm::Cubic];

/// 0 leaves the tunable alone.
pub type Version = u8;

/// What a rule can match a connection by. Each class has a port of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Class {
    /// No rule matches.
    Other,
    /// The accepting end, by its own port.
    Local,
    /// The opening end, by the port of the other end.
    Remote,
    /// The accepting end, by the cgroup of its listener.
    Group,
}

pub const CLASSES: [Class; 4] = [Class::Other, Class::Local, Class::Remote, Class::Group];

/// How the rule of a policy is tried.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Trying {
    No,
    /// An absolute limit, and no deadline.
    Guard,
    /// 10 %, then all connections.
    Steps,
}

/// A policy of one rule.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Policy {
    pub class: Class,
    /// `None`: an algorithm of the kernel.
    pub gives: Option<Algorithm>,
    pub trying: Trying,
    /// Only connections whose algorithm would be the kernel's own default.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub current: bool,
    /// Also connections whose program chose.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub overrides: bool,
}

/// What `/etc/tccc` declares.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Declaration {
    pub algorithms: BTreeMap<Algorithm, Version>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub default: Option<Algorithm>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub policy: Option<Policy>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Step {
    Load(Algorithm, Version),
    Replace(Algorithm, Version),
    LoadDefault(Algorithm),
    /// `tccc load --default --confirm`.
    TryDefault(Algorithm),
    Unload(Algorithm),
    UnloadAll,
    Upgrade(Algorithm, Version),
    /// `tccc upgrade --trial`.
    TryUpgrade(Algorithm, Version),
    Rollback(Algorithm),
    Confirm,
    Policy(Policy),
    PolicyLive(Policy),
    Promote,
    Pause,
    Resume,
    Abort,
    Remove,
    RemoveLive,
    /// Somebody writes the files of `/etc/tccc`.
    Declare(Declaration),
    Apply,
    /// A command is killed at a fault point, and `tccc unload --all` cleans up.
    Killed(String, Box<Step>),
    KillGuard,
    /// SIGSTOP until the lease is over, then SIGCONT.
    StopGuard,
    Reboot,
    /// tccc.service stops first, as in an orderly shutdown.
    Shutdown,
    Namespace,
    /// A program listens, and chooses an algorithm for its connections.
    Listen(Algorithm),
    /// A program opens a connection and keeps it open.
    Hold(Class),
}
