//! `[[flow]]` and `[variant.NAME]`: who sends what to whom, by which algorithm and under which conditions.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::Deserialize;

use super::link::BESIDE;
use super::value::{Count, Switch, Text, some_duration};
use super::{Document, Reader, replace_names};
use crate::experiment::algorithms::source;
use crate::experiment::net::route::shortest_path;
use crate::experiment::scenario::position::{Step, value_at};
use crate::experiment::scenario::{ALGORITHM, FlowSpec, LinkSpec, ScenarioError, Sends, UDP};
use crate::model::run::At;
use crate::units::{self, BitsPerSec, Bytes};

/// A flow's name stands in tables and legends.
const FLOW_NAME_LENGTH: usize = 32;
/// Most copies of a flow, most connections of one, and most of both of a cell: each takes a port, and processes cost.
const COPIES_MAX: u32 = 64;
const COUNT_MAX: u32 = 1_000;
const FLOWS_MAX: usize = 256;
const CONNECTIONS_MAX: u32 = 10_000;
/// Smallest packet of a UDP flow: IPv4 and UDP headers and our number.
const PACKET_MIN: u64 = 36;

/// How a flow sends.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Protocol {
    #[default]
    Tcp,
    Udp,
}

/// `[[flow]]` as it is written.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct FlowText {
    pub(super) name: String,
    from: String,
    to: String,
    #[serde(default)]
    protocol: Protocol,
    algorithm: Option<String>,
    #[serde(default)]
    tunables: BTreeMap<String, Text>,
    window_cap: Option<Count>,
    initial_ssthresh: Option<Count>,
    initial_cwnd: Option<Count>,
    tcp_sack: Option<Switch>,
    ecn: Option<Switch>,
    #[serde(default, with = "units::duration_text")]
    start: Duration,
    #[serde(default, deserialize_with = "some_duration")]
    duration: Option<Duration>,
    size: Option<Bytes>,
    count: Option<Count>,
    #[serde(default, deserialize_with = "some_duration")]
    interval: Option<Duration>,
    keep_alive: Option<Switch>,
    rate: Option<BitsPerSec>,
    packet: Option<Bytes>,
    copies: Option<Count>,
}

/// A bundle of flow fields under one name.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct VariantText {
    flows: Option<Vec<String>>,
    algorithm: Option<String>,
    tunables: Option<BTreeMap<String, Text>>,
    window_cap: Option<Count>,
    initial_ssthresh: Option<Count>,
    initial_cwnd: Option<Count>,
    tcp_sack: Option<Switch>,
    ecn: Option<Switch>,
}

impl Reader<'_> {
    /// Every flow of a combination, copies included, with the variant applied.
    pub(super) fn flows(
        &self,
        document: &Document,
        links: &[LinkSpec],
        at: &At,
    ) -> Result<Vec<FlowSpec>, ScenarioError> {
        if document.flow.is_empty() {
            return Err(self.refuse(&[Step::Key("flow")], "expected at least one [[flow]]"));
        }
        let variant = at.get(super::VARIANT);
        let variant = variant.and_then(|name| document.variant.0.iter().find(|(given, _)| given == name));
        if let Some((name, bundle)) = variant {
            self.check_flows_of(document, name, bundle)?;
        }
        let none = VariantText::default();
        let mut flows = Vec::new();
        for (index, flow) in document.flow.iter().enumerate() {
            let is_of = |bundle: &VariantText| bundle.flows.as_ref().is_none_or(|flows| flows.contains(&flow.name));
            let bundle =
                variant.map(|(_, bundle)| bundle).filter(|bundle| flow.protocol == Protocol::Tcp && is_of(bundle));
            let compared = match (flow.protocol, variant) {
                (Protocol::Udp, _) => false,
                (_, Some(_)) => bundle.is_some(),
                (_, None) => self.runs_swept(document, index, at),
            };
            self.check_flow(document, index)?;
            for spec in copies_of(flow, self.flow(document, index, bundle.unwrap_or(&none))?) {
                self.check_nodes(links, index, &spec)?;
                if flows.iter().any(|other: &FlowSpec| other.name == spec.name) {
                    let path = [Step::Key("flow"), Step::Item(index), Step::Key("name")];
                    let refusal = self.refuse(&path, format!("\"{}\": another flow has this name", spec.name));
                    return Err(refusal.or_hint("results tell flows apart by it; `copies = 2` makes two of one flow"));
                }
                flows.push(FlowSpec { compared, ..spec });
            }
        }
        let connections: u32 = flows.iter().map(FlowSpec::connections).sum();
        if flows.len() > FLOWS_MAX || connections > CONNECTIONS_MAX {
            let what = format!("{} flows of {connections} connections: expected at most", flows.len());
            return Err(self.refuse(&[Step::Key("flow")], format!("{what} {FLOWS_MAX} of {CONNECTIONS_MAX}")));
        }
        self.check_node_settings(document, &flows)?;
        Ok(flows)
    }

    /// A variant names TCP flows of the file.
    fn check_flows_of(&self, document: &Document, variant: &str, bundle: &VariantText) -> Result<(), ScenarioError> {
        let known =
            || document.flow.iter().filter(|flow| flow.protocol == Protocol::Tcp).map(|flow| flow.name.as_str());
        let names = bundle.flows.iter().flatten().enumerate();
        let Some((index, name)) = names.into_iter().find(|(_, name)| !known().any(|one| one == name.as_str())) else {
            return Ok(());
        };
        let path = [Step::Key("variant"), Step::Key(variant), Step::Key("flows"), Step::Item(index)];
        let is_udp = document.flow.iter().any(|flow| flow.name == *name);
        let why = if is_udp { "it sends datagrams, which have no algorithm" } else { "no flow has this name" };
        let known: Vec<&str> = known().collect();
        Err(self.refuse(&path, format!("\"{name}\": {why}")).or_hint(format!("TCP flows are {}", known.join(", "))))
    }

    fn check_flow(&self, document: &Document, index: usize) -> Result<(), ScenarioError> {
        let flow = &document.flow[index];
        let at = |key| [Step::Key("flow"), Step::Item(index), Step::Key(key)];
        let plain = flow.name.chars().all(|c| c.is_ascii_alphanumeric() || "-_. ".contains(c));
        if !plain || flow.name.is_empty() || flow.name.len() > FLOW_NAME_LENGTH {
            let name: String = flow.name.chars().take(FLOW_NAME_LENGTH).collect();
            let what = format!("\"{name}\": expected 1 to {FLOW_NAME_LENGTH} letters, digits, -, _, . or spaces");
            return Err(self.refuse(&at("name"), what));
        }
        if flow.copies.is_some_and(|copies| copies.0 > COPIES_MAX) {
            return Err(self.refuse_value(&at("copies"), format!("expected a number from 1 to {COPIES_MAX}")));
        }
        self.check_times(document, index)?;
        match flow.protocol {
            Protocol::Tcp => self.check_transfers(document, index),
            Protocol::Udp => self.check_datagrams(document, index),
        }
    }

    /// Start and length: within the run, and whole seconds where iperf3 counts them.
    fn check_times(&self, document: &Document, index: usize) -> Result<(), ScenarioError> {
        let flow = &document.flow[index];
        let at = |key| [Step::Key("flow"), Step::Item(index), Step::Key(key)];
        if flow.start >= document.duration {
            let end = units::format_duration(document.duration);
            return Err(self.refuse_value(&at("start"), format!("expected a time before the end of the run, {end}")));
        }
        let by_iperf3 = flow.protocol == Protocol::Tcp && flow.size.is_none();
        if by_iperf3 && flow.start.subsec_nanos() != 0 {
            return Err(self.refuse_value(&at("start"), "expected whole seconds before the end of the run"));
        }
        let Some(length) = flow.duration else { return Ok(()) };
        if flow.size.is_some() {
            return Err(self.refuse(&at("duration"), "give either size or duration"));
        }
        if length.is_zero() || flow.start + length > document.duration {
            return Err(self.refuse_value(&at("duration"), "expected more than 0 and an end before that of the run"));
        }
        if by_iperf3 && length.subsec_nanos() != 0 {
            return Err(self.refuse_value(&at("duration"), "expected whole seconds: iperf3 counts in them"));
        }
        Ok(())
    }

    fn check_transfers(&self, document: &Document, index: usize) -> Result<(), ScenarioError> {
        let flow = &document.flow[index];
        let at = |key| [Step::Key("flow"), Step::Item(index), Step::Key(key)];
        if flow.rate.is_some() || flow.packet.is_some() {
            let key = if flow.rate.is_some() { "rate" } else { "packet" };
            return Err(self.refuse(&at(key), "only a flow with protocol = \"udp\" has this"));
        }
        if flow.size.is_some_and(|size| size.0 == 0) {
            return Err(self.refuse_value(&at("size"), "expected at least 1B"));
        }
        let missing = |key, beside: &str| Err(self.refuse(&at(key), format!("{beside} needs this beside it")));
        match (flow.size, flow.count, flow.interval) {
            (None, Some(_), _) => missing("size", "`count`"),
            (_, None, _) if flow.keep_alive.is_some() => missing("count", "`keep_alive`"),
            (_, None, Some(_)) => missing("count", "`interval`"),
            (_, Some(count), _) if count.0 > COUNT_MAX => {
                Err(self.refuse_value(&at("count"), format!("expected a number from 1 to {COUNT_MAX}")))
            }
            (_, Some(count), None) if count.0 > 1 => missing("interval", "`count` above 1"),
            (_, Some(count), Some(interval)) if flow.start + interval * (count.0 - 1) >= document.duration => {
                Err(self.refuse_value(&at("count"), "the last of them would start after the end of the run"))
            }
            _ => Ok(()),
        }
    }

    fn check_datagrams(&self, document: &Document, index: usize) -> Result<(), ScenarioError> {
        let flow = &document.flow[index];
        let at = |key| [Step::Key("flow"), Step::Item(index), Step::Key(key)];
        let of_tcp = [
            ("algorithm", flow.algorithm.is_some()),
            ("tunables", !flow.tunables.is_empty()),
            ("window_cap", flow.window_cap.is_some()),
            ("initial_ssthresh", flow.initial_ssthresh.is_some()),
            ("initial_cwnd", flow.initial_cwnd.is_some()),
            ("tcp_sack", flow.tcp_sack.is_some()),
            ("ecn", flow.ecn.is_some()),
            ("size", flow.size.is_some()),
            ("count", flow.count.is_some()),
            ("interval", flow.interval.is_some()),
            ("keep_alive", flow.keep_alive.is_some()),
        ];
        if let Some((key, _)) = of_tcp.into_iter().find(|(_, given)| *given) {
            return Err(self.refuse(&at(key), "a flow with protocol = \"udp\" has none: it sends at its rate"));
        }
        let Some(rate) = flow.rate else {
            return Err(self.refuse(&at("rate"), "missing: a flow with protocol = \"udp\" sends at a rate"));
        };
        let [low, high] = crate::path::RATE_RANGE;
        if !(low..=high).contains(&rate) {
            return Err(self.refuse_read(&at("rate"), &format!("\"{rate}\" is outside {low}..{high}")));
        }
        let mtu = u64::from(document.mtu);
        match flow.packet {
            Some(packet) if !(PACKET_MIN..=mtu).contains(&packet.0) => {
                let what = format!("\"{packet}\" is outside {PACKET_MIN}B..{mtu}B (the mtu)");
                Err(self.refuse_read(&at("packet"), &what))
            }
            _ => Ok(()),
        }
    }

    /// The ends of a flow, which copies may each have their own of.
    fn check_nodes(&self, links: &[LinkSpec], index: usize, flow: &FlowSpec) -> Result<(), ScenarioError> {
        let at = |key| [Step::Key("flow"), Step::Item(index), Step::Key(key)];
        let mut nodes: Vec<&str> = links.iter().flat_map(|link| &link.ends).map(String::as_str).collect();
        nodes.sort_unstable();
        nodes.dedup();
        for (key, node) in [("from", &flow.from), ("to", &flow.to)] {
            if !nodes.contains(&node.as_str()) {
                let what = format!("\"{node}\": expected a node that a link names: {}", nodes.join(", "));
                return Err(self.refuse(&at(key), what));
            }
        }
        if flow.from == flow.to {
            return Err(self.refuse_value(&at("to"), "expected another node than `from`"));
        }
        match shortest_path(links, &flow.from, &flow.to) {
            Some(_) => Ok(()),
            None => {
                let what = format!("\"{}\": no links lead there from \"{}\"", flow.to, flow.from);
                nodes.retain(|node| *node != flow.from && shortest_path(links, &flow.from, node).is_some());
                let hint = format!("a [[link]] is missing: from \"{}\" they lead to {}", flow.from, nodes.join(", "));
                Err(self.refuse(&at("to"), what).or_hint(hint))
            }
        }
    }

    /// Selective acknowledgements and ECN are asked for by the sender's node, for all that it sends.
    fn check_node_settings(&self, document: &Document, flows: &[FlowSpec]) -> Result<(), ScenarioError> {
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
            let index = document.flow.iter().position(|written| flow.is_of(&written.name)).unwrap_or(0);
            let what = format!("flow \"{}\" of the same node says otherwise", other.name);
            let path = [Step::Key("flow"), Step::Item(index), Step::Key(key)];
            let hint = "a node has one setting for all it sends: give the flow a node of its own";
            return Err(ScenarioError { hint: Some(hint.to_owned()), ..self.refuse(&path, what) });
        }
        Ok(())
    }

    /// Whether a flow runs the swept algorithm; every flow counts as such where none names it.
    fn runs_swept(&self, document: &Document, index: usize, at: &At) -> bool {
        let mut others = at.clone();
        others.remove(ALGORITHM);
        let names_it = |index: usize| {
            let written = self.written_algorithm(index);
            written.is_some_and(|text| replace_names(text, &others).is_err())
        };
        names_it(index) || !(0..document.flow.len()).any(names_it)
    }

    /// The algorithm of a flow as the file has it, before `$name` is replaced.
    fn written_algorithm(&self, index: usize) -> Option<&str> {
        let path = [Step::Key("flow"), Step::Item(index), Step::Key("algorithm")];
        value_at(self.written(), &path)?.get_ref().as_str()
    }

    fn flow(&self, document: &Document, index: usize, bundle: &VariantText) -> Result<FlowSpec, ScenarioError> {
        let flow = &document.flow[index];
        let at = |key| [Step::Key("flow"), Step::Item(index), Step::Key(key)];
        let algorithm = match flow.protocol {
            Protocol::Tcp => bundle.algorithm.as_deref().or(flow.algorithm.as_deref()),
            Protocol::Udp => Some(UDP),
        };
        let algorithm = algorithm.ok_or_else(|| self.refuse(&at("algorithm"), "missing, and no variant gives it"))?;
        if source::is_source(algorithm) {
            self.files.source(algorithm).map_err(|why| self.refuse(&at("algorithm"), why).or_hint(BESIDE))?;
        }
        let tunables = bundle.tunables.as_ref().unwrap_or(&flow.tunables);
        let packets = |bundle: Option<Count>, flow: Option<Count>| bundle.or(flow).map(|count| count.0);
        let is_on = |bundle: Option<Switch>, flow: Option<Switch>| bundle.or(flow).map(|switch| switch.0);
        let spec = FlowSpec {
            name: flow.name.clone(),
            from: flow.from.clone(),
            to: flow.to.clone(),
            algorithm: algorithm.to_owned(),
            compared: true,
            tunables: tunables.iter().map(|(name, value)| (name.clone(), value.0.clone())).collect(),
            window_cap: packets(bundle.window_cap, flow.window_cap),
            initial_ssthresh: packets(bundle.initial_ssthresh, flow.initial_ssthresh),
            initial_cwnd: packets(bundle.initial_cwnd, flow.initial_cwnd),
            tcp_sack: is_on(bundle.tcp_sack, flow.tcp_sack).unwrap_or(true),
            ecn: is_on(bundle.ecn, flow.ecn).unwrap_or(false),
            start: flow.start,
            duration: flow.duration,
            sends: sends(document, flow),
        };
        if spec.window_cap.is_some() && spec.initial_ssthresh.is_some() {
            let what = "give either window_cap (which sets both) or initial_ssthresh";
            return Err(self.refuse(&at("initial_ssthresh"), what));
        }
        Ok(spec)
    }
}

/// What a flow sends; the file was checked.
fn sends(document: &Document, flow: &FlowText) -> Sends {
    match (flow.protocol, flow.size, flow.rate) {
        (Protocol::Udp, _, Some(rate)) => {
            let packet_bytes = flow.packet.map_or(document.mtu, |packet| packet.0 as u32);
            Sends::Datagrams { rate, packet_bytes }
        }
        (_, Some(size), _) => {
            let (count, interval) = (flow.count.map_or(1, |count| count.0), flow.interval.unwrap_or_default());
            match flow.keep_alive {
                Some(Switch(true)) => Sends::Messages { size, count, interval },
                _ => Sends::Transfers { size, count, interval },
            }
        }
        _ => Sends::Bulk,
    }
}

/// The flow, or its copies: numbered, each with its number for `#` in the names of its nodes.
fn copies_of(flow: &FlowText, spec: FlowSpec) -> Vec<FlowSpec> {
    let Some(copies) = flow.copies else { return vec![spec] };
    let copy = |number: u32| {
        let node = |name: &str| name.replace('#', &number.to_string());
        FlowSpec { name: format!("{}-{number}", spec.name), from: node(&spec.from), to: node(&spec.to), ..spec.clone() }
    };
    (1..=copies.0).map(copy).collect()
}
