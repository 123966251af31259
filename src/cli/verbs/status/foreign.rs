//! BPF congestion control registered by other programs, and how to remove it.

use std::io::{self, Write};

use anyhow::Result;
use serde::Serialize;

use host::loader::survey::{self, LoadedName};
use shared::kernel::congestion;
use shared::kernel::probe::Features;
use shared::kernel::struct_ops::{self, OpsTable};
use shared::sanitize::plain;

#[derive(Debug, Serialize)]
pub struct Foreign {
    name: String,
    /// The map that holds its ops table.
    map_id: u32,
    /// The variable in its source.
    map_name: String,
    /// The link that registers it; `None` if the map itself does.
    link_id: Option<u32>,
    /// A process that holds the map or the link.
    pid: Option<u32>,
    command: Option<String>,
    remove: String,
}

/// # Errors
/// The kernel does not list its maps.
pub fn find(ours: &[LoadedName], features: &Features) -> Result<Vec<Foreign>> {
    let available = congestion::available()?;
    let is_ours = |name: &str| ours.iter().any(|instance| instance.name == name && instance.is_registered);
    let tables = struct_ops::tables(features)?.into_iter();
    let tables = tables.filter(|table| available.contains(&table.name) && !is_ours(&table.name));
    let links = struct_ops::links()?;
    let found = tables.filter_map(|table| {
        let link_id = links.iter().find(|link| link.map_id == table.map_id).map(|link| link.link_id);
        if table.by_link && link_id.is_none() {
            return None; // still loaded, but no longer registered
        }
        let remove = match link_id {
            Some(id) => format!("bpftool link detach id {id}"),
            None => format!("bpftool struct_ops unregister id {}", table.map_id),
        };
        let (pid, command) = survey::holder_of(table.map_id).unzip();
        let OpsTable { name, map_id, map_name, .. } = table;
        Some(Foreign { name, map_id, map_name, link_id, pid, command, remove })
    });
    Ok(found.collect())
}

impl Foreign {
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
