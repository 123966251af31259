//! Gives the links of a guest their queue disciplines, through rtnetlink as `tc qdisc add parent 1:1` does.

use anyhow::{Context, Result};
use rtnetlink::packet_route::tc::TcHandle;

use crate::path::LinkConfig;
use crate::path::discipline::DisciplineKind;
use crate::path::request::FIRST_CLASS;
use shared::kernel::netlink::{Qdisc, set_qdisc, with_handle};
use shared::kernel::netns::Netns;

/// Does nothing if the direction has a drop-tail queue. The laboratory already knows the link. Disciplines that follow the
/// first one are there from the start too, and the link puts each in place at its time.
///
/// # Errors
/// The guest's kernel does not have the discipline, or refuses a parameter.
pub fn set(netns: &Netns, device: &str, config: &LinkConfig, direction: usize) -> Result<()> {
    let disciplines = config.options(direction).map_err(|(_, wrong)| wrong)?;
    for (class, (discipline, options)) in (FIRST_CLASS as u16..).zip(disciplines) {
        let (kind, is_nested) = (discipline.kind.to_string(), discipline.kind != DisciplineKind::Pfifo);
        let (parent, number) = (TcHandle { major: 1, minor: class }, TcHandle { major: 1 + class, minor: 0 });
        let qdisc = Qdisc { kind: &kind, parent, handle: number, options, is_nested };
        with_handle(netns, async |mut handle| set_qdisc(&mut handle, device, qdisc).await)
            .with_context(|| format!("add the queue discipline \"{discipline}\" to \"{device}\""))?;
    }
    Ok(())
}
