//! Every direction of every link that has a queue: its length over time, drops, marks and losses.

use anyhow::Result;
use serde::Serialize;

use super::index::{Index, point_of};
use super::numbers::{RunNumbers, numbers};
use crate::report::read::directory::StoredRun;
use crate::scenario::{Cell, LinkSpec};
use shared::model::queue::{self, QueueSample};
use shared::model::run::{At, LinkCounters, RunStatus};
use shared::model::stats;

/// One quantity of one direction.
#[derive(Debug, Clone, Copy)]
pub struct LinkQuantity {
    /// Name in JSON, unit included.
    pub name: &'static str,
    /// Heading, without the unit.
    pub title: &'static str,
    pub unit: &'static str,
    of: fn(&LinkCounters, &[QueueSample]) -> Option<f64>,
}

const fn quantity(
    name: &'static str,
    title: &'static str,
    unit: &'static str,
    of: fn(&LinkCounters, &[QueueSample]) -> Option<f64>,
) -> LinkQuantity {
    LinkQuantity { name, title, unit, of }
}

/// Queue lengths are `None` if they were not recorded, and counters are always known.
pub static LINK_QUANTITIES: [LinkQuantity; 14] = [
    quantity("queue_mean_pkts", "queue, mean", "pkts", |_, queue| stats::mean(&lengths(queue))),
    quantity("queue_p50_pkts", "median", "pkts", |_, queue| stats::percentile(&lengths(queue), 0.5)),
    quantity("queue_p95_pkts", "95th percentile", "pkts", |_, queue| stats::percentile(&lengths(queue), 0.95)),
    quantity("queue_p99_pkts", "99th percentile", "pkts", |_, queue| stats::percentile(&lengths(queue), 0.99)),
    quantity("queue_max_pkts", "longest", "pkts", |link, _| link.max_queue_pkts.map(|most| most as f64)),
    quantity("queue_p95_us", "wait, 95th percentile", "us", |_, queue| stats::percentile(&waits_us(queue), 0.95)),
    quantity("wait_p50_us", "wait of a packet, median", "us", |link, _| Some(link.wait_us?.p50)),
    quantity("wait_p99_us", "99th percentile", "us", |link, _| Some(link.wait_us?.p99)),
    quantity("overflow_pkts", "dropped by the queue", "pkts", |link, _| Some(link.overflow_pkts as f64)),
    quantity("policed_pkts", "dropped by the policer", "pkts", |link, _| Some(link.policed_pkts as f64)),
    quantity("drop_ratio", "dropped share", "ratio", |link, _| link.drop_ratio()),
    quantity("marked_pkts", "marked", "pkts", |link, _| Some(link.marked_pkts as f64)),
    quantity("mark_ratio", "marked share", "ratio", |link, _| link.mark_ratio()),
    quantity("lost_pkts", "lost by the loss model", "pkts", |link, _| Some(link.lost_pkts as f64)),
];

fn lengths(queue: &[QueueSample]) -> Vec<f64> {
    queue.iter().map(|sample| sample.queue_pkts as f64).collect()
}

fn waits_us(queue: &[QueueSample]) -> Vec<f64> {
    queue.iter().map(|sample| sample.wait_ns as f64 / 1e3).collect()
}

/// One direction of a link in one cell, over its finished runs.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ReportLink {
    /// Sweep variable to value, the variant included.
    pub at: At,
    pub from: String,
    pub to: String,
    /// Whether the queue over time was recorded in every run.
    pub is_recorded: bool,
    /// Shape: in the order of [`LINK_QUANTITIES`]. Unknown ones are left out.
    pub metrics: Vec<RunNumbers>,
}

impl ReportLink {
    pub fn numbers(&self, quantity: &str) -> Option<&RunNumbers> {
        numbers(&self.metrics, quantity)
    }
}

/// A finished run of a cell with its queues.
struct QueuedRun<'a> {
    run: &'a StoredRun,
    queues: Vec<QueueSample>,
}

/// Every direction with a rate or a policer, of the whole runs even if metrics count a part.
///
/// Shape: by cell, then link and direction, in the order of the scenario.
///
/// # Errors
/// Queues that exist and cannot be read.
pub fn links(index: &Index<'_>) -> Result<Vec<ReportLink>> {
    let mut links = Vec::new();
    for cell in &index.scenario().cells {
        let at_point = index.runs_at(&point_of(index.scenario(), &cell.at)).iter().copied();
        let is_own = |run: &&StoredRun| run.record.at == cell.at && run.record.status == RunStatus::Done;
        let mut own: Vec<&StoredRun> = at_point.filter(is_own).collect();
        own.sort_by_key(|run| (run.record.repeat, run.record.seed));
        let read = |run| Ok(QueuedRun { run, queues: StoredRun::queues(run)? });
        let runs = own.into_iter().map(read).collect::<Result<Vec<QueuedRun<'_>>>>()?;
        for (number, link) in cell.links.iter().enumerate().filter(|_| !runs.is_empty()) {
            links.extend([0, 1].into_iter().filter_map(|side| of_direction(cell, (number, link), side, &runs)));
        }
    }
    Ok(links)
}

fn of_direction(
    cell: &Cell,
    (number, link): (usize, &LinkSpec),
    side: usize,
    runs: &[QueuedRun<'_>],
) -> Option<ReportLink> {
    let direction = &link.directions[side];
    if !direction.has_queue() && direction.policer.is_none() {
        return None;
    }
    let [from, to] = [side, 1 - side].map(|end| link.ends[end].clone());
    let of_run = |one: &'_ QueuedRun<'_>| {
        let counters = one.run.record.links.get(number)?.counters[side].clone();
        Some((counters, queue::of_direction(&one.queues, [&from, &to]).to_vec()))
    };
    let known: Vec<(LinkCounters, Vec<QueueSample>)> = runs.iter().filter_map(of_run).collect();
    if known.is_empty() {
        return None;
    }
    let numbers = |quantity: &LinkQuantity| {
        let values: Vec<f64> = known.iter().filter_map(|(link, queue)| (quantity.of)(link, queue)).collect();
        RunNumbers::of(quantity.name, quantity.unit, values)
    };
    let is_recorded = known.iter().all(|(_, queue)| !queue.is_empty());
    let metrics = LINK_QUANTITIES.iter().filter_map(numbers).collect();
    Some(ReportLink { at: cell.at.clone(), from, to, is_recorded, metrics })
}
