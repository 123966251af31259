//! One sweep over every TCP socket that has, or had, a connection; all network namespaces of the host.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::io::{self, Read};
use std::mem::MaybeUninit;

use anyhow::{Context, Result};
use libbpf_rs::skel::OpenSkel;
use libbpf_rs::{Iter, Link};

use super::event::{EVENT_BYTES, Event};
use super::filter::Filter;
use super::program::{self, OpenTcpTraceSkel};
use crate::kernel::btf::{Kind, Types};
use crate::kernel::namespaces;
use crate::kernel::netns::Netns;
use crate::kernel::privilege::{self, Capability};

/// What one read takes from the kernel at most: whole events.
const READ_BYTES: usize = (1 << 20) / EVENT_BYTES * EVENT_BYTES;
/// Passes over a namespace on kernels whose iterator may miss a socket while others come and go.
const PASSES_MAX: usize = 4;

/// Every socket that passed the filter.
#[derive(Debug)]
pub struct Sweep {
    /// Shape: one `Snapshot` event per socket, in the order of namespaces and the kernel's table; not one moment, but
    /// the time it took to read them.
    pub sockets: Vec<Event>,
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
    let namespaces = namespaces::all()?;
    let wanted = |netns: &Netns| filter.netns.as_ref().is_none_or(|wanted| wanted.contains(&netns.inode()));
    let reachable: Vec<Netns> = namespaces.reachable.into_iter().filter(wanted).collect();
    let has_all = filter.netns.as_ref().is_some_and(|wanted| wanted.len() == reachable.len());
    let hidden = if has_all { 0 } else { namespaces.hidden };
    Ok(Sweep { hidden, ..sweep_in(&reachable, filter)? })
}

/// Looks at every TCP socket of the given network namespaces.
///
/// Errors: as [`sweep`].
pub fn sweep_in(namespaces: &[Netns], filter: &Filter) -> Result<Sweep> {
    privilege::require("look at sockets", &[Capability::Bpf, Capability::Perfmon, Capability::SysAdmin])?;
    let kernel = Types::of_running_kernel()?;
    // The iterator visits each socket exactly once since it remembers its place by this.
    let is_exact = kernel.find(Kind::Union, "bpf_tcp_iter_batch_item").is_some();
    let mut object = MaybeUninit::uninit();
    let mut open = program::open(&mut object, filter)?;
    keep_iterator_only(&mut open)?;
    let skel = open.load().map_err(program::explain_refusal)?;
    program::fill_filter(&skel, filter)?;
    let link = skel.progs.on_sweep.attach().context("attach the socket iterator")?;
    let mut sockets = Vec::new();
    let mut buffer = vec![0; READ_BYTES];
    for netns in namespaces {
        let passes = if is_exact { 1 } else { PASSES_MAX };
        let found = netns.run(|| read_until_stable(&link, &mut buffer, passes));
        sockets.extend(found.with_context(|| format!("sweep the network namespace {}", netns.inode()))?);
    }
    let namespaces = namespaces.iter().map(Netns::inode).collect();
    Ok(Sweep { sockets, namespaces, hidden: 0 })
}

fn keep_iterator_only(open: &mut OpenTcpTraceSkel<'_>) -> Result<()> {
    let progs = &mut open.progs;
    let programs = [
        &mut progs.on_packet,
        &mut progs.on_ca_state,
        &mut progs.on_retransmit,
        &mut progs.on_tcp_state,
        &mut progs.on_tick,
        &mut progs.on_meet,
        &mut progs.on_meet_file,
    ];
    for program in programs {
        program.set_autoload(false);
    }
    let maps = &mut open.maps;
    for map in [&mut maps.events, &mut maps.flows, &mut maps.generation, &mut maps.dropped] {
        map.set_autocreate(false).context("leave out what a sweep does not need")?;
    }
    Ok(())
}

/// Reads the sockets of this thread's namespace, again until a pass finds none that is new; the latest row counts.
fn read_until_stable(link: &Link, buffer: &mut [u8], passes: usize) -> Result<Vec<Event>> {
    let mut sockets: Vec<Event> = Vec::new();
    if passes == 1 {
        read_sockets(link, buffer, |event| sockets.push(event))?;
        return Ok(sockets);
    }
    let mut places: HashMap<u64, usize> = HashMap::new();
    for _ in 0..passes {
        let known = sockets.len();
        read_sockets(link, buffer, |event| match places.entry(event.socket) {
            Entry::Occupied(place) => sockets[*place.get()] = event,
            Entry::Vacant(place) => {
                place.insert(sockets.len());
                sockets.push(event);
            }
        })?;
        if sockets.len() == known {
            break;
        }
    }
    Ok(sockets)
}

/// One pass of an iterator whose program writes nothing to it.
///
/// Errors: the iterator cannot be read.
pub(super) fn pass(link: &Link) -> Result<()> {
    read_sockets(link, &mut [0; EVENT_BYTES], |_| {})
}

/// One pass of the iterator over this thread's namespace, decoded in place.
fn read_sockets(link: &Link, buffer: &mut [u8], mut take: impl FnMut(Event)) -> Result<()> {
    let mut iterator = Iter::new(link).context("open the socket iterator")?;
    let mut filled = 0;
    loop {
        match iterator.read(&mut buffer[filled..]) {
            Ok(0) => return Ok(()),
            Ok(bytes) => filled += bytes,
            // The kernel pauses after a million sockets that did not pass.
            Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted) => continue,
            Err(error) => return Err(error).context("read the socket iterator"),
        }
        let whole = filled - filled % EVENT_BYTES;
        for bytes in buffer[..whole].chunks_exact(EVENT_BYTES) {
            take(Event::decode(bytes).context("decode a socket")?);
        }
        buffer.copy_within(whole..filled, 0);
        filled -= whole;
    }
}
