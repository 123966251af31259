//! The defaults of other network namespaces.
//!
//! A new namespace takes over the default of the first one. The default is a pointer to code: it outlives the name.

use std::path::Path;

use anyhow::{Result, ensure};

use shared::kernel::congestion::DEFAULT_SYSCTL;
use shared::kernel::netns::Netns;
use shared::kernel::{congestion, namespaces, socket, sysctl};
use shared::sanitize::count;

/// A sysctl that exists only in the initial network namespace.
const ONLY_IN_THE_FIRST: &str = "net.ipv4.tcp_mem";

/// Other network namespaces than this process's own.
#[derive(Debug, Default)]
pub struct OtherDefaults {
    /// Their default is the name.
    pub having: Vec<Netns>,
    /// Processes and namespaces that this process has no right to look at.
    pub unread: usize,
}

impl OtherDefaults {
    /// Looks at every namespace that can be found.
    ///
    /// # Errors
    /// /proc is not mounted.
    pub fn of(name: &str) -> Result<Self> {
        let own = Netns::current()?.inode();
        let survey = socket::namespaces()?;
        let mut found = OtherDefaults { having: Vec::new(), unread: survey.hidden };
        for netns in survey.reachable.into_iter().filter(|netns| netns.inode() != own) {
            match sysctl::read(&netns, DEFAULT_SYSCTL) {
                Ok(default) if default.as_deref() == Some(name) => found.having.push(netns),
                Ok(_) => {}
                Err(_) => found.unread += 1,
            }
        }
        Ok(found)
    }

    /// `what` is what a default keeps that was not found.
    pub fn note(&self, what: &str) -> Option<String> {
        let unread = count(self.unread, "process or network namespace");
        (self.unread > 0).then(|| {
            format!("{unread} could not be inspected: a default there keeps {what}; run it as root to include them")
        })
    }
}

/// Writes the default of another namespace.
///
/// # Errors
/// The namespace may not have it; not permitted.
pub fn set(netns: &Netns, name: &str) -> Result<()> {
    let is_first = sysctl::read(netns, ONLY_IN_THE_FIRST).is_ok_and(|value| value.is_some());
    check_allowed(name, is_first)?;
    sysctl::write(netns, DEFAULT_SYSCTL, name)
}

/// Writes the default of this process's namespace, also without the right to enter another.
///
/// # Errors
/// As [`set`].
pub fn set_own(name: &str) -> Result<()> {
    check_allowed(name, congestion::check_settable().is_ok())?;
    congestion::set_default(name)
}

/// Checks before writing, because some kernels keep code in memory forever once they have refused it as a default.
fn check_allowed(name: &str, is_first: bool) -> Result<()> {
    const WHY: &str = "only the initial network namespace may have a default that not everybody may choose";
    ensure!(is_first || congestion::is_allowed(name)?, WHY);
    Ok(())
}

/// A word for a person: the name of a namespace, or else its inode.
pub fn label(netns: &Netns) -> String {
    namespaces::name_of(netns.inode()).unwrap_or_else(|| netns.inode().to_string())
}

/// The command that sets the default of a namespace.
pub fn command(netns: &Netns, name: &str) -> String {
    let place = namespaces::path_of(netns.inode());
    let path = place.as_deref().unwrap_or(Path::new("PATH"));
    format!("nsenter --net={} sysctl -w {DEFAULT_SYSCTL}={name}", path.display())
}
