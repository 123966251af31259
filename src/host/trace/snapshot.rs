//! One sweep over every TCP socket that has or had a connection, in all network namespaces of the host.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::mem::MaybeUninit;

use anyhow::{Context, Result};
use libbpf_rs::Link;
use libbpf_rs::skel::OpenSkel as _;

use super::event::{Event, RawEvent};
use super::filter::Filter;
use super::program;
use shared::btf::TypeKind;
use shared::kernel::btf::Types;
use shared::kernel::namespaces::NamespaceSurvey;
use shared::kernel::netns::Netns;
use shared::kernel::privilege::{self, Capability};
use shared::kernel::{iterate, namespaces};

/// Most passes over a namespace, on kernels whose iterator may miss a socket while others open and close.
const PASSES_MAX: usize = 4;

#[derive(Debug)]
pub struct Sweep {
    /// Shape: one `Snapshot` event per socket, in the order of namespaces and the kernel's table. The sockets are read
    /// one after the other, not at one moment.
    pub sockets: Vec<Event>,
    pub seen: SweptNamespaces,
}

#[derive(Debug)]
pub struct SweptNamespaces {
    /// Inodes of the network namespaces.
    pub namespaces: Vec<u32>,
    /// Processes and names whose network namespace could not be entered.
    pub hidden: usize,
    /// There may be processes that this one does not see at all, as in a container.
    pub is_partial: bool,
}

impl SweptNamespaces {
    /// At least how many processes and names have a namespace that is unknown.
    pub fn hidden_at_least(&self) -> usize {
        self.hidden.max(usize::from(self.is_partial))
    }
}

/// Reads every TCP socket once, except listeners.
///
/// # Errors
/// A capability, the kernel's type information or its socket iterator is missing; a network namespace cannot be
/// entered.
pub fn sweep(filter: &Filter) -> Result<Sweep> {
    let mut sockets = Vec::new();
    let seen = sweep_raw(filter, |events| {
        for raw in events {
            sockets.push(Event::of_raw(raw).context("decode a socket")?);
        }
        Ok(())
    })?;
    Ok(Sweep { sockets, seen })
}

/// Like [`sweep`], but calls `take` with pieces of events as the kernel returns them.
///
/// # Errors
/// As [`sweep`], and those of `take`.
pub fn sweep_raw(filter: &Filter, mut take: impl FnMut(&[RawEvent]) -> Result<()> + Send) -> Result<SweptNamespaces> {
    privilege::require("look at sockets", &[Capability::Bpf, Capability::Perfmon, Capability::SysAdmin])?;
    std::thread::scope(|scope| {
        // Runs while the kernel verifies the program.
        let found = scope.spawn(|| targets(filter));
        let mut object = MaybeUninit::uninit();
        let loaded = program::open(&mut object, filter, program::SWEEP)?.load();
        // Reports missing type information before the load error that follows from it.
        let found = found.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        let (NamespaceSurvey { reachable, hidden, is_partial }, is_exact) = found?;
        let skel = loaded.map_err(program::explain_refusal)?;
        program::fill_filter(&skel, filter)?;
        let link = skel.progs.tccc_sweep.attach().context("attach the socket iterator")?;
        for netns in &reachable {
            let read = || match is_exact {
                true => iterate::rows(&link, &mut take),
                false => read_until_stable(&link, &mut take),
            };
            netns.run(read).with_context(|| format!("sweep the network namespace {}", netns.inode()))?;
        }
        Ok(SweptNamespaces { namespaces: reachable.iter().map(Netns::inode).collect(), hidden, is_partial })
    })
}

/// The namespaces to sweep, and whether the kernel's iterator visits each socket just once.
fn targets(filter: &Filter) -> Result<(NamespaceSurvey, bool)> {
    // Exact iterators remember their position by this type.
    let is_exact = Types::of_running_kernel()?.has(TypeKind::Union, "bpf_tcp_iter_batch_item");
    let found = namespaces::all()?;
    let wanted = |netns: &Netns| filter.netns.as_ref().is_none_or(|wanted| wanted.contains(&netns.inode()));
    let reachable: Vec<Netns> = found.reachable.into_iter().filter(wanted).collect();
    let has_all = filter.netns.as_ref().is_some_and(|wanted| wanted.len() == reachable.len());
    let hidden = if has_all { 0 } else { found.hidden };
    Ok((NamespaceSurvey { reachable, hidden, is_partial: found.is_partial && !has_all }, is_exact))
}

/// Reads the sockets of this thread's namespace until a pass finds no new one. Keeps the latest row of each socket.
fn read_until_stable(link: &Link, mut take: impl FnMut(&[RawEvent]) -> Result<()>) -> Result<()> {
    let mut sockets: Vec<RawEvent> = Vec::new();
    let mut places: HashMap<u64, usize> = HashMap::new();
    for _ in 0..PASSES_MAX {
        let known = sockets.len();
        iterate::rows(link, |events: &[RawEvent]| {
            for event in events {
                match places.entry(event.socket) {
                    Entry::Occupied(place) => sockets[*place.get()] = *event,
                    Entry::Vacant(place) => {
                        place.insert(sockets.len());
                        sockets.push(*event);
                    }
                }
            }
            Ok(())
        })?;
        if sockets.len() == known {
            break;
        }
    }
    take(&sockets)
}
