//! What a metric is: its words, what it needs, and how its value is computed.

use super::view::RunView;

/// No quantity of a run is larger in its unit: what a broken record gives beyond is no value, so that sums stay finite.
const LARGEST: f64 = 1e18;

#[derive(Clone, Copy)]
pub enum Computed {
    /// From the end-of-run records of the flows.
    FromFlows(fn(&RunView<'_>) -> Option<f64>),
    /// From the end-of-run records of the flows: how long something took, which the end of the run may cut off.
    WaitFromFlows(fn(&RunView<'_>) -> Option<MetricValue>),
    /// From the flows over time, which means reading the run's events.
    FromEvents(fn(&RunView<'_>) -> Option<f64>),
    /// From the flows over time: how long something took, which the end of the run may cut off.
    WaitFromEvents(fn(&RunView<'_>) -> Option<MetricValue>),
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
pub struct MetricValue {
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
    /// Whether the run's events must be read for it.
    pub fn needs_events(&self) -> bool {
        !matches!(self.computed, Computed::FromFlows(_) | Computed::WaitFromFlows(_))
    }

    /// Its value for one variant in one run.
    ///
    /// None: the variant has no flow in this run, or its flows have nothing to compute it from, such as one flow for
    /// a fairness, or (when [`Metric::needs_events`]) flows without events.
    pub fn value(&self, run: &RunView<'_>) -> Option<MetricValue> {
        let value = match self.computed {
            Computed::FromFlows(compute) | Computed::FromEvents(compute) => {
                compute(run).map(|value| MetricValue { value, cut_off: false })
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
