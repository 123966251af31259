//! A run as its metrics read it: the whole run, or the part that the report counts.

use anyhow::Result;

use crate::report::read::directory::{StoredEvents, StoredRun};
use shared::model::flow::{self, Flow};
use shared::model::metrics::{Metric, part};
use shared::model::notice::Notice;
use shared::model::queue::QueueSample;
use shared::model::run::{FlowRecord, RunRecord};

/// What a run's metrics over time are computed from. Empty if no metric reads them.
#[derive(Debug, Clone, Copy, Default)]
pub struct OverTime<'r> {
    pub flows: &'r [Flow],
    pub queues: &'r [QueueSample],
    /// When a part's time begins, seconds after the links started: at the first data of the run's traced flows.
    pub begin_s: f64,
}

/// What metrics read of each run.
#[derive(Debug, Clone, Copy, Default)]
pub struct Needs {
    pub events: bool,
    pub queues: bool,
    /// The part of the run that they count, seconds from the first event of its flows.
    pub part: Option<[f64; 2]>,
}

impl Needs {
    pub fn of(metrics: &[&Metric], part: Option<[f64; 2]>) -> Needs {
        Needs {
            events: part.is_some() || metrics.iter().any(|metric| metric.needs_events),
            queues: metrics.iter().any(|metric| metric.needs_queues),
            part,
        }
    }
}

pub struct RunInput {
    pub record: RunRecord,
    pub flows: Vec<Flow>,
    pub queues: Vec<QueueSample>,
    /// [`OverTime::begin_s`].
    pub begin_s: f64,
    pub notices: Vec<Notice>,
}

impl RunInput {
    /// # Errors
    /// Events or queues that exist and cannot be read.
    pub fn read(run: &StoredRun, needs: Needs) -> Result<RunInput> {
        let StoredEvents { events, notices } = if needs.events { run.events()? } else { StoredEvents::default() };
        let flows = flow::fold(&events);
        let queues = if needs.queues { run.queues()? } else { Vec::new() };
        let begin_s = part::begin_s(&run.record);
        let whole = RunInput { record: run.record.clone(), flows, queues, begin_s, notices };
        Ok(match needs.part {
            Some(span) => whole.cut(span),
            None => whole,
        })
    }

    pub fn over_time(&self) -> OverTime<'_> {
        OverTime { flows: &self.flows, queues: &self.queues, begin_s: self.begin_s }
    }

    fn cut(self, span: [f64; 2]) -> RunInput {
        let begin = self.flows.iter().map(|flow| flow.start_s).fold(f64::INFINITY, f64::min);
        let is_inside = |sample: &QueueSample| (span[0]..=span[1]).contains(&(sample.time_ns as f64 / 1e9 - begin));
        let (record, flows) = part::cut(&self.record, &self.flows, span);
        let is_several = |flow: &&FlowRecord| flow.socket.is_none() && !flow.datagrams && !flow.never_connected();
        let several = self.record.flows.iter().find(is_several);
        let mut notices = self.notices;
        notices.extend(several.map(|flow| {
            let cause = format!("flow \"{}\" has several connections, so a part of a run leaves it out", flow.name);
            Notice::new(cause, "`from` and `to` of [report] count flows of one connection, and datagrams")
        }));
        let queues = self.queues.into_iter().filter(is_inside).collect();
        RunInput { record, flows, queues, begin_s: self.begin_s, notices }
    }
}
