//! The host before a test, compared with the host after it.

use std::collections::BTreeSet;
use std::time::Duration;

use super::{netlink, state};

/// Everything tccc could leave behind on a host, one line each. When dropped, it fails the test if anything changed.
///
/// Contains registered algorithms, the default algorithm, files in bpffs, named namespaces, cgroups of tccc, and the
/// interfaces and queueing disciplines of the test's namespace. Locals are dropped in reverse order: take the snapshot
/// before the test creates anything.
#[derive(Debug)]
#[must_use]
pub struct HostSnapshot {
    lines: BTreeSet<String>,
    /// Only lines that contain one of these words are compared. `None` compares every line.
    names: Option<Vec<String>>,
}

impl HostSnapshot {
    /// `names`: words in the names of everything that this test creates ("klt"). If `TCCC_SHARED_HOST` is set, others
    /// work on this host, and only lines that contain one of these words are compared.
    pub fn take(names: &[&str]) -> Self {
        match std::env::var_os("TCCC_SHARED_HOST") {
            Some(_) => Self::of(names),
            None => HostSnapshot { lines: current_lines(None), names: None },
        }
    }

    /// Takes only the lines that contain one of these words, for the host ring, whose tests run side by side.
    pub fn of(names: &[&str]) -> Self {
        let names: Vec<String> = names.iter().map(|&name| name.to_owned()).collect();
        HostSnapshot { lines: current_lines(Some(&names)), names: Some(names) }
    }

    /// What was left behind or removed, after the host had `settling` to restore itself.
    pub fn change_after(&self, settling: Duration) -> Option<String> {
        state::change(&self.lines, settling, || current_lines(self.names.as_deref()))
    }
}

impl Drop for HostSnapshot {
    fn drop(&mut self) {
        if !std::thread::panicking()
            && let Some(change) = self.change_after(state::SETTLING)
        {
            panic!("the test changed the host: {change}");
        }
    }
}

fn current_lines(names: Option<&[String]>) -> BTreeSet<String> {
    let mut lines = state::lines();
    lines.extend(netlink::qdiscs().unwrap_or_default());
    lines.retain(|line| names.is_none_or(|names| names.iter().any(|name| line.contains(name))));
    lines
}
