//! `[[flow]]`: who sends what to whom, with which algorithm and settings. `[variant.NAME]` overrides fields of flows.

use std::collections::BTreeMap;
use std::time::Duration;

use strum::{IntoStaticStr, VariantArray};

use super::sweep::UsedNames;
use super::table::{CellReader, Result, ScenarioTable};
use super::value::{Read, ScenarioValue, Switch, Text};
use crate::path::route::LinkSpec;
use crate::path::route::shortest_path;
use crate::scenario::algorithm::source;
use crate::scenario::reference::ONLY_TCP;
use crate::scenario::spec::{ALGORITHM, BulkSender, FlowSpec, Sends, UDP, VARIANT};
use shared::units::{BitsPerSec, Bytes, format_duration};

/// Longest name of a flow, characters: it must fit into tables and legends.
const NAME_LENGTH: usize = 32;
/// Most flows and connections of a cell: each takes a port, and each process costs memory.
const FLOWS_MAX: usize = 256;
const CONNECTIONS_MAX: u32 = 10_000;
/// Smallest packet of a UDP flow, bytes: IPv4 header, UDP header and our packet number.
const PACKET_MIN: u64 = 36;

/// Smallest and largest socket buffer. The kernel counts buffers in an int.
const BUFFER_RANGE: [Bytes; 2] = [Bytes(16 << 10), Bytes(1 << 30)];

#[derive(Debug, Clone, Copy, PartialEq, Eq, IntoStaticStr, VariantArray)]
#[strum(serialize_all = "snake_case")]
pub(super) enum Protocol {
    Tcp,
    Udp,
}

impl Read for Protocol {
    fn read(value: &ScenarioValue<'_>) -> Result<Self> {
        value.word()
    }
}

/// A flow as it is written, before `copies` multiplies it.
pub(super) struct WrittenFlow<'t> {
    pub(super) name: String,
    pub(super) is_tcp: bool,
    /// The variant's fields, over the flow's own.
    pub(super) table: ScenarioTable<'t>,
    compared: bool,
}

/// The rest of the cell.
struct Around<'a> {
    links: &'a [LinkSpec],
    duration: Duration,
    mtu: u32,
}

impl<'t> CellReader<'t> {
    /// Every flow, with the fields of the cell's variant.
    pub(super) fn written_flows(&self) -> Result<Vec<WrittenFlow<'t>>> {
        let mut flows = Vec::new();
        for table in self.document().tables("flow")? {
            let is_tcp = table.read("protocol")? != Some(Protocol::Udp);
            flows.push(WrittenFlow { name: name(&table)?, is_tcp, compared: is_tcp, table });
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
                // If no flow runs the swept algorithm, all flows are compared.
                let runs_swept =
                    |flow: &WrittenFlow<'_>| flow.table.get("algorithm").is_some_and(|it| it.takes(ALGORITHM));
                if flows.iter().any(runs_swept) {
                    flows.iter_mut().for_each(|flow| flow.compared &= runs_swept(flow));
                }
            }
        }
        Ok(flows)
    }

    /// The variant of the cell, and the flows that it names. Checks every variant of the file.
    fn variant(&self, flows: &[WrittenFlow<'_>]) -> Result<Option<(ScenarioTable<'t>, Option<Vec<String>>)>> {
        let Some(variants) = self.document().get("variant") else { return Ok(None) };
        let mut of_cell = None;
        for (name, value) in variants.table()?.entries() {
            // The variants of other cells use no variable here.
            let others = UsedNames::default();
            let reader = CellReader { used: &others, ..value.reader };
            settings(&ScenarioValue { reader, ..value.clone() }.table()?)?;
            if self.at.get(VARIANT).is_some_and(|at| at == name) {
                of_cell = Some(value.table()?);
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

    /// Every flow of the cell, including copies.
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
                    return Err(mistake.or_hint("names of flows are unique; `copies = 2` makes two of one flow"));
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

fn name(table: &ScenarioTable<'_>) -> Result<String> {
    let value = table.need("name")?;
    let none = UsedNames::default(); // a name changes no run
    let name = String::read(&ScenarioValue { reader: CellReader { used: &none, ..value.reader }, ..value.clone() })?;
    let plain = name.chars().all(|c| c.is_ascii_alphanumeric() || "-_. ".contains(c));
    if !plain || name.is_empty() || name.len() > NAME_LENGTH {
        return Err(value.refuse(format!("expected 1 to {NAME_LENGTH} letters, digits, -, _, . or spaces")));
    }
    Ok(name)
}

fn buffer(table: &ScenarioTable<'_>, key: &str) -> Result<Option<Bytes>> {
    let Some(value) = table.get(key) else { return Ok(None) };
    let bytes = Bytes::read(&value)?;
    let [least, most] = BUFFER_RANGE.map(|bytes| bytes.0);
    if (least..=most).contains(&bytes.0) { Ok(Some(bytes)) } else { Err(value.refuse("expected 16KiB to 1GiB")) }
}

/// The fields that a variant can set too; the rest of the flow is left empty.
fn settings(table: &ScenarioTable<'_>) -> Result<FlowSpec> {
    let is_on = |key| -> Result<_> { Ok(table.read(key)?.map(|Switch(is_on)| is_on)) };
    let tunables: BTreeMap<String, Text> = table.read("tunables")?.unwrap_or_default();
    Ok(FlowSpec {
        algorithm: table.read("algorithm")?.unwrap_or_default(),
        tunables: tunables.into_iter().map(|(name, Text(value))| (name, value)).collect(),
        window_cap: table.read("window_cap")?,
        initial_ssthresh: table.read("initial_ssthresh")?,
        initial_cwnd: table.read("initial_cwnd")?,
        tcp_sack: is_on("tcp_sack")?.unwrap_or(true),
        ecn: is_on("ecn")?.unwrap_or(false),
        send_buffer: buffer(table, "send_buffer")?,
        receive_buffer: buffer(table, "receive_buffer")?,
        ..FlowSpec::default()
    })
}

impl WrittenFlow<'_> {
    /// The flow itself, or its numbered copies. In each copy, its number replaces `#` in the names of nodes.
    fn specs(&self, around: &Around<'_>) -> Result<Vec<FlowSpec>> {
        let copies: Option<u64> = self.table.read("copies")?;
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
        let settings = settings(table)?;
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
            start,
            duration: length,
            sends,
            sender,
            ..settings
        })
    }

    fn algorithm(&self, given: String) -> Result<String> {
        if !self.is_tcp {
            return Ok(UDP.to_owned());
        }
        let missing = || self.table.missing("algorithm", "missing, and no variant gives it");
        let value = self.table.get("algorithm").ok_or_else(missing)?;
        if source::is_source(&given) {
            self.table.reader.files.source(&given).map_err(|refused| refused.source(&value))?;
        }
        Ok(given)
    }

    fn sender(&self) -> Result<BulkSender> {
        let Some(value) = self.table.get("sender") else { return Ok(BulkSender::default()) };
        if self.table.has("size") {
            return Err(value.refuse_field("a flow with `size` is always sent by tccc"));
        }
        BulkSender::read(&value)
    }

    /// Checks that the flow starts and ends within the run, and in whole seconds if iperf3 sends it.
    fn check_times(
        &self,
        around: &Around<'_>,
        sender: BulkSender,
        (start, length): (Duration, Option<Duration>),
    ) -> Result<()> {
        let refuse = |key, expected: &str| Err(self.table.need(key)?.refuse(expected));
        if start >= around.duration {
            let end = format_duration(around.duration);
            return refuse("start", &format!("expected a time before the end of the run, {end}"));
        }
        let has_size = self.table.has("size");
        let by_iperf3 = self.is_tcp && !has_size && sender == BulkSender::Iperf3;
        if by_iperf3 && start.subsec_nanos() != 0 {
            return refuse("start", "expected whole seconds, because iperf3 counts in them, or `sender = \"tccc\"`");
        }
        let Some(length) = length else { return Ok(()) };
        if has_size {
            return Err(self.table.need("duration")?.refuse_field("give either size or duration"));
        }
        if length.is_zero() || start + length > around.duration {
            return refuse("duration", "expected more than 0, and an end no later than that of the run");
        }
        if by_iperf3 && length.subsec_nanos() != 0 {
            return refuse("duration", "expected whole seconds, because iperf3 counts in them, or `sender = \"tccc\"`");
        }
        Ok(())
    }

    fn sent_by_tcp(&self, around: &Around<'_>, start: Duration) -> Result<Sends> {
        let table = &self.table;
        if let Some(value) = table.get("rate").or_else(|| table.get("packet")) {
            return Err(value.refuse_field("only a flow with protocol = \"udp\" has this"));
        }
        let needs = |beside: &str, key| Err(table.missing(key, format!("missing: {beside} needs it")));
        let count: Option<u32> = table.read("count")?;
        let interval: Option<Duration> = table.read("interval")?;
        let keep_alive: Option<Switch> = table.read("keep_alive")?;
        let size = table.read("size")?;
        let times = count.unwrap_or(1);
        match (size, interval) {
            (None, _) if count.is_some() => return needs("`count`", "size"),
            (Some(Bytes(0)), _) => return Err(table.need("size")?.refuse("expected at least 1B")),
            _ if count.is_none() && keep_alive.is_some() => return needs("`keep_alive`", "count"),
            (_, Some(_)) if count.is_none() => return needs("`interval`", "count"),
            (_, None) if times > 1 => return needs("`count` above 1", "interval"),
            (_, Some(interval)) if start + interval * (times - 1) >= around.duration => {
                return Err(table.need("count")?.refuse("the last of them would start after the end of the run"));
            }
            _ => {}
        }
        let interval = interval.unwrap_or_default();
        Ok(match (size, keep_alive) {
            (None, _) => Sends::Bulk,
            (Some(size), Some(Switch(true))) => Sends::Messages { size, count: times, interval },
            (Some(size), _) => Sends::Transfers { size, count: times, interval },
        })
    }

    fn datagrams(&self, around: &Around<'_>) -> Result<Sends> {
        let table = &self.table;
        if let Some(value) = ONLY_TCP.iter().find_map(|key| table.get(key)) {
            return Err(value.refuse_field("a flow with protocol = \"udp\" does not have this"));
        }
        let missing = || table.missing("rate", "missing: a flow with protocol = \"udp\" sends at a rate");
        let rate = BitsPerSec::read(&table.get("rate").ok_or_else(missing)?)?;
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
    /// Checks the two nodes of a flow or of one of its copies.
    fn check_nodes(&self, written: &WrittenFlow<'_>, flow: &FlowSpec) -> Result<()> {
        let mut nodes: Vec<&str> = self.links.iter().flat_map(|link| &link.ends).map(String::as_str).collect();
        nodes.sort_unstable();
        nodes.dedup();
        for (key, node) in [("from", &flow.from), ("to", &flow.to)] {
            if !nodes.contains(&node.as_str()) {
                let what = format!("expected a node that a link names: {}", nodes.join(", "));
                let mut mistake = written.table.need(key)?.refuse(what);
                mistake.given = Some(format!("\"{node}\"")); // with the number of the copy
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
        let what = format!("no path leads there from \"{}\"", flow.from);
        nodes.retain(|node| *node != flow.from && shortest_path(self.links, &flow.from, node).is_some());
        let hint = format!("a [[link]] is missing: paths from \"{}\" lead to {}", flow.from, nodes.join(", "));
        let mut mistake = to.refuse(what).or_hint(hint);
        mistake.given = Some(format!("\"{}\"", flow.to));
        Err(mistake)
    }
}

/// Selective acknowledgements, ECN and buffers are settings of a node, so its flows must agree.
fn check_node_settings(written: &[WrittenFlow<'_>], flows: &[FlowSpec]) -> Result<()> {
    let is_tcp = |flow: &&FlowSpec| flow.is_tcp();
    for flow in flows.iter().filter(is_tcp) {
        let sack_refused = |other: &&FlowSpec| {
            flow.tcp_sack != other.tcp_sack && (other.from == flow.from || (flow.tcp_sack && other.from == flow.to))
        };
        let ecn_refused = |other: &&FlowSpec| flow.ecn != other.ecn && other.from == flow.from;
        let send_refused = |other: &&FlowSpec| flow.send_buffer != other.send_buffer && other.from == flow.from;
        let receive_refused = |other: &&FlowSpec| flow.receive_buffer != other.receive_buffer && other.to == flow.to;
        let clash = [
            ("tcp_sack", flows.iter().filter(is_tcp).find(sack_refused)),
            ("ecn", flows.iter().filter(is_tcp).find(ecn_refused)),
            ("send_buffer", flows.iter().filter(is_tcp).find(send_refused)),
            ("receive_buffer", flows.iter().filter(is_tcp).find(receive_refused)),
        ];
        let Some((key, Some(other))) = clash.into_iter().find(|(_, other)| other.is_some()) else { continue };
        let Some(written) = written.iter().find(|written| flow.is_of(&written.name)) else { continue };
        let what = format!("flow \"{}\" of the same node has another value", other.name);
        let mistake = written.table.refuse_field(key, &what);
        let share = if key == "receive_buffer" { "receives" } else { "sends" };
        return Err(
            mistake.or_hint(format!("all flows that a node {share} share this setting: give the flow its own node"))
        );
    }
    Ok(())
}

#[cfg(test)]
mod tests;
