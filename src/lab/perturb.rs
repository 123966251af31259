//! Slightly different paths of a cell, to see whether its result depends on exact numbers. Pure.

use std::time::Duration;

use crate::path::discipline::Discipline;
use crate::path::{Direction, QueueLimit};
use crate::scenario::{Cell, LinkSpec, PERTURBED};
use shared::units::{BitsPerSec, QueueSize, Share};

/// A change of every link by a factor. Its queues are in packets or bytes; the last parameter is the MTU.
type Change = fn(&mut LinkSpec, f64, u32);

/// Each change, and the words for it after the share.
const CHANGES: [(&str, Change); 3] =
    [("more rate", faster), ("more delay", longer), ("more queue, 1 packet at least", deeper)];

/// The cell with its rates, its delays, or its queues raised by a share. A path that would leave the allowed range, or
/// that has no such quantity, is left out.
pub fn perturbed(cell: &Cell, share: Share) -> Vec<Cell> {
    let one = |(words, change): &(&str, Change)| {
        let mut cell = cell.clone();
        cell.links.iter_mut().for_each(|link| fix_queues(link, cell.mtu));
        let before = cell.links.clone();
        cell.links.iter_mut().for_each(|link| change(link, 1.0 + share.0, cell.mtu));
        let is_valid = cell.links.iter().all(|link| link.config(cell.mtu).check().is_ok());
        cell.at.insert(PERTURBED.to_owned(), format!("{share} {words}"));
        (is_valid && cell.links != before).then_some(cell)
    };
    CHANGES.iter().filter_map(one).collect()
}

/// Writes queues and marks in BDP as bytes, so that another rate or delay keeps them.
fn fix_queues(link: &mut LinkSpec, mtu: u32) {
    let size = |limit| match limit {
        QueueLimit::Packets(packets) => QueueSize::Packets(packets),
        QueueLimit::Bytes(bytes) => QueueSize::Bytes(bytes),
    };
    let config = link.config(mtu);
    let Ok(limits) = config.queue_limits() else { return }; // out of range, and refused
    for (side, direction) in link.directions.iter_mut().enumerate() {
        direction.queue = size(limits[side]);
        direction.mark = config.mark_limit(side).map(size);
        for queue in direction.changes.iter_mut().filter_map(|change| change.queue.as_mut()) {
            *queue = config.limit_of(side, *queue).map_or(*queue, size);
        }
    }
}

fn faster(link: &mut LinkSpec, factor: f64, _: u32) {
    let times = |rate: &mut BitsPerSec| rate.0 = (rate.0 as f64 * factor).round() as u64;
    for direction in link.directions.iter_mut().filter(|direction| direction.trace.is_none()) {
        direction.rate.iter_mut().for_each(times);
        direction.changes.iter_mut().filter_map(|change| change.rate.as_mut()).for_each(times);
    }
}

fn longer(link: &mut LinkSpec, factor: f64, _: u32) {
    let times = |delay: &mut Duration| *delay = delay.mul_f64(factor);
    for direction in &mut link.directions {
        times(&mut direction.delay);
        direction.changes.iter_mut().filter_map(|change| change.delay.as_mut()).for_each(times);
    }
}

/// A queue grows by one packet at least. Less room would change nothing for packets of the MTU. A discipline may take no
/// notice of it.
fn deeper(link: &mut LinkSpec, factor: f64, mtu: u32) {
    let takes_notice = |one: &Direction| one.discipline.is_none() || one.disciplines().any(Discipline::has_limit);
    let is_limit = |one: &&mut Direction| one.has_queue() && takes_notice(one);
    for direction in link.directions.iter_mut().filter(is_limit) {
        let changed = direction.changes.iter_mut().filter_map(|change| change.queue.as_mut());
        for queue in [&mut direction.queue].into_iter().chain(changed) {
            *queue = match *queue {
                QueueSize::Packets(packets) => {
                    QueueSize::Packets(((f64::from(packets) * factor).round() as u32).max(packets.saturating_add(1)))
                }
                QueueSize::Bytes(bytes) => {
                    QueueSize::Bytes(((bytes as f64 * factor).round() as u64).max(bytes.saturating_add(mtu.into())))
                }
                bdp @ QueueSize::Bdp(_) => bdp, // see `fix_queues`
            };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scenario::tests::{RENO, cell, flow, link};

    fn of(rest: &str) -> Vec<Cell> {
        perturbed(&cell(&(link(["a", "b"], rest) + &flow("f", ["a", "b"], RENO))), Share(0.01))
    }

    #[test]
    fn each_path_differs_in_one_quantity_of_all_links() {
        let cells = of("rate=\"20mbit\"\ndelay=\"10ms\"\nqueue=\"30pkts\"\nchange=[{at=\"1ms\",rate=\"10mbit\"}]");
        let told: Vec<&str> = cells.iter().map(|cell| cell.at[PERTURBED].as_str()).collect();
        assert_eq!(told, ["1% more rate", "1% more delay", "1% more queue, 1 packet at least"]);
        let [faster, longer, deeper] = [0, 1, 2].map(|index| &cells[index].links[0].directions[0]);
        assert_eq!((faster.rate, faster.changes[0].rate), (Some(BitsPerSec(20_200_000)), Some(BitsPerSec(10_100_000))));
        assert_eq!((longer.delay, longer.rate), (Duration::from_micros(10_100), Some(BitsPerSec(20_000_000))));
        assert_eq!((deeper.queue, deeper.delay), (QueueSize::Packets(31), Duration::from_millis(10)));
    }

    /// "1% more queue" once kept a queue of 30 kB, which then held as many packets, and "more rate" enlarged one in
    /// BDP.
    #[test]
    fn queue_in_bytes_or_bdp_grows_by_a_packet_and_only_where_the_label_says_so() {
        for (queue, before) in [("30kB", 30_000), ("1bdp", 50_000)] {
            let cells = of(&format!("rate=\"20mbit\"\ndelay=\"10ms\"\nqueue=\"{queue}\"\nmark=\"15kB\""));
            let queues = cells.iter().map(|cell| cell.links[0].config(cell.mtu).queue_limits().unwrap()[0]);
            let expected = [before, before, before + 1500].map(QueueLimit::Bytes);
            assert_eq!(queues.collect::<Vec<_>>(), expected, "{queue}");
        }
        let marked = of("rate=\"20mbit\"\ndelay=\"10ms\"\nqueue=\"1MB\"\nmark=\"1bdp\"");
        let marks = marked.iter().map(|cell| cell.links[0].config(cell.mtu).mark_limit(0).unwrap());
        assert_eq!(marks.collect::<Vec<_>>(), [QueueLimit::Bytes(50_000); 3]);
        let QueueSize::Bytes(deep) = marked[2].links[0].directions[0].queue else { panic!("{marked:?}") };
        assert_eq!(deep, 1_010_000, "the share is more than a packet");
    }

    #[test]
    fn quantity_that_a_path_lacks_is_not_perturbed() {
        let told = |rest: &str| of(rest).iter().map(|cell| cell.at[PERTURBED].clone()).collect::<Vec<_>>();
        assert_eq!(told("delay=\"10ms\""), ["1% more delay"]);
        assert_eq!(told("rate=\"1mbit\""), ["1% more rate", "1% more queue, 1 packet at least"]);
        assert_eq!(told("delay=\"10s\""), Vec::<String>::new(), "the longest delay");
    }
}
