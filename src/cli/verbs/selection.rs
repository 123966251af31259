//! The options that select sockets, with one meaning for every verb that shows sockets.

use std::collections::BTreeSet;
use std::path::Path;

use anyhow::Result;

use crate::cli::output::warn;
use host::policy::record::PolicyRecord;
use host::policy::rule::RULE_NAME_MAX;
use host::state::Store;
use host::trace::filter::{ALGORITHM_NAME_MAX, Filter};
use shared::failure::Failure;
use shared::kernel::{cgroup, congestion, netns::Netns};
use shared::units::prefix::Prefix;

/// Values of one option are alternatives; options narrow each other. Without options every socket is selected.
#[derive(Debug, Default, clap::Args)]
#[command(next_help_heading = "Which sockets")]
pub struct SocketSelection {
    /// Local or remote port; may be repeated or separated by commas
    #[arg(long, value_name = "PORT", value_delimiter = ',', value_parser = parse_port)]
    port: Vec<u16>,
    /// Local or remote address or prefix, such as 10.0.0.0/8
    #[arg(long, value_name = "ADDRESS[/BITS]", value_delimiter = ',')]
    address: Vec<Prefix>,
    /// Congestion control algorithm by its kernel name, such as dtcp
    #[arg(long, value_name = "NAME", value_delimiter = ',', value_parser = parse_algorithm)]
    algorithm: Vec<String>,
    /// Rule of the policy that decided the connection
    #[arg(long, value_name = "NAME", value_delimiter = ',', value_parser = parse_rule)]
    rule: Vec<String>,
    /// cgroup v2 by its path below the mount point, including its descendants
    #[arg(long, value_name = "PATH")]
    cgroup: Vec<String>,
    /// Network namespace by name, path or process id
    #[arg(long, value_name = "NETNS")]
    netns: Vec<String>,
}

impl SocketSelection {
    /// # Errors
    /// A cgroup or network namespace that does not exist or may not be opened.
    pub fn filter(&self) -> Result<Filter> {
        let cgroups = self.cgroup.iter().map(|path| cgroup::find(Path::new(path)));
        let netns = self.netns.iter().map(|text| Ok(Netns::find(text)?.inode()));
        Ok(Filter {
            ports: self.port.iter().copied().collect(),
            addresses: self.address.iter().copied().collect(),
            algorithms: self.algorithm.iter().cloned().collect(),
            cgroups: cgroups.collect::<Result<_>>()?,
            netns: (!self.netns.is_empty()).then(|| netns.collect::<Result<_, Failure>>()).transpose()?,
        })
    }

    /// Not part of [`Filter`], because the tracer in the kernel knows no rules. If empty, the rule does not matter.
    pub fn rules(&self) -> BTreeSet<String> {
        self.rule.iter().cloned().collect()
    }

    pub fn warn_of_unknown_rules(&self) {
        let record = PolicyRecord::read(&Store::of_host()).unwrap_or_default();
        let rules = || record.generations.iter().flat_map(|generation| &generation.policy.rules);
        for name in self.rule.iter().filter(|name| !rules().any(|rule| rule.name == **name)) {
            warn(&format!("the policy has no rule \"{name}\""), Some("`tccc policy show` lists the rules"));
        }
    }

    /// The options as a phrase for a recording.
    pub fn phrase(&self) -> String {
        let ports: Vec<String> = self.port.iter().map(u16::to_string).collect();
        let addresses: Vec<String> = self.address.iter().map(Prefix::to_string).collect();
        let given = [
            ("port", &ports),
            ("address", &addresses),
            ("algorithm", &self.algorithm),
            ("rule", &self.rule),
            ("cgroup", &self.cgroup),
            ("netns", &self.netns),
        ];
        let given = given.into_iter().filter(|(_, values)| !values.is_empty());
        let words: Vec<String> = given.map(|(name, values)| format!("--{name} {}", values.join(","))).collect();
        if words.is_empty() { "every socket".to_owned() } else { words.join(" ") }
    }

    pub fn names_namespaces(&self) -> bool {
        !self.netns.is_empty()
    }

    /// Warns of algorithms that are not registered, so that no socket has them.
    pub fn warn_of_unregistered(&self, hint: &str) {
        let Ok(available) = congestion::available() else { return };
        for name in self.algorithm.iter().filter(|name| !available.contains(name)) {
            warn(&format!("no algorithm \"{name}\" is registered"), Some(hint));
        }
    }
}

fn parse_port(text: &str) -> Result<u16, String> {
    text.parse().ok().filter(|&port| port != 0).ok_or_else(|| "expected a port from 1 to 65535".to_owned())
}

fn parse_algorithm(text: &str) -> Result<String, String> {
    let is_name = (1..=ALGORITHM_NAME_MAX).contains(&text.len()) && text.chars().all(|c| c.is_ascii_graphic());
    is_name.then(|| text.to_owned()).ok_or_else(|| format!("expected a name of 1 to {ALGORITHM_NAME_MAX} characters"))
}

fn parse_rule(text: &str) -> Result<String, String> {
    let is_name = (1..=RULE_NAME_MAX).contains(&text.len()) && !text.chars().any(char::is_control);
    is_name.then(|| text.to_owned()).ok_or_else(|| format!("expected the name of a rule, 1 to {RULE_NAME_MAX} bytes"))
}
