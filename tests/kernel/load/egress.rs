//! The companion at network devices: attached, listed and detached with its algorithm; what it changes in packets.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::Read as _;
use std::net::SocketAddr;
use std::os::fd::{FromRawFd as _, OwnedFd};

use tccc::kernel::netlink::{VethEnd, create_veth, delete_interface};
use tccc::kernel::{bpf, sysctl};

use super::*;
use crate::lab::policy::fault::killed_at;

const PROTOCOLS: [(&str, u8); 2] = [("127.0.0.1:0", 4), ("[::1]:0", 6)];
const NOT_ECT: u8 = 0;
const ECT_1: u8 = 1;
const ECT_0: u8 = 2;

/// Programs of ours at the egress of devices, whichever namespace these are in.
fn at_egress() -> usize {
    let is_ours = |link: OwnedFd| {
        let link = bpf::device_link(&link).ok().filter(|link| link.device != 0)?;
        bpf::program_name(link.program).filter(|name| name == "ect1")
    };
    bpf::look_at_links(is_ours).unwrap().len()
}

/// Every packet of a namespace's loopback.
struct Capture(File);

impl Capture {
    fn open(netns: &Netns) -> Capture {
        let kind = libc::SOCK_DGRAM | libc::SOCK_NONBLOCK | libc::SOCK_CLOEXEC;
        // SAFETY: the call takes plain numbers.
        let open = || unsafe { libc::socket(libc::AF_PACKET, kind, i32::from((libc::ETH_P_ALL as u16).to_be())) };
        let socket = netns.run(|| Ok(open())).unwrap();
        assert!(socket >= 0, "a packet socket");
        // SAFETY: the descriptor was opened above, and nobody else has it.
        Capture(File::from(unsafe { OwnedFd::from_raw_fd(socket) }))
    }

    /// Packets with data from a port, by the ECN field of their headers.
    fn sent_from(&mut self, from: SocketAddr) -> BTreeMap<u8, usize> {
        let mut counts = BTreeMap::new();
        let mut packet = vec![0; 1 << 17];
        while let Ok(length) = self.0.read(&mut packet) {
            if let Some((ecn, _)) = data_of(&packet[..length]).filter(|(_, port)| *port == from.port()) {
                *counts.entry(ecn).or_default() += 1;
            }
        }
        counts
    }
}

/// ECN field and source port of a TCP packet with data.
fn data_of(packet: &[u8]) -> Option<(u8, u16)> {
    let (ecn, header) = match packet.first()? >> 4 {
        4 => (packet[1] & 3, 20),
        6 => (packet[1] >> 4 & 3, 40),
        _ => return None,
    };
    let tcp = packet.get(header..)?;
    let port = u16::from_be_bytes(tcp.get(..2)?.try_into().unwrap());
    let options = usize::from(tcp.get(12)? >> 4) * 4;
    (tcp.len() > options).then_some((ecn, port))
}

/// A connection whose two ends have the algorithm, and the ECN fields of its data.
fn connect(netns: &Netns, algorithm: &str, address: &str) -> HeldConnection {
    let listener = netns.run(|| Ok(TcpListener::bind(address)?)).unwrap();
    choose(&listener, algorithm).unwrap();
    HeldConnection::between(netns, listener, algorithm)
}

fn fields(capture: &mut Capture, connection: &mut HeldConnection) -> BTreeMap<u8, usize> {
    let from = connection.client.local_addr().unwrap();
    capture.sent_from(from);
    connection.send(200_000);
    capture.sent_from(from)
}

#[track_caller]
fn assert_all(fields: &BTreeMap<u8, usize>, wanted: u8) {
    assert!(fields.keys().eq([&wanted]) && fields[&wanted] > 2, "{fields:?}, not all {wanted}");
}

#[test]
fn data_of_prague_carries_ect1_and_no_other_data_does() {
    let _sandbox = enter!(Sandbox; root, struct_ops, bpffs, accurate_ecn);
    let (before, netns) = (at_egress(), loopback_netns());
    assert!(sysctl::set_all(&netns, &[("net.ipv4.tcp_ecn", "1")]).unwrap().is_empty());
    let tccc = |arguments: &str| netns.run(|| Ok(run(0, arguments))).unwrap();
    tccc("load prague --as ldk_prague").stdout_has("\"ect1\" attached to the egress of lo");
    assert_eq!(at_egress(), before + 1);
    let mut capture = Capture::open(&netns);
    let mut open = Vec::new();
    for (address, version) in PROTOCOLS {
        let mut prague = connect(&netns, "ldk_prague", address);
        assert_eq!(algorithm_of(&prague.client), "ldk_prague", "version {version}: AccECN is negotiated");
        assert_all(&fields(&mut capture, &mut prague), ECT_1);
        let mut cubic = connect(&netns, "cubic", address);
        assert_all(&fields(&mut capture, &mut cubic), ECT_0);
        // A peer without AccECN: the socket goes to reno, and nothing of it may be marked.
        let mut alone = HeldConnection::open_at(&netns, "ldk_prague", address);
        alone.send(100_000);
        if algorithm_of(&alone.client) == "reno" {
            assert_all(&fields(&mut capture, &mut alone), NOT_ECT);
        }
        open.push(prague);
    }
    tccc("unload ldk_prague");
    poll_until(SOON, "the kernel detaches", || at_egress() == before);
    open.iter_mut().for_each(|prague| assert_all(&fields(&mut capture, prague), ECT_0));
}

#[test]
fn device_that_appears_later_is_drift_until_the_next_load() {
    let _sandbox = enter!(Sandbox; root, struct_ops, bpffs, accurate_ecn);
    let (before, netns, other) = (at_egress(), loopback_netns(), Netns::create().unwrap());
    let tccc = |arguments: &str| netns.run(|| Ok(run(0, arguments))).unwrap();
    tccc("load prague --as ldk_prague --dry-run").stdout_has("attach \"ect1\" to the egress of lo and pin it at ");
    assert_eq!(at_egress(), before);
    tccc("load prague --as ldk_prague");
    let drift = || netns.run(|| Ok(drift("ldk_prague"))).unwrap();
    assert_eq!(drift(), [] as [String; 0]);
    tccc("status").stdout_has("\"ldk_prague\": \"ect1\" is attached to the egress of lo");
    let end = |netns, name| VethEnd { netns, name, mac: None, arp: true };
    create_veth(&end(&netns, "ldk_late"), &end(&other, "ldk_far"), 1500).unwrap();
    assert!(drift()[0].contains("its companion program is not at ldk_late, which appeared later"), "{:?}", drift());
    tccc("load prague --as ldk_prague --replace");
    assert_eq!((drift(), at_egress()), (vec![], before + 2));
    delete_interface(&netns, "ldk_late").unwrap();
    poll_until(SOON, "the attachment goes with its device", || at_egress() == before + 1);
    assert_eq!(drift(), [] as [String; 0]);
    run(2, "upgrade ldk_prague mswift")
        .stderr_has("one companion belongs to a cgroup, and the other to network devices");
    let elsewhere = run(2, "load prague --as ldk_prague --replace");
    elsewhere.stderr_has("its companion is attached to the devices of another network namespace");
    assert_eq!((drift(), at_egress()), (vec![], before + 1), "what is refused changes nothing");
    tccc("unload ldk_prague --dry-run").stdout_has("detach \"ect1\" from the egress of lo");
    tccc("unload ldk_prague");
    poll_until(SOON, "the kernel detaches", || at_egress() == before);
}

#[test]
fn killed_load_is_listed_and_undone_with_its_companion() {
    let _sandbox = enter!(Sandbox; root, struct_ops, bpffs, accurate_ecn);
    let (before, netns) = (at_egress(), loopback_netns());
    for point in ["load.companion", "load.registered"] {
        netns
            .run(|| {
                killed_at(point, &["load", "prague", "--as", "ldk_prague"]);
                Ok(())
            })
            .unwrap();
        assert_eq!(at_egress(), before + 1, "{point}");
        let standing = if point == "load.companion" { "leftover" } else { "pinned" };
        assert_eq!(instance("ldk_prague")["standing"], standing, "{point}");
        run(0, "unload ldk_prague");
        poll_until(SOON, "the kernel detaches", || at_egress() == before);
        assert_nothing_left();
    }
}

#[test]
fn options_of_a_companion_in_a_cgroup_are_refused() {
    let _sandbox = enter!(Sandbox; root, struct_ops, bpffs, accurate_ecn);
    run(2, "load prague --as ldk_no --cgroup /")
        .stderr_has("the companion of \"prague\" is attached to network devices");
    run(2, "load prague --as ldk_no --receiver").stderr_has("\"prague\" needs nothing at the receiver");
}

/// A kernel before 7.0 loads none of it.
#[test]
fn prague_is_refused_where_the_kernel_has_no_accurate_ecn() {
    let _sandbox = enter!(Sandbox; root, struct_ops, bpffs);
    if tccc::kernel::probe::has_accurate_ecn() {
        return;
    }
    for arguments in ["load prague --as ldk_no", "load prague --as ldk_no --dry-run"] {
        run(4, arguments)
            .stderr_has("cannot load \"ldk_no\": this kernel has no Accurate ECN (RFC 9768)")
            .stderr_has("use a kernel of Linux 7.0 or newer");
    }
    run(0, "list").stdout_has("needs Linux 7.0");
    run(0, "show prague").stdout_has("Accurate ECN (RFC 9768): Linux 7.0 or newer");
}
