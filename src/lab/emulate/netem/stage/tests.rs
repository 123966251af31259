//! The stages of directions, and their counts.

use super::super::tests::direction;
use super::*;
use crate::path::loss::{Gilbert, LossModel};
use shared::units::{BitsPerSec, Share};

fn shaped() -> Option<ShapedDiscipline> {
    let discipline = "codel".parse().unwrap();
    Some(ShapedDiscipline { rate: BitsPerSec(100_000_000), mtu: 1500, discipline, options: vec![1] })
}

fn kinds(stages: &[Stage]) -> Vec<StageKind> {
    stages.iter().map(|stage| stage.kind).collect()
}

/// The netem of each stage; of a shaper one that does nothing.
fn netems(stages: &[Stage]) -> Vec<NetemOptions> {
    let options = |stage: &Stage| match &stage.work {
        StageWork::Netem(options) => *options,
        StageWork::Discipline(_) => NetemOptions::default(),
    };
    stages.iter().map(options).collect()
}

fn drop_tail(direction: &Direction) -> Vec<NetemOptions> {
    netems(&stages_of(direction, 50, None, 9))
}

#[test]
fn stages_are_loss_then_queue_then_delay() {
    let [loss, rate, delay] = drop_tail(&direction())[..] else { panic!("three stages") };
    assert_eq!((loss.loss, loss.seed, loss.bytes_per_sec, loss.delay_nanos), (0.01, Some(9), None, 0));
    assert_eq!((rate.limit_pkts, rate.bytes_per_sec, rate.loss), (51, Some(12_500_000), 0.0));
    assert_eq!((delay.delay_nanos, delay.jitter_nanos, delay.bytes_per_sec), (50_000_000, 0, None));
    let model = Gilbert { to_bad: Share(0.01), to_good: Share(0.25), bad_loss: Share(1.0), good_loss: Share(0.0) };
    let loss = drop_tail(&Direction { loss: LossModel::Gilbert(model), ..direction() })[0];
    assert_eq!((loss.states, loss.loss), (Some(model), 0.0), "the kernel's own model");
}

#[test]
fn jitter_adds_to_the_delay_and_keeps_the_order() {
    let delay = drop_tail(&Direction { jitter: Duration::from_millis(4).into(), ..direction() })[2];
    assert_eq!((delay.delay_nanos, delay.jitter_nanos), (52_000_000, 2_000_000));
    assert_eq!(delay.bytes_per_sec, Some(ORDERING_BYTES_PER_SEC));
}

#[test]
fn copies_are_made_at_the_queue_and_packets_are_held_back_after_the_delay() {
    let reorder = Some("share=1%,by=5ms".parse().unwrap());
    let stages = drop_tail(&Direction { reorder, duplicate: Share(0.02), ..direction() });
    assert_eq!(stages.len(), 4);
    assert!(stages.iter().map(|stage| stage.duplicate).eq([0.0, 0.02, 0.0, 0.0]));
    assert_eq!((stages[3].delay_nanos, stages[3].held_back), (5_000_000, Some(0.01)));
    let seeds: Vec<u64> = stages.iter().filter_map(|stage| stage.seed).collect();
    assert_eq!(seeds, [9, 9 | 1 << 32, 9 | 2 << 32, 9 | 3 << 32]);
}

#[test]
fn discipline_is_between_the_losses_and_a_serialiser_without_a_queue() {
    use StageKind::{Copy, Delay, Hold, Loss, Rate, Shape};
    let stages = stages_of(&direction(), 50, shaped(), 9);
    assert_eq!(kinds(&stages), [Loss, Shape, Rate, Delay]);
    assert_eq!(stages[1].work, StageWork::Discipline(shaped().unwrap()));
    assert_eq!(stages.iter().filter_map(Stage::discipline).collect::<Vec<_>>(), [DisciplineKind::Codel]);
    let [loss, _, rate, delay] = netems(&stages)[..] else { panic!("four stages") };
    assert_eq!((loss.loss, loss.seed, delay.delay_nanos), (0.01, Some(9), 50_000_000));
    assert_eq!(loss.delay_nanos, RELEASE_NANOS, "the sender's memory does not limit the queue");
    assert_eq!((rate.limit_pkts, rate.bytes_per_sec), (AMPLE_PKTS, Some(12_750_000)));
    let reorder = Some("share=1%,by=5ms".parse().unwrap());
    let stages = stages_of(&Direction { reorder, duplicate: Share(0.02), ..direction() }, 50, shaped(), 9);
    assert_eq!(kinds(&stages), [Loss, Copy, Shape, Rate, Delay, Hold]);
    assert!(netems(&stages).iter().map(|stage| stage.duplicate).eq([0.0, 0.02, 0.0, 0.0, 0.0, 0.0]));
}

fn counts(packets: u64, bytes: u64, drops: u64) -> StageCounts {
    StageCounts { packets, bytes, drops, ..StageCounts::default() }
}

#[test]
fn counters_are_what_the_stages_counted_in_between() {
    let stages = stages_of(&direction(), 50, None, 9);
    let before = [counts(10, 15_140, 1), counts(8, 12_112, 2), counts(8, 12_112, 0)];
    let after = [counts(110, 166_540, 3), counts(98, 148_372, 12), counts(98, 148_372, 0)];
    let counters = counters_of(&stages, &before, &after);
    assert_eq!((counters.received_pkts, counters.lost_pkts, counters.overflow_pkts), (102, 2, 10));
    assert_eq!((counters.sent_pkts, counters.sent_bytes, counters.failed_pkts), (90, 90 * 1500, 0));
    assert_eq!((counters.max_queue_pkts, counters.lateness_us, counters.marked_pkts), (None, None, 0));
    assert_eq!(counters.duplicated_pkts, 0, "100 came, 90 left and 10 found no room");
    let copied = [after[0], StageCounts { packets: 101, waiting: 3, ..after[1] }, after[2]];
    assert_eq!(counters_of(&stages, &before, &copied).duplicated_pkts, 6);
}

#[test]
fn counters_of_a_discipline_are_its_own() {
    let copied = Direction { duplicate: Share(0.02), ..direction() };
    let stages = stages_of(&copied, 50, shaped(), 9);
    let before = [StageCounts::default(); 5];
    let queue = StageCounts { marked: 7, waiting: 4, ..counts(93, 93 * 1500, 5) };
    let after = [counts(100, 151_400, 3), counts(102, 154_428, 0), queue, counts(93, 1, 2), counts(91, 91 * 1514, 0)];
    let counters = counters_of(&stages, &before, &after);
    assert_eq!((counters.received_pkts, counters.lost_pkts, counters.duplicated_pkts), (103, 3, 2));
    assert_eq!((counters.overflow_pkts, counters.marked_pkts, counters.failed_pkts), (5, 7, 2));
    assert_eq!((counters.sent_pkts, counters.sent_bytes), (91, 91 * 1500));
    let plain = stages_of(&direction(), 50, shaped(), 9);
    let counters = counters_of(&plain, &before[1..], &[after[0], queue, after[3], after[4]]);
    assert_eq!((counters.duplicated_pkts, counters.overflow_pkts), (0, 5));
}
