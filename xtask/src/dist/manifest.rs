//! Reads what tests need from the manifest for Kubernetes, whose form `kubernetes-validate` checks. tests/kernel/package.rs
//! includes this file.

/// The capabilities that the manifest adds for a container. Their names have no `CAP_`.
///
/// None: there is no such container, or it adds none.
pub fn capabilities<'a>(manifest: &'a str, container: &str) -> Option<Vec<&'a str>> {
    let name = format!("- name: {container}");
    let mut lines = manifest.lines().skip_while(|line| line.trim() != name).skip(1);
    let list = lines.find_map(|line| line.trim().strip_prefix("add: [")?.strip_suffix(']'))?;
    Some(list.split(',').map(str::trim).collect())
}
