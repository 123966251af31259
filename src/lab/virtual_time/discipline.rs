//! Gives the links of a guest their queue disciplines, through rtnetlink as `tc qdisc add parent 1:1` does.

use anyhow::{Context, Result};

use crate::path::LinkConfig;
use crate::path::discipline::FIRST_CLASS;
use shared::kernel::netlink::set_qdisc;
use shared::kernel::netns::Netns;

/// Does nothing if the direction has a drop-tail queue. The laboratory already knows the link. Disciplines that follow the
/// first one are there from the start too, and the link puts each in place at its time.
///
/// # Errors
/// The guest's kernel does not have the discipline, or refuses a parameter.
pub fn set(netns: &Netns, device: &str, config: &LinkConfig, direction: usize) -> Result<()> {
    let disciplines = config.options(direction).map_err(|(_, wrong)| wrong)?;
    for (class, (discipline, options)) in (FIRST_CLASS..).zip(disciplines) {
        let qdisc = discipline.as_child(class, options);
        netns
            .run(|| set_qdisc(device, qdisc))
            .with_context(|| format!("add the queue discipline \"{discipline}\" to \"{device}\""))?;
    }
    Ok(())
}
