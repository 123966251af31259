//! `[[flow]]` and `[variant.NAME]`: who sends what to whom, by which algorithm and under which conditions.

use std::time::Duration;

use strum::{IntoStaticStr, VariantArray};

use super::link::BESIDE;
use super::table::{Reader, Result, Table};
use super::value::{Read, Switch, Text};
use super::variant::Settings;
use crate::path::RATE_RANGE;
use crate::path::route::LinkSpec;
use crate::path::route::shortest_path;
use crate::scenario::algorithm::source;
use crate::scenario::reference::ONLY_TCP;
use crate::scenario::spec::{ALGORITHM, FlowSpec, Sender, Sends, UDP};
use crate::units::{BitsPerSec, Bytes, format_duration};

/// A flow's name stands in tables and legends.
const NAME_LENGTH: usize = 32;
/// Most flows of a cell, and most connections: each takes a port, and processes cost.
const FLOWS_MAX: usize = 256;
const CONNECTIONS_MAX: u32 = 10_000;
/// Smallest packet of a UDP flow: IPv4 and UDP headers and our number.
const PACKET_MIN: u64 = 36;

#[derive(Debug, Clone, Copy, PartialEq, Eq, IntoStaticStr, VariantArray)]
#[strum(serialize_all = "snake_case")]
pub(super) enum Protocol {
    Tcp,
    Udp,
}

/// A flow as it is written.
pub(super) struct Flow<'t> {
    pub(super) name: String,
    pub(super) is_tcp: bool,
    /// Its own fields, below those of its variant.
    pub(super) table: Table<'t>,
    /// Whether it is what the sweep compares.
    compared: bool,
}

/// When a flow starts, and how long it sends.
type Times = (Duration, Option<Duration>);

/// What a cell is made of beside its flows.
struct Around<'a> {
    links: &'a [LinkSpec],
    duration: Duration,
    mtu: u32,
}

impl<'t> Reader<'t> {
    /// Every flow, with the variant of the cell over it.
    pub(super) fn written_flows(&self) -> Result<Vec<Flow<'t>>> {
        let mut flows = Vec::new();
        for table in self.document().tables("flow")? {
            let is_tcp = table.read("protocol")? != Some(Protocol::Udp);
            flows.push(Flow { name: name(&table)?, is_tcp, compared: is_tcp, table });
        }
        match self.variant(&flows)? {
            Some((variant, among)) => {
                for flow in flows.iter_mut().filter(|flow| flow.is_tcp) {
                    flow.compared = among.as_ref().is_none_or(|names| names.contains(&flow.name));
                    if flow.compared {
                        flow.table = variant.over(&flow.table);
                    }
                }
            }
            None => {
                // Every flow counts as compared where none runs the swept algorithm.
                let runs_swept = |flow: &Flow<'_>| flow.table.get("algorithm").is_some_and(|it| it.takes(ALGORITHM));
                if flows.iter().any(runs_swept) {
                    flows.iter_mut().for_each(|flow| flow.compared &= runs_swept(flow));
                }
            }
        }
        Ok(flows)
    }

    /// Every flow of the cell, copies included.
    pub(super) fn flows(&self, links: &[LinkSpec], duration: Duration, mtu: u32) -> Result<Vec<FlowSpec>> {
        let written = self.written_flows()?;
        if written.is_empty() {
            return Err(self.document().missing("flow", "expected at least one [[flow]]"));
        }
        let around = Around { links, duration, mtu };
        let mut flows: Vec<FlowSpec> = Vec::new();
        for flow in &written {
            for spec in flow.specs(&around)? {
                around.check_nodes(flow, &spec)?;
                if flows.iter().any(|other| other.name == spec.name) {
                    let mistake = flow.table.need("name")?.refuse("another flow has this name");
                    return Err(mistake.or_hint("results tell flows apart by it; `copies = 2` makes two of one flow"));
                }
                flows.push(spec);
            }
        }
        let connections: u32 = flows.iter().map(FlowSpec::connections).sum();
        if flows.len() > FLOWS_MAX || connections > CONNECTIONS_MAX {
            let what = format!("{} flows of {connections} connections: expected at most", flows.len());
            let what = format!("{what} {FLOWS_MAX} of {CONNECTIONS_MAX}");
            return Err(self.document().need("flow")?.refuse_field(what));
        }
        check_node_settings(&written, &flows)?;
        Ok(flows)
    }
}

fn name(table: &Table<'_>) -> Result<String> {
    let value = table.need("name")?;
    let name = String::read(&value)?;
    let plain = name.chars().all(|c| c.is_ascii_alphanumeric() || "-_. ".contains(c));
    if !plain || name.is_empty() || name.len() > NAME_LENGTH {
        return Err(value.refuse(format!("expected 1 to {NAME_LENGTH} letters, digits, -, _, . or spaces")));
    }
    Ok(name)
}

impl Flow<'_> {
    /// The flow, or its copies: numbered, each with its number for `#` in the names of its nodes.
    fn specs(&self, around: &Around<'_>) -> Result<Vec<FlowSpec>> {
        let copies = self.table.get("copies").map(|value| value.whole()).transpose()?;
        let spec = self.spec(around)?;
        let Some(copies) = copies else { return Ok(vec![spec]) };
        let copy = |number: u64| {
            let node = |name: &str| name.replace('#', &number.to_string());
            let name = format!("{}-{number}", spec.name);
            FlowSpec { name, from: node(&spec.from), to: node(&spec.to), ..spec.clone() }
        };
        Ok((1..=copies).map(copy).collect())
    }

    fn spec(&self, around: &Around<'_>) -> Result<FlowSpec> {
        let table = &self.table;
        let start = table.read("start")?.unwrap_or(Duration::ZERO);
        let length = table.read("duration")?;
        let sender = self.sender()?;
        self.check_times(around, sender, (start, length))?;
        let sends = if self.is_tcp { self.sent_by_tcp(around, start)? } else { self.datagrams(around)? };
        let settings = Settings::read(table)?;
        if settings.window_cap.is_some() && settings.initial_ssthresh.is_some() {
            let what = "give either window_cap (which sets both) or initial_ssthresh";
            return Err(table.need("initial_ssthresh")?.refuse_field(what));
        }
        Ok(FlowSpec {
            name: self.name.clone(),
            from: table.needed("from")?,
            to: table.needed("to")?,
            algorithm: self.algorithm(settings.algorithm)?,
            compared: self.compared,
            tunables: settings.tunables.into_iter().map(|(name, Text(value))| (name, value)).collect(),
            window_cap: settings.window_cap,
            initial_ssthresh: settings.initial_ssthresh,
            initial_cwnd: settings.initial_cwnd,
            tcp_sack: settings.tcp_sack,
            ecn: settings.ecn,
            start,
            duration: length,
            sends,
            sender,
        })
    }

    fn algorithm(&self, given: Option<String>) -> Result<String> {
        if !self.is_tcp {
            return Ok(UDP.to_owned());
        }
        let missing = || self.table.missing("algorithm", "missing, and no variant gives it");
        let algorithm = given.ok_or_else(missing)?;
        if source::is_source(&algorithm) {
            let files = self.table.reader.files;
            let value = self.table.need("algorithm")?;
            files.source(&algorithm).map_err(|why| value.refuse_field(why).or_hint(BESIDE))?;
        }
        Ok(algorithm)
    }

    fn sender(&self) -> Result<Sender> {
        let Some(value) = self.table.get("sender") else { return Ok(Sender::default()) };
        if self.table.has("size") {
            return Err(value.refuse_field("a flow with `size` is always sent by tccc"));
        }
        Sender::read(&value)
    }

    /// Start and length: within the run, and whole seconds where iperf3 counts them.
    fn check_times(&self, around: &Around<'_>, sender: Sender, (start, length): Times) -> Result<()> {
        let value = |key| self.table.need(key);
        if start >= around.duration {
            let end = format_duration(around.duration);
            return Err(value("start")?.refuse(format!("expected a time before the end of the run, {end}")));
        }
        let has_size = self.table.has("size");
        let by_iperf3 = self.is_tcp && !has_size && sender == Sender::Iperf3;
        if by_iperf3 && start.subsec_nanos() != 0 {
            return Err(
                value("start")?.refuse("expected whole seconds before the end of the run, or `sender = \"tccc\"`")
            );
        }
        let Some(length) = length else { return Ok(()) };
        if has_size {
            return Err(value("duration")?.refuse_field("give either size or duration"));
        }
        if length.is_zero() || start + length > around.duration {
            return Err(value("duration")?.refuse("expected more than 0 and an end before that of the run"));
        }
        if by_iperf3 && length.subsec_nanos() != 0 {
            return Err(value("duration")?
                .refuse("expected whole seconds: iperf3 counts in them, `sender = \"tccc\"` does not"));
        }
        Ok(())
    }

    fn sent_by_tcp(&self, around: &Around<'_>, start: Duration) -> Result<Sends> {
        let table = &self.table;
        if let Some(value) = table.get("rate").or_else(|| table.get("packet")) {
            return Err(value.refuse_field("only a flow with protocol = \"udp\" has this"));
        }
        let needs = |beside: &str, key| table.missing(key, format!("{beside} needs this beside it"));
        let count = table.get("count");
        let times = count.as_ref().map(|value| value.whole()).transpose()?;
        let interval: Option<Duration> = table.read("interval")?;
        let keep_alive: Option<Switch> = table.read("keep_alive")?;
        let Some(size) = table.read("size")? else {
            return if count.is_some() { Err(needs("`count`", "size")) } else { self.bulk() };
        };
        if size == Bytes(0) {
            return Err(table.need("size")?.refuse("expected at least 1B"));
        }
        let times = times.unwrap_or(1) as u32;
        match (&count, interval) {
            (None, _) if keep_alive.is_some() => return Err(needs("`keep_alive`", "count")),
            (None, Some(_)) => return Err(needs("`interval`", "count")),
            (Some(_), None) if times > 1 => return Err(needs("`count` above 1", "interval")),
            (Some(count), Some(interval)) if start + interval * (times - 1) >= around.duration => {
                return Err(count.refuse("the last of them would start after the end of the run"));
            }
            _ => {}
        }
        let interval = interval.unwrap_or_default();
        Ok(match keep_alive {
            Some(Switch(true)) => Sends::Messages { size, count: times, interval },
            _ => Sends::Transfers { size, count: times, interval },
        })
    }

    /// Neither a size nor a count.
    fn bulk(&self) -> Result<Sends> {
        for (key, name) in [("keep_alive", "`keep_alive`"), ("interval", "`interval`")] {
            if self.table.has(key) {
                return Err(self.table.missing("count", format!("{name} needs this beside it")));
            }
        }
        Ok(Sends::Bulk)
    }

    fn datagrams(&self, around: &Around<'_>) -> Result<Sends> {
        let table = &self.table;
        if let Some(value) = ONLY_TCP.iter().find_map(|key| table.get(key)) {
            return Err(value.refuse_field("a flow with protocol = \"udp\" has none: it sends at its rate"));
        }
        let missing = || table.missing("rate", "missing: a flow with protocol = \"udp\" sends at a rate");
        let value = table.get("rate").ok_or_else(missing)?;
        let rate = BitsPerSec::read(&value)?;
        let [low, high] = RATE_RANGE;
        if !(low..=high).contains(&rate) {
            return Err(value.refuse(format!("outside {low}..{high}")));
        }
        let mtu = u64::from(around.mtu);
        let Some(value) = table.get("packet") else { return Ok(Sends::Datagrams { rate, packet_bytes: around.mtu }) };
        let Bytes(packet) = Bytes::read(&value)?;
        if !(PACKET_MIN..=mtu).contains(&packet) {
            return Err(value.refuse(format!("outside {PACKET_MIN}B..{mtu}B (the mtu)")));
        }
        Ok(Sends::Datagrams { rate, packet_bytes: packet as u32 })
    }
}

impl Around<'_> {
    /// The ends of a flow, of which each copy may have its own.
    fn check_nodes(&self, written: &Flow<'_>, flow: &FlowSpec) -> Result<()> {
        let mut nodes: Vec<&str> = self.links.iter().flat_map(|link| &link.ends).map(String::as_str).collect();
        nodes.sort_unstable();
        nodes.dedup();
        for (key, node) in [("from", &flow.from), ("to", &flow.to)] {
            if !nodes.contains(&node.as_str()) {
                let what = format!("expected a node that a link names: {}", nodes.join(", "));
                let mut mistake = written.table.need(key)?.refuse(what);
                mistake.given = Some(format!("\"{node}\"")); // a copy has its own
                return Err(mistake);
            }
        }
        let to = written.table.need("to")?;
        if flow.from == flow.to {
            return Err(to.refuse("expected another node than `from`"));
        }
        if shortest_path(self.links, &flow.from, &flow.to).is_some() {
            return Ok(());
        }
        let what = format!("no links lead there from \"{}\"", flow.from);
        nodes.retain(|node| *node != flow.from && shortest_path(self.links, &flow.from, node).is_some());
        let hint = format!("a [[link]] is missing: from \"{}\" they lead to {}", flow.from, nodes.join(", "));
        let mut mistake = to.refuse(what).or_hint(hint);
        mistake.given = Some(format!("\"{}\"", flow.to));
        Err(mistake)
    }
}

/// Selective acknowledgements and ECN are asked for by the sender's node, for all that it sends.
fn check_node_settings(written: &[Flow<'_>], flows: &[FlowSpec]) -> Result<()> {
    let is_tcp = |flow: &&FlowSpec| flow.is_tcp();
    for flow in flows.iter().filter(is_tcp) {
        let beside = || flows.iter().filter(is_tcp).filter(|other| other.from == flow.from);
        let sack_refused = |other: &FlowSpec| {
            flow.tcp_sack != other.tcp_sack && (other.from == flow.from || (flow.tcp_sack && other.from == flow.to))
        };
        let clash = [
            ("tcp_sack", flows.iter().filter(is_tcp).find(|other| sack_refused(other))),
            ("ecn", beside().find(|other| other.ecn != flow.ecn)),
        ];
        let Some((key, Some(other))) = clash.into_iter().find(|(_, other)| other.is_some()) else { continue };
        let Some(written) = written.iter().find(|written| flow.is_of(&written.name)) else { continue };
        let what = format!("flow \"{}\" of the same node says otherwise", other.name);
        let value = written.table.get(key);
        let mistake = value.map_or_else(|| written.table.missing(key, &*what), |value| value.refuse_field(&*what));
        return Err(mistake.or_hint("a node has one setting for all it sends: give the flow a node of its own"));
    }
    Ok(())
}

#[cfg(test)]
mod tests;
