//! A link that does nothing to packets: one veth pair from node to node, without an emulator.

use std::sync::Mutex;
use std::time::Duration;

use anyhow::{Context, Result};

use super::wires::{END_MAC, ETHERNET_HEADER, wait_until_operational};
use crate::emulate::{Link, LinkDriver, LinkEnd, LinkNotice};
use crate::path::LinkConfig;
use shared::kernel::netlink::{
    InterfaceCounts, VethEnd, create_veth, delete_interface, sent, set_up, stop_ipv6_autoconfiguration,
};
use shared::kernel::offload::turn_offloads_off;
use shared::kernel::privilege;
use shared::model::run::LinkCounters;

/// Connects two nodes with the driver, or with a plain veth pair if the driver would do nothing to packets.
///
/// Side effects: two interfaces that live as long as the returned link.
///
/// # Errors
/// Those of [`LinkDriver::connect`].
pub fn join(driver: &dyn LinkDriver, config: &LinkConfig, ends: [LinkEnd; 2]) -> Result<Box<dyn Link>> {
    if !is_plain(driver, config) {
        return driver.connect(config, ends);
    }
    config.check()?;
    Ok(Box::new(PlainLink::create(config.mtu, ends).context("create the link's interfaces")?))
}

/// Most drivers do not add host delays.
fn is_plain(driver: &dyn LinkDriver, config: &LinkConfig) -> bool {
    if driver.delays_hosts() {
        return config.is_open();
    }
    let mut config = config.clone();
    config.directions.iter_mut().for_each(|direction| direction.host_delay = Duration::ZERO);
    config.is_open()
}

/// A veth pair, deleted when dropped.
#[derive(Debug)]
struct PlainLink {
    ends: [LinkEnd; 2],
    /// Counts of each end at the last restart of the counters.
    before: Mutex<[InterfaceCounts; 2]>,
}

impl PlainLink {
    fn create(mtu: u32, ends: [LinkEnd; 2]) -> Result<Self> {
        privilege::require("create the interfaces of a link", &privilege::FOR_LINK)?;
        let [first, second] = ends.each_ref().map(|end| {
            let LinkEnd { netns, interface } = end;
            VethEnd { netns, name: interface, mac: Some(END_MAC), arp: false }
        });
        create_veth(&first, &second, mtu)?;
        let link = PlainLink { ends, before: Mutex::default() };
        for LinkEnd { netns, interface } in &link.ends {
            turn_offloads_off(netns, interface)?;
            stop_ipv6_autoconfiguration(netns, interface)?;
            set_up(netns, interface)?;
        }
        wait_until_operational(link.ends.iter().map(|end| (&end.netns, end.interface.as_str())))?;
        link.restart_counters();
        Ok(link)
    }

    /// Zeroes for an interface that was deleted.
    fn sent(&self) -> [InterfaceCounts; 2] {
        self.ends.each_ref().map(|end| sent(&end.netns, &end.interface).unwrap_or_default())
    }
}

impl Link for PlainLink {
    fn counters(&self) -> [LinkCounters; 2] {
        let (after, before) = (self.sent(), self.before.lock().expect("no thread panics with this lock"));
        [0, 1].map(|number| {
            let grown =
                |value: fn(&InterfaceCounts) -> u64| value(&after[number]).saturating_sub(value(&before[number]));
            let packets = grown(|sent| sent.packets);
            LinkCounters {
                received_pkts: packets + grown(|sent| sent.drops),
                sent_pkts: packets,
                sent_bytes: grown(|sent| sent.bytes).saturating_sub(packets * ETHERNET_HEADER),
                // The only queue is the kernel's own, of the receiving processor.
                overflow_pkts: grown(|sent| sent.drops),
                ..LinkCounters::default()
            }
        })
    }

    fn restart_counters(&self) {
        *self.before.lock().expect("no thread panics with this lock") = self.sent();
    }

    fn notices(&self) -> Vec<LinkNotice> {
        if self.ends.iter().all(|end| sent(&end.netns, &end.interface).is_ok()) {
            return Vec::new();
        }
        let [first, second] = self.ends.each_ref().map(|end| end.interface.as_str());
        vec![LinkNotice::Stopped(format!("interface \"{first}\" or \"{second}\" was deleted"))]
    }
}

impl Drop for PlainLink {
    fn drop(&mut self) {
        // Deleting one end deletes the other. Somebody else may have deleted it already.
        let _ = delete_interface(&self.ends[0].netns, &self.ends[0].interface);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::emulate::netem::Netem;
    use crate::emulate::tunlink::TunLink;
    use crate::path::Direction;
    use shared::units::{BitsPerSec, QueueSize, Share};

    /// Netem once emulated open links because of a host delay that it does not add.
    #[test]
    fn host_delay_keeps_a_link_plain_if_the_driver_does_not_add_it() {
        let delayed = Direction { host_delay: Duration::from_micros(600), ..Direction::default() };
        let config = |back: Direction| LinkConfig { directions: [delayed.clone(), back], mtu: 1500 };
        assert!(is_plain(&Netem, &config(delayed.clone())));
        assert!(!is_plain(&TunLink, &config(delayed.clone())));
        assert!(!is_plain(&Netem, &config(Direction { delay: Duration::from_micros(1), ..delayed.clone() })));
    }

    #[test]
    fn only_a_link_that_does_nothing_to_packets_is_plain() {
        let open = Direction::default();
        for (back, is_open) in [
            (open.clone(), true),
            (Direction { rate: Some(BitsPerSec(1_000)), ..open.clone() }, false),
            (Direction { delay: Duration::from_micros(1), ..open.clone() }, false),
            (Direction { loss: Share(0.01).into(), ..open.clone() }, false),
            (Direction { ack_loss: Share(0.01), ..open }, false),
        ] {
            let there = Direction { queue: QueueSize::Packets(9), seed: 7, ..Direction::default() };
            assert_eq!(LinkConfig { directions: [there, back], mtu: 1500 }.is_open(), is_open);
        }
    }
}
