//! What tccc could leave behind on a host, read from the file system only. `cargo xtask demo` uses this file too.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use procfs::FromRead as _;
use procfs::process::MountInfos;

/// How long the kernel may take to tear down things in the background.
pub const SETTLING: Duration = Duration::from_secs(5);

/// Registered algorithms, the default algorithm, pins, named namespaces, cgroups of tccc, interfaces: one line each.
pub fn lines() -> BTreeSet<String> {
    let mut lines = BTreeSet::new();
    lines.extend(algorithms().iter().map(|name| format!("algorithm: {name}")));
    lines.insert(format!("default algorithm: {}", setting("tcp_congestion_control").trim()));
    lines.extend(mounted("bpf").iter().flat_map(|root| tree(root)).map(|path| line("pin", &path)));
    lines.extend(entries(Path::new("/run/netns")).iter().map(|path| line("namespace", path)));
    lines.extend(entries(Path::new("/sys/class/net")).iter().map(|path| line("interface", path)));
    let cgroups = mounted("cgroup2").iter().flat_map(|root| tree(root)).collect::<Vec<_>>();
    lines.extend(
        cgroups.iter().filter(|path| path.is_dir()).map(|path| line("cgroup", path)).filter(|line| is_ours(line)),
    );
    lines
}

/// What was left behind or removed since `before`, after the host had `settling` to restore itself.
pub fn change(before: &BTreeSet<String>, settling: Duration, lines: impl Fn() -> BTreeSet<String>) -> Option<String> {
    let (deadline, mut now) = (Instant::now() + settling, lines());
    while now != *before && Instant::now() < deadline {
        // The kernel does not announce the end of a teardown.
        thread::sleep(Duration::from_millis(5));
        now = lines();
    }
    let [left, gone] = [now.difference(before), before.difference(&now)].map(Iterator::collect::<Vec<_>>);
    (now != *before).then(|| format!("left behind {left:?}, missing {gone:?}"))
}

pub fn algorithms() -> Vec<String> {
    setting("tcp_available_congestion_control").split_whitespace().map(str::to_owned).collect()
}

/// The first mount of a kind of file system ("bpf", "cgroup2") in this thread's namespace.
pub fn mounted(kind: &str) -> Option<PathBuf> {
    let mounts = MountInfos::from_file("/proc/thread-self/mountinfo").ok()?;
    mounts.into_iter().find(|mount| mount.fs_type == kind).map(|mount| mount.mount_point)
}

fn setting(name: &str) -> String {
    fs::read_to_string(format!("/proc/sys/net/ipv4/{name}")).unwrap_or_default()
}

fn line(what: &str, path: &Path) -> String {
    format!("{what}: {}", path.display())
}

/// Other programs may create cgroups at any time.
fn is_ours(line: &str) -> bool {
    line.contains("tccc")
}

fn entries(folder: &Path) -> Vec<PathBuf> {
    fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path()).collect()
}

/// All files and folders below a folder.
pub fn tree(folder: &Path) -> Vec<PathBuf> {
    let mut paths = entries(folder);
    let folders: Vec<PathBuf> = paths.iter().filter(|path| path.is_dir() && !path.is_symlink()).cloned().collect();
    paths.extend(folders.iter().flat_map(|folder| tree(folder)));
    paths
}
