//! What the connections of each algorithm, cgroup and arm of a policy do together, added up in the kernel: what an exporter
//! reads.
//!
//! Nothing per packet and nothing per socket reaches this process; a sweep and the end of a connection add to the sums.

use std::mem::MaybeUninit;
use std::os::fd::AsFd as _;
use std::time::Instant;

use anyhow::{Context, Result};
use libbpf_rs::skel::OpenSkel;
use libbpf_rs::{Link, MapCore, MapFlags, MapHandle};

use super::arms::{FindLabels, LabelMap};
use super::filter::Filter;
use super::program::{self, TcpTraceSkel};
use crate::failure::Failure;
use crate::kernel::btf::Types;
use crate::kernel::privilege::{self, Capability};
use crate::kernel::{cgroup, clock, iterate, namespaces};

mod bins;
mod group;
mod ledger;

pub use bins::{BINS, Powers, RttCounts};
pub use group::Group;
use group::{decode, key_of};
use ledger::Ledger;

/// More cgroups than a host has.
const CGROUPS_MAX: usize = 100_000;
/// cgroups are looked at once in so many sweeps, to find those that are gone, and when there is a new one.
const LOOK_EVERY: u64 = 12;
/// Places of `totals_state`.
const SWEEP: u32 = 0;
const UNCOUNTED: u32 = 1;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CountedGroups {
    /// When the sweep ended, CLOCK_MONOTONIC.
    pub time_ns: u64,
    /// Shape: sorted by algorithm, cgroup and arm; several may have the same algorithm, path and arm.
    pub groups: Vec<Group>,
    /// Processes and names whose network namespace could not be looked at.
    pub hidden: u64,
    /// Times that a connection could not be counted, because there were too many groups or no memory.
    pub uncounted: u64,
}

/// Adds up until it is dropped; held by this process alone.
pub struct GroupTotals {
    counting: Counting,
    find_labels: FindLabels,
    filter: Filter,
    sweeps: u64,
    /// Connections that earlier programs could not count.
    uncounted: u64,
    ledger: Ledger,
}

/// The program that counts, with its sums.
struct Counting {
    sweep: Link,
    links: Vec<Link>,
    groups: MapHandle,
    state: MapHandle,
    /// The kernel's number of the labels that it reads.
    labels: Option<u32>,
    notices: Vec<String>,
}

impl Counting {
    /// Loads the program with these labels; `before` is called when it is ready to count, with the map of its sums.
    fn start(
        filter: &Filter,
        labels: Option<&LabelMap>,
        before: impl FnOnce(&MapHandle) -> Result<()>,
    ) -> Result<Counting> {
        let kernel = Types::of_running_kernel()?;
        let mut object = MaybeUninit::uninit();
        let mut open = program::open(&mut object, filter)?;
        program::set_totals(&mut open, false, true)?;
        if let Some(labels) = labels {
            open.maps.tccc_labels.reuse_fd(labels.map.as_fd()).context("use the policy's labels")?;
            open.maps.rodata_data.as_mut().context("find the tracer's settings")?.has_labels = true;
        }
        let progs = &mut open.progs;
        let (state, tcp_state) = (&mut progs.tccc_tot_ca, &mut progs.tccc_tot_tcp);
        let optional = [
            (state, "tcp_cong_state_set", "time in congestion states is known to the length of a sweep only"),
            (tcp_state, "inet_sock_set_state", "connections between two sweeps are not counted"),
        ];
        let notices = program::leave_out_missing(optional, |name| program::has_tracepoint(&kernel, name));
        let skel = open.load().map_err(program::explain_refusal)?;
        program::fill_filter(&skel, filter)?;
        let hold = |map| MapHandle::try_from(map).context("hold the sums");
        let (groups, state) = (hold(&skel.maps.tccc_totals)?, hold(&skel.maps.tccc_tot_state)?);
        before(&groups)?;
        let (sweep, links) = attach(&skel)?;
        Ok(Counting { sweep, links, groups, state, labels: labels.map(|labels| labels.id), notices })
    }

    fn uncounted(&self) -> Result<u64> {
        let uncounted = self.state.lookup(&UNCOUNTED.to_ne_bytes(), MapFlags::ANY).context("read the sums")?;
        Ok(uncounted.and_then(|bytes| bytes.try_into().ok()).map_or(0, u64::from_ne_bytes))
    }
}

impl GroupTotals {
    /// Begins to count connections that pass the filter, by the arms of the policy too while there is one.
    ///
    /// Errors: a capability, the kernel's type information or its socket iterator is missing.
    /// Side effects: programs on the kernel's tracepoints for changes of TCP's and congestion control's state.
    pub fn start(filter: Filter, mut find_labels: FindLabels) -> Result<GroupTotals> {
        privilege::require("count sockets", &[Capability::Bpf, Capability::Perfmon, Capability::SysAdmin])?;
        let counting = Counting::start(&filter, find_labels().as_ref(), |_| Ok(()))?;
        Ok(GroupTotals { counting, find_labels, filter, sweeps: 0, uncounted: 0, ledger: Ledger::default() })
    }

    /// What is less precise on this kernel, and why.
    pub fn notices(&self) -> &[String] {
        &self.counting.notices
    }

    /// Sweeps all connections of all network namespaces that can be entered, and reads the sums.
    ///
    /// What failed can be tried again: nothing that was counted is lost.
    ///
    /// Errors: not permitted to enter a network namespace; the kernel refuses to read what it holds for us; no
    /// descriptors or memory are left.
    pub fn count(&mut self) -> Result<CountedGroups> {
        let labels = (self.find_labels)();
        if labels.as_ref().map(|labels| labels.id) != self.counting.labels {
            self.follow(labels.as_ref())?;
        }
        if let Some(labels) = labels {
            self.ledger.note_arms(labels.names, labels.current);
        }
        let hidden = self.sweep()?;
        let time_ns = clock::monotonic_ns()?;
        let uncounted = self.uncounted + self.counting.uncounted()?;
        let groups = self.groups()?;
        Ok(CountedGroups { time_ns, groups: self.with_paths(groups)?, hidden, uncounted })
    }

    /// Another program counts from now on, because a policy came, went or was replaced: its labels are another map.
    ///
    /// Sums without an arm go on; those with an arm end with their policy. What connections do within the milliseconds of
    /// the change is not counted.
    fn follow(&mut self, labels: Option<&LabelMap>) -> Result<()> {
        let filter = self.filter.clone();
        let mut left = Vec::new();
        let next = Counting::start(&filter, labels, |sums| {
            self.counting.links.clear();
            self.sweep()?;
            for (key, value) in entries(&self.counting.groups)? {
                match decode(&key, &value, self.sweeps) {
                    Some(group) if group.slot != 0 => left.push(Group { sockets: 0, ..group }),
                    _ => sums.update(&key, &value, MapFlags::ANY).context("take over the sums")?,
                }
            }
            Ok(())
        })?;
        self.uncounted += self.counting.uncounted()?;
        self.ledger.leave(left, Instant::now());
        self.counting = next;
        Ok(())
    }

    /// One sweep; returns how many processes' namespaces could not be looked at.
    fn sweep(&mut self) -> Result<u64> {
        self.sweeps += 1;
        let number = self.sweeps.to_ne_bytes();
        self.counting.state.update(&SWEEP.to_ne_bytes(), &number, MapFlags::ANY).context("begin a sweep")?;
        let namespaces = namespaces::all()?;
        let wanted = |inode| self.filter.netns.as_ref().is_none_or(|wanted| wanted.contains(&inode));
        // Each is closed after its turn: what comes next needs descriptors too.
        for netns in namespaces.reachable.into_iter().filter(|netns| wanted(netns.inode())) {
            let inode = netns.inode();
            // Its sums stay in the kernel, so there is nothing to read.
            let swept = netns.run(|| iterate::pass(&self.counting.sweep));
            swept.with_context(|| format!("sweep the network namespace {inode}"))?;
        }
        Ok(namespaces.hidden as u64)
    }

    /// Names the cgroups, and forgets those that are gone: containers come and go, and the room is bounded.
    fn with_paths(&mut self, groups: Vec<Group>) -> Result<Vec<Group>> {
        if self.ledger.lacks_a_path(&groups) || self.sweeps.is_multiple_of(LOOK_EVERY) {
            match cgroup::paths(CGROUPS_MAX) {
                Ok(paths) => self.ledger.note_paths(paths),
                // Without cgroup v2 sockets are in none; another refusal would make all of them look gone.
                Err(error) if error.is::<Failure>() => self.ledger.note_paths([]),
                Err(error) => return Err(error.context("look at cgroups")),
            }
        }
        let (map, sweep) = (&self.counting.groups, self.sweeps);
        Ok(self.ledger.settle(groups, Instant::now(), |group| forget(map, group, sweep)))
    }

    fn groups(&self) -> Result<Vec<Group>> {
        let entries = entries(&self.counting.groups)?;
        let decoded = entries.iter().filter_map(|(key, value)| decode(key, value, self.sweeps));
        let mut groups: Vec<Group> = decoded.collect();
        groups.sort_by(Group::order);
        Ok(groups)
    }
}

fn entries(groups: &MapHandle) -> Result<Vec<(Vec<u8>, Vec<u8>)>> {
    let mut entries = Vec::new();
    for key in groups.keys() {
        if let Some(value) = groups.lookup(&key, MapFlags::ANY).context("read the sums")? {
            entries.push((key, value));
        }
    }
    Ok(entries)
}

fn attach(skel: &TcpTraceSkel<'_>) -> Result<(Link, Vec<Link>)> {
    let sweep = skel.progs.tccc_tot_sweep.attach().map_err(|error| {
        let what = format!("cannot count sockets: this kernel refuses to iterate over them: {error}");
        Failure::unmet(what).hint("`tccc doctor` lists what this host lacks")
    })?;
    let links = [&skel.progs.tccc_tot_tcp, &skel.progs.tccc_tot_ca]
        .into_iter()
        .filter(|program| program.autoload())
        .map(|program| program.attach().with_context(|| format!("attach {}", program.name().display())));
    Ok((sweep, links.collect::<Result<_>>()?))
}

/// Takes a group out of the kernel unless it has counted since it was read; whether it did.
fn forget(groups: &MapHandle, group: &Group, sweep: u64) -> bool {
    let key = key_of(group);
    let latest = groups.lookup(&key, MapFlags::ANY).ok().flatten().and_then(|value| decode(&key, &value, sweep));
    let named = |latest| Group { path: group.path.clone(), arm: group.arm.clone(), ..latest };
    let is_same = latest.is_some_and(|latest| named(latest) == *group);
    is_same && groups.delete(&key).is_ok()
}
