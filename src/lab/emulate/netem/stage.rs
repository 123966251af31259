//! The stages that a packet passes in one direction of a netem link, and what the stages' counts say together.

use std::time::Duration;

use strum::Display;

use super::options::NetemOptions;
use super::shaper::ShapedDiscipline;
use crate::emulate::wires::ETHERNET_HEADER;
use crate::path::Direction;
use crate::path::discipline::DisciplineKind;
use shared::model::run::LinkCounters;

/// Limit of the stages that only delay packets: a second of small packets at 1 Gbit/s.
const AMPLE_PKTS: u32 = 2_000_000;
/// A rate so high that it takes no time. With any rate, netem keeps the order of packets under jitter.
pub const ORDERING_BYTES_PER_SEC: u64 = u32::MAX as u64;
/// Any delay makes netem release a packet from the memory of its sender, whose small queues would otherwise limit the
/// queue of a discipline.
const RELEASE_NANOS: i64 = 1;
/// How much faster than the link a serialiser behind a shaper is, in parts of 1000, so that what was early does not wait
/// there for as long as the link is busy.
const CATCH_UP_PERMILLE: u64 = 20;
/// Position of a stage's number in its seed.
const STAGE_BITS: u32 = 32;

/// What a stage is for. The text is the beginning of its interface's name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Display)]
#[strum(serialize_all = "snake_case")]
pub enum StageKind {
    Loss,
    /// Copies of packets, if the queue is not netem's.
    Copy,
    /// A queue discipline below a shaper.
    Shape,
    /// The serialiser, with the drop-tail queue if there is no other.
    Rate,
    Delay,
    /// Packets that are held back, if some are.
    Hold,
}

#[derive(Debug, Clone, PartialEq)]
pub enum StageWork {
    Netem(NetemOptions),
    Discipline(ShapedDiscipline),
}

#[derive(Debug, Clone, PartialEq)]
pub struct Stage {
    pub kind: StageKind,
    pub work: StageWork,
}

impl Stage {
    /// The kind of its queue discipline.
    ///
    /// None: its queue is netem's.
    pub fn discipline(&self) -> Option<DisciplineKind> {
        match &self.work {
            StageWork::Netem(_) => None,
            StageWork::Discipline(shaped) => Some(shaped.discipline.kind),
        }
    }
}

/// Counts since the stage was created.
#[derive(Debug, Clone, Copy, Default)]
pub struct StageCounts {
    pub packets: u64,
    /// Includes Ethernet headers, except in a shaper.
    pub bytes: u64,
    pub drops: u64,
    /// Packets in the stage now.
    pub waiting: u64,
    /// Packets that a queue discipline marked.
    pub marked: u64,
}

/// The stages of a direction, in the order in which a packet passes them: loss, queue, serialiser, delay, and reordering
/// if asked for. `shaped` takes the place of the drop-tail queue of the serialiser.
pub fn stages_of(direction: &Direction, queue_pkts: u32, shaped: Option<ShapedDiscipline>, seed: u64) -> Vec<Stage> {
    let loss = NetemOptions {
        loss: direction.loss.independent().map_or(0.0, |loss| loss.0),
        states: direction.loss.gilbert(),
        delay_nanos: if shaped.is_some() { RELEASE_NANOS } else { 0 },
        ..NetemOptions::passing(AMPLE_PKTS)
    };
    let duplicate = direction.duplicate.0;
    let copy = NetemOptions { duplicate, ..NetemOptions::passing(AMPLE_PKTS) };
    let rate = rate_of(direction, queue_pkts, shaped.is_some());
    let netem = |kind| move |options| Stage { kind, work: StageWork::Netem(options) };
    let mut stages = vec![netem(StageKind::Loss)(loss)];
    // Copies are not made in the loss stage, because netem would lose a packet and its copy by one draw.
    stages.extend((shaped.is_some() && duplicate > 0.0).then(|| netem(StageKind::Copy)(copy)));
    stages.extend(shaped.map(|shaped| Stage { kind: StageKind::Shape, work: StageWork::Discipline(shaped) }));
    stages.extend([netem(StageKind::Rate)(rate), netem(StageKind::Delay)(delay_of(direction))]);
    stages.extend(hold_of(direction).map(netem(StageKind::Hold)));
    // Each stage has its own generator; that of the losses has the seed itself.
    for (number, stage) in (0..).zip(&mut stages) {
        if let StageWork::Netem(options) = &mut stage.work {
            options.seed = Some(seed ^ number << STAGE_BITS);
        }
    }
    stages
}

/// Behind a shaper, which holds the rate, the serialiser spreads the packets of its bursts, and has no queue of its own.
fn rate_of(direction: &Direction, queue_pkts: u32, is_shaped: bool) -> NetemOptions {
    // One more than the queue, because netem counts the packet in the serialiser.
    let room = direction.rate.filter(|_| !is_shaped).map_or(AMPLE_PKTS, |_| queue_pkts.saturating_add(1));
    let permille = 1000 + if is_shaped { CATCH_UP_PERMILLE } else { 0 };
    NetemOptions {
        bytes_per_sec: direction.rate.map(|rate| rate.0 / 8 * permille / 1000),
        duplicate: if is_shaped { 0.0 } else { direction.duplicate.0 },
        ..NetemOptions::passing(room)
    }
}

fn delay_of(direction: &Direction) -> NetemOptions {
    // Netem deviates to both sides of the middle.
    let half = nanos(direction.jitter.longest()) / 2;
    NetemOptions {
        delay_nanos: nanos(direction.delay) + half,
        jitter_nanos: half,
        bytes_per_sec: (half > 0).then_some(ORDERING_BYTES_PER_SEC),
        ..NetemOptions::passing(AMPLE_PKTS)
    }
}

fn hold_of(direction: &Direction) -> Option<NetemOptions> {
    let reorder = direction.reorder?;
    Some(NetemOptions {
        delay_nanos: nanos(reorder.by),
        held_back: Some(reorder.share.0),
        ..NetemOptions::passing(AMPLE_PKTS)
    })
}

fn nanos(time: Duration) -> i64 {
    time.as_nanos() as i64
}

/// The counters of one direction, from its stages' counts before and after.
pub fn counters_of(stages: &[Stage], before: &[StageCounts], after: &[StageCounts]) -> LinkCounters {
    let grown =
        |stage: usize, value: fn(&StageCounts) -> u64| value(&after[stage]).saturating_sub(value(&before[stage]));
    let place = |kind| stages.iter().position(|stage| stage.kind == kind);
    let serialiser = place(StageKind::Rate).expect("every direction has a serialiser");
    let queue = place(StageKind::Shape).unwrap_or(serialiser);
    let copier = if queue == serialiser { Some(queue) } else { place(StageKind::Copy) };
    let last = stages.len() - 1;
    let [passed, sent] = [0, last].map(|stage| grown(stage, |counts| counts.packets));
    let [lost, overflow] = [0, queue].map(|stage| grown(stage, |counts| counts.drops));
    // Netem does not count its copies. They are the packets that the stage saw beyond those that came to it.
    let copies = copier.map_or(0, |copier| {
        let seen = grown(copier, |counts| counts.packets + counts.drops) + after[copier].waiting;
        seen.saturating_sub(passed + before[copier].waiting)
    });
    let others = (1..=last).filter(|stage| *stage != queue);
    LinkCounters {
        received_pkts: passed + lost,
        sent_pkts: sent,
        sent_bytes: grown(last, |counts| counts.bytes).saturating_sub(sent * ETHERNET_HEADER),
        lost_pkts: lost,
        duplicated_pkts: copies,
        overflow_pkts: overflow,
        marked_pkts: grown(queue, |counts| counts.marked),
        failed_pkts: others.map(|stage| grown(stage, |counts| counts.drops)).sum(),
        ..LinkCounters::default()
    }
}

#[cfg(test)]
mod tests;
