//! `[[flow]]`: who sends what to whom, with which algorithm and settings. `[variant.NAME]` overrides fields of flows.

mod sends;

use std::time::Duration;

use strum::{IntoStaticStr, VariantArray};

use super::variables::{UsedNames, names_in};
use super::{CellReader, CellVariables};
use crate::path::route::{LinkSpec, shortest_path};
use crate::scenario::algorithm::source;
use crate::scenario::reference::FlowFields;
use crate::scenario::spec::{
    ALGORITHM, BulkSender, Ecn, FlowSpec, GuestKernel, LeftOut, Profile, Receiver, Sends, UDP,
};
use host::read_with;
use host::toml_reader::{Found, Read, Result, Table, Text, Value, each};
use shared::units::{Bytes, format_duration};

/// Longest name of a flow, characters: it must fit into tables and legends.
const NAME_LENGTH: usize = 32;
/// Most flows and connections of a cell. Loads have the expected number, so there may be some more.
const FLOWS_MAX: usize = 256;
const CONNECTIONS_MAX: u32 = 250_000;
/// Smallest packet of a UDP flow, bytes: IPv4 header, UDP header and our packet number.
const PACKET_MIN: u64 = 36;

/// Most packets of a frame.
const FRAME_PKTS_MAX: u64 = u16::MAX as u64;

/// Smallest and largest socket buffer. The kernel counts buffers in an int.
const BUFFER_RANGE: [Bytes; 2] = [Bytes(16 << 10), Bytes(1 << 30)];

#[derive(Debug, Clone, Copy, PartialEq, Eq, IntoStaticStr, VariantArray)]
#[strum(serialize_all = "snake_case")]
pub enum Protocol {
    Tcp,
    Udp,
}

/// Size of a socket buffer.
pub struct BufferSize(pub Bytes);

impl Read for Ecn {
    fn read(value: &Value<'_>) -> Result<Self> {
        match value.text()?.as_deref() {
            Some("0" | "false") => Ok(Ecn::Off),
            Some("1" | "true") => Ok(Ecn::Classic),
            Some("accurate") => Ok(Ecn::Accurate),
            _ => Err(value.refuse("expected 0, 1 or \"accurate\"").into()),
        }
    }
}

read_with!(Value::word => Protocol, Profile, GuestKernel, BulkSender, Receiver);

impl Read for BufferSize {
    fn read(value: &Value<'_>) -> Result<Self> {
        let bytes = Bytes::read(value)?;
        match (BUFFER_RANGE[0].0..=BUFFER_RANGE[1].0).contains(&bytes.0) {
            true => Ok(BufferSize(bytes)),
            false => Err(value.refuse("expected 16KiB to 1GiB").into()),
        }
    }
}

/// A flow as it is written, before `copies` multiplies it.
pub(super) struct WrittenFlow<'t> {
    pub(super) name: String,
    /// The variant's fields, over the flow's own.
    pub(super) table: Table<'t>,
    pub(super) is_tcp: bool,
    compared: bool,
    /// Whether the variant of the cell runs it.
    pub(super) runs: bool,
}

/// The rest of the cell.
struct Around<'a> {
    links: &'a [LinkSpec],
    duration: Duration,
    mtu: u32,
}

impl<'t> CellReader<'t> {
    /// Every flow as it is written, with what it means in the cell.
    pub(super) fn read_flows(&self) -> Result<Vec<(WrittenFlow<'t>, FlowFields)>> {
        each(self.written_flows()?, |flow| FlowFields::of_table(&flow.table).map(|fields| (flow, fields)))
    }

    /// Every flow, with the fields of the cell's variant.
    pub(super) fn written_flows(&self) -> Result<Vec<WrittenFlow<'t>>> {
        let mut flows = each(self.document().tables("flow")?, |table| {
            let mut found = Found::unknown_in(&table);
            let protocol: Option<Protocol> = found.keep(table.declared("protocol"));
            match (found.keep(name(&table, self.variables)), protocol) {
                (Some(name), Some(protocol)) if found.is_empty() => {
                    let is_tcp = protocol == Protocol::Tcp;
                    Ok(WrittenFlow { name, is_tcp, compared: is_tcp, runs: true, table })
                }
                _ => {
                    found.keep(FlowFields::of_table(&table));
                    Err(found)
                }
            }
        })?;
        if flows.is_empty() && self.document().misspells(&["flow"]) {
            return Err(Found::default());
        }
        if flows.is_empty() {
            return Err(self.document().missing("flow", "expected at least one [[flow]]").into());
        }
        match self.variant(&flows)? {
            Some(variant) => {
                for flow in &mut flows {
                    flow.runs = !variant.without.contains(&flow.name);
                    flow.compared = flow.is_tcp && flow.runs && variant.flows.contains(&flow.name);
                    if flow.compared {
                        flow.table = variant.table.over(&flow.table);
                    }
                }
            }
            None => {
                // If no flow runs the swept algorithm, all flows are compared.
                let takes = |value: Value<'_>| names_in(value.written.get_ref()).contains(&ALGORITHM);
                let runs_swept = |flow: &WrittenFlow<'_>| flow.table.get("algorithm").is_some_and(takes);
                if flows.iter().any(runs_swept) {
                    flows.iter_mut().for_each(|flow| flow.compared &= runs_swept(flow));
                }
            }
        }
        Ok(flows)
    }

    /// Every flow, including copies and those that the variant of the cell leaves out, and whether it runs.
    pub(super) fn flows(
        &self,
        written: Vec<(WrittenFlow<'_>, FlowFields)>,
        links: &[LinkSpec],
        duration: Duration,
        mtu: u32,
    ) -> Result<Vec<(FlowSpec, bool)>> {
        let around = Around { links, duration, mtu };
        let specs = each(written, |(flow, fields)| {
            let specs = flow.specs(fields, self, &around)?;
            each(&specs, |spec| around.check_nodes(&flow, spec))?;
            let specs = each(specs, |spec| flow.with_load(spec, &around))?;
            Ok((flow, specs))
        })?;
        let (written, specs): (Vec<WrittenFlow<'_>>, Vec<Vec<FlowSpec>>) = specs.into_iter().unzip();
        let counts: Vec<usize> = specs.iter().map(Vec::len).collect();
        let mut flows: Vec<FlowSpec> = Vec::new();
        for (flow, specs) in written.iter().zip(specs) {
            if specs.iter().any(|spec| flows.iter().any(|other| other.name == spec.name)) {
                let mistake = flow.table.need("name")?.refuse("another flow has this name");
                return Err(mistake.or_hint("names of flows are unique; `copies = 2` makes two of one flow").into());
            }
            flows.extend(specs);
        }
        let connections =
            flows.iter().map(|flow| flow.connections(duration)).fold(0, |sum: u32, more| sum.saturating_add(more));
        if flows.len() > FLOWS_MAX || connections > CONNECTIONS_MAX {
            let what = format!("{} flows of {connections} connections: expected at most", flows.len());
            let what = format!("{what} {FLOWS_MAX} of {CONNECTIONS_MAX}");
            return Err(self.document().need("flow")?.refuse_field(what).into());
        }
        let runs: Vec<bool> = written.iter().zip(counts).flat_map(|(flow, count)| vec![flow.runs; count]).collect();
        let flows: Vec<(FlowSpec, bool)> = flows.into_iter().zip(runs).collect();
        check_node_settings(&written, &flows)?;
        Ok(flows)
    }
}

/// A name changes no run, so it uses no variable.
fn name(table: &Table<'_>, variables: &CellVariables<'_>) -> Result<String> {
    let none = UsedNames::default();
    let variables = CellVariables { used: &none, ..*variables };
    let name: String = table.clone().with(&variables).needed("name")?;
    let is_plain = name.chars().all(|c| c.is_ascii_alphanumeric() || "-_. ".contains(c));
    if !is_plain || name.is_empty() || name.len() > NAME_LENGTH {
        let expected = format!("expected 1 to {NAME_LENGTH} letters, digits, -, _, . or spaces");
        return Err(table.need("name")?.refuse(expected).into());
    }
    Ok(name)
}

impl WrittenFlow<'_> {
    /// The flow itself, or its numbered copies. In each copy, its number replaces `#` in the names of nodes.
    fn specs(&self, fields: FlowFields, reader: &CellReader<'_>, around: &Around<'_>) -> Result<Vec<FlowSpec>> {
        let copies = fields.copies;
        let spec = self.spec(fields, reader, around)?;
        let Some(copies) = copies else { return Ok(vec![spec]) };
        let copy = |number: u64| {
            let node = |name: &str| name.replace('#', &number.to_string());
            let name = format!("{}-{number}", spec.name);
            FlowSpec { name, from: node(&spec.from), to: node(&spec.to), ..spec.clone() }
        };
        Ok((1..=copies).map(copy).collect())
    }

    fn spec(&self, fields: FlowFields, reader: &CellReader<'_>, around: &Around<'_>) -> Result<FlowSpec> {
        let mut found = Found::default();
        found.keep(self.check_sender());
        found.keep(self.check_times(around, &fields));
        found.keep(self.check_bursts(around, &fields));
        found.keep(self.check_request(&fields));
        let sends =
            if self.is_tcp { self.sent_by_tcp(around, &fields, reader) } else { self.datagrams(around, &fields) };
        let sends = found.keep(sends);
        let algorithm = found.keep(self.algorithm(fields.algorithm, reader));
        if fields.window_cap.is_some() && fields.initial_ssthresh.is_some() {
            let what = "give either window_cap (which sets both) or initial_ssthresh";
            found.add(self.table.refuse_field("initial_ssthresh", what));
        }
        let (Some(sends), Some(algorithm)) = (sends, algorithm) else { return Err(found) };
        found.end()?;
        Ok(FlowSpec {
            name: self.name.clone(),
            from: fields.from,
            to: fields.to,
            algorithm,
            compared: self.compared,
            left_out_before: LeftOut::default(),
            tunables: fields.tunables.into_iter().map(|(name, Text(value))| (name, value)).collect(),
            window_cap: fields.window_cap,
            initial_ssthresh: fields.initial_ssthresh,
            initial_cwnd: fields.initial_cwnd,
            tcp_sack: fields.tcp_sack.0,
            ecn: fields.ecn,
            send_buffer: fields.send_buffer.map(|BufferSize(bytes)| bytes),
            receive_buffer: fields.receive_buffer.map(|BufferSize(bytes)| bytes),
            receiver: fields.receiver,
            start: fields.start,
            duration: fields.duration,
            sender: if fields.bursts.is_some() && matches!(sends, Sends::Bulk) {
                BulkSender::Tccc
            } else {
                fields.sender
            },
            sends,
            bursts: fields.bursts,
            request: fields.request,
        })
    }

    fn algorithm(&self, given: Option<String>, reader: &CellReader<'_>) -> Result<String> {
        if !self.is_tcp {
            return Ok(UDP.to_owned());
        }
        if !self.runs {
            return Ok(given.unwrap_or_default()); // perhaps only the variants that run it give one
        }
        let given = given.ok_or_else(|| match reader.document().misspells(&["variant"]) {
            true => Found::default(),
            false => self.table.missing("algorithm", "missing, and no variant gives it").into(),
        })?;
        if source::is_source(&given) {
            let value = self.table.need("algorithm")?;
            reader.files.source(&given).map_err(|refused| refused.source(&value))?;
        }
        Ok(given)
    }

    fn check_sender(&self) -> Result<()> {
        let sized =
            ["size", "arrivals", "rate", "bursts"].into_iter().filter(|_| self.is_tcp).find(|key| self.table.has(key));
        match self.table.get("sender").zip(sized) {
            Some((value, key)) => Err(value.refuse_field(format!("a flow with `{key}` is always sent by tccc")).into()),
            None => Ok(()),
        }
    }

    /// Checks that the flow starts and ends within the run, and in whole seconds if iperf3 sends it.
    fn check_times(&self, around: &Around<'_>, fields: &FlowFields) -> Result<()> {
        const WHOLE: &str = "expected whole seconds, because iperf3 counts in them, or `sender = \"tccc\"`";
        let start = fields.start;
        let refuse = |key, expected: &str| Err(self.table.need(key)?.refuse(expected).into());
        if start >= around.duration {
            let end = format_duration(around.duration);
            return refuse("start", &format!("expected a time before the end of the run, {end}"));
        }
        let is_load = fields.arrivals.is_some();
        let is_bulk = self.is_tcp && fields.size.is_none() && fields.rate.is_none() && !is_load;
        let by_iperf3 = is_bulk && fields.sender == BulkSender::Iperf3 && fields.bursts.is_none();
        if by_iperf3 && start.subsec_nanos() != 0 {
            return refuse("start", WHOLE);
        }
        let Some(length) = fields.duration else { return Ok(()) };
        if fields.size.is_some() && !is_load {
            return Err(self.table.refuse_field("duration", "give either size or duration").into());
        }
        if length.is_zero() || start.saturating_add(length) > around.duration {
            return refuse("duration", "expected more than 0, and an end no later than that of the run");
        }
        if by_iperf3 && length.subsec_nanos() != 0 {
            return refuse("duration", WHOLE);
        }
        Ok(())
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
                let given = format!("\"{node}\""); // with the number of the copy
                return Err(written.table.need(key)?.refuse(what).given(given).into());
            }
        }
        let to = written.table.need("to")?;
        if flow.from == flow.to {
            return Err(to.refuse("expected another node than `from`").into());
        }
        if shortest_path(self.links, &flow.from, &flow.to).is_some() {
            return Ok(());
        }
        let what = format!("no path leads there from \"{}\"", flow.from);
        nodes.retain(|node| *node != flow.from && shortest_path(self.links, &flow.from, node).is_some());
        let hint = format!("a [[link]] is missing: paths from \"{}\" lead to {}", flow.from, nodes.join(", "));
        Err(to.refuse(what).or_hint(hint).given(format!("\"{}\"", flow.to)).into())
    }
}

/// Selective acknowledgements, ECN and buffers are settings of a node, so its flows must agree.
fn check_node_settings(written: &[WrittenFlow<'_>], flows: &[(FlowSpec, bool)]) -> Result<()> {
    let runs = || flows.iter().filter(|(flow, runs)| *runs && flow.is_tcp()).map(|(flow, _)| flow);
    for flow in runs() {
        let sack_refused = |other: &&FlowSpec| {
            flow.tcp_sack != other.tcp_sack && (other.from == flow.from || (flow.tcp_sack && other.from == flow.to))
        };
        let ecn_refused = |other: &&FlowSpec| flow.ecn != other.ecn && other.from == flow.from;
        let send_refused = |other: &&FlowSpec| flow.send_buffer != other.send_buffer && other.from == flow.from;
        let receive_refused = |other: &&FlowSpec| flow.receive_buffer != other.receive_buffer && other.to == flow.to;
        let receiver_refused = |other: &&FlowSpec| {
            let [one, another] = [flow, *other].map(|flow| flow.receiver == Receiver::NoSack);
            (one != another && other.to == flow.to) || (one && other.tcp_sack && other.from == flow.to)
        };
        let clash = [
            ("tcp_sack", runs().find(sack_refused)),
            ("ecn", runs().find(ecn_refused)),
            ("send_buffer", runs().find(send_refused)),
            ("receive_buffer", runs().find(receive_refused)),
            ("receiver", runs().find(receiver_refused)),
        ];
        let Some((key, Some(other))) = clash.into_iter().find(|(_, other)| other.is_some()) else { continue };
        let Some(written) = written.iter().find(|written| flow.is_of(&written.name)) else { continue };
        let what = format!("flow \"{}\" of the same node has another value", other.name);
        let mistake = written.table.refuse_field(key, &what);
        let hint = match key {
            "receiver" => "`no_sack` is a setting of the node: give the flow its own node".to_owned(),
            _ => {
                let share = if key == "receive_buffer" { "receives" } else { "sends" };
                format!("all flows that a node {share} share this setting: give the flow its own node")
            }
        };
        return Err(mistake.or_hint(hint).into());
    }
    Ok(())
}

#[cfg(test)]
mod tests;
