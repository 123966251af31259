//! Measures the processor time that others use: other processes, and the hypervisor's other guests.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use anyhow::{Context, Result};
use procfs::process::{Stat, all_processes};
use procfs::{CpuTime, CurrentSI, KernelStats};

/// Share of all processors that others may use. A run is late if 1 % of its packets are, and others who use 1 % of the
/// time can delay that many.
const HARMLESS: f64 = 0.01;
const KTHREADD: i32 = 2;
/// Most processes in a message.
const NAMED: usize = 3;
/// A message names no process below this share.
const WORTH_NAMING: f64 = 0.01;

/// Processor time of the host up to one moment, in clock ticks.
#[derive(Debug)]
pub struct BusyWatch {
    total: u64,
    /// Includes interrupts, which mostly belong to the measured packets.
    idle: u64,
    stolen: u64,
    /// This process and its descendants, with the interrupts during their time.
    own: u64,
    /// All other processes except the kernel's threads, which carry the measured packets.
    foreign: u64,
    /// Process id to name and time, for every process but our own.
    others: BTreeMap<i32, (String, u64)>,
}

/// Processor use by others over a period.
#[derive(Debug, Clone, PartialEq)]
pub struct BackgroundLoad {
    /// Share of all processors that is neither idle nor our own; at least the known use by other processes and guests.
    pub share: f64,
    /// Name and share of the largest users, largest first.
    who: Vec<(String, f64)>,
}

impl BusyWatch {
    /// # Errors
    /// /proc cannot be read.
    pub fn begin() -> Result<Self> {
        let CpuTime { user, nice, system, idle, iowait, irq, softirq, steal, .. } =
            KernelStats::current().context("read /proc/stat")?.total;
        let [iowait, irq, softirq, stolen] = [iowait, irq, softirq, steal].map(|ticks| ticks.unwrap_or(0));
        let idle = idle + iowait + irq + softirq;
        let total = user + nice + system + idle + stolen;
        let stats: Vec<Stat> = all_processes().context("list processes")?.flatten().flat_map(|it| it.stat()).collect();
        let ours = family(&stats);
        let (own, others): (Vec<_>, Vec<_>) = stats.into_iter().partition(|stat| ours.contains(&stat.pid));
        let time = |stat: &Stat| stat.utime + stat.stime;
        // The parent's record includes children that have ended.
        let of_ended = |stat: &Stat| u64::try_from(stat.cutime + stat.cstime).unwrap_or(0);
        let whole = |stat: &Stat| time(stat) + of_ended(stat);
        let own = own.iter().map(whole).sum();
        // Kernel threads are kthreadd and its children.
        let is_of_kernel = |stat: &&Stat| [stat.pid, stat.ppid].contains(&KTHREADD);
        let foreign = others.iter().filter(|stat| !is_of_kernel(stat)).map(whole).sum();
        let others = others.into_iter().map(|stat| (stat.pid, (stat.comm.clone(), time(&stat)))).collect();
        Ok(BusyWatch { total, idle, stolen, own, foreign, others })
    }

    /// The processor use by others since [`Self::begin`].
    ///
    /// # Errors
    /// /proc cannot be read.
    pub fn others(&self) -> Result<BackgroundLoad> {
        Ok(self.until(&Self::begin()?))
    }

    fn until(&self, now: &BusyWatch) -> BackgroundLoad {
        let total = now.total.saturating_sub(self.total).max(1) as f64;
        let share = |later: u64, earlier: u64| later.saturating_sub(earlier) as f64 / total;
        let used = 1.0 - share(now.idle, self.idle) - share(now.own, self.own);
        let stolen = share(now.stolen, self.stolen);
        let known = stolen + share(now.foreign, self.foreign);
        let before = |pid: &i32| self.others.get(pid).map_or(0, |(_, ticks)| *ticks);
        let mut who: Vec<(String, f64)> =
            now.others.iter().map(|(pid, (name, ticks))| (name.clone(), share(*ticks, before(pid)))).collect();
        who.push(("other guests of the hypervisor".to_owned(), stolen));
        who.retain(|(_, share)| *share >= WORTH_NAMING);
        who.sort_by(|a, b| b.1.total_cmp(&a.1));
        who.truncate(NAMED);
        BackgroundLoad { share: used.max(known).min(1.0), who }
    }
}

impl BackgroundLoad {
    /// Whether others may have disturbed a measurement.
    pub fn disturb(&self) -> bool {
        self.share > HARMLESS
    }
}

impl fmt::Display for BackgroundLoad {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "others use {:.0} % of the processors", self.share * 100.0)?;
        let who: Vec<String> = self.who.iter().map(|(name, share)| format!("{name} {:.0} %", share * 100.0)).collect();
        if who.is_empty() { Ok(()) } else { write!(f, " ({})", who.join(", ")) }
    }
}

/// This process and its descendants.
fn family(stats: &[Stat]) -> BTreeSet<i32> {
    let mut family = BTreeSet::from([std::process::id() as i32]);
    loop {
        let known = family.len();
        family.extend(stats.iter().filter(|stat| family.contains(&stat.ppid)).map(|stat| stat.pid).collect::<Vec<_>>());
        if family.len() == known {
            return family;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn watch(total: u64, idle: u64, stolen: u64, own: u64, rustc: u64) -> BusyWatch {
        let others = BTreeMap::from([(7, ("rustc".to_owned(), rustc)), (8, ("quiet".to_owned(), 5))]);
        BusyWatch { total, idle, stolen, own, foreign: rustc + 5, others }
    }

    #[test]
    fn others_are_all_but_idle_time_and_our_own() {
        let before = watch(1000, 500, 0, 100, 50);
        let others = before.until(&watch(1200, 560, 20, 140, 110));
        assert!((others.share - 0.5).abs() < 1e-9 && others.disturb());
        let text = "others use 50 % of the processors (rustc 30 %, other guests of the hypervisor 10 %)";
        assert_eq!(others.to_string(), text);
        let quiet = before.until(&watch(1200, 600, 0, 200, 50));
        assert_eq!((quiet.disturb(), quiet.to_string()), (false, "others use 0 % of the processors".to_owned()));
        // Interrupts count as idle time, and again in the process that they interrupt.
        let interrupted = before.until(&watch(1800, 1300, 60, 400, 70));
        assert!((interrupted.share - 0.1).abs() < 1e-9, "{interrupted:?}");
    }

    #[test]
    fn this_host_can_be_watched() {
        let others = BusyWatch::begin().unwrap().others().unwrap();
        assert!((0.0..=1.0).contains(&others.share), "{others}");
    }
}
