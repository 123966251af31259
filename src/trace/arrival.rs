//! What a source hands over, live or replayed: events, and the facts that name and complete what is in them.

use serde::{Deserialize, Serialize};

use super::event::Event;
use crate::catalog::StateLayout;

/// One thing that a source hands over.
#[derive(Debug, Clone, PartialEq)]
#[allow(clippy::large_enum_variant, reason = "nearly all are events, and they are handed on, not kept")]
pub enum Arrival {
    /// What one socket looked like.
    Event(Event),
    /// Something known about the host.
    Fact(Fact),
    /// What was handed over so far is void: a replay jumped to another time and begins anew.
    Restart,
}

/// The rule of a policy that decided a connection, and the arm of its split.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct RuleArm {
    pub rule: String,
    /// The algorithm's kernel name, or `keep`.
    pub arm: String,
}

/// Something known about the host that no event carries.
///
/// A later fact about the same thing replaces the earlier one; counts are cumulative. Recordings keep facts by these
/// names: one may be added, none changed.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "fact", rename_all = "snake_case")]
pub enum Fact {
    /// What an algorithm keeps in a socket, by its type information.
    Layout { algorithm: String, layout: StateLayout },
    /// Who holds a socket.
    Owner {
        socket: u64,
        /// Process; the first that was found when several hold it.
        pid: u32,
        command: String,
    },
    Cgroup {
        /// cgroup v2 id.
        cgroup: u64,
        /// Its path below the mount.
        path: String,
    },
    /// Which rule and arm of a policy a connection is in; known about a second after the connection opened.
    Arm {
        socket: u64,
        /// Rule and arm; none: it is in none any more.
        given: Option<RuleArm>,
    },
    /// What the callbacks of an algorithm cost; only while the kernel's BPF statistics are on.
    Cost {
        /// CLOCK_MONOTONIC, nanoseconds.
        time_ns: u64,
        algorithm: String,
        /// Member of the ops table.
        callback: String,
        calls: u64,
        nanoseconds: u64,
    },
    /// Events that did not fit between kernel and reader since the source began.
    Dropped {
        /// CLOCK_MONOTONIC, nanoseconds.
        time_ns: u64,
        events: u64,
        /// Those of them that are of sockets beyond those that can be followed; none: an older tccc did not count them.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        unfollowed: Option<u64>,
    },
    /// Every socket that exists was handed over as a `Snapshot` event since `begin_ns`: what was not is gone.
    Swept {
        /// CLOCK_MONOTONIC, nanoseconds: the sweep's begin.
        begin_ns: u64,
        time_ns: u64,
        /// Processes whose network namespace could not be looked at; sockets outside `netns` may live on.
        hidden: u64,
        /// Network namespaces that were looked at, by their inodes.
        #[serde(default)]
        netns: Vec<u32>,
    },
}

impl Fact {
    /// When it was so, CLOCK_MONOTONIC.
    ///
    /// None: it holds for as long as what it names exists.
    pub fn time_ns(&self) -> Option<u64> {
        match self {
            Fact::Cost { time_ns, .. } | Fact::Dropped { time_ns, .. } | Fact::Swept { time_ns, .. } => Some(*time_ns),
            Fact::Layout { .. } | Fact::Owner { .. } | Fact::Cgroup { .. } | Fact::Arm { .. } => None,
        }
    }
}
