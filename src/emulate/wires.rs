//! The interfaces of an emulated link: each end is one half of a veth pair whose other half lives in a private namespace.
//!
//! Nothing has a name outside: when the process ends, however it ends, the private namespace goes and with it all
//! interfaces. Both ends share one hardware address and use no ARP, so that only packets the hosts meant to send meet
//! the link; offloads are off, so that every packet on it is one MTU with a right checksum.

use std::sync::Mutex;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Result, bail};

use super::link::LinkEnd;
use crate::kernel::netlink::{
    VethEnd, create_veth, delete_interface, is_operational, sent, set_up, stop_ipv6_autoconfiguration,
};
use crate::kernel::netns::Netns;
use crate::kernel::offload::turn_offloads_off;
use crate::kernel::privilege;

/// Locally administered addresses: one that both ends share, one for the link's own halves.
pub const END_MAC: [u8; 6] = [0x02, 0x74, 0x63, 0x63, 0x63, 0x01];
const OWN_MAC: [u8; 6] = [0x02, 0x74, 0x63, 0x63, 0x63, 0x02];
/// The link's own halves, in its private namespace: of the first and of the second end.
pub const OWN_NAMES: [&str; 2] = ["link0", "link1"];

/// Ethernet header, bytes: the kernel's counters have it, a link's do not.
pub const ETHERNET_HEADER: u64 = 14;

/// The kernel tells that a pair is up within a second, and a busy host later.
const OPERATIONAL_WITHIN: Duration = Duration::from_secs(10);
const LOOK_AGAIN: Duration = Duration::from_millis(1);

/// The two veth pairs of a link, deleted when dropped.
#[derive(Debug)]
pub struct Wires {
    /// The namespace of the link's own.
    pub own: Netns,
    /// Where the two ends appear.
    pub ends: [LinkEnd; 2],
    /// Packets the ends had failed to hand over when the counters were last started.
    drops_before: Mutex<[u64; 2]>,
}

impl Wires {
    /// Creates the interfaces: the link's own halves up, the ends still down.
    ///
    /// Errors: no root; an interface of that name exists.
    /// Side effects: a namespace and two pairs of interfaces that live as long as this value.
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
    /// Errors: an end was taken away.
    pub fn set_ends_up(&self) -> Result<()> {
        self.ends.iter().try_for_each(|end| set_up(&end.netns, &end.interface))
    }

    /// Waits until the interfaces carry packets.
    ///
    /// Errors: those of [`wait_until_operational`].
    pub fn wait_until_operational(&self) -> Result<()> {
        let own = OWN_NAMES.map(|name| (&self.own, name));
        let ends = self.ends.each_ref().map(|end| (&end.netns, end.interface.as_str()));
        wait_until_operational(own.into_iter().chain(ends))
    }

    /// Packets each end failed to hand to the link since [`Wires::restart_end_drops`]; none for one that vanished.
    pub fn end_drops(&self) -> [u64; 2] {
        let (so_far, before) =
            (self.drops_so_far(), self.drops_before.lock().expect("no thread panics with this lock"));
        [0, 1].map(|n| so_far[n].saturating_sub(before[n]))
    }

    /// Counts the packets of [`Wires::end_drops`] from here.
    pub fn restart_end_drops(&self) {
        *self.drops_before.lock().expect("no thread panics with this lock") = self.drops_so_far();
    }

    fn drops_so_far(&self) -> [u64; 2] {
        [0, 1].map(|n| sent(&self.ends[n].netns, &self.ends[n].interface).unwrap_or_default().drops)
    }
}

/// Waits until interfaces carry packets.
///
/// Errors: they do not within [`OPERATIONAL_WITHIN`]; one was taken away.
pub fn wait_until_operational<'a>(interfaces: impl IntoIterator<Item = (&'a Netns, &'a str)>) -> Result<()> {
    let deadline = Instant::now() + OPERATIONAL_WITHIN;
    for (netns, name) in interfaces {
        while !is_operational(netns, name)? {
            if Instant::now() >= deadline {
                bail!("interface \"{name}\" carried no packets after {OPERATIONAL_WITHIN:?}");
            }
            thread::sleep(LOOK_AGAIN);
        }
    }
    Ok(())
}

impl Drop for Wires {
    fn drop(&mut self) {
        // An interface that somebody else deleted already is what is wanted.
        OWN_NAMES.iter().for_each(|name| drop(delete_interface(&self.own, name)));
    }
}
