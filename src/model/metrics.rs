//! The metrics of a run, each defined once: name, unit, how it is computed.
//!
//! The formulas with their sources: [`fairness`], [`completion`], [`steadiness`], [`slow_start`]. "Efficiency", which the thesis of
//! Ahmad sweeps over beside them, is not here: what is left of the thesis names it without defining it.

mod all;
pub mod completion;
pub mod fairness;
pub mod held;
#[cfg(test)]
pub(crate) mod samples;
pub mod slow_start;
pub mod steadiness;
pub mod view;

pub use self::all::METRICS;
use self::view::RunView;
use crate::model::run::FlowRecord;

/// No quantity of a run is larger in its unit: what a broken record gives beyond is no value, so that sums stay finite.
const LARGEST: f64 = 1e18;

#[derive(Clone, Copy)]
pub enum Computed {
    /// From the end-of-run records of the flows.
    FromFlows(fn(&RunView<'_>) -> Option<f64>),
    /// From the end-of-run records of the flows: how long something took, which the end of the run may cut off.
    WaitFromFlows(fn(&RunView<'_>) -> Option<Value>),
    /// From the flows over time, which means reading the run's events.
    FromEvents(fn(&RunView<'_>) -> Option<f64>),
    /// From the flows over time: how long something took, which the end of the run may cut off.
    WaitFromEvents(fn(&RunView<'_>) -> Option<Value>),
}

/// Which flows of a scenario can give a metric a value at all.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Flows {
    /// Any of the variant.
    Any,
    /// One of the variant with a size.
    Sized,
    /// Two of the variant.
    Two,
    /// One of the variant, and a TCP flow beside it.
    Beside,
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Value {
    /// In the metric's unit.
    pub value: f64,
    /// The run ended before: the value is the time there was, a lower bound.
    pub cut_off: bool,
}

/// One metric of one variant in one run.
#[derive(Clone, Copy)]
pub struct Metric {
    /// Name as scenarios and files write it, unit included.
    pub name: &'static str,
    /// Heading for people, without the unit.
    pub title: &'static str,
    /// Unit of the value: "pkts", "bit/s", "us", "s", "ratio".
    pub unit: &'static str,
    /// What it says, in one sentence.
    pub what: &'static str,
    /// Where its definition comes from.
    pub source: &'static str,
    /// What a run must have for it to have a value: the end of a sentence that begins "it needs".
    pub needs: &'static str,
    /// The flows that a scenario must have for it to have a value.
    pub flows: Flows,
    pub computed: Computed,
}

impl Flows {
    /// Whether a variant can have a value: with `own` flows of its own, some with a size or none, and others beside.
    pub fn are_in(self, own: usize, has_size: bool, beside: usize) -> bool {
        match self {
            Flows::Any => true,
            Flows::Sized => has_size,
            Flows::Two => own > 1,
            Flows::Beside => own > 0 && beside > 0,
        }
    }

    /// What a scenario without them lacks, and what to do; none where it can lack nothing.
    pub fn lack(self) -> Option<(&'static str, &'static str)> {
        const COMPARED: &str = "compared are the flows of a variant, else those that run $algorithm, else all";
        const TWO: &str = "`copies = 2` makes two of one; friendliness_ratio is of a compared flow and those beside it";
        match self {
            Flows::Any => None,
            Flows::Sized => Some(("no flow that is compared has a `size`", COMPARED)),
            Flows::Two => Some(("it is of two compared flows or more", TWO)),
            Flows::Beside => Some(("it needs a TCP flow beside those that are compared", COMPARED)),
        }
    }
}

impl Metric {
    /// Looks a metric up by its name.
    ///
    /// None: no metric of this name.
    pub fn find(name: &str) -> Option<&'static Metric> {
        METRICS.iter().find(|metric| metric.name == name)
    }

    /// Whether the run's events must be read for it.
    pub fn needs_events(&self) -> bool {
        !matches!(self.computed, Computed::FromFlows(_) | Computed::WaitFromFlows(_))
    }

    /// Its value for one variant in one run.
    ///
    /// None: the variant has no flow in this run, or its flows have nothing to compute it from, such as one flow for
    /// a fairness, or (when [`Metric::needs_events`]) flows without events.
    pub fn value(&self, run: &RunView<'_>) -> Option<Value> {
        let value = match self.computed {
            Computed::FromFlows(compute) | Computed::FromEvents(compute) => {
                compute(run).map(|value| Value { value, cut_off: false })
            }
            Computed::WaitFromFlows(compute) | Computed::WaitFromEvents(compute) => compute(run),
        };
        value.filter(|value| value.value.abs() <= LARGEST)
    }
}

impl std::fmt::Debug for Metric {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Metric({})", self.name)
    }
}

fn total(run: &RunView<'_>, value: fn(&FlowRecord) -> f64) -> Option<f64> {
    (!run.own.is_empty()).then(|| run.own.iter().map(|flow| value(flow.record)).sum())
}

/// Payload of all flows over the time in which any runs: the sum of their rates would count flows that follow each other
/// as if they ran side by side.
fn goodput(run: &RunView<'_>) -> Option<f64> {
    let running = |flow: &FlowRecord| {
        let length_s = if flow.goodput_bps > 0.0 { 8.0 * flow.received_bytes as f64 / flow.goodput_bps } else { 0.0 };
        flow.begin_s.map(|begin_s| [begin_s, begin_s + length_s])
    };
    if let [only] = &run.own[..] {
        return Some(only.record.goodput_bps);
    }
    let times: Option<Vec<[f64; 2]>> = run.own.iter().map(|flow| running(flow.record)).collect();
    let Some(seconds) = times.map(seconds_of_any) else { return total(run, |flow| flow.goodput_bps) };
    let bytes = total(run, |flow| flow.received_bytes as f64)?;
    Some(if seconds > 0.0 { 8.0 * bytes / seconds } else { 0.0 })
}

/// Length of the union of spans.
fn seconds_of_any(mut spans: Vec<[f64; 2]>) -> f64 {
    spans.sort_by(|one, other| one[0].total_cmp(&other[0]));
    let (mut seconds, mut until) = (0.0, f64::NEG_INFINITY);
    for [from, to] in spans {
        seconds += (to - from.max(until)).max(0.0);
        until = until.max(to);
    }
    seconds
}

/// part / (part + rest) over all flows; none when both are zero.
fn share(run: &RunView<'_>, part: fn(&FlowRecord) -> f64, rest: fn(&FlowRecord) -> f64) -> Option<f64> {
    let (part, rest) = (total(run, part)?, total(run, rest)?);
    (part + rest > 0.0).then(|| part / (part + rest))
}

#[cfg(test)]
mod tests {
    use super::samples::{Sampled, view};
    use super::*;
    use crate::model::notice::Notice;

    #[test]
    fn metric_names_are_unique_and_found() {
        for metric in METRICS {
            assert_eq!(METRICS.iter().filter(|other| other.name == metric.name).count(), 1, "{}", metric.name);
            assert!(std::ptr::eq(Metric::find(metric.name).unwrap(), metric));
            assert!(!metric.what.is_empty() && !metric.source.is_empty(), "{}", metric.name);
        }
        assert!(Metric::find("throughput").is_none());
    }

    #[test]
    fn metric_without_a_value_says_what_it_needs_itself() {
        let jain = Notice::metric_undefined(Metric::find("jain_index").unwrap(), 3).advice;
        assert_eq!(jain, "it needs two flows of the variant that run at the same time, and their events");
        let counts = ["delivered_pkts", "goodput_bps", "retrans_pkts", "lost_pkts"];
        for metric in METRICS.iter().filter(|metric| !counts.contains(&metric.name)) {
            assert_ne!(metric.needs, Metric::find("delivered_pkts").unwrap().needs, "{}", metric.name);
        }
    }

    #[test]
    fn counts_sum_over_the_flows_and_shares_are_of_the_sum() {
        let mut flows = [Sampled::named("one", 900), Sampled::named("two", 90)];
        for flow in &mut flows {
            flow.record.lost_pkts = flow.record.delivered_pkts / 9;
            flow.record.retrans_pkts = flow.record.lost_pkts;
        }
        let run = view(&flows, &[]);
        let value = |name| Metric::find(name).unwrap().value(&run).map(|value| value.value);
        assert_eq!(value("delivered_pkts"), Some(990.0));
        assert_eq!(value("goodput_bps"), Some(990.0 * 1460.0 * 8.0));
        assert_eq!(value("loss_ratio"), Some(0.1));
        assert_eq!(value("retrans_ratio"), Some(0.1));
    }

    #[test]
    fn goodput_of_flows_that_follow_each_other_is_no_more_than_theirs() {
        let mut flows = [Sampled::named("one", 100), Sampled::named("two", 100), Sampled::named("three", 100)];
        for (flow, begin_s) in flows.iter_mut().zip([0.0, 4.0, 6.0]) {
            flow.record.begin_s = Some(begin_s);
            (flow.record.received_bytes, flow.record.goodput_bps) = (500_000, 1e6); // 4 s each
        }
        let goodput = |flows: &[Sampled]| Metric::find("goodput_bps").unwrap().value(&view(flows, &[])).unwrap().value;
        assert_eq!(goodput(&flows[..1]), 1e6);
        assert_eq!(goodput(&flows[..2]), 1e6);
        assert_eq!(goodput(&flows), 1.2e6, "12 Mbit in 10 s");
        flows[1].record.begin_s = Some(0.0);
        assert_eq!(goodput(&flows[..2]), 2e6);
        flows[1].record.begin_s = None;
        assert_eq!(goodput(&flows[..2]), 2e6, "a recorded run without times");
    }

    #[test]
    fn no_flow_and_no_sample_give_no_value() {
        for metric in METRICS {
            assert_eq!(metric.value(&RunView::default()), None, "{}", metric.name);
        }
        let silent = [Sampled::named("silent", 0)];
        assert_eq!(Metric::find("loss_ratio").unwrap().value(&view(&silent, &[])), None);
    }

    #[test]
    fn records_without_events_give_nothing_over_time() {
        let flows = [Sampled::new(0.0, &[(20.0, 100.0)]), Sampled::new(1.0, &[(19.0, 100.0)])];
        let with_events = view(&flows, &[]);
        let mut without = with_events.clone();
        without.own.iter_mut().for_each(|flow| flow.over_time = None);
        for metric in METRICS.iter().filter(|metric| metric.needs_events()) {
            assert_eq!(metric.value(&without), None, "{}", metric.name);
        }
        let over_time = ["jain_index", "convergence_s", "stability_index"].map(|name| Metric::find(name).unwrap());
        assert!(over_time.iter().all(|metric| metric.value(&with_events).is_some()));
        assert!(Metric::find("goodput_bps").unwrap().value(&without).is_some());
    }
}
