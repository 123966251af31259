//! Settings under `/proc/sys/net` of one network namespace.

use std::fs;
use std::io::{self, ErrorKind};
use std::path::PathBuf;

use anyhow::{Context, Result, ensure};

use crate::failure::Failure;
use crate::kernel::netns::Netns;

/// Sets network settings of a namespace, with names such as `net.ipv4.tcp_sack`. Returns those that this kernel lacks.
///
/// # Errors
/// A name outside `net.`, which would affect other namespaces; the kernel refuses a value; not permitted.
pub fn set_all(netns: &Netns, settings: &[(&str, &str)]) -> Result<Vec<String>> {
    netns.run(|| {
        let mut lacking = Vec::new();
        for (name, value) in settings {
            match fs::write(path_of(name)?, value) {
                Err(error) if error.kind() == ErrorKind::NotFound => lacking.push((*name).to_owned()),
                other => other.map_err(|error| refused(name, value, error))?,
            }
        }
        Ok(lacking)
    })
}

/// `None` if this kernel lacks the setting.
///
/// # Errors
/// A name outside `net.`; not permitted.
pub fn read(netns: &Netns, name: &str) -> Result<Option<String>> {
    let path = path_of(name)?;
    netns.run(|| match fs::read_to_string(&path) {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        other => Ok(Some(other.with_context(|| format!("read {name}"))?.trim().to_owned())),
    })
}

/// # Errors
/// A name outside `net.`; the kernel refuses the value; not permitted.
pub fn write(netns: &Netns, name: &str, value: &str) -> Result<()> {
    let path = path_of(name)?;
    netns.run(|| fs::write(&path, value).map_err(|error| refused(name, value, error)))
}

/// A container may mount `/proc/sys` read-only, although the process may change its own network namespace.
fn refused(name: &str, value: &str, error: io::Error) -> anyhow::Error {
    let what = format!("set {name} = {value} in a network namespace");
    if error.kind() != ErrorKind::ReadOnlyFilesystem {
        return anyhow::Error::from(error).context(what);
    }
    let failure = Failure::unmet(format!("cannot {what}: /proc/sys is mounted read-only"));
    failure.hint("run it outside this container, or remount it: `mount -o remount,rw /proc/sys`").into()
}

fn path_of(name: &str) -> Result<PathBuf> {
    let is_of_networks = name.starts_with("net.") && !name.contains('/');
    ensure!(is_of_networks, "\"{name}\" is not a setting of a network namespace: it does not begin with `net.`");
    Ok(PathBuf::from("/proc/sys").join(name.replace('.', "/")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_outside_a_namespace_are_refused() {
        assert!(path_of("kernel.hostname").is_err());
        assert!(path_of("net.ipv4/../../kernel").is_err());
        assert_eq!(path_of("net.ipv4.tcp_sack").unwrap(), PathBuf::from("/proc/sys/net/ipv4/tcp_sack"));
    }
}
