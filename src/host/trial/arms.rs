//! Reads the sums over the connections of each arm, which a kernel program keeps.

use std::collections::BTreeMap;
use std::mem::MaybeUninit;
use std::ops::Sub;
use std::os::fd::{AsFd, OwnedFd};

use anyhow::{Context, Result};
use libbpf_rs::skel::{OpenSkel, SkelBuilder};
use libbpf_rs::{Link, MapCore, MapFlags, MapHandle, OpenObject};

use crate::policy::rule::GuardMetric;
use shared::failure::Failure;
use shared::kernel::{iterate, libbpf_log};
use shared::model::guard::{ArmSums, Effect, FOLDS, Sums};

#[allow(clippy::all, clippy::pedantic, clippy::restriction, reason = "generated from guard.bpf.c")]
mod skeleton {
    include!(concat!(env!("OUT_DIR"), "/guard.skel.rs"));
}

/// Words of `struct guard_cell`.
const WORDS: usize = 12;
/// The fixed-point number 1 in `inflation`, which stands for a doubling of the RTT.
const LOG_ONE: f64 = 65_536.0;

/// The sums of one arm and fold: the words of `struct guard_cell`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct GuardCell(pub [u64; WORDS]);

/// One arm by fold of the peers.
pub type ArmCells = [GuardCell; FOLDS];

impl GuardCell {
    pub fn connections(&self) -> u64 {
        self.0[0]
    }

    pub fn ended(&self) -> u64 {
        self.0[8]
    }

    /// Distinct units of the split: connections, peers or prefixes, whatever the rule splits by.
    ///
    /// The kernel program tells units apart by 22 bits of their hash, so many units count a little low, in all arms alike.
    pub fn units(&self) -> u64 {
        self.0[10]
    }

    /// Counts, other than a connection's first, of connections that had sent data since their previous count.
    pub fn active(&self) -> u64 {
        self.0[11]
    }

    pub fn sums(&self, metric: GuardMetric, ticks_per_s: f64) -> Sums {
        let [connections, bytes_acked, busy_ticks, sent, retrans, timeouts, inflation, looks, ended, abnormal, ..] =
            self.0.map(|word| word as f64);
        let (numerator, denominator) = match metric {
            GuardMetric::Retransmitted => (retrans, sent),
            GuardMetric::Timeouts => (timeouts, connections),
            GuardMetric::RttInflation => (inflation / LOG_ONE * std::f64::consts::LN_2, looks),
            GuardMetric::Goodput => (bytes_acked * 8.0, busy_ticks / ticks_per_s),
            GuardMetric::AbnormalEnds => (abnormal, ended),
        };
        Sums { numerator, denominator }
    }
}

impl Sub for GuardCell {
    type Output = GuardCell;

    fn sub(self, earlier: GuardCell) -> GuardCell {
        GuardCell(std::array::from_fn(|at| self.0[at].saturating_sub(earlier.0[at])))
    }
}

pub fn sums_of(cells: &ArmCells, metric: GuardMetric, ticks_per_s: f64) -> ArmSums {
    let mut sums = ArmSums { connections: connections_of(cells), ..ArmSums::default() };
    cells.iter().enumerate().for_each(|(fold, cell)| sums.add(fold, cell.sums(metric, ticks_per_s)));
    sums
}

pub fn connections_of(cells: &ArmCells) -> u64 {
    cells.iter().map(GuardCell::connections).sum()
}

pub fn units_of(cells: &ArmCells) -> u64 {
    cells.iter().map(GuardCell::units).sum()
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
    /// Errors: the kernel refuses the program.
    /// Side effects: a program on the kernel's tracepoint for TCP state changes.
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
        for key in slots.iter().flat_map(|&slot| (0..FOLDS as u32).map(move |fold| key_of(slot, fold))) {
            skel.maps.tccc_cells.update(&key, &[0; WORDS * 8], MapFlags::ANY).context("begin the guard's sums")?;
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
    pub fn read(&self) -> Result<BTreeMap<u32, ArmCells>> {
        iterate::pass_everywhere(&self.sweep).context("read the labelled connections")?;
        let arm = |slot: u32| -> Result<ArmCells> {
            let mut cells = ArmCells::default();
            for (cell, fold) in cells.iter_mut().zip(0..) {
                let value = self.cells.lookup(&key_of(slot, fold), MapFlags::ANY).context("read the guard's sums")?;
                let bytes = value.as_deref().unwrap_or_default().chunks_exact(8);
                let read = bytes.map(|word| u64::from_ne_bytes(word.try_into().expect("eight bytes")));
                cell.0.iter_mut().zip(read).for_each(|(to, from)| *to = from);
            }
            Ok(cells)
        };
        self.slots.iter().map(|&slot| Ok((slot, arm(slot)?))).collect()
    }
}

/// `struct guard_key`.
fn key_of(slot: u32, fold: u32) -> Vec<u8> {
    [slot, fold].map(u32::to_ne_bytes).concat()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn metrics_are_read_from_the_words_of_the_kernel_program() {
        let cell = GuardCell([4, 1000, 500, 200, 10, 2, 131_072, 8, 3, 1, 3, 5]);
        let value = |metric| {
            let Sums { numerator, denominator } = cell.sums(metric, 250.0);
            numerator / denominator
        };
        assert_eq!(value(GuardMetric::Retransmitted), 0.05);
        assert_eq!(value(GuardMetric::Timeouts), 0.5);
        assert_eq!(value(GuardMetric::Goodput), 4000.0);
        assert!((value(GuardMetric::RttInflation).exp() - 2f64.powf(0.25)).abs() < 1e-12);
        assert!((value(GuardMetric::AbnormalEnds) - 1.0 / 3.0).abs() < 1e-12);
        assert_eq!((cell.units(), cell.active()), (3, 5));
        let since = GuardCell([5, 4, 3, 2, 1, 1, 1, 1, 1, 1, 1, 1]) - GuardCell([1; WORDS]);
        assert_eq!(since.0, [4, 3, 2, 1, 0, 0, 0, 0, 0, 0, 0, 0]);
    }
}
