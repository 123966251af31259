//! The definition of a metric: its text, what it needs, and how it is computed.

use super::view::RunView;

/// Larger values come from broken records and are dropped, so that sums stay finite.
const LARGEST: f64 = 1e18;

/// The value of one variant in one run.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct MetricValue {
    /// In the metric's unit.
    pub value: f64,
    /// The run ended first: the value is the time until then, a lower bound.
    pub cut_off: bool,
}

/// A value that the end of the run does not cut off.
pub(super) fn exact(value: Option<f64>) -> Option<MetricValue> {
    value.map(|value| MetricValue { value, cut_off: false })
}

#[derive(Debug, Clone, Copy)]
pub struct Metric {
    /// Name in scenarios and files, unit included.
    pub name: &'static str,
    /// Heading, without the unit.
    pub title: &'static str,
    /// "pkts", "bit/s", "us", "s" or "ratio".
    pub unit: &'static str,
    /// Largest possible value: 1 of a share.
    pub most: f64,
    /// Its meaning, in one sentence.
    pub what: &'static str,
    /// Where its definition comes from.
    pub source: &'static str,
    /// What a run must have to give a value: the end of a sentence that begins "it needs".
    pub needs: &'static str,
    /// The flows that a scenario must have.
    pub flows: NeededFlows,
    /// Whether it is computed from flows over time, so that the run's events must be read. Other metrics need only the
    /// records written at the end of a run.
    pub needs_events: bool,
    /// Whether it is computed from the queues of links over time.
    pub needs_queues: bool,
    /// Whether a single flow of a run has a value. Other metrics compare flows or describe a link.
    pub is_per_flow: bool,
    pub(super) compute: fn(&RunView<'_>) -> Option<MetricValue>,
}

impl Metric {
    /// The value of one variant in one run.
    ///
    /// None: the variant has no flow in this run, or its flows lack what [`Metric::needs`] names.
    pub fn value(&self, run: &RunView<'_>) -> Option<MetricValue> {
        (self.compute)(run).filter(|value| value.value.abs() <= LARGEST)
    }
}

/// The flows that a scenario must have for a metric to have a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NeededFlows {
    Any,
    /// One of the variant with a size.
    Sized,
    /// One of the variant whose transfers differ in size.
    OfSizes,
    /// Two of the variant.
    Two,
    /// One of the variant, and a TCP flow beside it.
    Beside,
}

impl NeededFlows {
    /// Whether a variant with `own` flows can have a value. `has_size`: any of these has a size. `has_sizes`: the
    /// transfers of any of these differ in size.
    pub fn are_in(self, own: usize, [has_size, has_sizes]: [bool; 2], beside: usize) -> bool {
        match self {
            NeededFlows::Any => true,
            NeededFlows::Sized => has_size,
            NeededFlows::OfSizes => has_sizes,
            NeededFlows::Two => own > 1,
            NeededFlows::Beside => own > 0 && beside > 0,
        }
    }

    /// Why a scenario without these flows gives no value, and a hint. `None` for [`NeededFlows::Any`].
    pub fn lack(self) -> Option<(&'static str, &'static str)> {
        const COMPARED: &str = "the flows of a variant are compared, else those that run $algorithm, else all";
        const SIZES: &str =
            "`size = \"lognormal:median=20kB,sigma=1.5\"` draws sizes; `arrivals` may name a file of them";
        const TWO: &str =
            "`copies = 2` makes two flows of one; friendliness_ratio compares a flow with those beside it";
        match self {
            NeededFlows::Any => None,
            NeededFlows::Sized => Some(("no compared flow has a `size`", COMPARED)),
            NeededFlows::OfSizes => Some(("no compared flow has transfers that differ in size", SIZES)),
            NeededFlows::Two => Some(("it needs two or more compared flows", TWO)),
            NeededFlows::Beside => Some(("it needs a TCP flow beside the compared ones", COMPARED)),
        }
    }
}
