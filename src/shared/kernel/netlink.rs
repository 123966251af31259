//! Interfaces, addresses and routes of a network namespace, through rtnetlink.
//!
//! Each function enters the namespace and returns when the kernel has answered.

use std::fs;
use std::io::ErrorKind;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::os::fd::AsRawFd;

use anyhow::{Context, Result, anyhow, bail, ensure};
use nix::errno::Errno;
use nix::net::if_::if_nametoindex;
use procfs::FromRead;
use procfs::net::InterfaceDeviceStatus;
use rtnetlink::packet_core::{
    DefaultNla, Emitable, NLM_F_ACK, NLM_F_CREATE, NLM_F_DUMP, NLM_F_EXCL, NLM_F_REPLACE, NLM_F_REQUEST,
    NetlinkMessage, NetlinkPayload,
};
use rtnetlink::packet_route::RouteNetlinkMessage;
use rtnetlink::packet_route::link::{InfoData, InfoVeth, LinkAttribute, State};
use rtnetlink::packet_route::tc::{TcAttribute, TcHandle, TcMessage};
use rtnetlink::sys::Socket;
use rtnetlink::sys::protocols::NETLINK_ROUTE;
use rtnetlink::{AddressMessageBuilder, Handle, LinkMessageBuilder, LinkUnspec, LinkVeth, new_connection};

use super::io_error;
use super::netns::Netns;

/// Characters: the kernel's IFNAMSIZ without the closing zero.
pub const INTERFACE_NAME_MAX: usize = 15;
/// Messages and attributes begin at multiples of this.
const NLA_ALIGNTO: usize = 4;
const TCA_OPTIONS: u16 = 2;
const TCA_STAB: u16 = 8;
/// Inside TCA_STAB.
const TCA_STAB_BASE: u16 = 1;
/// Says that an attribute holds attributes. Younger queue disciplines refuse options without it.
const NLA_F_NESTED: u16 = 0x8000;

#[derive(Debug, Clone, Copy)]
pub struct VethEnd<'a> {
    pub netns: &'a Netns,
    pub name: &'a str,
    /// If `None`, the kernel chooses the address.
    pub mac: Option<[u8; 6]>,
    /// Resolve neighbours by ARP and neighbour discovery.
    pub arp: bool,
}

impl VethEnd<'_> {
    fn message<T>(&self, builder: LinkMessageBuilder<T>, mtu: u32) -> LinkMessageBuilder<T> {
        let builder = builder.mtu(mtu).arp(self.arp);
        match self.mac {
            Some(mac) => builder.address(mac.to_vec()),
            None => builder,
        }
    }
}

/// Sends a request to rtnetlink in this thread's namespace. Returns the messages of the answer.
///
/// `flags` are those beside NLM_F_REQUEST and NLM_F_ACK.
///
/// # Errors
/// No rtnetlink; the kernel refuses the request.
pub fn ask(message: RouteNetlinkMessage, flags: u16) -> Result<Vec<RouteNetlinkMessage>> {
    let mut request = NetlinkMessage::from(message);
    request.header.flags = NLM_F_REQUEST | NLM_F_ACK | flags;
    request.finalize();
    let mut bytes = vec![0; request.buffer_len()];
    request.serialize(&mut bytes);
    let socket = Socket::new(NETLINK_ROUTE).context("connect to rtnetlink")?;
    socket.send(&bytes, 0).context("ask rtnetlink")?;
    let mut answers = Vec::new();
    loop {
        let (bytes, _) = socket.recv_from_full().context("read rtnetlink's answer")?;
        let mut rest = bytes.as_slice();
        while !rest.is_empty() {
            let answer = NetlinkMessage::deserialize(rest).context("read rtnetlink's answer")?;
            let length = (answer.header.length as usize).next_multiple_of(NLA_ALIGNTO);
            rest = rest.get(length..).unwrap_or_default();
            match answer.payload {
                NetlinkPayload::InnerMessage(message) => answers.push(message),
                NetlinkPayload::Error(error) if error.code.is_some() => {
                    return Err(refused(rtnetlink::Error::NetlinkError(error)));
                }
                NetlinkPayload::Error(_) | NetlinkPayload::Done(_) => return Ok(answers),
                _ => {}
            }
        }
    }
}

/// Runs `work` with an rtnetlink connection inside the namespace, for requests that only rtnetlink's own builders make.
/// [`ask`] is for all others: it needs no runtime.
///
/// # Errors
/// Not permitted to enter; no rtnetlink; those of `work`.
pub fn with_handle<T: Send>(netns: &Netns, work: impl AsyncFnOnce(Handle) -> Result<T> + Send) -> Result<T> {
    netns.run(|| {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        runtime.context("prepare an rtnetlink connection")?.block_on(async {
            let (connection, handle, _) = new_connection().context("connect to rtnetlink")?;
            tokio::spawn(connection);
            work(handle).await
        })
    })
}

/// Creates a veth pair with both ends down.
///
/// Side effects: two interfaces. Deleting one of them or its namespace removes both.
///
/// # Errors
/// An interface of that name exists in its namespace; a wrong name; not permitted.
pub fn create_veth(first: &VethEnd, second: &VethEnd, mtu: u32) -> Result<()> {
    for end in [first, second] {
        check_interface_name(end.name)?;
        ensure!(!has_interface(end.netns, end.name)?, "interface \"{}\" already exists in its namespace", end.name);
    }
    let peer = LinkUnspec::new_with_name(second.name).setns_by_fd(second.netns.as_raw_fd());
    let peer = second.message(peer, mtu).build();
    let pair = LinkVeth::new(first.name, second.name).set_info_data(InfoData::Veth(InfoVeth::Peer(peer)));
    let pair = first.message(pair, mtu).build();
    let flags = NLM_F_CREATE | NLM_F_EXCL;
    first
        .netns
        .run(|| ask(RouteNetlinkMessage::NewLink(pair), flags))
        .map(drop)
        .with_context(|| format!("create the interfaces \"{}\" and \"{}\"", first.name, second.name))
}

/// # Errors
/// No such interface; not permitted.
pub fn set_up(netns: &Netns, name: &str) -> Result<()> {
    let message = LinkUnspec::new_with_name(name).up().build();
    netns
        .run(|| ask(RouteNetlinkMessage::SetLink(message), 0))
        .map(drop)
        .with_context(|| format!("bring interface \"{name}\" up"))
}

/// Whether an interface carries packets. A veth pair drops packets for a moment after it is brought up.
///
/// # Errors
/// No such interface; not permitted.
pub fn is_operational(netns: &Netns, name: &str) -> Result<bool> {
    let message = LinkUnspec::new_with_name(name).build();
    let links = netns.run(|| ask(RouteNetlinkMessage::GetLink(message), 0));
    let links = links.with_context(|| format!("ask for the state of \"{name}\""))?;
    let is_up = |attribute: &LinkAttribute| matches!(attribute, LinkAttribute::OperState(State::Up));
    Ok(links.iter().any(|link| matches!(link, RouteNetlinkMessage::NewLink(link) if link.attributes.iter().any(is_up))))
}

/// Also deletes the veth peer.
///
/// # Errors
/// No such interface; not permitted.
pub fn delete_interface(netns: &Netns, name: &str) -> Result<()> {
    let message = LinkUnspec::new_with_name(name).build();
    netns
        .run(|| ask(RouteNetlinkMessage::DelLink(message), 0))
        .map(drop)
        .with_context(|| format!("delete interface \"{name}\""))
}

/// # Errors
/// No such interface; the address exists; not permitted.
pub fn add_address(netns: &Netns, name: &str, address: IpAddr, prefix_length: u8) -> Result<()> {
    let message = |index: u32| match address {
        IpAddr::V4(address) => {
            AddressMessageBuilder::<Ipv4Addr>::new().index(index).address(address, prefix_length).build()
        }
        IpAddr::V6(address) => {
            AddressMessageBuilder::<Ipv6Addr>::new().index(index).address(address, prefix_length).build()
        }
    };
    let flags = NLM_F_CREATE | NLM_F_EXCL;
    let add = || ask(RouteNetlinkMessage::NewAddress(message(interface_index_here(name)?)), flags).map(drop);
    netns.run(add).with_context(|| format!("add the address {address}/{prefix_length} to \"{name}\""))
}

/// # Errors
/// Not permitted to enter the namespace.
pub fn has_interface(netns: &Netns, name: &str) -> Result<bool> {
    netns.run(|| Ok(if_nametoindex(name).is_ok()))
}

/// # Errors
/// No such interface; not permitted to enter.
pub fn interface_index(netns: &Netns, name: &str) -> Result<u32> {
    netns.run(|| interface_index_here(name))
}

/// Transmit counters of an interface since its creation.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct InterfaceCounts {
    /// Includes Ethernet headers.
    pub bytes: u64,
    pub packets: u64,
    /// Packets that were not sent.
    pub drops: u64,
}

/// # Errors
/// No such interface; not permitted to enter.
pub fn sent(netns: &Netns, name: &str) -> Result<InterfaceCounts> {
    const TABLE: &str = "/proc/thread-self/net/dev";
    let table = netns.run(|| InterfaceDeviceStatus::from_file(TABLE).context("read the interface counters"))?;
    sent_of(&table, name).ok_or_else(|| anyhow!("no interface \"{name}\" in the namespace"))
}

/// Keeps the kernel from giving an interface IPv6 addresses, because they cause extra packets.
///
/// Call it before the interface is up. Does nothing without IPv6.
///
/// # Errors
/// Not permitted to enter the namespace; /proc/sys is read-only.
pub fn stop_ipv6_autoconfiguration(netns: &Netns, name: &str) -> Result<()> {
    const NO_LINK_LOCAL_ADDRESS: &str = "1";
    netns.run(|| {
        let written = fs::write(format!("/proc/sys/net/ipv6/conf/{name}/addr_gen_mode"), NO_LINK_LOCAL_ADDRESS);
        io_error::accept(ErrorKind::NotFound, written)
            .with_context(|| format!("stop IPv6 autoconfiguration of \"{name}\""))
    })
}

/// # Errors
/// The name is empty, longer than 15 characters, or has a character that the kernel refuses.
pub fn check_interface_name(name: &str) -> Result<()> {
    let allowed = |c: char| !c.is_whitespace() && c != '/' && c != ':' && !c.is_control();
    let fits = (1..=INTERFACE_NAME_MAX).contains(&name.len());
    if !fits || !name.chars().all(allowed) || name == "." || name == ".." {
        bail!(
            "\"{name}\" is not an interface name: 1 to {INTERFACE_NAME_MAX} characters without spaces, \"/\" or \":\""
        );
    }
    Ok(())
}

fn interface_index_here(name: &str) -> Result<u32> {
    if_nametoindex(name).map_err(|_| anyhow!("no interface \"{name}\" in the namespace"))
}

fn sent_of(table: &InterfaceDeviceStatus, name: &str) -> Option<InterfaceCounts> {
    let device = table.0.get(name)?;
    Some(InterfaceCounts { bytes: device.sent_bytes, packets: device.sent_packets, drops: device.sent_drop })
}

/// A queue discipline to add to an interface.
#[derive(Debug, Clone)]
pub struct Qdisc<'a> {
    pub kind: &'a str,
    pub parent: TcHandle,
    pub handle: TcHandle,
    /// The value of TCA_OPTIONS.
    pub options: Vec<u8>,
    /// Whether the options are attributes, and not a struct of the kernel.
    pub is_nested: bool,
    /// Bytes that it adds to the length of each packet before it counts the packet. Its children count the same.
    pub overhead: i32,
}

impl Qdisc<'_> {
    fn attributes(self) -> Vec<TcAttribute> {
        let kind = TCA_OPTIONS | if self.is_nested { NLA_F_NESTED } else { 0 };
        let options = TcAttribute::Other(DefaultNla::new(kind, self.options));
        let mut attributes = vec![TcAttribute::Kind(self.kind.to_owned()), options];
        if self.overhead != 0 {
            let mut size_table = Vec::new();
            push_attribute(&mut size_table, TCA_STAB_BASE, size_spec(self.overhead).as_flattened());
            attributes.push(TcAttribute::Other(DefaultNla::new(TCA_STAB | NLA_F_NESTED, size_table)));
        }
        attributes
    }
}

/// `struct tc_sizespec` of a table without entries: logarithms and alignment of cells, overhead, link layer, smallest
/// packet, MTU, entries.
fn size_spec(overhead: i32) -> [[u8; 4]; 6] {
    [[0; 4], overhead.to_ne_bytes(), [0; 4], [0; 4], [0; 4], [0; 4]]
}

/// Adds a queue discipline in this thread's namespace, as `tc qdisc replace` does. One that is there and of the same kind
/// keeps its packets.
///
/// # Errors
/// No such interface; the kernel has no such discipline, or refuses its options.
pub fn set_qdisc(interface: &str, qdisc: Qdisc<'_>) -> Result<()> {
    let mut message = TcMessage::default();
    message.header.index = if_nametoindex(interface)? as i32;
    message.header.parent = qdisc.parent;
    message.header.handle = qdisc.handle;
    message.attributes = qdisc.attributes();
    ask(RouteNetlinkMessage::NewQueueDiscipline(message), NLM_F_CREATE | NLM_F_REPLACE).map(drop)
}

/// The queue disciplines of every interface in this thread's namespace.
///
/// # Errors
/// No rtnetlink.
pub fn qdiscs() -> Result<Vec<TcMessage>> {
    let answers = ask(RouteNetlinkMessage::GetQueueDiscipline(TcMessage::default()), NLM_F_DUMP)?;
    let qdisc = |message| if let RouteNetlinkMessage::NewQueueDiscipline(qdisc) = message { Some(qdisc) } else { None };
    Ok(answers.into_iter().filter_map(qdisc).collect())
}

/// Appends an attribute to a message of netlink.
pub fn push_attribute(bytes: &mut Vec<u8>, kind: u16, value: &[u8]) {
    let attribute = DefaultNla::new(kind, value.to_vec());
    let start = bytes.len();
    bytes.resize(start + attribute.buffer_len(), 0);
    attribute.emit(&mut bytes[start..]);
}

pub fn refused(error: rtnetlink::Error) -> anyhow::Error {
    let rtnetlink::Error::NetlinkError(message) = error else { return anyhow!(error) };
    match Errno::from_raw(-message.raw_code()) {
        Errno::EEXIST => anyhow!("it already exists"),
        Errno::EPERM => anyhow!("not permitted: this needs root"),
        why => anyhow!("{}", why.desc().to_lowercase()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rtnetlink::packet_core::Nla as _;

    #[test]
    fn transmit_counters_are_read_from_their_columns() {
        let table = "Inter-|   Receive  |  Transmit\n face |bytes packets\n    lo: 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16\n\
                     tccc0: 21 22 23 24 25 26 27 28 29 30 31 32 33 34 35 36\n";
        let table = InterfaceDeviceStatus::from_read(table.as_bytes()).unwrap();
        assert_eq!(sent_of(&table, "lo"), Some(InterfaceCounts { bytes: 9, packets: 10, drops: 12 }));
        assert_eq!(sent_of(&table, "tccc0"), Some(InterfaceCounts { bytes: 29, packets: 30, drops: 32 }));
        assert_eq!(sent_of(&table, "tccc"), None);
    }

    #[test]
    #[cfg(target_endian = "little")]
    fn size_table_has_the_overhead_and_no_entries() {
        let (parent, handle) = (TcHandle::ROOT, TcHandle { major: 1, minor: 0 });
        let plain = Qdisc { kind: "tbf", parent, handle, options: Vec::new(), is_nested: true, overhead: 0 };
        assert_eq!(plain.clone().attributes().len(), 2);
        let attributes = Qdisc { overhead: -14, ..plain }.attributes();
        let [_, options, TcAttribute::Other(table)] = &attributes[..] else { panic!("{attributes:?}") };
        assert!(matches!(options, TcAttribute::Other(options) if options.kind() == 0x8002));
        let mut bytes = vec![0; table.value_len()];
        table.emit_value(&mut bytes);
        // Length 28, kind 1, then logarithms and alignment 0, overhead -14, and no link layer, sizes or entries.
        let spec = [&[28, 0, 1, 0][..], &[0; 4], &[0xf2, 0xff, 0xff, 0xff], &[0; 16]].concat();
        assert_eq!((table.kind(), bytes), (0x8008, spec));
    }

    #[test]
    fn interface_names_the_kernel_refuses_are_refused() {
        for name in ["", "sixteen-letters-", "a b", "a/b", "a:b", ".", ".."] {
            assert!(check_interface_name(name).is_err(), "{name:?}");
        }
        assert!(check_interface_name("fifteen-letters").is_ok());
    }
}
