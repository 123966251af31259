//! The path of a packet through the private namespace: loss, queue with serialiser, delay, each in its own netem.
//!
//! A single netem would count packets that are only being delayed against the queue. A burst into an idle link would
//! then find a queue longer by the whole bandwidth-delay product. A child netem below another miscounts drops on
//! kernels before 6.13. So each stage is on the sending half of its own veth pair, and the other half redirects to the
//! next.

use anyhow::{Context, Result, anyhow};
use futures_util::TryStreamExt;
use nix::net::if_::if_nametoindex;
use rtnetlink::Handle;
use rtnetlink::packet_core::Nla;
use rtnetlink::packet_route::tc::{TcAttribute, TcHandle, TcOption, TcStats};

use super::options::{NetemOptions, has_seed};
use crate::emulate::wires::{OWN_NAMES, Wires};
use shared::kernel::netlink::{
    Qdisc, VethEnd, create_veth, refused, set_qdisc, set_up, stop_ipv6_autoconfiguration, with_handle,
};

/// Parent of filters on an ingress qdisc.
const INGRESS: u32 = 0xffff_0000;
/// Interfaces of all stages but the last, in the order in which a packet passes them.
const STAGE_NAMES: [&str; 3] = ["loss", "rate", "delay"];

/// Counts since the stage was created.
#[derive(Debug, Clone, Copy, Default)]
pub struct StageCounts {
    pub packets: u64,
    /// Includes Ethernet headers.
    pub bytes: u64,
    pub drops: u64,
    /// Packets in the stage now.
    pub waiting: u64,
}

/// The sending interface of each stage of a direction; the last stage is on the interface towards the other end.
fn stage_interfaces(direction: usize, stages: usize) -> Vec<String> {
    let inner = STAGE_NAMES.iter().take(stages - 1).map(|name| format!("{name}{direction}a"));
    inner.chain([OWN_NAMES[1 - direction].to_owned()]).collect()
}

/// Builds the interfaces of one direction's stages, without any netem yet.
///
/// # Errors
/// Not permitted; a kernel without traffic control filters.
pub fn build(wires: &Wires, direction: usize, mtu: u32, stages: usize) -> Result<()> {
    let interfaces = stage_interfaces(direction, stages);
    let mut arrives_at = OWN_NAMES[direction].to_owned();
    for sends in &interfaces[..stages - 1] {
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
    redirect(wires, &arrives_at, &interfaces[stages - 1])
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

/// Sets the netem of every stage. A second call changes the options and keeps the packets.
///
/// # Errors
/// A kernel without netem.
pub fn set_stages(wires: &Wires, direction: usize, stages: &[NetemOptions]) -> Result<()> {
    let interfaces = stage_interfaces(direction, stages.len());
    with_handle(&wires.own, async |mut handle| {
        for (interface, options) in interfaces.iter().zip(stages) {
            let (parent, number) = (TcHandle::ROOT, TcHandle { major: 1, minor: 0 });
            let options = options.bytes();
            let netem = Qdisc { kind: "netem", parent, handle: number, options, is_nested: false };
            set_qdisc(&mut handle, interface, netem).await?;
        }
        Ok(())
    })
    .context("add a netem qdisc")
}

/// Counts of a direction's stages, and whether the kernel accepted the seed of the losses.
///
/// # Errors
/// An interface was deleted.
pub fn read_stages(wires: &Wires, direction: usize, stages: usize) -> Result<(Vec<StageCounts>, bool)> {
    let interfaces = stage_interfaces(direction, stages);
    with_handle(&wires.own, async |handle| {
        let mut counts = vec![StageCounts::default(); stages];
        let mut is_seeded = false;
        for (stage, interface) in interfaces.iter().enumerate() {
            let attributes = root_qdisc(&handle, interface).await?;
            let counted = attributes.iter().find_map(|attribute| match attribute {
                TcAttribute::Stats(TcStats { packets, bytes, drops, qlen, .. }) => Some(StageCounts {
                    packets: (*packets).into(),
                    bytes: *bytes,
                    drops: (*drops).into(),
                    waiting: (*qlen).into(),
                }),
                _ => None,
            });
            counts[stage] = counted.ok_or_else(|| anyhow!("netem on \"{interface}\" counts nothing"))?;
            is_seeded |= stage == 0 && attributes.iter().any(tells_seed);
        }
        Ok((counts, is_seeded))
    })
    .context("read the counters of netem")
}

async fn root_qdisc(handle: &Handle, interface: &str) -> Result<Vec<TcAttribute>> {
    let index = if_nametoindex(interface)? as i32;
    let mut qdiscs = handle.qdisc().get().index(index).execute();
    let mut found = None;
    // Read to the end: the next request would take an unread answer for its own.
    while let Some(qdisc) = qdiscs.try_next().await.map_err(refused)? {
        if qdisc.header.index == index && qdisc.header.parent == TcHandle::ROOT {
            found = Some(qdisc.attributes);
        }
    }
    found.ok_or_else(|| anyhow!("\"{interface}\" has no netem"))
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
