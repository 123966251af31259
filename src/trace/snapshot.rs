//! One sweep over every TCP socket that has, or had, a connection; all network namespaces of the host.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::mem::MaybeUninit;

use anyhow::{Context, Result};
use libbpf_rs::Link;
use libbpf_rs::skel::OpenSkel;

use super::event::{EVENT_BYTES, Event, offset};
use super::filter::Filter;
use super::program::{self, OpenTcpTraceSkel};
use crate::btf::TypeKind;
use crate::kernel::btf::Types;
use crate::kernel::netns::Netns;
use crate::kernel::privilege::{self, Capability};
use crate::kernel::{iterate, namespaces};

/// Passes over a namespace on kernels whose iterator may miss a socket while others come and go.
const PASSES_MAX: usize = 4;

#[derive(Debug)]
pub struct Sweep {
    /// Shape: one `Snapshot` event per socket, in the order of namespaces and the kernel's table; not one moment, but
    /// the time it took to read them.
    pub sockets: Vec<Event>,
    pub seen: Seen,
}

#[derive(Debug)]
pub struct Seen {
    /// Network namespaces that were looked at, by their inodes.
    pub namespaces: Vec<u32>,
    /// Processes and names whose network namespace could not be looked at.
    pub hidden: usize,
}

/// Looks at every TCP socket once: established and closing ones; a listener has no window.
///
/// Errors: a capability, the kernel's type information or its socket iterator is missing; not permitted to enter a
/// network namespace.
/// Side effects: none that outlives the call.
pub fn sweep(filter: &Filter) -> Result<Sweep> {
    let mut sockets = Vec::new();
    let seen = sweep_encoded(filter, |events| {
        for bytes in events.chunks_exact(EVENT_BYTES) {
            sockets.push(Event::decode(bytes).context("decode a socket")?);
        }
        Ok(())
    })?;
    Ok(Sweep { sockets, seen })
}

/// The same, handed over piece by piece as the kernel gives them: whole events, for [`Event::decode`].
///
/// Errors: as [`sweep`], and those of `take`.
pub fn sweep_encoded(filter: &Filter, mut take: impl FnMut(&[u8]) -> Result<()> + Send) -> Result<Seen> {
    privilege::require("look at sockets", &[Capability::Bpf, Capability::Perfmon, Capability::SysAdmin])?;
    std::thread::scope(|scope| {
        // The kernel takes the program meanwhile.
        let place = scope.spawn(|| Targets::find(filter));
        let mut object = MaybeUninit::uninit();
        let mut open = program::open(&mut object, filter)?;
        keep_iterator_only(&mut open)?;
        let loaded = open.load();
        // Why the kernel shows no types is said before what follows from it.
        let place = place.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))?;
        let skel = loaded.map_err(program::explain_refusal)?;
        program::fill_filter(&skel, filter)?;
        let link = skel.progs.tccc_sweep.attach().context("attach the socket iterator")?;
        for netns in &place.namespaces {
            let read = || match place.is_exact {
                true => iterate::rows(&link, EVENT_BYTES, &mut take),
                false => read_until_stable(&link, &mut take),
            };
            netns.run(read).with_context(|| format!("sweep the network namespace {}", netns.inode()))?;
        }
        Ok(Seen { namespaces: place.namespaces.iter().map(Netns::inode).collect(), hidden: place.hidden })
    })
}

/// What is to be looked at, and how well this kernel can.
struct Targets {
    namespaces: Vec<Netns>,
    hidden: usize,
    /// The iterator visits each socket exactly once.
    is_exact: bool,
}

impl Targets {
    fn find(filter: &Filter) -> Result<Targets> {
        // The iterator remembers its place by this.
        let is_exact = Types::of_running_kernel()?.has(TypeKind::Union, "bpf_tcp_iter_batch_item");
        let found = namespaces::all()?;
        let wanted = |netns: &Netns| filter.netns.as_ref().is_none_or(|wanted| wanted.contains(&netns.inode()));
        let namespaces: Vec<Netns> = found.reachable.into_iter().filter(wanted).collect();
        let has_all = filter.netns.as_ref().is_some_and(|wanted| wanted.len() == namespaces.len());
        Ok(Targets { namespaces, hidden: if has_all { 0 } else { found.hidden }, is_exact })
    }
}

fn keep_iterator_only(open: &mut OpenTcpTraceSkel<'_>) -> Result<()> {
    let progs = &mut open.progs;
    let programs = [
        &mut progs.tccc_packet,
        &mut progs.tccc_ca_state,
        &mut progs.tccc_retransmit,
        &mut progs.tccc_tcp_state,
        &mut progs.tccc_begin,
        &mut progs.tccc_meet,
        &mut progs.tccc_meet_file,
    ];
    for program in programs {
        program.set_autoload(false);
    }
    program::set_single(&mut open.maps, false)
}

/// Reads the sockets of this thread's namespace, again until a pass finds none that is new; the latest row counts.
fn read_until_stable(link: &Link, mut take: impl FnMut(&[u8]) -> Result<()>) -> Result<()> {
    let mut sockets: Vec<u8> = Vec::new();
    let mut places: HashMap<[u8; 8], usize> = HashMap::new();
    for _ in 0..PASSES_MAX {
        let known = sockets.len();
        iterate::rows(link, EVENT_BYTES, |events| {
            for bytes in events.chunks_exact(EVENT_BYTES) {
                let cookie = bytes[offset::socket..offset::socket + 8].try_into().expect("eight bytes");
                match places.entry(cookie) {
                    Entry::Occupied(place) => sockets[*place.get()..*place.get() + EVENT_BYTES].copy_from_slice(bytes),
                    Entry::Vacant(place) => {
                        place.insert(sockets.len());
                        sockets.extend_from_slice(bytes);
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
