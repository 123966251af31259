//! The items of a source, live or replayed: events, and facts that name and complete them.

use serde::{Deserialize, Serialize};

use super::event::Event;
use crate::catalog::StateLayout;

/// One item of a source.
#[derive(Debug, Clone, PartialEq)]
#[allow(clippy::large_enum_variant, reason = "nearly all are events, and they are passed on, not kept")]
pub enum Arrival {
    Event(Event),
    Fact(Fact),
    /// All earlier items are void: a replay jumped to another time.
    Restart,
}

/// The rule of a policy that decided a connection, and the arm of its split.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct RuleArm {
    pub rule: String,
    /// The algorithm's kernel name, or `keep`.
    pub arm: String,
}

/// Something known about the host that is not part of an event.
///
/// A later fact replaces an earlier one about the same thing. Counts are cumulative. Times are CLOCK_MONOTONIC,
/// nanoseconds. Recordings use these names, so a variant or field may be added but not changed.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "fact", rename_all = "snake_case")]
pub enum Fact {
    /// The private state of an algorithm.
    Layout { algorithm: String, layout: StateLayout },
    /// The process that holds a socket; the first one found if there are several.
    Owner { socket: u64, pid: u32, command: String },
    /// The path of a cgroup v2 below the mount.
    Cgroup { cgroup: u64, path: String },
    /// Rule and arm of a connection, known about a second after it opened. `None`: it is in no arm any more.
    Arm { socket: u64, given: Option<RuleArm> },
    /// The cost of a callback, a member of the ops table. Only while the kernel's BPF statistics are on.
    Cost { time_ns: u64, algorithm: String, callback: String, calls: u64, nanoseconds: u64 },
    /// Events dropped since the source started.
    Dropped {
        time_ns: u64,
        events: u64,
        /// Of these, events of sockets beyond the limit. Older versions did not count them.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        unfollowed: Option<u64>,
    },
    /// Every existing socket was a `Snapshot` event since `begin_ns`. All others are gone.
    Swept {
        begin_ns: u64,
        time_ns: u64,
        /// Processes whose network namespace could not be entered. Sockets outside `netns` may still exist.
        hidden: u64,
        /// Inodes of the network namespaces swept.
        #[serde(default)]
        netns: Vec<u32>,
    },
}

impl Fact {
    /// The time of the fact, CLOCK_MONOTONIC.
    ///
    /// None: the fact holds as long as its subject exists.
    pub fn time_ns(&self) -> Option<u64> {
        match self {
            Fact::Cost { time_ns, .. } | Fact::Dropped { time_ns, .. } | Fact::Swept { time_ns, .. } => Some(*time_ns),
            Fact::Layout { .. } | Fact::Owner { .. } | Fact::Cgroup { .. } | Fact::Arm { .. } => None,
        }
    }
}
