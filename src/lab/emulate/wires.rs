//! The interfaces of an emulated link: each end is half of a veth pair whose other half is in a private namespace.
//!
//! The private namespace is anonymous: it and all interfaces disappear with the process, however the process ends. Both
//! ends share one hardware address and use no ARP, so the link carries only packets that the hosts meant to send.
//! Offloads are off, so every packet is one MTU with a correct checksum.

use std::sync::Mutex;
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};

use crate::emulate::LinkEnd;
use shared::kernel::netlink::{
    VethEnd, create_veth, delete_interface, is_operational, sent, set_up, stop_ipv6_autoconfiguration,
};
use shared::kernel::netns::Netns;
use shared::kernel::offload::turn_offloads_off;
use shared::kernel::privilege;
use shared::model::run::LinkCounters;
use shared::poll::try_poll;

/// Locally administered address that both ends share.
pub const END_MAC: [u8; 6] = [0x02, 0x74, 0x63, 0x63, 0x63, 0x01];
/// The same for the halves in the private namespace.
const OWN_MAC: [u8; 6] = [0x02, 0x74, 0x63, 0x63, 0x63, 0x02];
/// Interfaces in the private namespace, of the first and of the second end.
pub const OWN_NAMES: [&str; 2] = ["link0", "link1"];

/// Bytes of the Ethernet header, which the kernel's counters include and a link's do not.
pub const ETHERNET_HEADER: u64 = 14;

/// The kernel reports a pair as up within a second; a busy host takes longer.
const OPERATIONAL_WITHIN: Duration = Duration::from_secs(10);
const POLL_INTERVAL: Duration = Duration::from_millis(1);

/// Two veth pairs, deleted when dropped.
#[derive(Debug)]
pub struct Wires {
    /// The private namespace.
    pub own: Netns,
    pub ends: [LinkEnd; 2],
    /// Drops at the ends at the last restart of the counters.
    drops_before: Mutex<[u64; 2]>,
}

impl Wires {
    /// Creates the interfaces, with the ends still down.
    ///
    /// Side effects: a namespace and two pairs of interfaces that live as long as this value.
    ///
    /// # Errors
    /// No root; an interface of that name exists.
    pub fn create(mtu: u32, ends: [LinkEnd; 2]) -> Result<Self> {
        privilege::require("create the interfaces of a link", &privilege::FOR_LINK)?;
        let wires = Wires { own: Netns::create()?, ends, drops_before: Mutex::default() };
        for (own_name, end) in OWN_NAMES.into_iter().zip(&wires.ends) {
            let own = VethEnd { netns: &wires.own, name: own_name, mac: Some(OWN_MAC), arp: false };
            let outer = VethEnd { netns: &end.netns, name: &end.interface, mac: Some(END_MAC), arp: false };
            create_veth(&own, &outer, mtu)?;
            for (netns, name) in [(&wires.own, own_name), (&end.netns, end.interface.as_str())] {
                turn_offloads_off(netns, name)?;
                stop_ipv6_autoconfiguration(netns, name)?;
            }
            // A packet socket refuses an interface that is down.
            set_up(&wires.own, own_name)?;
        }
        Ok(wires)
    }

    /// Brings the ends up, once the link is ready to carry packets.
    ///
    /// # Errors
    /// An end was deleted.
    pub fn set_ends_up(&self) -> Result<()> {
        self.ends.iter().try_for_each(|end| set_up(&end.netns, &end.interface))
    }

    /// Waits until the interfaces carry packets.
    ///
    /// # Errors
    /// Those of [`wait_until_operational`].
    pub fn wait_until_operational(&self) -> Result<()> {
        let own = OWN_NAMES.map(|name| (&self.own, name));
        let ends = self.ends.each_ref().map(|end| (&end.netns, end.interface.as_str()));
        wait_until_operational(own.into_iter().chain(ends))
    }

    /// Counts packets that each end failed to hand to the link since [`Wires::restart_end_drops`].
    pub fn add_end_drops(&self, counters: &mut [LinkCounters; 2]) {
        let before = *self.drops_before.lock().expect("no thread panics with this lock");
        for (counters, (now, before)) in counters.iter_mut().zip(self.drops_so_far().into_iter().zip(before)) {
            counters.failed_pkts += now.saturating_sub(before);
        }
    }

    pub fn restart_end_drops(&self) {
        *self.drops_before.lock().expect("no thread panics with this lock") = self.drops_so_far();
    }

    /// 0 for a deleted interface.
    fn drops_so_far(&self) -> [u64; 2] {
        self.ends.each_ref().map(|end| sent(&end.netns, &end.interface).unwrap_or_default().drops)
    }
}

/// Waits until interfaces carry packets.
///
/// # Errors
/// They do not within [`OPERATIONAL_WITHIN`]; one was deleted.
pub fn wait_until_operational<'a>(interfaces: impl IntoIterator<Item = (&'a Netns, &'a str)>) -> Result<()> {
    let begin = Instant::now();
    for (netns, name) in interfaces {
        let left = OPERATIONAL_WITHIN.saturating_sub(begin.elapsed());
        let is_up = try_poll(left, POLL_INTERVAL, || is_operational(netns, name))?;
        ensure!(is_up, "interface \"{name}\" carried no packets after {OPERATIONAL_WITHIN:?}");
    }
    Ok(())
}

impl Drop for Wires {
    fn drop(&mut self) {
        // Somebody else may have deleted it already.
        OWN_NAMES.iter().for_each(|name| drop(delete_interface(&self.own, name)));
    }
}
