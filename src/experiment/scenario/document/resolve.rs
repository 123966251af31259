//! From the file's text to a cell: defaults filled in, variants applied, and what only makes sense together checked.

use super::*;
use crate::experiment::net::MTU_RANGE;
use crate::experiment::net::path::shortest_path;

/// Queue of a link that names none: the transmit queue length of a Linux device.
const DEFAULT_QUEUE: QueueSize = QueueSize::Packets(1000);
/// A node's name becomes part of an interface name, which has at most 15 characters.
const NODE_NAME_LENGTH: usize = 8;

impl Reader<'_> {
    /// One combination, with everything resolved and checked.
    pub(super) fn cell(&self, document: &Document, at: At) -> Result<Cell, ScenarioError> {
        self.check_numbers(document)?;
        let links = document.link.iter().enumerate().map(|(index, link)| self.link(document, index, link));
        let links: Vec<LinkSpec> = links.collect::<Result<_, _>>()?;
        let variant = at.get(VARIANT).and_then(|name| document.variant.0.iter().find(|(given, _)| given == name));
        let flows = document.flow.iter().enumerate().map(|(index, flow)| {
            self.check_flow(document, index)?;
            self.check_joined(&links, index, flow)?;
            let bundle = variant.filter(|(_, bundle)| bundle.flows.as_ref().is_none_or(|f| f.contains(&flow.name)));
            let compared = if variant.is_some() { bundle.is_some() } else { self.runs_swept(document, index, &at) };
            let spec = self.flow(index, flow, bundle.map(|(_, bundle)| bundle))?;
            Ok(FlowSpec { compared, ..spec })
        });
        let flows = flows.collect::<Result<_, _>>()?;
        Ok(Cell { at, duration: document.duration, mtu: document.mtu, links, flows })
    }

    fn check_numbers(&self, document: &Document) -> Result<(), ScenarioError> {
        if document.runs == 0 {
            return Err(self.refuse(&[Step::Key("runs")], "expected at least 1"));
        }
        if document.duration.subsec_nanos() != 0 || document.duration.is_zero() {
            return Err(
                self.refuse(&[Step::Key("duration")], "expected whole seconds, at least 1s: iperf3 counts in them")
            );
        }
        let [low, high] = MTU_RANGE;
        if !(low..=high).contains(&document.mtu) {
            let what = format!("{} is outside {low}..{high} (bytes)", document.mtu);
            return Err(self.refuse(&[Step::Key("mtu")], what));
        }
        if document.sample.is_zero() {
            return Err(self.refuse(&[Step::Key("sample")], "expected more than 0, such as 100ms"));
        }
        if document.flow.is_empty() {
            return Err(self.refuse(&[Step::Key("flow")], "expected at least one [[flow]]"));
        }
        Ok(())
    }

    fn link(&self, document: &Document, index: usize, link: &LinkText) -> Result<LinkSpec, ScenarioError> {
        let path = [Step::Key("link"), Step::Item(index), Step::Key("ends")];
        for node in &link.ends {
            let plain = node.chars().all(|c| c.is_ascii_alphanumeric() || c == '-');
            if !plain || node.is_empty() || node.len() > NODE_NAME_LENGTH {
                let what = format!("\"{node}\": expected a name of 1 to {NODE_NAME_LENGTH} letters, digits or -");
                return Err(self.refuse(&path, what));
            }
        }
        if link.ends[0] == link.ends[1] {
            return Err(self.refuse(&path, "expected two different nodes"));
        }
        let queue = link.queue.unwrap_or(DEFAULT_QUEUE);
        let forward = Direction {
            rate: link.rate,
            delay: link.delay,
            jitter: link.jitter,
            queue,
            loss: link.loss.unwrap_or(Share(0.0)),
            seed: 0,
        };
        let backward = Direction {
            rate: link.reverse.rate.or(link.rate),
            delay: link.reverse.delay.unwrap_or(link.delay),
            jitter: link.reverse.jitter.unwrap_or(link.jitter),
            queue: link.reverse.queue.unwrap_or(queue),
            loss: link.reverse.loss.unwrap_or(Share(0.0)),
            seed: 0,
        };
        let link = LinkSpec { ends: link.ends.clone(), directions: [forward, backward] };
        let checked = link.config(document.mtu).check();
        checked.map_err(|why| self.refuse(&[Step::Key("link"), Step::Item(index)], why.to_string()))?;
        Ok(link)
    }

    fn check_flow(&self, document: &Document, index: usize) -> Result<(), ScenarioError> {
        let flow = &document.flow[index];
        let at = |key| [Step::Key("flow"), Step::Item(index), Step::Key(key)];
        let mut nodes: Vec<&str> = document.link.iter().flat_map(|link| &link.ends).map(String::as_str).collect();
        nodes.sort_unstable();
        nodes.dedup();
        for (key, node) in [("from", &flow.from), ("to", &flow.to)] {
            if !nodes.contains(&node.as_str()) {
                let what = format!("\"{node}\": expected a node that a link names: {}", nodes.join(", "));
                return Err(self.refuse(&at(key), what));
            }
        }
        if flow.from == flow.to {
            return Err(self.refuse(&at("to"), "expected another node than `from`"));
        }
        if document.flow[..index].iter().any(|other| other.name == flow.name) {
            return Err(self.refuse(&at("name"), format!("\"{}\": another flow has this name", flow.name)));
        }
        if flow.start.subsec_nanos() != 0 || flow.start >= document.duration {
            return Err(self.refuse(&at("start"), "expected whole seconds before the end of the run"));
        }
        Ok(())
    }

    fn check_joined(&self, links: &[LinkSpec], index: usize, flow: &FlowText) -> Result<(), ScenarioError> {
        let path = [Step::Key("flow"), Step::Item(index), Step::Key("to")];
        match shortest_path(links, &flow.from, &flow.to) {
            Some(_) => Ok(()),
            None => Err(self.refuse(&path, format!("\"{}\": no links lead there from \"{}\"", flow.to, flow.from))),
        }
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
        let flow = self.table.get_ref().get("flow")?.get_ref().as_array()?.get(index)?;
        flow.get_ref().as_table()?.get("algorithm")?.get_ref().as_str()
    }

    fn flow(&self, index: usize, flow: &FlowText, bundle: Option<&VariantText>) -> Result<FlowSpec, ScenarioError> {
        let none = VariantText::default();
        let bundle = bundle.unwrap_or(&none);
        let path = [Step::Key("flow"), Step::Item(index), Step::Key("algorithm")];
        let algorithm = bundle.algorithm.as_ref().or(flow.algorithm.as_ref());
        let algorithm = algorithm.ok_or_else(|| self.refuse(&path, "missing, and no variant gives it"))?;
        let tunables = bundle.tunables.as_ref().unwrap_or(&flow.tunables);
        let packets = |bundle: Option<Count>, flow: Option<Count>| bundle.or(flow).map(|count| count.0);
        let spec = FlowSpec {
            name: flow.name.clone(),
            from: flow.from.clone(),
            to: flow.to.clone(),
            algorithm: algorithm.clone(),
            compared: true,
            tunables: tunables.iter().map(|(name, value)| (name.clone(), value.0.clone())).collect(),
            window_cap: packets(bundle.window_cap, flow.window_cap),
            initial_ssthresh: packets(bundle.initial_ssthresh, flow.initial_ssthresh),
            initial_cwnd: packets(bundle.initial_cwnd, flow.initial_cwnd),
            start: flow.start,
            size: flow.size,
        };
        if spec.window_cap.is_some() && spec.initial_ssthresh.is_some() {
            let path = [Step::Key("flow"), Step::Item(index), Step::Key("initial_ssthresh")];
            return Err(self.refuse(&path, "give either window_cap (which sets both) or initial_ssthresh"));
        }
        Ok(spec)
    }

    /// Published and expected lists must be as long as the values they go along.
    pub(super) fn check_report(&self, document: &Document, sweep: &[Variable]) -> Result<(), ScenarioError> {
        let published = document.published.iter().map(|p| (&p.over, [&p.values, &p.values]));
        let expected = document.expected.iter().map(|e| (&e.over, [&e.values, &e.plus_minus]));
        for (index, (over, lists)) in published.enumerate() {
            self.check_lists([Step::Key("published"), Step::Item(index)], over, lists, sweep)?;
        }
        for (index, (over, lists)) in expected.enumerate() {
            self.check_lists([Step::Key("expected"), Step::Item(index)], over, lists, sweep)?;
        }
        for (index, expected) in document.expected.iter().enumerate() {
            if expected.values.keys().ne(expected.plus_minus.keys()) {
                let path = [Step::Key("expected"), Step::Item(index), Step::Key("plus_minus")];
                return Err(self.refuse(&path, "expected the same names as `values`"));
            }
        }
        Ok(())
    }

    fn check_lists(
        &self,
        [table, item]: [Step<'_>; 2],
        over: &str,
        lists: [&BTreeMap<String, Vec<f64>>; 2],
        sweep: &[Variable],
    ) -> Result<(), ScenarioError> {
        let Some(variable) = sweep.iter().find(|variable| variable.name == over) else {
            let names: Vec<&str> = sweep.iter().map(|variable| variable.name.as_str()).collect();
            let what = format!("\"{over}\": expected a variable of [sweep]: {}", names.join(", "));
            return Err(self.refuse(&[table, item, Step::Key("over")], what));
        };
        for (key, list) in ["values", "plus_minus"].into_iter().zip(lists) {
            let odd = list.iter().find(|(_, numbers)| numbers.len() != variable.values.len());
            if let Some((name, numbers)) = odd {
                let what = format!("{} numbers for {} values of `{over}`", numbers.len(), variable.values.len());
                return Err(self.refuse(&[table, item, Step::Key(key), Step::Key(name)], what));
            }
        }
        Ok(())
    }
}
