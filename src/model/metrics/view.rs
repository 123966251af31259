//! What a metric sees of a run: the variant's flows, those beside them, and the path's narrowest link.

use crate::model::flow::Flow;
use crate::model::run::FlowRecord;

/// One run as seen by the metrics of one variant.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct RunView<'a> {
    pub own: Vec<FlowView<'a>>,
    pub beside: Vec<FlowView<'a>>,
    /// The narrowest link on the way of the variant's flows; none where they have no rate in common.
    pub bottleneck: Option<Bottleneck>,
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub struct FlowView<'a> {
    pub record: &'a FlowRecord,
    /// The same over time; none where the run's events were not read, or have none of this flow.
    pub over_time: Option<&'a Flow>,
}

/// The link direction that limits the variant's flows.
#[derive(Debug, Clone, PartialEq)]
pub struct Bottleneck {
    /// What it can carry while the run's flows count: bits of whole IP packets.
    pub bits: f64,
    /// Largest IP packet, bytes: what a packet of a bulk flow is long.
    pub packet_bytes: u32,
    /// Names of the flows that cross it.
    pub flows: Vec<String>,
}

impl<'a> RunView<'a> {
    /// The variant's flows over time, as far as their events are there.
    pub fn own_over_time(&self) -> impl Iterator<Item = &'a Flow> {
        self.own.iter().filter_map(|flow| flow.over_time)
    }

    /// The flows beside with an algorithm and one connection, whose sharing can be judged.
    pub fn rivals(&self) -> impl Iterator<Item = &FlowView<'a>> {
        self.beside.iter().filter(|flow| flow.record.socket.is_some())
    }

    /// The variant's flows, then those rivals.
    pub fn sharing(&self) -> impl Iterator<Item = &FlowView<'a>> {
        self.own.iter().chain(self.rivals())
    }

    /// Every flow of the run, the variant's first.
    pub fn all(&self) -> impl Iterator<Item = &FlowView<'a>> {
        self.own.iter().chain(&self.beside)
    }
}

impl FlowView<'_> {
    /// New payload delivered per second in a span of time, bits per second.
    ///
    /// Units: the span on the host's monotonic clock, seconds; it must not be empty.
    /// None: without events.
    pub fn goodput_bps(&self, [from, to]: [f64; 2]) -> Option<f64> {
        let flow = self.over_time?;
        let [from_s, to_s] = [from - flow.start_s, to - flow.start_s];
        let bytes = match self.record.tcp_sack {
            true => f64::from(self.record.mss_bytes) * (flow.delivered_at(to_s) - flow.delivered_at(from_s)),
            false => flow.acked_at(to_s) - flow.acked_at(from_s),
        };
        Some(8.0 * bytes / (to - from))
    }

    /// When it ran: from its first event to its last. A flow that delivers nothing any more runs on, for it starves;
    /// only one with transfers of a size runs to its last delivery, after which it has nothing to send.
    ///
    /// Units: seconds on the host's monotonic clock.
    /// None: without events; transfers without data.
    fn runs_during(&self) -> Option<[f64; 2]> {
        let flow = self.over_time?;
        if self.record.completions.is_empty() { Some(flow.lasts_during()) } else { flow.delivers_during() }
    }
}

/// The time in which all of these flows ran: from the last start to the first end.
///
/// Units: seconds on the host's monotonic clock.
/// None: no flow, one without events, transfers without data, or no such time.
pub fn time_in_common<'a>(flows: impl IntoIterator<Item = &'a FlowView<'a>>) -> Option<[f64; 2]> {
    let mut common = [f64::NEG_INFINITY, f64::INFINITY];
    for flow in flows {
        let [from, to] = flow.runs_during()?;
        common = [common[0].max(from), common[1].min(to)];
    }
    (common[0].is_finite() && common[0] < common[1]).then_some(common)
}

/// Goodput of each flow in a span, bits per second.
///
/// None: a flow without events.
pub fn goodputs<'a>(flows: impl IntoIterator<Item = &'a FlowView<'a>>, span: [f64; 2]) -> Option<Vec<f64>> {
    flows.into_iter().map(|flow| flow.goodput_bps(span)).collect()
}
