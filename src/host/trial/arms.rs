//! Reads the sums over the connections of each arm, which a kernel program keeps.

use std::collections::BTreeMap;
use std::mem::MaybeUninit;
use std::ops::Sub;
use std::os::fd::{AsFd, OwnedFd};

use anyhow::{Context, Result};
use libbpf_rs::skel::{OpenSkel, SkelBuilder};
use libbpf_rs::{Link, MapCore, MapFlags, MapHandle, OpenObject};
use zerocopy::{FromBytes as _, IntoBytes as _};

use crate::policy::rule::GuardMetric;
use shared::failure::Failure;
use shared::kernel::{iterate, libbpf_log};
use shared::model::guard::{ArmSums, Effect, FOLDS, Sums};

#[allow(clippy::all, clippy::pedantic, clippy::restriction, reason = "generated from guard.bpf.c")]
mod skeleton {
    include!(concat!(env!("OUT_DIR"), "/guard.skel.rs"));
}

use skeleton::types::guard_key;

const WORDS: usize = size_of::<GuardCell>() / size_of::<u64>();
/// The fixed-point number 1 in `inflation`, which stands for a doubling of the RTT.
const LOG_ONE: f64 = 65_536.0;

/// The sums of one arm and fold. `units` are distinct units of the split: connections, peers or prefixes, whatever the
/// rule splits by. The kernel program tells units apart by 22 bits of their hash, so many units count a little low, in all
/// arms alike.
pub use skeleton::types::guard_cell as GuardCell;

/// One arm by fold of the peers.
pub type ArmCells = [GuardCell; FOLDS];

impl GuardCell {
    pub fn sums(&self, metric: GuardMetric, ticks_per_s: f64) -> Sums {
        let [numerator, denominator] = match metric {
            GuardMetric::Retransmitted => [self.retrans_pkts, self.sent_pkts],
            GuardMetric::Timeouts => [self.timeouts, self.connections],
            GuardMetric::RttInflation => [self.inflation, self.looks],
            GuardMetric::Goodput => [self.bytes_acked, self.busy_ticks],
            GuardMetric::AbnormalEnds => [self.abnormal, self.ended],
        }
        .map(|sum| sum as f64);
        match metric {
            GuardMetric::RttInflation => Sums { numerator: numerator / LOG_ONE * std::f64::consts::LN_2, denominator },
            GuardMetric::Goodput => Sums { numerator: numerator * 8.0, denominator: denominator / ticks_per_s },
            _ => Sums { numerator, denominator },
        }
    }
}

impl Sub for GuardCell {
    type Output = GuardCell;

    fn sub(self, earlier: GuardCell) -> GuardCell {
        let [now, before]: [[u64; WORDS]; 2] = zerocopy::transmute!([self, earlier]);
        let grown: [u64; WORDS] = std::array::from_fn(|at| now[at].saturating_sub(before[at]));
        zerocopy::transmute!(grown)
    }
}

pub fn sums_of(cells: &ArmCells, metric: GuardMetric, ticks_per_s: f64) -> ArmSums {
    let mut sums = ArmSums { connections: connections_of(cells), ..ArmSums::default() };
    cells.iter().enumerate().for_each(|(fold, cell)| sums.add(fold, cell.sums(metric, ticks_per_s)));
    sums
}

pub fn connections_of(cells: &ArmCells) -> u64 {
    cells.iter().map(|cell| cell.connections).sum()
}

pub fn units_of(cells: &ArmCells) -> u64 {
    cells.iter().map(|cell| cell.units).sum()
}

pub fn effect_of(metric: GuardMetric) -> Effect {
    if metric == GuardMetric::RttInflation { Effect::Difference } else { Effect::LogRatio }
}

/// Counts until it is dropped.
pub struct ArmCounter {
    sweep: Link,
    _end: Link,
    cells: MapHandle,
    slots: Vec<u32>,
}

impl ArmCounter {
    /// Counts the labelled connections of one generation. `slots` are the numbers of the arms in labels.
    ///
    /// Side effects: a program on the kernel's tracepoint for TCP state changes.
    ///
    /// # Errors
    /// The kernel refuses the program.
    pub fn start(labels: &OwnedFd, generation: u32, slots: &[u32]) -> Result<ArmCounter> {
        libbpf_log::start();
        let mut storage: MaybeUninit<OpenObject> = MaybeUninit::uninit();
        let mut open = skeleton::GuardSkelBuilder::default().open(&mut storage).context("open the guard's program")?;
        let rodata = open.maps.rodata_data.as_mut().context("find the settings of the guard's program")?;
        rodata.judged_generation = generation;
        open.maps.tccc_cells.set_max_entries((slots.len() * FOLDS).max(1) as u32).context("size the guard's sums")?;
        open.maps.tccc_labels.reuse_fd(labels.as_fd()).context("use the policy's labels")?;
        let skel = open.load().map_err(|error| {
            let why = libbpf_log::take_last(&error);
            Failure::unmet(format!("cannot guard: the kernel refuses the guard's program: {why}"))
        })?;
        for key in slots.iter().flat_map(|&slot| (0..FOLDS as u32).map(move |fold| guard_key { slot, fold })) {
            let begun = skel.maps.tccc_cells.update(key.as_bytes(), GuardCell::default().as_bytes(), MapFlags::ANY);
            begun.context("begin the guard's sums")?;
        }
        let end = skel.progs.tccc_guard_end.attach().context("follow the ends of connections")?;
        let sweep = skel.progs.tccc_guard_sum.attach().context("attach the socket iterator")?;
        let cells = MapHandle::try_from(&skel.maps.tccc_cells).context("hold the guard's sums")?;
        Ok(ArmCounter { sweep, _end: end, cells, slots: slots.to_vec() })
    }

    /// Looks at every open connection of each network namespace that can be entered. Returns the sums of each arm since
    /// the start.
    ///
    /// Connections in other namespaces count as a whole when they end. None are left out, and none count twice.
    ///
    /// # Errors
    /// /proc is not mounted; the iterator or the sums cannot be read.
    pub fn read(&self) -> Result<BTreeMap<u32, ArmCells>> {
        iterate::pass_everywhere(&self.sweep).context("read the labelled connections")?;
        let arm = |slot: u32| -> Result<ArmCells> {
            let mut cells = ArmCells::default();
            for (cell, fold) in cells.iter_mut().zip(0..) {
                let key = guard_key { slot, fold };
                let value = self.cells.lookup(key.as_bytes(), MapFlags::ANY).context("read the guard's sums")?;
                let read = value.and_then(|value| GuardCell::read_from_bytes(&value).ok());
                *cell = read.unwrap_or_default();
            }
            Ok(cells)
        };
        self.slots.iter().map(|&slot| Ok((slot, arm(slot)?))).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn metrics_are_read_from_the_words_of_the_kernel_program() {
        let cell: GuardCell = zerocopy::transmute!([4u64, 1000, 500, 200, 10, 2, 131_072, 8, 3, 1, 3, 5]);
        let value = |metric| {
            let Sums { numerator, denominator } = cell.sums(metric, 250.0);
            numerator / denominator
        };
        assert_eq!(value(GuardMetric::Retransmitted), 0.05);
        assert_eq!(value(GuardMetric::Timeouts), 0.5);
        assert_eq!(value(GuardMetric::Goodput), 4000.0);
        assert!((value(GuardMetric::RttInflation).exp() - 2f64.powf(0.25)).abs() < 1e-12);
        assert!((value(GuardMetric::AbnormalEnds) - 1.0 / 3.0).abs() < 1e-12);
        assert_eq!((cell.units, cell.active), (3, 5));
        let earlier = GuardCell { connections: 1, active: 9, ..cell };
        let expected = GuardCell { connections: 3, ..GuardCell::default() };
        assert_eq!(cell - earlier, expected, "a count that shrank did not grow");
    }
}
