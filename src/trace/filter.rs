//! Which sockets are wanted: by port, address, algorithm, cgroup and network namespace.
//!
//! Values of one kind are alternatives; kinds narrow each other. The kernel side decides once per socket.

use std::collections::BTreeSet;
use std::net::SocketAddr;

use super::event::Event;
use crate::units::prefix::Prefix;

/// Longest name of an algorithm that the kernel knows, bytes.
pub const ALGORITHM_NAME_MAX: usize = 15;

/// The sockets that a tracer or a sweep shows; the default shows every socket.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Filter {
    /// Local or remote port is one of these.
    pub ports: BTreeSet<u16>,
    /// Local or remote address lies in one of these.
    pub addresses: BTreeSet<Prefix>,
    /// The algorithm's kernel name is one of these.
    pub algorithms: BTreeSet<String>,
    /// The socket's cgroup (v2 id), or one above it, is one of these.
    pub cgroups: BTreeSet<u64>,
    /// The network namespace (inode) is one of these; `Some` of an empty set passes nothing until
    /// [`super::live::Watcher::watch_netns`] adds one.
    pub netns: Option<BTreeSet<u32>>,
}

impl Filter {
    /// Whether a recorded event passes, as the kernel side decides it; a cgroup counts only as itself, because those
    /// above it are not recorded.
    pub fn passes(&self, event: &Event) -> bool {
        let is_either = |wanted: &dyn Fn(SocketAddr) -> bool| wanted(event.local) || wanted(event.remote);
        let has_port = || is_either(&|end| self.ports.contains(&end.port()));
        let has_address = || is_either(&|end| self.addresses.iter().any(|prefix| prefix.contains(end.ip())));
        (self.ports.is_empty() || has_port())
            && (self.addresses.is_empty() || has_address())
            && (self.algorithms.is_empty() || self.algorithms.contains(&event.algorithm))
            && (self.cgroups.is_empty() || self.cgroups.contains(&event.cgroup))
            && self.netns.as_ref().is_none_or(|netns| netns.contains(&event.netns))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn recorded_events_pass_as_live_ones_do() {
        let event = crate::model::live::samples::sample(1, 0);
        let passes = |change: fn(&mut Filter)| {
            let mut filter = Filter::default();
            change(&mut filter);
            filter.passes(&event)
        };
        assert!(passes(|_| ()) && passes(|it| it.ports.extend([1, 5201])) && !passes(|it| it.ports.extend([1])));
        assert!(passes(|it| it.addresses.extend(["10.0.0.0/30".parse::<Prefix>().unwrap()])));
        assert!(!passes(|it| it.addresses.extend(["10.0.0.4/30".parse::<Prefix>().unwrap()])));
        assert!(passes(|it| it.addresses.extend(["::/0".parse::<Prefix>().unwrap()])));
        assert!(!passes(|it| it.algorithms.extend(["other".to_owned()])));
        assert!(!passes(|it| it.netns = Some(BTreeSet::new())));
    }
}
