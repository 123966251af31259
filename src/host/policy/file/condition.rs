//! Reads the conditions of a rule.

use std::path::PathBuf;

use toml::de::DeValue;

use super::{PolicyTally, integer, is_name};
use crate::policy::rule::{CgroupName, Match, Ports, Way};
use crate::written::{Field, Reader, TomlTable};
use shared::nearest::nearest;

/// Name of a unit, or one component of a cgroup's path, bytes.
const COMPONENT_MAX: usize = 127;
/// Name or path of a network namespace, bytes.
const NETNS_MAX: usize = 255;
/// Units that have a cgroup.
const SUFFIXES: [&str; 4] = [".service", ".socket", ".slice", ".scope"];
/// Where systemd mounts cgroup v2. Paths in a policy are relative to it.
const MOUNT: &str = "/sys/fs/cgroup";
/// Bytes.
const ALGORITHM_MAX: usize = 15;

pub(super) const ALGORITHM: &str = "an algorithm's name of 1 to 15 letters, digits, _, . and -";

impl Reader<'_> {
    pub(super) fn conditions(&mut self, rule: &TomlTable<'_>, tally: &mut PolicyTally) -> Match {
        let mut cgroups = self.list(rule.field("unit"), Self::unit);
        cgroups.extend(self.list(rule.field("cgroup"), Self::cgroup));
        let direction = rule.field("direction");
        Match {
            cgroups,
            netns: self.list(rule.field("netns"), Self::netns),
            to: self.prefixes(rule, tally),
            local_port: self.list(rule.field("local_port"), Self::ports),
            remote_port: self.list(rule.field("remote_port"), Self::ports),
            direction: direction.and_then(|field| self.word(&field, &[("in", Way::In), ("out", Way::Out)])),
            current: self.list(rule.field("current"), Self::current),
        }
    }

    fn unit(&mut self, field: &Field<'_>) -> Option<CgroupName> {
        let text = self.text(field, "the name of a systemd unit such as \"nginx.service\"")?;
        if is_component(text) && is_unit(text) {
            return Some(CgroupName::Unit(text.to_owned()));
        }
        if text.starts_with('/') {
            let mistake = self.refuse(field, "expected the name of a systemd unit, not a path");
            mistake.hint = Some("a path goes into `cgroup`".to_owned());
        } else if is_component(text) {
            let expected = "expected a systemd unit that ends in .service, .socket, .slice or .scope";
            self.refuse(field, expected).suggest(with_suffix(text));
        } else {
            self.refuse(field, "expected a name of at most 127 bytes without / and control characters");
        }
        None
    }

    fn cgroup(&mut self, field: &Field<'_>) -> Option<CgroupName> {
        let text = self.text(field, "a path below the cgroup2 mount such as \"/system.slice\"")?;
        let meant = |path: &str| format!("did you mean \"{path}\"?");
        let below = text.strip_prefix(MOUNT).filter(|below| below.is_empty() || below.starts_with('/'));
        let (expected, hint) = match text.strip_prefix('/') {
            None if is_unit(text) && is_component(text) => {
                ("expected an absolute path", Some("a unit's name goes into `unit`".to_owned()))
            }
            None => ("expected an absolute path", Some(meant(&format!("/{text}")))),
            Some("") => (
                "expected a cgroup below the root, because the root has every connection",
                Some("leave `cgroup` out: a rule without it is for all cgroups".to_owned()),
            ),
            Some(_) if below.is_some() => {
                ("expected a path without the mount point", below.filter(|below| below.len() > 1).map(meant))
            }
            Some(path) if !path.split('/').all(|part| is_component(part) && part != "." && part != "..") => (
                "expected components of 1 to 127 bytes, without control characters, none of them . or ..",
                text.strip_suffix('/').filter(|text| !text.ends_with('/')).map(meant),
            ),
            Some(_) => return Some(CgroupName::Path(PathBuf::from(text))),
        };
        self.refuse(field, expected).hint = hint;
        None
    }

    fn netns(&mut self, field: &Field<'_>) -> Option<String> {
        let namespace = match field.value.get_ref() {
            DeValue::String(text) => is_netns(text).then(|| text.to_string()),
            _ => integer(field).filter(|pid| (1..=u32::MAX.into()).contains(pid)).map(|pid| pid.to_string()),
        };
        if namespace.is_none() {
            self.refuse(field, "expected a network namespace by name, absolute path or process id");
        }
        namespace
    }

    fn current(&mut self, field: &Field<'_>) -> Option<String> {
        let name = self.text(field, ALGORITHM)?;
        let is_keep = name == "keep";
        if is_keep || !is_algorithm_name(name) {
            let why = if is_keep { "; \"keep\" is not an algorithm" } else { "" };
            self.refuse(field, format!("expected {ALGORITHM}{why}"));
            return None;
        }
        Some(name.to_owned())
    }

    fn ports(&mut self, field: &Field<'_>) -> Option<Ports> {
        let ports = match field.value.get_ref() {
            DeValue::String(text) => text.parse().ok(),
            _ => {
                let port = integer(field).and_then(|port| u16::try_from(port).ok()).filter(|port| *port > 0);
                port.map(|port| Ports(port..=port))
            }
        };
        if ports.is_none() {
            self.refuse(field, "expected a port from 1 to 65535, or a range such as \"8000-8099\"");
        }
        ports
    }
}

/// A name or an absolute path.
fn is_netns(text: &str) -> bool {
    let is_path = text.starts_with('/') && text.len() > 1;
    let is_name = !text.is_empty() && !text.contains('/') && ![".", ".."].contains(&text);
    (is_path || is_name) && text.len() <= NETNS_MAX && !text.contains(char::is_control)
}

fn is_unit(text: &str) -> bool {
    SUFFIXES.iter().any(|suffix| text.strip_suffix(suffix).is_some_and(|stem| !stem.is_empty()))
}

/// The unit that a name with another ending probably means.
fn with_suffix(text: &str) -> Option<String> {
    match text.rsplit_once('.') {
        None => Some(format!("{text}.service")),
        Some(("", _)) => None,
        Some((stem, ending)) => nearest(&format!(".{ending}"), SUFFIXES).map(|suffix| format!("{stem}{suffix}")),
    }
}

pub(super) fn is_algorithm_name(text: &str) -> bool {
    is_name(text, ALGORITHM_MAX)
}

fn is_component(text: &str) -> bool {
    (1..=COMPONENT_MAX).contains(&text.len()) && !text.contains(|c: char| c == '/' || c.is_control())
}
