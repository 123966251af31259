//! The input of a metric: the variant's flows, the flows beside them, and the narrowest link.

use crate::model::flow::Flow;
use crate::model::queue::QueueSample;
use crate::model::run::{FlowRecord, LinkCounters};

#[derive(Debug, Clone, PartialEq, Default)]
pub struct RunView<'a> {
    pub own: Vec<FlowView<'a>>,
    pub beside: Vec<FlowView<'a>>,
    /// The narrowest link of the variant's flows; `None` if they have no limiting link in common.
    pub bottleneck: Option<Bottleneck>,
    /// The queue in front of the bottleneck.
    pub queue: Option<QueueView<'a>>,
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub struct QueueView<'a> {
    /// Empty if they were not recorded or not read.
    pub samples: &'a [QueueSample],
    pub counters: &'a LinkCounters,
    /// Whether the samples are those of a part of the run.
    pub is_part: bool,
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub struct FlowView<'a> {
    pub record: &'a FlowRecord,
    /// Its events. `None` if the run's events were not read or have none of this flow.
    pub over_time: Option<&'a Flow>,
}

#[derive(Debug, Clone, Default, PartialEq)]
pub struct Bottleneck {
    /// Bits of whole IP packets that it can carry while the run's flows are measured.
    pub bits: f64,
    /// Largest IP packet, bytes: the size of a bulk flow's packets.
    pub packet_bytes: u32,
    /// Flows that cross it.
    pub flows: Vec<String>,
    /// Index of the link in the scenario, and of the direction in the link.
    pub hop: [usize; 2],
    /// The node that sends into it, and the one that it leads to.
    pub ends: [String; 2],
}

impl<'a> RunView<'a> {
    /// The variant's flows that have events.
    pub fn own_over_time(&self) -> impl Iterator<Item = &'a Flow> {
        self.own.iter().filter_map(|flow| flow.over_time)
    }

    /// Flows of one connection beside the variant's, whose share can be compared.
    pub fn rivals(&self) -> impl Iterator<Item = &FlowView<'a>> {
        self.beside.iter().filter(|flow| flow.record.socket.is_some() || flow.record.never_connected())
    }

    /// The variant's flows, then the rivals.
    pub fn sharing(&self) -> impl Iterator<Item = &FlowView<'a>> {
        self.own.iter().chain(self.rivals())
    }

    /// All flows, the variant's first.
    pub fn all(&self) -> impl Iterator<Item = &FlowView<'a>> {
        self.own.iter().chain(&self.beside)
    }
}

impl<'a> FlowView<'a> {
    /// A flow, with its events among those of its run.
    pub fn of(record: &'a FlowRecord, over_time: &'a [Flow]) -> FlowView<'a> {
        let over_time = record.socket.and_then(|socket| over_time.iter().find(|flow| flow.socket == socket));
        FlowView { record, over_time }
    }

    /// New payload per second within a span of time.
    ///
    /// Units: a span that is not empty, seconds on the host's monotonic clock.
    /// None: no events, although it connected.
    pub fn goodput_bps(&self, [from, to]: [f64; 2]) -> Option<f64> {
        if self.record.never_connected() {
            return Some(0.0);
        }
        let flow = self.over_time?;
        let [from_s, to_s] = [from - flow.start_s, to - flow.start_s];
        let bytes = match self.record.tcp_sack {
            true => f64::from(self.record.mss_bytes) * (flow.delivered_at(to_s) - flow.delivered_at(from_s)),
            false => flow.acked_at(to_s) - flow.acked_at(from_s),
        };
        Some(8.0 * bytes / (to - from))
    }

    /// The time from its first to its last event. A flow that no longer delivers is starved, and still runs. One that
    /// never connected is starved all the time. A flow of transfers runs only to its last delivery, because after that
    /// it has nothing to send.
    ///
    /// Units: seconds on the host's monotonic clock.
    /// None: no events, or transfers without data.
    fn runs_during(&self) -> Option<[f64; 2]> {
        if self.record.never_connected() {
            return Some([f64::NEG_INFINITY, f64::INFINITY]);
        }
        let flow = self.over_time?;
        if self.record.completions.is_empty() { Some(flow.lasts_during()) } else { flow.delivers_during() }
    }
}

/// The time in which all these flows run: from the last start to the first end.
///
/// Units: seconds on the host's monotonic clock.
/// None: no flow, a flow without events, transfers without data, or no common time.
pub fn time_in_common<'a>(flows: impl IntoIterator<Item = &'a FlowView<'a>>) -> Option<[f64; 2]> {
    let mut common = [f64::NEG_INFINITY, f64::INFINITY];
    for flow in flows {
        let [from, to] = flow.runs_during()?;
        common = [common[0].max(from), common[1].min(to)];
    }
    (common[0].is_finite() && common[0] < common[1]).then_some(common)
}

/// Goodput of each flow in a span, bits per second. `None` if a flow has no events.
pub fn goodputs<'a>(flows: impl IntoIterator<Item = &'a FlowView<'a>>, span: [f64; 2]) -> Option<Vec<f64>> {
    flows.into_iter().map(|flow| flow.goodput_bps(span)).collect()
}
