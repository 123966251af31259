//! The windows of time that absolute limits judge: from one minute to the whole time of a generation.

use std::collections::{BTreeMap, VecDeque};

use super::arms::ArmCells;

/// Length of the shortest window, nanoseconds.
const SHORTEST_NS: u64 = 60_000_000_000;
/// Largest ratio of the lengths of neighbouring windows.
const RATIO: u64 = 2;

/// The sums of one reading, by the arms' numbers in labels.
pub type Cells = BTreeMap<u32, ArmCells>;

/// Growth of the sums over a window that ends now.
#[derive(Debug, Clone, PartialEq)]
pub struct Window {
    pub seconds: f64,
    /// Readings in the window. Each counts every open connection.
    pub readings: usize,
    pub cells: Cells,
}

/// Earlier readings, from which windows begin.
///
/// Those of the latest minute are all kept. Of the older ones, so few are kept that a trial of 30 days has some 30.
#[derive(Debug)]
pub struct Readings {
    /// Time, number and sums, oldest first. The first one is the beginning, when all sums were 0.
    kept: VecDeque<(u64, usize, Cells)>,
    number: usize,
}

impl Readings {
    pub fn new(began_ns: u64) -> Self {
        Readings { kept: VecDeque::from([(began_ns, 0, Cells::new())]), number: 0 }
    }

    /// Adds a reading. Returns the windows that end with it: the shortest first, the whole time last.
    pub fn add(&mut self, now_ns: u64, cells: Cells) -> Vec<Window> {
        self.number += 1;
        let age = |at_ns: u64| now_ns.saturating_sub(at_ns);
        let window = |(at_ns, number, earlier): &(u64, usize, Cells)| Window {
            seconds: age(*at_ns) as f64 / 1e9,
            readings: self.number - number,
            cells: growth(&cells, earlier),
        };
        let is_long = |(at, (at_ns, ..)): &(usize, &(u64, usize, Cells))| *at == 0 || age(*at_ns) >= SHORTEST_NS;
        let windows = self.kept.iter().enumerate().filter(is_long).rev().map(|(_, reading)| window(reading)).collect();
        self.kept.push_back((now_ns, self.number, cells));
        self.thin_out(now_ns);
        windows
    }

    /// Drops a reading if its neighbours' windows are close enough to each other.
    fn thin_out(&mut self, now_ns: u64) {
        let age = |kept: &VecDeque<(u64, usize, Cells)>, at: usize| now_ns.saturating_sub(kept[at].0);
        let mut at = 1;
        while at + 1 < self.kept.len() && age(&self.kept, at + 1) >= SHORTEST_NS {
            if age(&self.kept, at - 1) <= RATIO * age(&self.kept, at + 1) {
                self.kept.remove(at);
            } else {
                at += 1;
            }
        }
    }
}

fn growth(cells: &Cells, earlier: &Cells) -> Cells {
    let grown = |(slot, now): (&u32, &ArmCells)| {
        let before = earlier.get(slot);
        (*slot, before.map_or(*now, |before| std::array::from_fn(|fold| now[fold] - before[fold])))
    };
    cells.iter().map(grown).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trial::arms::GuardCell;

    const LOOK_NS: u64 = 10_000_000_000;

    /// Windows after each look, 10 s apart, of an arm that gets a connection a second.
    fn windows(looks: u64) -> (Readings, Vec<Window>) {
        let mut readings = Readings::new(0);
        let look = |at: u64| {
            let mut cells = ArmCells::default();
            cells[0] = GuardCell { connections: at * 10, ..GuardCell::default() };
            readings.add(at * LOOK_NS, Cells::from([(1, cells)]))
        };
        let last = (1..=looks).map(look).last().unwrap();
        (readings, last)
    }

    #[test]
    fn first_window_is_the_whole_time_until_there_is_a_minute() {
        for looks in [1, 3, 6] {
            let (_, windows) = windows(looks);
            let [window] = windows.as_slice() else { panic!("{windows:?}") };
            assert_eq!((window.seconds, window.readings), (looks as f64 * 10.0, looks as usize));
            assert_eq!(window.cells[&1][0].connections, looks * 10);
        }
    }

    #[test]
    fn windows_reach_from_a_minute_to_the_whole_time() {
        for looks in [7, 30, 360, 2000] {
            let (readings, windows) = windows(looks);
            let seconds: Vec<f64> = windows.iter().map(|window| window.seconds).collect();
            assert_eq!((seconds[0], *seconds.last().unwrap()), (60.0, looks as f64 * 10.0));
            assert!(seconds.windows(2).all(|pair| pair[0] < pair[1] && pair[1] <= 2.5 * pair[0]), "{seconds:?}");
            assert!(readings.kept.len() < 30, "{} readings after {looks} looks", readings.kept.len());
            for window in &windows {
                assert_eq!(window.readings as f64 * 10.0, window.seconds);
                assert_eq!(window.cells[&1][0].connections as f64, window.seconds);
            }
        }
    }
}
