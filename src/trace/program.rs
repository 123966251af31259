//! The tracer's kernel program: opened with a filter, without what this kernel lacks.

use std::mem::MaybeUninit;
use std::net::Ipv6Addr;

use anyhow::{Context, Result};
use libbpf_rs::skel::SkelBuilder;
use libbpf_rs::{MapCore, MapFlags, OpenMapMut, OpenObject, OpenProgramMut};

use super::filter::Filter;
use crate::btf::TypeKind;
use crate::failure::Failure;
use crate::kernel::btf::Types;
use crate::kernel::libbpf_log;

#[allow(clippy::all, clippy::pedantic, clippy::restriction, reason = "generated from tcp_trace.bpf.c")]
mod skeleton {
    include!(concat!(env!("OUT_DIR"), "/tcp_trace.skel.rs"));
}
use skeleton::OpenTcpTraceMaps;
pub(super) use skeleton::{OpenTcpTraceSkel, TcpTraceSkel};

/// Bits of `filters` in the kernel program.
const FILTER_PORT: u32 = 1;
const FILTER_ADDRESS: u32 = 2;
const FILTER_ALGORITHM: u32 = 4;
const FILTER_CGROUP: u32 = 8;
const FILTER_NETNS: u32 = 16;

/// Network namespaces that a tracer follows at the same time, at most.
pub(super) const NETNS_MAX: u32 = 4096;

/// Opens the program with room for the filter's values; nothing is loaded yet. The sums by group are left out until
/// [`set_totals`] asks for them.
///
/// Errors: no type information, or the embedded object is not understood.
pub(super) fn open<'a>(object: &'a mut MaybeUninit<OpenObject>, filter: &Filter) -> Result<OpenTcpTraceSkel<'a>> {
    libbpf_log::start();
    let mut skel = skeleton::TcpTraceSkelBuilder::default().open(object).context("open the tracer's program")?;
    let rodata = skel.maps.rodata_data.as_mut().context("find the tracer's settings")?;
    rodata.filters = filter_bits(filter);
    rodata.jiffy_ns = jiffy_ns()?;
    set_room(&mut skel.maps.tccc_f_ports, filter.ports.len())?;
    set_room(&mut skel.maps.tccc_f_addrs, filter.addresses.len())?;
    set_room(&mut skel.maps.tccc_f_algos, filter.algorithms.len())?;
    set_room(&mut skel.maps.tccc_f_cgroups, filter.cgroups.len())?;
    if filter.netns.is_some() {
        set_room(&mut skel.maps.tccc_f_netns, NETNS_MAX as usize)?;
    }
    set_totals(&mut skel, true, false)?;
    Ok(skel)
}

/// Which halves of the program are loaded: what follows single sockets, and what adds them up.
///
/// Errors: libbpf refuses, which it has no reason to.
pub(super) fn set_totals(open: &mut OpenTcpTraceSkel<'_>, has_sockets: bool, has_totals: bool) -> Result<()> {
    let progs = &mut open.progs;
    let single =
        [&mut progs.tccc_packet, &mut progs.tccc_ca_state, &mut progs.tccc_retransmit, &mut progs.tccc_tcp_state];
    let others = [&mut progs.tccc_begin, &mut progs.tccc_meet, &mut progs.tccc_meet_file, &mut progs.tccc_sweep];
    single.into_iter().chain(others).for_each(|program| program.set_autoload(has_sockets));
    for program in [&mut progs.tccc_tot_ca, &mut progs.tccc_tot_tcp, &mut progs.tccc_tot_sweep] {
        program.set_autoload(has_totals);
    }
    let maps = &mut open.maps;
    set_single(maps, has_sockets)?;
    let sums = [&mut maps.tccc_totals, &mut maps.tccc_tot_begin, &mut maps.tccc_tot_socks, &mut maps.tccc_tot_state];
    for map in sums.into_iter().chain([&mut maps.tccc_labels]) {
        map.set_autocreate(has_totals).context("leave out what is not needed")?;
    }
    Ok(())
}

/// Whether the maps are created of what follows single sockets.
///
/// Errors: libbpf refuses, which it has no reason to.
pub(super) fn set_single(maps: &mut OpenTcpTraceMaps<'_>, has_sockets: bool) -> Result<()> {
    let follow = [
        &mut maps.tccc_events,
        &mut maps.tccc_flows,
        &mut maps.tccc_free_flows,
        &mut maps.tccc_places,
        &mut maps.tccc_ticking,
    ];
    let tell = [&mut maps.tccc_sock_copy, &mut maps.tccc_generation, &mut maps.tccc_dropped];
    let mut maps = follow.into_iter().chain(tell);
    maps.try_for_each(|map| map.set_autocreate(has_sockets)).context("leave out what is not needed")
}

/// Writes the filter's values into the loaded program's maps.
///
/// Errors: more network namespaces than can be followed.
pub(super) fn fill_filter(skel: &TcpTraceSkel<'_>, filter: &Filter) -> Result<()> {
    let set = |map: &dyn MapCore, key: &[u8]| map.update(key, &[1], MapFlags::ANY).context("set the tracer's filter");
    for port in &filter.ports {
        set(&skel.maps.tccc_f_ports, &port.to_ne_bytes())?;
    }
    for prefix in &filter.addresses {
        let (address, bits) = prefix.mapped();
        set(&skel.maps.tccc_f_addrs, &address_key(address, bits))?;
    }
    for algorithm in &filter.algorithms {
        set(&skel.maps.tccc_f_algos, &algorithm_key(algorithm))?;
    }
    for cgroup in &filter.cgroups {
        set(&skel.maps.tccc_f_cgroups, &cgroup.to_ne_bytes())?;
    }
    for inode in filter.netns.iter().flatten() {
        set(&skel.maps.tccc_f_netns, &inode.to_ne_bytes())?;
    }
    Ok(())
}

/// Says what it means that the kernel did not take the tracer's program.
pub(super) fn explain_refusal(error: libbpf_rs::Error) -> anyhow::Error {
    let what = format!("cannot trace: this kernel refused the tracer's program: {error}");
    Failure::unmet(what).hint("`tccc doctor` lists what this host lacks").into()
}

/// Whether the kernel has a tracepoint that programs can read by type.
pub(super) fn has_tracepoint(kernel: &Types, name: &str) -> bool {
    kernel.has(TypeKind::Typedef, &format!("btf_trace_{name}"))
}

/// Keeps those programs from loading whose tracepoint this kernel lacks; says what is less precise without each.
///
/// Shape: programs, each with its tracepoint and with what is lost without it.
pub(super) fn leave_out_missing<const N: usize>(
    optional: [(&mut OpenProgramMut<'_>, &str, &str); N],
    has: impl Fn(&str) -> bool,
) -> Vec<String> {
    let missing = optional.into_iter().filter(|(_, tracepoint, _)| !has(tracepoint));
    missing
        .map(|(program, tracepoint, loses)| {
            program.set_autoload(false);
            format!("this kernel lacks the tracepoint {tracepoint}: {loses}")
        })
        .collect()
}

fn filter_bits(filter: &Filter) -> u32 {
    let bit = |is_set: bool, bit: u32| if is_set { bit } else { 0 };
    bit(!filter.ports.is_empty(), FILTER_PORT)
        | bit(!filter.addresses.is_empty(), FILTER_ADDRESS)
        | bit(!filter.algorithms.is_empty(), FILTER_ALGORITHM)
        | bit(!filter.cgroups.is_empty(), FILTER_CGROUP)
        | bit(filter.netns.is_some(), FILTER_NETNS)
}

fn set_room(map: &mut OpenMapMut<'_>, entries: usize) -> Result<()> {
    map.set_max_entries(entries.max(1) as u32).context("size the tracer's filter")
}

/// `struct address_key`: prefix bits, then the address in network byte order.
fn address_key(address: Ipv6Addr, bits: u32) -> [u8; 20] {
    let mut key = [0; 20];
    key[..4].copy_from_slice(&bits.to_ne_bytes());
    key[4..].copy_from_slice(&address.octets());
    key
}

/// `struct algorithm_key`: the name, padded with zeros.
fn algorithm_key(name: &str) -> [u8; 16] {
    let mut key = [0; 16];
    let length = name.len().min(super::filter::ALGORITHM_NAME_MAX);
    key[..length].copy_from_slice(&name.as_bytes()[..length]);
    key
}

/// The kernel's tick, in which it stores timeouts: the resolution of its coarse clock.
fn jiffy_ns() -> Result<u32> {
    use nix::time::{ClockId, clock_getres};
    let tick = clock_getres(ClockId::CLOCK_MONOTONIC_COARSE).context("read the kernel's tick")?;
    Ok(tick.tv_nsec() as u32)
}
