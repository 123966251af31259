//! Opens the tracer's BPF object with a filter and the programs that its user needs.

use std::ffi::OsStr;
use std::mem::MaybeUninit;
use std::net::Ipv6Addr;

use anyhow::{Context, Result};
use libbpf_rs::skel::{OpenSkel, SkelBuilder};
use libbpf_rs::{MapCore, MapFlags, OpenMapMut, OpenObject, OpenProgramMut};
use zerocopy::{Immutable, IntoBytes};

use super::filter::Filter;
use shared::btf::TypeKind;
use shared::c_text::padded;
use shared::failure::Failure;
use shared::kernel::btf::Types;
use shared::kernel::libbpf_log;

#[allow(clippy::all, clippy::pedantic, clippy::restriction, reason = "generated from tcp_trace.bpf.c")]
mod skeleton {
    include!(concat!(env!("OUT_DIR"), "/tcp_trace.skel.rs"));
}
use skeleton::types::{address_key, algorithm_key};
pub(super) use skeleton::{OpenTcpTraceSkel, TcpTraceSkel, types};

/// Limit of the network namespaces that a tracer follows at the same time.
const NETNS_MAX: u32 = 4096;

/// The programs that sample single sockets at each packet.
pub(super) const BY_PACKET: &str = "tccc_tcp_state tccc_ca_state tccc_retransmit tccc_packet";
/// The programs that sample single sockets by a timer.
pub(super) const BY_TIMER: &str = "tccc_tcp_state tccc_ca_state tccc_retransmit tccc_begin tccc_meet tccc_meet_file";
pub(super) const SWEEP: &str = "tccc_sweep";
/// The programs that add up the sockets of each group.
pub(super) const TOTALS: &str = "tccc_tot_ca tccc_tot_tcp tccc_tot_sweep";
/// Maps of [`BY_PACKET`] and [`BY_TIMER`].
const SAMPLING_MAPS: &str = "tccc_events tccc_flows tccc_free_flows tccc_places tccc_ticking tccc_sock_copy \
                             tccc_generation tccc_dropped";
const TOTALS_MAPS: &str = "tccc_totals tccc_tot_begin tccc_tot_socks tccc_tot_state tccc_labels";

/// Opens the object with these programs, their maps, and room for the filter's values.
///
/// # Errors
/// No type information, or libbpf rejects the embedded object.
pub(super) fn open<'a>(
    object: &'a mut MaybeUninit<OpenObject>,
    filter: &Filter,
    programs: &str,
) -> Result<OpenTcpTraceSkel<'a>> {
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
    let is_among = |names: &str, name: &OsStr| names.split(' ').any(|it| name == OsStr::new(it));
    for mut program in skel.open_object_mut().progs_mut() {
        program.set_autoload(is_among(programs, program.name()));
    }
    let used = [([BY_PACKET, BY_TIMER].contains(&programs), SAMPLING_MAPS), (programs == TOTALS, TOTALS_MAPS)];
    for (_, unused) in used.into_iter().filter(|(is_used, _)| !is_used) {
        for mut map in skel.open_object_mut().maps_mut().filter(|map| is_among(unused, map.name())) {
            map.set_autocreate(false).context("leave out an unused map")?;
        }
    }
    Ok(skel)
}

/// Writes the filter's values into the maps of the loaded object.
///
/// # Errors
/// More network namespaces than can be followed.
pub(super) fn fill_filter(skel: &TcpTraceSkel<'_>, filter: &Filter) -> Result<()> {
    fn set<K: IntoBytes + Immutable>(map: &impl MapCore, mut keys: impl Iterator<Item = K>) -> Result<()> {
        keys.try_for_each(|key| map.update(key.as_bytes(), &[1], MapFlags::ANY)).context("set the tracer's filter")
    }
    let maps = &skel.maps;
    set(&maps.tccc_f_ports, filter.ports.iter().copied())?;
    set(&maps.tccc_f_addrs, filter.addresses.iter().map(|prefix| address_of(prefix.mapped())))?;
    set(&maps.tccc_f_algos, filter.algorithms.iter().map(|algorithm| algorithm_key { name: padded(algorithm) }))?;
    set(&maps.tccc_f_cgroups, filter.cgroups.iter().copied())?;
    set(&maps.tccc_f_netns, filter.netns.iter().flatten().copied())
}

/// Turns the kernel's refusal into an unmet need.
pub(super) fn explain_refusal(error: libbpf_rs::Error) -> anyhow::Error {
    let what = format!("cannot trace: this kernel refused the tracer's program: {error}");
    Failure::unmet(what).hint("`tccc doctor` lists what this host lacks").into()
}

/// Whether the kernel has a tracepoint with type information.
pub(super) fn has_tracepoint(kernel: &Types, name: &str) -> bool {
    kernel.has(TypeKind::Typedef, &format!("btf_trace_{name}"))
}

/// Disables the programs whose tracepoint this kernel lacks; returns a notice for each.
///
/// Shape: program, tracepoint, and the consequence of its absence.
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

/// `filters` of the kernel program.
fn filter_bits(filter: &Filter) -> u32 {
    let Filter { ports, addresses, algorithms, cgroups, netns } = filter;
    let lists = [ports.is_empty(), addresses.is_empty(), algorithms.is_empty(), cgroups.is_empty(), netns.is_none()];
    lists.into_iter().enumerate().map(|(bit, is_unused)| u32::from(!is_unused) << bit).sum()
}

fn set_room(map: &mut OpenMapMut<'_>, entries: usize) -> Result<()> {
    map.set_max_entries(entries.max(1) as u32).context("size the tracer's filter")
}

/// The address in network byte order.
fn address_of((address, prefix_bits): (Ipv6Addr, u32)) -> address_key {
    address_key { prefix_bits, words: zerocopy::transmute!(address.octets()) }
}

/// The kernel's tick, its unit for timeouts: the resolution of the coarse clock.
fn jiffy_ns() -> Result<u32> {
    use nix::time::{ClockId, clock_getres};
    let tick = clock_getres(ClockId::CLOCK_MONOTONIC_COARSE).context("read the kernel's tick")?;
    Ok(tick.tv_nsec() as u32)
}
