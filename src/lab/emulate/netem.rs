//! A link that uses the kernel's netem, in a private namespace between the two ends.
//!
//! Netem is not on the ends themselves. There, a sender's small-queue limit would count its packets, and netem would
//! count a packet before segmentation as one. In the private namespace every packet is one MTU, as on a wire.

use std::sync::Mutex;
use std::time::Duration;

use anyhow::{Context, Result};

use self::chain::StageCounts;
use self::options::NetemOptions;
use super::wires::{ETHERNET_HEADER, Wires};
use crate::emulate::{Link, LinkDriver, LinkEnd, LinkNotice, check_drop_tail};
use crate::path::jitter::Jitter;
use crate::path::loss::LossModel;
use crate::path::{Direction, LinkConfig, QueueLimit};
use shared::failure::Failure;
use shared::kernel::probe::has_netem;
use shared::model::run::LinkCounters;
use shared::units::format_duration;

mod chain;
mod options;

/// Limit of the stages that only delay packets: a second of small packets at 1 Gbit/s.
const AMPLE_PKTS: u32 = 2_000_000;
/// Largest jitter. Netem stores half of it as nanoseconds in a signed 32-bit number.
const JITTER_MAX: Duration = Duration::from_nanos(2 * i32::MAX as u64);
/// A rate so high that it takes no time. With any rate, netem keeps the order of packets under jitter.
const ORDERING_BYTES_PER_SEC: u64 = u32::MAX as u64;
/// Position of a stage's number in its seed.
const STAGE_BITS: u32 = 32;

#[derive(Debug, Default, Clone, Copy)]
pub struct Netem;

impl LinkDriver for Netem {
    fn name(&self) -> &'static str {
        "netem"
    }

    fn connect(&self, config: &LinkConfig, ends: [LinkEnd; 2]) -> Result<Box<dyn Link>> {
        config.check()?;
        check_drop_tail(&config.directions)?;
        check_expressible(&config.directions)?;
        let limits = config.queue_limits()?;
        let wires = Wires::create(config.mtu, ends).context("create the link's interfaces")?;
        let mut link = NetemLink { wires, config: config.clone(), limits, before: Mutex::default(), is_seeded: true };
        for number in 0..2 {
            let stages = link.stages(number, config.directions[number].seed);
            chain::build(&link.wires, number, config.mtu, stages.len())?;
            chain::set_stages(&link.wires, number, &stages).map_err(|why| {
                let emulated = format!("a delay of {}", format_duration(config.directions[number].delay));
                if has_netem() { refused(&emulated, &why) } else { lacking(&emulated) }
            })?;
            link.is_seeded &= chain::read_stages(&link.wires, number, stages.len())?.1;
        }
        link.restart_counters();
        link.wires.set_ends_up()?;
        link.wires.wait_until_operational()?;
        Ok(Box::new(link))
    }
}

impl Netem {
    /// # Errors
    /// This kernel has no netem.
    pub fn on_this_kernel() -> Result<Self> {
        if has_netem() { Ok(Netem) } else { Err(lacking("the links").into()) }
    }
}

/// # Errors
/// A direction asks for something that netem has no parameter for.
pub fn check_expressible(directions: &[Direction; 2]) -> Result<(), Failure> {
    match directions.iter().find_map(inexpressible) {
        Some(what) => Err(Failure::unmet(format!("cannot emulate {what}")).hint(OTHER_DRIVER)),
        None => Ok(()),
    }
}

/// The field that netem has no parameter for, with the reason.
fn inexpressible(direction: &Direction) -> Option<String> {
    if let LossModel::Positions(trace) = &direction.loss {
        return Some(format!("loss \"{}\": netem loses packets by chance, not by number", trace.name));
    }
    if let Some(trace) = &direction.trace {
        return Some(format!("rate \"{trace}\": netem has a fixed rate and cannot replay deliveries"));
    }
    if let Some(mark) = direction.mark {
        return Some(format!("mark \"{mark}\": netem marks by chance, not by its queue"));
    }
    let lost = (direction.ack_loss.0 > 0.0).then(|| format!("ack_loss \"{}\"", direction.ack_loss));
    if let Some(asked) = direction.acks.map(|acks| format!("acks \"{acks}\"")).or(lost) {
        return Some(format!("{asked}: netem does not tell acknowledgements from other packets"));
    }
    if let Some(hold) = direction.hold {
        return Some(format!("hold \"{hold}\": tccc builds netem links without batches"));
    }
    if let Some(policer) = direction.policer {
        return Some(format!("policer \"{policer}\": tccc builds netem links without one"));
    }
    if let Some(remark) = direction.remark {
        return Some(format!("remark \"{remark}\": netem changes no headers"));
    }
    if direction.queue_low.is_some() {
        return Some("drops by priority: tccc builds netem links with one queue".to_owned());
    }
    let jitter = direction.jitter;
    if matches!(jitter, Jitter::Wifi(_)) {
        return Some(format!("jitter \"{jitter}\": netem has no such distribution"));
    }
    if jitter.longest() > JITTER_MAX {
        return Some(format!("jitter \"{jitter}\": netem silently cuts it to {}", format_duration(JITTER_MAX)));
    }
    let changes = "changes of a link while it runs: tccc does not change netem links";
    (!direction.changes.is_empty()).then(|| changes.to_owned())
}

const OTHER_DRIVER: &str = "the user-space link can: `--link tunlink`";

fn lacking(emulated: &str) -> Failure {
    let lacking = Failure::unmet(format!("cannot emulate {emulated}: this kernel has no netem qdisc"));
    lacking.hint("the user-space link needs none: `--link tunlink`")
}

fn refused(emulated: &str, why: &anyhow::Error) -> Failure {
    Failure::unmet(format!("cannot emulate {emulated}: this kernel's netem refuses it: {why:#}")).hint(OTHER_DRIVER)
}

#[derive(Debug)]
struct NetemLink {
    wires: Wires,
    config: LinkConfig,
    limits: [QueueLimit; 2],
    /// Counts of the stages at the last restart of the counters.
    before: Mutex<[Vec<StageCounts>; 2]>,
    is_seeded: bool,
}

impl NetemLink {
    /// The stages of a direction: loss, queue with serialiser, delay, and reordering if asked for.
    fn stages(&self, number: usize, seed: u64) -> Vec<NetemOptions> {
        stages_of(&self.config.directions[number], limit_pkts(self.limits[number], self.config.mtu), seed)
    }

    fn read(&self, number: usize) -> Result<Vec<StageCounts>> {
        let stages = stage_count(&self.config.directions[number]);
        Ok(chain::read_stages(&self.wires, number, stages)?.0)
    }

    /// Zeroes for interfaces that were deleted.
    fn counts(&self) -> [Vec<StageCounts>; 2] {
        let none = |number: usize| vec![StageCounts::default(); stage_count(&self.config.directions[number])];
        [0, 1].map(|number| self.read(number).unwrap_or_else(|_| none(number)))
    }
}

/// Converts a byte queue to full packets, because netem counts packets only.
fn limit_pkts(limit: QueueLimit, mtu: u32) -> u32 {
    match limit {
        QueueLimit::Packets(packets) => packets,
        QueueLimit::Bytes(bytes) => ((bytes as f64 / f64::from(mtu)).round() as u32).max(1),
    }
}

fn stage_count(direction: &Direction) -> usize {
    3 + usize::from(direction.reorder.is_some())
}

fn stages_of(direction: &Direction, queue_pkts: u32, seed: u64) -> Vec<NetemOptions> {
    let nanos = |time: Duration| time.as_nanos() as i64;
    let loss = NetemOptions {
        loss: direction.loss.independent().map_or(0.0, |loss| loss.0),
        states: direction.loss.gilbert(),
        ..NetemOptions::passing(AMPLE_PKTS)
    };
    // One more than the queue, because netem counts the packet in the serialiser. Copies are not made in the loss
    // stage, because netem would lose a packet and its copy by one draw.
    let rate = NetemOptions {
        bytes_per_sec: direction.rate.map(|rate| rate.0 / 8),
        duplicate: direction.duplicate.0,
        ..NetemOptions::passing(direction.rate.map_or(AMPLE_PKTS, |_| queue_pkts.saturating_add(1)))
    };
    // Netem deviates to both sides of the middle.
    let half = nanos(direction.jitter.longest()) / 2;
    let delay = NetemOptions {
        delay_nanos: nanos(direction.delay) + half,
        jitter_nanos: half,
        bytes_per_sec: (half > 0).then_some(ORDERING_BYTES_PER_SEC),
        ..NetemOptions::passing(AMPLE_PKTS)
    };
    let hold = direction.reorder.map(|reorder| NetemOptions {
        delay_nanos: nanos(reorder.by),
        held_back: Some(reorder.share.0),
        ..NetemOptions::passing(AMPLE_PKTS)
    });
    let stages = [loss, rate, delay].into_iter().chain(hold);
    // Each stage has its own generator; that of the losses has the seed itself.
    stages.zip(0..).map(|(stage, number)| NetemOptions { seed: Some(seed ^ number << STAGE_BITS), ..stage }).collect()
}

/// The counters of one direction, from its stages' counts before and after.
fn counters_of(before: &[StageCounts], after: &[StageCounts]) -> LinkCounters {
    let grown =
        |stage: usize, value: fn(&StageCounts) -> u64| value(&after[stage]).saturating_sub(value(&before[stage]));
    let last = after.len() - 1;
    let [passed, queued, sent] = [0, 1, last].map(|stage| grown(stage, |counts| counts.packets));
    let [lost, overflow] = [0, 1].map(|stage| grown(stage, |counts| counts.drops));
    // Netem does not count its copies. They are the packets that the queue saw beyond those that came to it.
    let seen = queued + overflow + after[1].waiting;
    LinkCounters {
        received_pkts: passed + lost,
        sent_pkts: sent,
        sent_bytes: grown(last, |counts| counts.bytes).saturating_sub(sent * ETHERNET_HEADER),
        lost_pkts: lost,
        duplicated_pkts: seen.saturating_sub(passed + before[1].waiting),
        overflow_pkts: overflow,
        failed_pkts: (2..=last).map(|stage| grown(stage, |counts| counts.drops)).sum(),
        ..LinkCounters::default()
    }
}

impl Link for NetemLink {
    fn counters(&self) -> [LinkCounters; 2] {
        let (after, before) = (self.counts(), self.before.lock().expect("no thread panics with this lock"));
        let mut counters = [0, 1].map(|number| counters_of(&before[number], &after[number]));
        for (counters, direction) in counters.iter_mut().zip(&self.config.directions) {
            // A packet between two stages while they are read would count as a copy.
            counters.duplicated_pkts *= u64::from(direction.duplicate.0 > 0.0);
        }
        self.wires.add_end_drops(&mut counters);
        counters
    }

    fn restart_counters(&self) {
        *self.before.lock().expect("no thread panics with this lock") = self.counts();
        self.wires.restart_end_drops();
    }

    fn reseed(&self, seeds: [u64; 2]) {
        for (number, seed) in seeds.into_iter().enumerate() {
            // The notices report a deleted interface.
            let _ = chain::set_stages(&self.wires, number, &self.stages(number, seed));
        }
    }

    fn notices(&self) -> Vec<LinkNotice> {
        let mut notices = Vec::new();
        if !self.is_seeded {
            let what = "this kernel's netem takes no seed: losses differ from run to run";
            notices.push(LinkNotice::Lacking(what.to_owned()));
        }
        if (0..2).any(|number| self.read(number).is_err()) {
            let [first, second] = &self.wires.ends;
            let (first, second) = (&first.interface, &second.interface);
            let what = format!("interface \"{first}\" or \"{second}\" was deleted");
            notices.push(LinkNotice::Stopped(what));
        }
        notices
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::path::loss::{Gilbert, LossPositions};
    use shared::units::{BitsPerSec, QueueSize, Share};

    fn direction() -> Direction {
        Direction {
            rate: Some(BitsPerSec(100_000_000)),
            delay: Duration::from_millis(50),
            queue: QueueSize::Packets(50),
            loss: Share(0.01).into(),
            seed: 7,
            ..Direction::default()
        }
    }

    #[test]
    fn what_netem_cannot_do_is_refused_by_field_with_the_way_out() {
        let positions = LossPositions::new("positions:3".into(), vec![3]).unwrap();
        let acks = Some("thinned:time=5ms,pkts=4".parse().unwrap());
        for (asked, what) in [
            (
                Direction { acks, ..direction() },
                "acks \"thinned:time=5ms,pkts=4\": netem does not tell acknowledgements from other packets",
            ),
            (
                Direction { ack_loss: Share(0.02), ..direction() },
                "ack_loss \"2%\": netem does not tell acknowledgements from other packets",
            ),
            (
                Direction { loss: LossModel::Positions(positions), ..direction() },
                "loss \"positions:3\": netem loses packets by chance, not by number",
            ),
            (
                Direction { jitter: Duration::from_secs(8).into(), ..direction() },
                "jitter \"8s\": netem silently cuts it to 4.294967294s",
            ),
        ] {
            let refusal = check_expressible(&[direction(), asked]).unwrap_err();
            assert_eq!(refusal, Failure::unmet(format!("cannot emulate {what}")).hint(OTHER_DRIVER));
        }
        let most = Direction { jitter: JITTER_MAX.into(), ..direction() };
        assert_eq!(stages_of(&most, 50, 9)[2].jitter_nanos, i64::from(i32::MAX));
        assert_eq!(check_expressible(&[most, direction()]), Ok(()));
    }

    #[test]
    fn stages_are_loss_then_queue_then_delay() {
        let [loss, rate, delay] = stages_of(&direction(), 50, 9)[..] else { panic!("three stages") };
        assert_eq!((loss.loss, loss.seed, loss.bytes_per_sec, loss.delay_nanos), (0.01, Some(9), None, 0));
        assert_eq!((rate.limit_pkts, rate.bytes_per_sec, rate.loss), (51, Some(12_500_000), 0.0));
        assert_eq!((delay.delay_nanos, delay.jitter_nanos, delay.bytes_per_sec), (50_000_000, 0, None));
        let model = Gilbert { to_bad: Share(0.01), to_good: Share(0.25), bad_loss: Share(1.0), good_loss: Share(0.0) };
        let loss = stages_of(&Direction { loss: LossModel::Gilbert(model), ..direction() }, 50, 9)[0];
        assert_eq!((loss.states, loss.loss), (Some(model), 0.0), "the kernel's own model");
    }

    #[test]
    fn jitter_adds_to_the_delay_and_keeps_the_order() {
        let jittered = Direction { jitter: Duration::from_millis(4).into(), ..direction() };
        let delay = stages_of(&jittered, 50, 9)[2];
        assert_eq!((delay.delay_nanos, delay.jitter_nanos), (52_000_000, 2_000_000));
        assert_eq!(delay.bytes_per_sec, Some(ORDERING_BYTES_PER_SEC));
    }

    #[test]
    fn copies_are_made_at_the_queue_and_packets_are_held_back_after_the_delay() {
        let reorder = Some("share=1%,by=5ms".parse().unwrap());
        let stages = stages_of(&Direction { reorder, duplicate: Share(0.02), ..direction() }, 50, 9);
        assert_eq!(stages.len(), 4);
        assert!(stages.iter().map(|stage| stage.duplicate).eq([0.0, 0.02, 0.0, 0.0]));
        assert_eq!((stages[3].delay_nanos, stages[3].held_back), (5_000_000, Some(0.01)));
        let seeds: Vec<u64> = stages.iter().filter_map(|stage| stage.seed).collect();
        assert_eq!(seeds, [9, 9 | 1 << 32, 9 | 2 << 32, 9 | 3 << 32]);
    }

    #[test]
    fn byte_queue_becomes_full_packets() {
        assert_eq!(limit_pkts(QueueLimit::Packets(50), 1500), 50);
        assert_eq!(limit_pkts(QueueLimit::Bytes(75_000), 1500), 50);
        assert_eq!(limit_pkts(QueueLimit::Bytes(100), 1500), 1);
    }

    #[test]
    fn counters_are_what_the_stages_counted_in_between() {
        let stage = |packets, bytes, drops| StageCounts { packets, bytes, drops, waiting: 0 };
        let before = [stage(10, 15_140, 1), stage(8, 12_112, 2), stage(8, 12_112, 0)];
        let after = [stage(110, 166_540, 3), stage(98, 148_372, 12), stage(98, 148_372, 0)];
        let counters = counters_of(&before, &after);
        assert_eq!((counters.received_pkts, counters.lost_pkts, counters.overflow_pkts), (102, 2, 10));
        assert_eq!((counters.sent_pkts, counters.sent_bytes, counters.failed_pkts), (90, 90 * 1500, 0));
        assert_eq!((counters.max_queue_pkts, counters.lateness_us), (None, None));
        assert_eq!(counters.duplicated_pkts, 0, "100 came, 90 left and 10 found no room");
        let copied = [after[0], StageCounts { packets: 101, waiting: 3, ..after[1] }, after[2]];
        assert_eq!(counters_of(&before, &copied).duplicated_pkts, 6);
    }
}
