//! Two rtnetlink requests: add a qdisc to the loopback interface, and list all queueing disciplines.

use anyhow::Result;
use rtnetlink::packet_core::{DefaultNla, NLM_F_CREATE, NLM_F_EXCL};
use rtnetlink::packet_route::RouteNetlinkMessage;
use rtnetlink::packet_route::tc::{TcAttribute, TcHandle, TcMessage};
use tccc::kernel::netlink::{self, ask};

const TCA_OPTIONS: u16 = 2;

/// Options of netem with no delay and no loss. `struct tc_netem_qopt`: latency, limit, loss, gap, duplicate, jitter; a
/// limit of one packet.
pub const NETEM: &[u32] = &[0, 1, 0, 0, 0, 0];
/// Options of a qdisc that needs none.
pub const DEFAULTS: &[u32] = &[];

/// Adds a qdisc to the loopback interface of this thread's namespace.
pub fn add_to_loopback(kind: &str, options: &[u32]) -> Result<()> {
    const LOOPBACK: i32 = 1;
    let mut message = TcMessage::with_index(LOOPBACK);
    message.header.parent = TcHandle::ROOT;
    message.attributes = vec![TcAttribute::Kind(kind.to_owned())];
    if !options.is_empty() {
        let bytes = options.iter().flat_map(|word| word.to_ne_bytes()).collect();
        message.attributes.push(TcAttribute::Other(DefaultNla::new(TCA_OPTIONS, bytes)));
    }
    ask(RouteNetlinkMessage::NewQueueDiscipline(message), NLM_F_CREATE | NLM_F_EXCL).map(drop)
}

/// Every queueing discipline of this thread's namespace, one line each.
pub fn qdiscs() -> Result<Vec<String>> {
    let lines = netlink::qdiscs()?.into_iter().filter_map(|TcMessage { header, attributes, .. }| {
        let kind = attributes.into_iter().find_map(|attribute| match attribute {
            TcAttribute::Kind(kind) => Some(kind),
            _ => None,
        })?;
        let interface = nix::net::if_::if_indextoname(header.index as u32).unwrap_or_default();
        Some(format!("qdisc: {kind} at {:#x} of {}", u32::from(header.parent), interface.to_string_lossy()))
    });
    Ok(lines.collect())
}
