//! The host as it was: taken before a test, compared after it.

use std::collections::BTreeSet;
use std::time::Duration;

use super::{netlink, state};

/// Everything tccc could leave behind on a host, one line each.
///
/// Holds registered algorithms, the default algorithm, files in bpffs, named namespaces, cgroups of tccc, interfaces
/// and queueing disciplines of the namespace the test runs in.
#[derive(Debug)]
pub struct HostSnapshot {
    lines: BTreeSet<String>,
    /// Words of which a line holds one, or it is not compared; None: every line is.
    names: Option<Vec<String>>,
}

impl HostSnapshot {
    /// Takes the host as it is.
    ///
    /// `names`: words that occur in the names of what this test creates ("klt"). Where `TCCC_SHARED_HOST` is set,
    /// others work on the same host, and only lines that hold one of these words are compared; otherwise all are.
    pub fn take(names: &[&str]) -> Self {
        match std::env::var_os("TCCC_SHARED_HOST") {
            Some(_) => Self::of(names),
            None => HostSnapshot { lines: current_lines(None), names: None },
        }
    }

    /// Takes only the lines that hold one of these words: for a test of the host ring, which is never alone.
    pub fn of(names: &[&str]) -> Self {
        let names: Vec<String> = names.iter().map(|&name| name.to_owned()).collect();
        HostSnapshot { lines: current_lines(Some(&names)), names: Some(names) }
    }

    /// Fails the test when something was left behind or taken away.
    #[track_caller]
    pub fn assert_unchanged(&self) {
        if let Some(change) = self.change_after(state::SETTLING) {
            panic!("the host is not as before: {change}");
        }
    }

    /// What was left behind or taken away, once the host had `settling` to become as it was.
    pub fn change_after(&self, settling: Duration) -> Option<String> {
        state::change(&self.lines, settling, || current_lines(self.names.as_deref()))
    }
}

fn current_lines(names: Option<&[String]>) -> BTreeSet<String> {
    let mut lines = state::lines();
    lines.extend(
        netlink::qdiscs()
            .unwrap_or_default()
            .iter()
            .map(|(interface, kind, parent)| format!("qdisc: {kind} at {parent:#x} of {}", interface_name(*interface))),
    );
    lines.retain(|line| names.is_none_or(|names| names.iter().any(|name| line.contains(name))));
    lines
}

fn interface_name(number: i32) -> String {
    nix::net::if_::if_indextoname(number as u32)
        .map_or_else(|_| format!("interface {number}"), |name| name.to_string_lossy().into_owned())
}
