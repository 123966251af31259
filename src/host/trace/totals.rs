//! Sums over the connections of each algorithm, cgroup and arm of a policy, added up in the kernel for the exporter.
//!
//! Nothing per packet or per socket reaches this process: sweeps and the ends of connections add to the sums.

use std::mem::MaybeUninit;
use std::os::fd::AsFd as _;
use std::time::Instant;

use anyhow::{Context, Result};
use libbpf_rs::skel::OpenSkel;
use libbpf_rs::{Link, MapCore, MapFlags, MapHandle};
use zerocopy::IntoBytes as _;

use super::arms::{FindLabels, LabelMap};
use super::filter::Filter;
use super::program::{self, TcpTraceSkel};
use shared::failure::Failure;
use shared::kernel::btf::Types;
use shared::kernel::privilege::{self, Capability};
use shared::kernel::{cgroup, clock, iterate, namespaces};

mod bins;
mod group;
mod ledger;

pub use bins::{BINS, Powers, RttCounts};
pub use group::CountedGroup;
use group::{decode, key_of};
use ledger::Ledger;

/// More cgroups than a host has.
const CGROUPS_MAX: usize = 100_000;
/// The cgroups are listed at every twelfth sweep, and whenever there is a new one.
const CGROUPS_EVERY: u64 = 12;
/// Keys of `totals_state`.
const SWEEP: u32 = 0;
const UNCOUNTED: u32 = 1;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CountedGroups {
    /// End of the sweep, CLOCK_MONOTONIC.
    pub time_ns: u64,
    /// Shape: sorted by algorithm, cgroup and arm; several may have the same algorithm, path and arm.
    pub groups: Vec<CountedGroup>,
    /// Processes and names whose network namespace could not be entered.
    pub hidden: u64,
    /// There may be processes that this one does not see at all, as in a container.
    pub is_partial: bool,
    /// Times that a connection was not counted, because there were too many groups or no memory.
    pub uncounted: u64,
}

/// Counts until dropped.
pub struct GroupTotals {
    counting: CountingProgram,
    find_labels: FindLabels,
    filter: Filter,
    sweeps: u64,
    /// [`CountedGroups::uncounted`] of earlier programs.
    uncounted: u64,
    ledger: Ledger,
}

struct CountingProgram {
    sweep: Link,
    links: Vec<Link>,
    groups: MapHandle,
    state: MapHandle,
    /// The kernel's id of the policy's label map.
    labels: Option<u32>,
    notices: Vec<String>,
}

impl CountingProgram {
    /// Loads the program with these labels; calls `before` with the map of the sums before it starts to count.
    fn start(
        filter: &Filter,
        labels: Option<&LabelMap>,
        before: impl FnOnce(&MapHandle) -> Result<()>,
    ) -> Result<CountingProgram> {
        let kernel = Types::of_running_kernel()?;
        let mut object = MaybeUninit::uninit();
        let mut open = program::open(&mut object, filter, program::TOTALS)?;
        if let Some(labels) = labels {
            open.maps.tccc_labels.reuse_fd(labels.map.as_fd()).context("use the policy's labels")?;
            open.maps.rodata_data.as_mut().context("find the tracer's settings")?.has_labels = true;
        }
        let progs = &mut open.progs;
        let (state, tcp_state) = (&mut progs.tccc_tot_ca, &mut progs.tccc_tot_tcp);
        let optional = [
            (state, "tcp_cong_state_set", "time in congestion states is precise only to the length of a sweep"),
            (tcp_state, "inet_sock_set_state", "connections that open and close between two sweeps are not counted"),
        ];
        let notices = program::leave_out_missing(optional, |name| program::has_tracepoint(&kernel, name));
        let skel = open.load().map_err(program::explain_refusal)?;
        program::fill_filter(&skel, filter)?;
        let hold = |map| MapHandle::try_from(map).context("hold the sums");
        let (groups, state) = (hold(&skel.maps.tccc_totals)?, hold(&skel.maps.tccc_tot_state)?);
        before(&groups)?;
        let (sweep, links) = attach(&skel)?;
        Ok(CountingProgram { sweep, links, groups, state, labels: labels.map(|labels| labels.id), notices })
    }

    fn uncounted(&self) -> Result<u64> {
        let uncounted = self.state.lookup(&UNCOUNTED.to_ne_bytes(), MapFlags::ANY).context("read the sums")?;
        Ok(uncounted.and_then(|bytes| bytes.try_into().ok()).map_or(0, u64::from_ne_bytes))
    }
}

impl GroupTotals {
    /// Starts to count the connections that pass the filter, by arm too while there is a policy.
    ///
    /// Side effects: attaches programs to the tracepoints for changes of the TCP state and the congestion state.
    ///
    /// # Errors
    /// A capability, the kernel's type information or its socket iterator is missing.
    pub fn start(filter: Filter, mut find_labels: FindLabels) -> Result<GroupTotals> {
        privilege::require("count sockets", &[Capability::Bpf, Capability::Perfmon, Capability::SysAdmin])?;
        let counting = CountingProgram::start(&filter, find_labels().as_ref(), |_| Ok(()))?;
        Ok(GroupTotals { counting, find_labels, filter, sweeps: 0, uncounted: 0, ledger: Ledger::default() })
    }

    /// Limitations on this kernel, with reasons.
    pub fn notices(&self) -> &[String] {
        &self.counting.notices
    }

    /// Sweeps the connections of all network namespaces that can be entered, and reads the sums.
    ///
    /// A failed call loses no counts and can be repeated.
    ///
    /// # Errors
    /// A network namespace cannot be entered; the sums cannot be read; no descriptors or memory are left.
    pub fn count(&mut self) -> Result<CountedGroups> {
        let labels = (self.find_labels)();
        if labels.as_ref().map(|labels| labels.id) != self.counting.labels {
            self.follow(labels.as_ref())?;
        }
        if let Some(labels) = labels {
            self.ledger.note_arms(labels.names, labels.current);
        }
        let (hidden, is_partial) = self.sweep()?;
        let time_ns = clock::monotonic_ns()?;
        let uncounted = self.uncounted + self.counting.uncounted()?;
        let groups = self.groups()?;
        Ok(CountedGroups { time_ns, groups: self.with_paths(groups)?, hidden, is_partial, uncounted })
    }

    /// Replaces the program, because the policy changed and its labels are in another map.
    ///
    /// Sums without an arm are taken over; those with an arm end with their policy. Nothing is counted during the few
    /// milliseconds of the change.
    fn follow(&mut self, labels: Option<&LabelMap>) -> Result<()> {
        let filter = self.filter.clone(); // the closure borrows `self`
        let mut left = Vec::new();
        let next = CountingProgram::start(&filter, labels, |sums| {
            self.counting.links.clear();
            self.sweep()?;
            for (key, value) in entries(&self.counting.groups)? {
                match decode(&key, &value, self.sweeps) {
                    Some(group) if group.slot != 0 => left.push(CountedGroup { sockets: 0, ..group }),
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

    /// Sweeps once; returns the number of processes whose namespace could not be entered, and whether others may be missing.
    fn sweep(&mut self) -> Result<(u64, bool)> {
        self.sweeps += 1;
        let number = self.sweeps.to_ne_bytes();
        self.counting.state.update(&SWEEP.to_ne_bytes(), &number, MapFlags::ANY).context("begin a sweep")?;
        let namespaces = namespaces::all()?;
        let wanted = |inode| self.filter.netns.as_ref().is_none_or(|wanted| wanted.contains(&inode));
        // Closes each namespace after its turn, because the next steps need descriptors too.
        for netns in namespaces.reachable.into_iter().filter(|netns| wanted(netns.inode())) {
            let inode = netns.inode();
            let swept = netns.run(|| iterate::pass(&self.counting.sweep));
            swept.with_context(|| format!("sweep the network namespace {inode}"))?;
        }
        Ok((namespaces.hidden as u64, namespaces.is_partial))
    }

    /// Names the cgroups. Forgets removed ones, because the map has limited room.
    fn with_paths(&mut self, groups: Vec<CountedGroup>) -> Result<Vec<CountedGroup>> {
        if self.ledger.lacks_a_path(&groups) || self.sweeps.is_multiple_of(CGROUPS_EVERY) {
            match cgroup::paths(CGROUPS_MAX) {
                Ok(paths) => self.ledger.note_paths(paths),
                // There is no cgroup v2. Any other error would make all cgroups look gone.
                Err(error) if error.is::<Failure>() => self.ledger.note_paths([]),
                Err(error) => return Err(error.context("look at cgroups")),
            }
        }
        let (map, sweep) = (&self.counting.groups, self.sweeps);
        Ok(self.ledger.settle(groups, Instant::now(), |group| forget(map, group, sweep)))
    }

    fn groups(&self) -> Result<Vec<CountedGroup>> {
        let entries = entries(&self.counting.groups)?;
        let decoded = entries.iter().filter_map(|(key, value)| decode(key, value, self.sweeps));
        let mut groups: Vec<CountedGroup> = decoded.collect();
        groups.sort_by(CountedGroup::order);
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

/// Deletes a group from the kernel's map unless its counts changed since it was read; returns whether it did.
fn forget(groups: &MapHandle, group: &CountedGroup, sweep: u64) -> bool {
    let key = key_of(group);
    let key = key.as_bytes();
    let latest = groups.lookup(key, MapFlags::ANY).ok().flatten().and_then(|value| decode(key, &value, sweep));
    let named = |latest| CountedGroup { path: group.path.clone(), arm: group.arm.clone(), ..latest };
    let is_same = latest.is_some_and(|latest| named(latest) == *group);
    is_same && groups.delete(key).is_ok()
}
