//! A link that uses the kernel's netem, in a private namespace between the two ends.
//!
//! Netem is not on the ends themselves. There, a sender's small-queue limit would count its packets, and netem would
//! count a packet before segmentation as one. In the private namespace every packet is one MTU, as on a wire. The kernel's
//! own queue disciplines take the place of netem's queue there.

use std::sync::Mutex;
use std::time::Duration;

use anyhow::{Context, Result};

use self::shaper::ShapedDiscipline;
use self::stage::{Stage, StageCounts, counters_of, stages_of};
use super::wires::Wires;
use crate::emulate::{Link, LinkDriver, LinkEnd, LinkNotice, OTHER_ENGINE};
use crate::path::discipline::{Discipline, DisciplineKind};
use crate::path::jitter::Jitter;
use crate::path::loss::LossModel;
use crate::path::{Direction, LinkConfig, QueueLimit};
use shared::failure::Failure;
use shared::kernel::probe::{has_netem, lacking_qdiscs};
use shared::model::run::LinkCounters;
use shared::units::format_duration;

mod chain;
mod marks;
mod options;
mod shaper;
mod stage;

/// Largest jitter. Netem stores half of it as nanoseconds in a signed 32-bit number.
const JITTER_MAX: Duration = Duration::from_nanos(2 * i32::MAX as u64);
/// Passes the packets of a queue discipline at the link's rate.
const SHAPER: &str = "tbf";

#[derive(Debug, Default, Clone, Copy)]
pub struct Netem;

impl LinkDriver for Netem {
    fn name(&self) -> &'static str {
        "netem"
    }

    fn connect(&self, config: &LinkConfig, ends: [LinkEnd; 2]) -> Result<Box<dyn Link>> {
        config.check()?;
        check_expressible(&config.directions)?;
        let stages = [stages(config, 0)?, stages(config, 1)?];
        let wires = Wires::create(config.mtu, ends).context("create the link's interfaces")?;
        let mut link = NetemLink { wires, config: config.clone(), stages, before: Mutex::default(), is_seeded: true };
        for (number, stages) in link.stages.iter().enumerate() {
            let Direction { delay, discipline, .. } = &config.directions[number];
            chain::build(&link.wires, number, config.mtu, stages)?;
            chain::set_netems(&link.wires, number, stages).map_err(|why| {
                let emulated = format!("a delay of {}", format_duration(*delay));
                if has_netem() { refused(&emulated, &why) } else { lacking(&emulated) }
            })?;
            if let Some(discipline) = discipline {
                chain::set_discipline(&link.wires, number, stages).map_err(|why| {
                    lacking_discipline(discipline).unwrap_or_else(|| refused_discipline(discipline, &why))
                })?;
            }
            link.is_seeded &= chain::read_stages(&link.wires, number, stages)?.1;
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
    let Some((_, _, what)) = beyond(directions) else { return Ok(()) };
    let hint = if has_discipline(directions) { OTHER_ENGINE } else { OTHER_DRIVER };
    Err(Failure::unmet(format!("cannot emulate {what}")).hint(hint))
}

/// The first thing that netem has no parameter for: its direction, its field, and its value with the reason.
pub fn beyond(directions: &[Direction; 2]) -> Option<(usize, &'static str, String)> {
    directions.iter().enumerate().find_map(|(side, direction)| {
        let (field, what) = inexpressible(direction)?;
        Some((side, field, what))
    })
}

/// Whether a direction has a queue discipline.
pub fn has_discipline(directions: &[Direction; 2]) -> bool {
    directions.iter().any(|direction| direction.discipline.is_some())
}

/// The field that netem has no parameter for, and its value with the reason.
fn inexpressible(direction: &Direction) -> Option<(&'static str, String)> {
    if let LossModel::Positions(trace) = &direction.loss {
        return Some(("loss", format!("loss \"{}\": netem loses packets by chance, not by number", trace.name)));
    }
    if let Some(trace) = &direction.trace {
        return Some(("rate", format!("rate \"{trace}\": netem has a fixed rate and cannot replay deliveries")));
    }
    if let Some(mark) = direction.mark {
        return Some(("mark", format!("mark \"{mark}\": netem marks by chance, not by its queue")));
    }
    let is_ack = "netem does not tell acknowledgements from other packets";
    if let Some(acks) = direction.acks {
        return Some(("acks", format!("acks \"{acks}\": {is_ack}")));
    }
    if direction.ack_loss.0 > 0.0 {
        return Some(("ack_loss", format!("ack_loss \"{}\": {is_ack}", direction.ack_loss)));
    }
    if let Some(discipline) = direction.discipline.as_ref().filter(|it| it.flow_rate().is_some()) {
        return Some(("discipline", format!("discipline \"{discipline}\": fq would pace the senders on this host")));
    }
    if let Some(hold) = direction.hold {
        return Some(("hold", format!("hold \"{hold}\": tccc builds netem links without batches")));
    }
    if let Some(policer) = direction.policer {
        return Some(("policer", format!("policer \"{policer}\": tccc builds netem links without one")));
    }
    if let Some(remark) = direction.remark {
        return Some(("remark", format!("remark \"{remark}\": netem changes no headers")));
    }
    if direction.queue_low.is_some() {
        return Some(("queue_low", "drops by priority: tccc builds netem links with one queue".to_owned()));
    }
    let jitter = direction.jitter;
    if matches!(jitter, Jitter::Wifi(_)) {
        return Some(("jitter", format!("jitter \"{jitter}\": netem has no such distribution")));
    }
    if jitter.longest() > JITTER_MAX {
        let most = format_duration(JITTER_MAX);
        return Some(("jitter", format!("jitter \"{jitter}\": netem silently cuts it to {most}")));
    }
    let changes = "changes of a link while it runs: tccc does not change netem links";
    (!direction.changes.is_empty()).then(|| ("change", changes.to_owned()))
}

/// What this kernel lacks for links with a queue discipline.
///
/// None: it has netem, a shaper and the discipline.
pub fn lacking_discipline(discipline: &Discipline) -> Option<Failure> {
    let kind: &str = discipline.kind.into();
    let lacking = *lacking_qdiscs(&["netem", SHAPER, kind]).first()?;
    let what = format!("cannot emulate discipline \"{discipline}\": {} has no {lacking} qdisc", this_kernel());
    let hint = match discipline.kind {
        DisciplineKind::Dualpi2 => OTHER_ENGINE.replace("virtual", "virtual --kernel 7.3"),
        _ => OTHER_ENGINE.to_owned(),
    };
    Some(Failure::unmet(what).hint(hint))
}

fn this_kernel() -> String {
    let release = nix::sys::utsname::uname().ok().map(|name| format!(" ({})", name.release().display()));
    format!("this kernel{}", release.unwrap_or_default())
}

fn refused_discipline(discipline: &Discipline, why: &anyhow::Error) -> Failure {
    let what = format!("cannot emulate discipline \"{discipline}\": {} refuses it: {why:#}", this_kernel());
    Failure::unmet(what).hint(OTHER_ENGINE)
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
    stages: [Vec<Stage>; 2],
    /// Counts of the stages at the last restart of the counters.
    before: Mutex<[Vec<StageCounts>; 2]>,
    is_seeded: bool,
}

impl NetemLink {
    fn read(&self, number: usize) -> Result<Vec<StageCounts>> {
        Ok(chain::read_stages(&self.wires, number, &self.stages[number])?.0)
    }

    /// Zeroes for interfaces that were deleted.
    fn counts(&self) -> [Vec<StageCounts>; 2] {
        let none = |number: usize| vec![StageCounts::default(); self.stages[number].len()];
        [0, 1].map(|number| self.read(number).unwrap_or_else(|_| none(number)))
    }
}

/// # Errors
/// A queue in BDP without a rate; parameters of a discipline that do not fit together.
fn stages(config: &LinkConfig, number: usize) -> Result<Vec<Stage>> {
    let direction = &config.directions[number];
    let queue_pkts = limit_pkts(config.queue_limits()?[number], config.mtu);
    let first = config.options(number).map_err(|(_, wrong)| wrong)?.into_iter().next(); // netem refuses changes
    let shaped = match (first, direction.rate) {
        (Some((discipline, options)), Some(rate)) => {
            let options = discipline.without_pacing(options);
            Some(ShapedDiscipline { rate, mtu: config.mtu, discipline: discipline.clone(), options })
        }
        _ => None,
    };
    Ok(stages_of(direction, queue_pkts, shaped, direction.seed))
}

/// Converts a byte queue to full packets, because netem counts packets only.
fn limit_pkts(limit: QueueLimit, mtu: u32) -> u32 {
    match limit {
        QueueLimit::Packets(packets) => packets,
        QueueLimit::Bytes(bytes) => ((bytes as f64 / f64::from(mtu)).round() as u32).max(1),
    }
}

impl Link for NetemLink {
    fn counters(&self) -> [LinkCounters; 2] {
        let (after, before) = (self.counts(), self.before.lock().expect("no thread panics with this lock"));
        let mut counters = [0, 1].map(|number| counters_of(&self.stages[number], &before[number], &after[number]));
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
            let config = LinkConfig {
                directions: self.config.directions.each_ref().map(|one| Direction { seed, ..one.clone() }),
                ..self.config
            };
            // The notices report a deleted interface. The configuration was accepted before.
            let _ = stages(&config, number).and_then(|stages| chain::set_netems(&self.wires, number, &stages));
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
    use super::stage::StageWork;
    use super::*;
    use crate::path::loss::LossPositions;
    use shared::units::{BitsPerSec, QueueSize, Share};

    pub(super) fn direction() -> Direction {
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
        assert_eq!(check_expressible(&[most, direction()]), Ok(()));
    }

    #[test]
    fn discipline_beside_what_netem_cannot_do_is_for_virtual_time() {
        let discipline = Some("codel".parse().unwrap());
        let queued = Direction { discipline, ..direction() };
        assert_eq!(check_expressible(&[queued.clone(), direction()]), Ok(()));
        let policer = Some("rate=5mbit,burst=50kB".parse().unwrap());
        let policed = Direction { policer, ..direction() };
        let paced = Direction { discipline: Some("fq maxrate 2mbit".parse().unwrap()), ..direction() };
        let (side, field, what) = beyond(&[queued.clone(), paced]).unwrap();
        assert_eq!((side, field), (1, "discipline"));
        assert_eq!(what, "discipline \"fq maxrate 2mbit\": fq would pace the senders on this host");
        let refusal = check_expressible(&[queued, policed]).unwrap_err();
        let what = "cannot emulate policer \"rate=5mbit,burst=50000B\": tccc builds netem links without one";
        assert_eq!(refusal, Failure::unmet(what).hint(OTHER_ENGINE));
    }

    #[test]
    fn options_of_a_discipline_are_those_of_virtual_time() {
        let discipline = Some("fq_codel quantum 300B".parse().unwrap());
        let config = LinkConfig { directions: [Direction { discipline, ..direction() }, direction()], mtu: 1500 };
        let stages = super::stages(&config, 0).unwrap();
        let StageWork::Discipline(shaped) = &stages[1].work else { panic!("{stages:?}") };
        assert_eq!(shaped.options, config.options(0).unwrap()[0].1);
        assert_eq!((shaped.rate, shaped.mtu), (BitsPerSec(100_000_000), 1500));
        let of_fq = LinkConfig {
            directions: [Direction { discipline: Some("fq".parse().unwrap()), ..direction() }, direction()],
            ..config
        };
        let stages = super::stages(&of_fq, 0).unwrap();
        let StageWork::Discipline(shaped) = &stages[1].work else { panic!("{stages:?}") };
        assert_eq!(shaped.options[8..], [8, 0, 5, 0, 0, 0, 0, 0], "no pacing");
    }

    #[test]
    fn byte_queue_becomes_full_packets() {
        assert_eq!(limit_pkts(QueueLimit::Packets(50), 1500), 50);
        assert_eq!(limit_pkts(QueueLimit::Bytes(75_000), 1500), 50);
        assert_eq!(limit_pkts(QueueLimit::Bytes(100), 1500), 1);
    }
}
