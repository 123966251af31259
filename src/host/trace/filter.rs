//! Selects sockets by port, address, algorithm, cgroup and network namespace.
//!
//! A socket must match one value of each given kind. The kernel program decides once per socket, and again after
//! a change of its algorithm.

use std::collections::BTreeSet;
use std::net::SocketAddr;

use super::event::Event;
use shared::units::prefix::Prefix;

/// Longest name of an algorithm in the kernel, bytes.
pub const ALGORITHM_NAME_MAX: usize = 15;

/// The default selects every socket.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Filter {
    /// Local or remote ports.
    pub ports: BTreeSet<u16>,
    /// Prefixes of the local or remote address.
    pub addresses: BTreeSet<Prefix>,
    /// Kernel names.
    pub algorithms: BTreeSet<String>,
    /// cgroup v2 ids of the socket's cgroup or of one above it.
    pub cgroups: BTreeSet<u64>,
    /// Inodes of network namespaces. An empty set selects nothing until [`super::live::Watcher::watch_netns`] adds one.
    pub netns: Option<BTreeSet<u32>>,
}

impl Filter {
    /// Applies the filter to a recorded event. The cgroups above the event's own are not recorded and cannot match.
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
    fn recorded_events_pass_like_live_ones() {
        let event = shared::model::live::samples::sample(1, 0);
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
