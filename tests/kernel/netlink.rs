//! Interfaces, addresses and offloads in namespaces of the test's own.

use std::net::{IpAddr, Ipv4Addr, UdpSocket};

use anyhow::Result;
use tccc::kernel::netlink::{
    VethEnd, add_address, create_veth, delete_interface, has_interface, interface_index, sent, set_up,
    stop_ipv6_autoconfiguration,
};
use tccc::kernel::offload::{Offloads, offloads, turn_offloads_off};

use super::*;

const MTU: u32 = 1400;
const NEAR: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 77, 0, 1));
const FAR: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 77, 0, 2));

fn joined_namespaces() -> Result<[Netns; 2]> {
    let namespaces = [Netns::create()?, Netns::create()?];
    let end = |i: usize, name| VethEnd { netns: &namespaces[i], name, mac: None, arp: true };
    create_veth(&end(0, "knla0"), &end(1, "knlb0"), MTU)?;
    for (netns, name, address) in [(&namespaces[0], "knla0", NEAR), (&namespaces[1], "knlb0", FAR)] {
        stop_ipv6_autoconfiguration(netns, name)?;
        set_up(netns, name)?;
        add_address(netns, name, address, 24)?;
    }
    Ok(namespaces)
}

#[test]
fn veth_pair_has_its_settings_and_carries_packets() {
    needs!(root);
    let _host = HostSnapshot::take(&["knl"]);
    let [near, far] = joined_namespaces().unwrap();
    let receiver = far.run(|| Ok(UdpSocket::bind((FAR, 0))?)).unwrap();
    receiver.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
    let sender = near.run(|| Ok(UdpSocket::bind((NEAR, 0))?)).unwrap();
    let before_it = sent(&near, "knla0").unwrap().packets;
    sender.send_to(b"knl", receiver.local_addr().unwrap()).unwrap();
    let mut received = [0; 8];
    assert_eq!(receiver.recv(&mut received).unwrap(), 3);
    // The kernel also sends packets of its own, and drops them before the far end is up.
    assert!(sent(&near, "knla0").unwrap().packets > before_it);
    assert!(offloads(&near, "knla0").unwrap().send_checksum);
    turn_offloads_off(&near, "knla0").unwrap();
    let off = Offloads { send_checksum: false, tso: false, gso: false, gro: false };
    assert_eq!(offloads(&near, "knla0").unwrap(), off);
    let mut ip = std::process::Command::new("ip");
    let shown = far.run(|| Ok(check(0, ip.args(["-o", "link", "show", "knlb0"])))).unwrap();
    shown.stdout_has("mtu 1400 ");
    assert!(interface_index(&near, "knla0").unwrap() > 0);
    delete_interface(&near, "knla0").unwrap();
    assert!(!has_interface(&far, "knlb0").unwrap());
}

#[test]
fn refusals_name_the_interface_and_the_reason() {
    needs!(root);
    let [near, far] = joined_namespaces().unwrap();
    let text = |answer: Result<()>| format!("{:#}", answer.unwrap_err());
    let taken = VethEnd { netns: &near, name: "knla0", mac: None, arp: true };
    let free = VethEnd { netns: &far, name: "knlb1", mac: None, arp: true };
    assert_eq!(text(create_veth(&free, &taken, MTU)), "interface \"knla0\" already exists in its namespace");
    assert_eq!(text(set_up(&near, "knl9")), "bring interface \"knl9\" up: no such device");
    assert_eq!(text(delete_interface(&near, "knl9")), "delete interface \"knl9\": no such device");
    let exists = "add the address 10.77.0.1/24 to \"knla0\": it already exists";
    assert_eq!(text(add_address(&near, "knla0", NEAR, 24)), exists);
}
