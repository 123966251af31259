//! Congestion control as BPF that others registered, and how it is removed.

use std::io::{self, Write};

use anyhow::Result;
use serde::Serialize;

use crate::kernel::probe::Features;
use crate::kernel::{congestion, struct_ops};
use crate::loader::survey::{self, Instance};
use crate::plain::plain;

/// One algorithm that tccc did not register.
#[derive(Debug, Serialize)]
pub struct Foreign {
    pub name: String,
    /// Number of the map that holds its table.
    pub map_id: u32,
    /// The map's name: the variable in the source.
    pub map_name: String,
    /// The link that registers it; none where the map itself does.
    pub link_id: Option<u32>,
    /// A process that holds the map or the link.
    pub pid: Option<u32>,
    pub command: Option<String>,
    pub remove: String,
}

/// Every registered table whose name is not ours.
///
/// Errors: the kernel does not list its maps.
pub fn find(ours: &[Instance], features: &Features) -> Result<Vec<Foreign>> {
    let available = congestion::available()?;
    let is_ours = |name: &str| ours.iter().any(|instance| instance.name == name && instance.is_registered);
    let tables = struct_ops::tables(features)?.into_iter();
    let tables = tables.filter(|table| available.contains(&table.name) && !is_ours(&table.name));
    let links = struct_ops::links()?;
    let found = tables.filter_map(|table| {
        let link_id = links.iter().find(|link| link.map_id == table.map_id).map(|link| link.link_id);
        if table.by_link && link_id.is_none() {
            return None; // loaded, and registered no more
        }
        let holder = survey::holder_of(table.map_id);
        let remove = match link_id {
            Some(id) => format!("bpftool link detach id {id}"),
            None => format!("bpftool struct_ops unregister id {}", table.map_id),
        };
        let (pid, command) = holder.map_or((None, None), |(pid, command)| (Some(pid), Some(command)));
        Some(Foreign {
            name: table.name,
            map_id: table.map_id,
            map_name: table.map_name,
            link_id,
            pid,
            command,
            remove,
        })
    });
    Ok(found.collect())
}

impl Foreign {
    /// One line, with how to remove it.
    pub fn write(&self, out: &mut impl Write) -> io::Result<()> {
        let Foreign { name, map_id, map_name, remove, .. } = self;
        let holder = match (self.pid, &self.command) {
            (Some(pid), Some(command)) => format!(", held by process {pid} ({})", plain(command)),
            _ => String::new(),
        };
        let (name, map_name) = (plain(name), plain(map_name));
        writeln!(out, "registered by others: \"{name}\" (map {map_id}, {map_name}{holder}): `{remove}` removes it")
    }
}
