//! Reads what a test needs from the manifest for Kubernetes, whose form `kubernetes-validate` checks.

/// The capabilities that the manifest adds for a container. Their names have no `CAP_`.
///
/// None: there is no such container, or it adds none.
pub fn capabilities<'a>(manifest: &'a str, container: &str) -> Option<Vec<&'a str>> {
    let name = format!("- name: {container}");
    let mut lines = manifest.lines().skip_while(|line| line.trim() != name).skip(1);
    let list = lines.find_map(|line| line.trim().strip_prefix("add: [")?.strip_suffix(']'))?;
    Some(list.split(',').map(str::trim).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn capabilities_are_those_of_the_container() {
        let manifest = "- name: a\n  capabilities:\n    add: [BPF, NET_ADMIN]\n- name: b\n  add: [SYS_ADMIN]\n";
        assert_eq!(capabilities(manifest, "a").unwrap(), ["BPF", "NET_ADMIN"]);
        assert_eq!(capabilities(manifest, "b").unwrap(), ["SYS_ADMIN"]);
        assert_eq!(capabilities(manifest, "c"), None);
    }
}
