//! `[variant.NAME]`: what flows set under one name.

use std::collections::BTreeMap;

use super::flow::Flow;
use super::table::{Reader, Result, Table};
use super::value::{Read, Switch, Text};
use crate::scenario::spec::VARIANT;

/// What a variant can set.
pub(super) struct Settings {
    pub(super) algorithm: Option<String>,
    pub(super) tunables: BTreeMap<String, Text>,
    pub(super) window_cap: Option<u32>,
    pub(super) initial_ssthresh: Option<u32>,
    pub(super) initial_cwnd: Option<u32>,
    pub(super) tcp_sack: bool,
    pub(super) ecn: bool,
}

impl Settings {
    pub(super) fn read(table: &Table<'_>) -> Result<Self> {
        let packets = |key| -> Result<_> {
            let packets = table.get(key).map(|value| value.whole()).transpose()?;
            Ok(packets.map(|packets| packets as u32))
        };
        let is_on = |key| -> Result<_> { Ok(table.read(key)?.map(|Switch(is_on)| is_on)) };
        Ok(Settings {
            algorithm: table.read("algorithm")?,
            tunables: table.read("tunables")?.unwrap_or_default(),
            window_cap: packets("window_cap")?,
            initial_ssthresh: packets("initial_ssthresh")?,
            initial_cwnd: packets("initial_cwnd")?,
            tcp_sack: is_on("tcp_sack")?.unwrap_or(true),
            ecn: is_on("ecn")?.unwrap_or(false),
        })
    }
}

impl<'t> Reader<'t> {
    /// The variant of the cell and the flows that it names; every variant of the file is checked.
    pub(super) fn variant(&self, flows: &[Flow<'_>]) -> Result<Option<(Table<'t>, Option<Vec<String>>)>> {
        let Some(variants) = self.document().get("variant") else { return Ok(None) };
        let mut of_cell = None;
        for (name, value) in variants.table()?.entries() {
            let variant = value.table()?;
            Settings::read(&variant)?;
            if self.at.get(VARIANT).is_some_and(|at| at == name) {
                of_cell = Some(variant);
            }
        }
        let Some(variant) = of_cell else { return Ok(None) };
        let tcp: Vec<&str> = flows.iter().filter(|flow| flow.is_tcp).map(|flow| flow.name.as_str()).collect();
        let names = variant.get("flows").map(|value| {
            value.list(|item| {
                let name = String::read(item)?;
                if tcp.contains(&name.as_str()) {
                    return Ok(name);
                }
                let is_udp = flows.iter().any(|flow| flow.name == name);
                let why = if is_udp { "it sends datagrams, which have no algorithm" } else { "no flow has this name" };
                Err(item.refuse(why).or_hint(format!("TCP flows are {}", tcp.join(", "))))
            })
        });
        Ok(Some((variant, names.transpose()?)))
    }
}
