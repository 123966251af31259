//! The path of a packet through the private namespace: loss, queue with serialiser, delay, each in its own netem. A queue
//! discipline has a stage of its own before the serialiser, below a shaper.
//!
//! A single netem would count packets that are only being delayed against the queue. A burst into an idle link would
//! then find a queue longer by the whole bandwidth-delay product. A child netem below another miscounts drops on
//! kernels before 6.13. So each stage is on the sending half of its own veth pair, and the other half redirects to the
//! next.

use anyhow::{Context, Result, anyhow};
use nix::net::if_::if_nametoindex;
use rtnetlink::packet_core::{Emitable, Nla};
use rtnetlink::packet_route::tc::{TcAttribute, TcHandle, TcMessage, TcOption, TcStats, TcStats2};

use super::marks::marked_pkts;
use super::options::has_seed;
use super::shaper::ETHERNET_OVERHEAD;
use super::stage::{Stage, StageCounts, StageWork};
use crate::emulate::wires::{OWN_NAMES, Wires};
use crate::path::discipline::{DisciplineKind, FIRST_CLASS, class};
use shared::kernel::netlink::{
    Qdisc, VethEnd, create_veth, qdiscs, refused, set_qdisc, set_up, stop_ipv6_autoconfiguration, with_handle,
};

/// Parent of filters on an ingress qdisc.
const INGRESS: u32 = 0xffff_0000;
/// Handle of every stage's root qdisc.
const ROOT_HANDLE: TcHandle = TcHandle { major: 1, minor: 0 };

/// The sending interface of each stage of a direction; the last stage is on the interface towards the other end.
fn stage_interfaces(direction: usize, stages: &[Stage]) -> Vec<String> {
    let inner = stages[..stages.len() - 1].iter().map(|stage| format!("{}{direction}a", stage.kind));
    inner.chain([OWN_NAMES[1 - direction].to_owned()]).collect()
}

/// Builds the interfaces of one direction's stages, without any qdisc yet.
///
/// # Errors
/// Not permitted; a kernel without traffic control filters.
pub fn build(wires: &Wires, direction: usize, mtu: u32, stages: &[Stage]) -> Result<()> {
    let interfaces = stage_interfaces(direction, stages);
    let mut arrives_at = OWN_NAMES[direction].to_owned();
    for sends in &interfaces[..stages.len() - 1] {
        let far = format!("{}b", sends.trim_end_matches('a'));
        let end = |name| VethEnd { netns: &wires.own, name, mac: None, arp: false };
        create_veth(&end(sends), &end(&far), mtu)?;
        for name in [sends, &far] {
            stop_ipv6_autoconfiguration(&wires.own, name)?;
            set_up(&wires.own, name)?;
        }
        redirect(wires, &arrives_at, sends)?;
        arrives_at = far;
    }
    redirect(wires, &arrives_at, &interfaces[stages.len() - 1])
}

fn redirect(wires: &Wires, from: &str, to: &str) -> Result<()> {
    with_handle(&wires.own, async |handle| {
        let (from, to) = (if_nametoindex(from)? as i32, if_nametoindex(to)?);
        handle.qdisc().add(from).ingress().execute().await.map_err(refused)?;
        let all_protocols = (nix::libc::ETH_P_ALL as u16).to_be();
        let filter = handle.traffic_filter(from).add().parent(INGRESS).protocol(all_protocols);
        filter.redirect(to).map_err(refused)?.execute().await.map_err(refused)
    })
    .with_context(|| format!("redirect \"{from}\" to \"{to}\""))
}

/// Sets the netem of every stage that has one. A second call changes the options and keeps the packets.
///
/// # Errors
/// A kernel without netem.
pub fn set_netems(wires: &Wires, direction: usize, stages: &[Stage]) -> Result<()> {
    let interfaces = stage_interfaces(direction, stages);
    let set = || {
        for (interface, stage) in interfaces.iter().zip(stages) {
            let StageWork::Netem(options) = &stage.work else { continue };
            let (parent, options) = (TcHandle::ROOT, options.bytes());
            let netem = Qdisc { kind: "netem", parent, handle: ROOT_HANDLE, options, is_nested: false, overhead: 0 };
            set_qdisc(interface, netem)?;
        }
        Ok(())
    };
    wires.own.run(set).context("add a netem qdisc")
}

/// Sets the shaper and the queue discipline of the stage that has them. Call it once: tbf would give a `pfifo` below it
/// its own limit.
///
/// # Errors
/// A kernel without tbf or the discipline, or one that refuses its parameters.
pub fn set_discipline(wires: &Wires, direction: usize, stages: &[Stage]) -> Result<()> {
    let interfaces = stage_interfaces(direction, stages);
    for (interface, stage) in interfaces.iter().zip(stages) {
        let StageWork::Discipline(shaped) = &stage.work else { continue };
        let (parent, options) = (TcHandle::ROOT, shaped.bytes());
        let overhead = ETHERNET_OVERHEAD;
        let shaper = Qdisc { kind: "tbf", parent, handle: ROOT_HANDLE, options, is_nested: true, overhead };
        let child = shaped.discipline.as_child(FIRST_CLASS, shaped.options.clone());
        for (kind, qdisc) in [("tbf", shaper), (child.kind, child)] {
            wires.own.run(|| set_qdisc(interface, qdisc)).with_context(|| format!("add the qdisc {kind}"))?;
        }
    }
    Ok(())
}

/// Counts of a direction's stages, and whether the kernel accepted the seed of the losses.
///
/// # Errors
/// An interface was deleted.
pub fn read_stages(wires: &Wires, direction: usize, stages: &[Stage]) -> Result<(Vec<StageCounts>, bool)> {
    let interfaces = stage_interfaces(direction, stages);
    let read = || {
        let all = qdiscs()?;
        let mut counts = Vec::new();
        let mut is_seeded = false;
        for (interface, stage) in interfaces.iter().zip(stages) {
            let discipline = stage.discipline();
            let parent = if discipline.is_some() { class(FIRST_CLASS) } else { TcHandle::ROOT };
            let attributes = qdisc_below(&all, interface, parent)?;
            is_seeded |= counts.is_empty() && attributes.iter().any(tells_seed);
            let counted = attributes.iter().find_map(counted);
            let counted = counted.ok_or_else(|| anyhow!("the qdisc on \"{interface}\" counts nothing"))?;
            let marked = discipline.map_or(0, |kind| marked_by(kind, attributes));
            counts.push(StageCounts { marked, ..counted });
        }
        Ok((counts, is_seeded))
    };
    wires.own.run(read).context("read the counters of the link")
}

fn counted(attribute: &TcAttribute) -> Option<StageCounts> {
    let TcAttribute::Stats(TcStats { packets, bytes, drops, qlen, .. }) = attribute else { return None };
    let [packets, drops, waiting] = [packets, drops, qlen].map(|count| u64::from(*count));
    Some(StageCounts { packets, bytes: *bytes, drops, waiting, marked: 0 })
}

fn marked_by(kind: DisciplineKind, attributes: &[TcAttribute]) -> u64 {
    let of_attribute = |attribute: &TcAttribute| {
        let TcAttribute::Stats2(all) = attribute else { return None };
        let own = all.iter().find_map(|one| if let TcStats2::App(own) = one { Some(own) } else { None })?;
        let mut bytes = vec![0; own.buffer_len()];
        own.emit(&mut bytes);
        Some(marked_pkts(kind, &bytes))
    };
    attributes.iter().find_map(of_attribute).unwrap_or(0)
}

fn qdisc_below<'a>(all: &'a [TcMessage], interface: &str, parent: TcHandle) -> Result<&'a [TcAttribute]> {
    let index = if_nametoindex(interface)? as i32;
    let found = all.iter().find(|qdisc| qdisc.header.index == index && qdisc.header.parent == parent);
    found.map(|qdisc| &*qdisc.attributes).ok_or_else(|| anyhow!("\"{interface}\" has no qdisc of the link"))
}

fn tells_seed(attribute: &TcAttribute) -> bool {
    let TcAttribute::Options(options) = attribute else { return false };
    options.iter().any(|option| {
        let TcOption::Other(options) = option else { return false };
        let mut bytes = vec![0; options.value_len()];
        options.emit_value(&mut bytes);
        has_seed(&bytes)
    })
}
