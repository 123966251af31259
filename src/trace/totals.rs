//! What the connections of each algorithm, cgroup and arm of a policy do together, added up in the kernel: what an exporter
//! reads.
//!
//! Nothing per packet and nothing per socket reaches this process; a sweep and the end of a connection add to the sums.

use std::mem::MaybeUninit;
use std::os::fd::AsFd as _;
use std::time::Instant;

use anyhow::{Context, Result};
use libbpf_rs::skel::OpenSkel;
use libbpf_rs::{Iter, Link, MapCore, MapFlags, MapHandle};

use super::arms::{FindLabels, LabelMap};
use super::arrival::RuleArm;
use super::filter::Filter;
use super::program::{self, TcpTraceSkel};
use crate::failure::Failure;
use crate::kernel::btf::Types;
use crate::kernel::privilege::{self, Capability};
use crate::kernel::{cgroup, clock, namespaces};

mod bins;
mod ledger;

pub use bins::{Powers, RttCounts};

use ledger::Ledger;

/// Congestion states, in the kernel's order.
pub const STATES: usize = 5;
/// Bins of a histogram by powers of two.
pub const BINS: usize = 40;
/// Bytes of `struct totals_key` and of the algorithm's name in it.
const KEY_BYTES: usize = 32;
const NAME_BYTES: usize = 16;
/// Place of the number of the arm in the key.
const SLOT_AT: usize = 24;
/// Words of `struct totals`: 11 counts, the states, the smoothed RTT, three histograms.
const VALUE_WORDS: usize = 11 + STATES + (1 + bins::RTT_BINS) + 3 * (1 + BINS);
/// More cgroups than a host has.
const CGROUPS_MAX: usize = 100_000;
/// cgroups are looked at once in so many sweeps, to find those that are gone, and when there is a new one.
const LOOK_EVERY: u64 = 12;
/// Places of `totals_state`.
const SWEEP: u32 = 0;
const UNCOUNTED: u32 = 1;

/// What the connections of one algorithm in one cgroup and arm did since the counting began.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Group {
    /// Kernel name.
    pub algorithm: String,
    /// cgroup v2 id; 0 is a sum of those whose cgroups are gone.
    pub cgroup: u64,
    /// Its path below the mount, also when it is gone; none when it was gone before it could be looked at, or there is
    /// no cgroup v2.
    pub path: Option<String>,
    /// Number of the arm in the policy's labels; 0: no rule decided them.
    pub slot: u32,
    /// Rule and arm of that number.
    pub arm: Option<RuleArm>,
    /// Open connections, by the latest sweep.
    pub sockets: u64,
    /// Connections that were established.
    pub opened: u64,
    /// Connections that ended.
    pub closed: u64,
    /// Payload acknowledged.
    pub bytes_acked: u64,
    /// Payload received.
    pub bytes_received: u64,
    /// Data packets sent, those sent again included.
    pub sent_pkts: u64,
    /// Packets sent again.
    pub retrans_pkts: u64,
    /// Packets delivered.
    pub delivered_pkts: u64,
    /// Packets delivered with a congestion mark.
    pub delivered_ce_pkts: u64,
    /// Packets marked lost.
    pub lost_pkts: u64,
    /// Time in each congestion state, over all connections: Open, Disorder, CWR, Recovery, Loss.
    pub state_ns: [u64; STATES],
    /// Smoothed RTT.
    pub srtt_us: RttCounts,
    /// Lowest RTT, microseconds.
    pub min_rtt_us: Powers,
    /// Congestion window, packets.
    pub cwnd_pkts: Powers,
    /// Payload acknowledged per second, bytes, of connections that sent.
    pub goodput_bytes: Powers,
}

impl Group {
    /// By algorithm, cgroup and arm.
    fn order(&self, other: &Group) -> std::cmp::Ordering {
        (&self.algorithm, self.cgroup, self.slot).cmp(&(&other.algorithm, other.cgroup, other.slot))
    }

    /// Adds what another group did.
    pub fn add(&mut self, other: &Group) {
        self.sockets += other.sockets;
        self.opened += other.opened;
        self.closed += other.closed;
        self.bytes_acked += other.bytes_acked;
        self.bytes_received += other.bytes_received;
        self.sent_pkts += other.sent_pkts;
        self.retrans_pkts += other.retrans_pkts;
        self.delivered_pkts += other.delivered_pkts;
        self.delivered_ce_pkts += other.delivered_ce_pkts;
        self.lost_pkts += other.lost_pkts;
        self.state_ns.iter_mut().zip(other.state_ns).for_each(|(own, more)| *own += more);
        self.srtt_us.add(&other.srtt_us);
        self.min_rtt_us.add(&other.min_rtt_us);
        self.cwnd_pkts.add(&other.cwnd_pkts);
        self.goodput_bytes.add(&other.goodput_bytes);
    }
}

/// The sums as of one sweep.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Counted {
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
pub struct Totals {
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
        program::keep_totals_only(&mut open)?;
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

impl Totals {
    /// Begins to count connections that pass the filter, by the arms of the policy too while there is one.
    ///
    /// Errors: a capability, the kernel's type information or its socket iterator is missing.
    /// Side effects: programs on the kernel's tracepoints for changes of TCP's and congestion control's state.
    pub fn start(filter: Filter, mut find_labels: FindLabels) -> Result<Totals> {
        privilege::require("count sockets", &[Capability::Bpf, Capability::Perfmon, Capability::SysAdmin])?;
        let counting = Counting::start(&filter, find_labels().as_ref(), |_| Ok(()))?;
        Ok(Totals { counting, find_labels, filter, sweeps: 0, uncounted: 0, ledger: Ledger::default() })
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
    pub fn count(&mut self) -> Result<Counted> {
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
        Ok(Counted { time_ns, groups: self.with_paths(groups)?, hidden, uncounted })
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
            netns.run(|| self.sweep_here()).with_context(|| format!("sweep the network namespace {inode}"))?;
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

    /// One pass over this thread's network namespace; its sums stay in the kernel, so there is nothing to read.
    fn sweep_here(&self) -> Result<()> {
        let mut iterator = Iter::new(&self.counting.sweep).context("open the socket iterator")?;
        let mut nothing = [0; 64];
        loop {
            match std::io::Read::read(&mut iterator, &mut nothing) {
                Ok(0) => return Ok(()),
                Ok(_) => {}
                // The kernel pauses after a million sockets for which nothing is written.
                Err(error)
                    if matches!(error.kind(), std::io::ErrorKind::WouldBlock | std::io::ErrorKind::Interrupted) => {}
                Err(error) => return Err(error).context("read the socket iterator"),
            }
        }
    }

    fn groups(&self) -> Result<Vec<Group>> {
        let entries = entries(&self.counting.groups)?;
        let decoded = entries.iter().filter_map(|(key, value)| decode(key, value, self.sweeps));
        let mut groups: Vec<Group> = decoded.collect();
        groups.sort_by(Group::order);
        Ok(groups)
    }
}

/// Keys and values of a map.
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

fn key_of(group: &Group) -> [u8; KEY_BYTES] {
    let mut key = [0; KEY_BYTES];
    key[..group.algorithm.len().min(NAME_BYTES)].copy_from_slice(group.algorithm.as_bytes());
    key[NAME_BYTES..SLOT_AT].copy_from_slice(&group.cgroup.to_ne_bytes());
    key[SLOT_AT..SLOT_AT + 4].copy_from_slice(&group.slot.to_ne_bytes());
    key
}

/// One entry of the map; none when it is of another size than ours.
fn decode(key: &[u8], value: &[u8], sweep: u64) -> Option<Group> {
    if key.len() != KEY_BYTES || value.len() != VALUE_WORDS * 8 {
        return None;
    }
    let name = &key[..NAME_BYTES];
    let name = &name[..name.iter().position(|&byte| byte == 0).unwrap_or(NAME_BYTES)];
    let cgroup = u64::from_ne_bytes(key[NAME_BYTES..SLOT_AT].try_into().expect("eight bytes"));
    let slot = u32::from_ne_bytes(key[SLOT_AT..SLOT_AT + 4].try_into().expect("four bytes"));
    let mut words = value.chunks_exact(8).map(|word| u64::from_ne_bytes(word.try_into().expect("eight bytes")));
    let mut word = || words.next().expect("the size was looked at");
    let was_swept = word() == sweep;
    let sockets = word();
    Some(Group {
        algorithm: String::from_utf8_lossy(name).into_owned(),
        cgroup,
        path: None,
        slot,
        arm: None,
        sockets: if was_swept { sockets } else { 0 },
        opened: word(),
        closed: word(),
        bytes_acked: word(),
        bytes_received: word(),
        sent_pkts: word(),
        retrans_pkts: word(),
        delivered_pkts: word(),
        delivered_ce_pkts: word(),
        lost_pkts: word(),
        state_ns: std::array::from_fn(|_| word()),
        srtt_us: RttCounts { sum_us: word(), bins: std::array::from_fn(|_| word()) },
        min_rtt_us: powers(&mut word),
        cwnd_pkts: powers(&mut word),
        goodput_bytes: powers(&mut word),
    })
}

fn powers(word: &mut impl FnMut() -> u64) -> Powers {
    Powers { sum: word(), bins: std::array::from_fn(|_| word()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_group_is_read_word_by_word_and_only_at_its_size() {
        let mut key = [0; KEY_BYTES];
        key[..4].copy_from_slice(b"reno");
        key[NAME_BYTES..SLOT_AT].copy_from_slice(&77u64.to_ne_bytes());
        key[SLOT_AT] = 3;
        let value: Vec<u8> = (1..=VALUE_WORDS as u64).flat_map(u64::to_ne_bytes).collect();
        let group = decode(&key, &value, 1).unwrap();
        assert_eq!((group.algorithm.as_str(), group.cgroup, group.sockets, group.lost_pkts), ("reno", 77, 2, 11));
        assert_eq!(group.slot, 3);
        assert_eq!((group.state_ns, group.srtt_us.sum_us), ([12, 13, 14, 15, 16], 17));
        assert_eq!(group.goodput_bytes.bins[BINS - 1], VALUE_WORDS as u64);
        assert_eq!(key_of(&group), key);
        assert_eq!(decode(&key, &value, 9).unwrap().sockets, 0, "the latest sweep found none");
        assert_eq!(decode(&key, &value[8..], 1), None);
    }
}
