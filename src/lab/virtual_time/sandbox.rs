//! Confines the process of a guest to its own program, its first file system, its memory, and one folder.
//!
//! Landlock enforces this, even if code in the guest takes over the guest's kernel. It needs no privilege.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use landlock::{
    ABI, Access, AccessFs, AccessNet, BitFlags, CompatLevel, Compatible, PathBeneath, PathFd, Ruleset, RulesetAttr,
    RulesetCreated, RulesetCreatedAttr, Scope,
};

/// The oldest useful version, of Linux 6.2. Before it, a process may truncate files that it may not write.
const NEEDED: ABI = ABI::V3;
/// The newest version whose rules are used: of Linux 6.12, with sockets and signals.
const WANTED: ABI = ABI::V6;

/// What a guest's process may access.
#[derive(Debug, Clone)]
pub struct Reach {
    pub kernel: PathBuf,
    pub image: PathBuf,
    pub memory: PathBuf,
    /// The shared folder.
    pub folder: PathBuf,
}

/// Whether this host can confine a guest.
pub fn is_available() -> bool {
    let rules = Ruleset::default().set_compatibility(CompatLevel::HardRequirement);
    rules.handle_access(AccessFs::from_all(NEEDED)).and_then(Ruleset::create).is_ok()
}

/// Confines the calling thread, and the processes that it starts, permanently. Without Landlock it does nothing.
///
/// # Errors
/// The kernel refuses the rules.
pub fn enter(reach: &Reach, libraries: &[PathBuf]) -> Result<()> {
    if !is_available() {
        return Ok(());
    }
    let run = AccessFs::ReadFile | AccessFs::Execute;
    // Without links, no path that the guest's kernel follows in its folder leads out of it.
    let write = AccessFs::from_all(WANTED) & !(AccessFs::Execute | AccessFs::MakeSym | AccessFs::Refer);
    let read: BitFlags<AccessFs> = AccessFs::ReadFile.into();
    let own = [(reach.kernel.as_path(), run), (&reach.image, read), (&reach.memory, write), (&reach.folder, write)];
    let of_host = [("/etc/ld.so.cache", read), ("/proc/cpuinfo", read), ("/dev/null", read | AccessFs::WriteFile)];
    let mut rules = rules().context("prepare the guest's sandbox")?;
    for (path, access) in own.into_iter().chain(of_host.map(|(path, access)| (Path::new(path), access))) {
        rules = allow(rules, path, access)?;
    }
    for library in libraries {
        rules = allow(rules, library, run)?;
    }
    rules.restrict_self().context("enter the guest's sandbox").map(drop)
}

fn rules() -> Result<RulesetCreated> {
    let rules = Ruleset::default().handle_access(AccessFs::from_all(WANTED))?;
    let rules = rules.handle_access(AccessNet::from_all(WANTED))?.scope(Scope::from_all(WANTED))?;
    Ok(rules.create()?)
}

/// A missing file needs no rule.
fn allow(rules: RulesetCreated, path: &Path, access: BitFlags<AccessFs>) -> Result<RulesetCreated> {
    let Ok(opened) = PathFd::new(path) else { return Ok(rules) };
    rules
        .add_rule(PathBeneath::new(opened, access))
        .with_context(|| format!("open \"{}\" to the guest", path.display()))
}
