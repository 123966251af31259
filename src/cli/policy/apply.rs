//! `tccc policy apply`: make a policy decide.

use std::io::{self, Write as _};

use anyhow::Result;

use super::File;
use super::check::in_file;
use crate::cli::note;
use crate::policy::change::{self, Applied};
use crate::policy::generation::Role;
use crate::policy::sweep::Moves;

/// Make the rules of a file decide, in the place of those before
///
/// Algorithms that rules name are loaded with the policy. Connections that are open keep their algorithm, unless `--live`
/// is given. The policy stays until `tccc policy remove` or a reboot.
///
/// Example: `tccc policy apply web.toml --trial 10m`
///
/// Needs CAP_BPF, CAP_PERFMON, CAP_NET_ADMIN, a mounted BPF file system and cgroup v2.
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(flatten)]
    file: File,
    /// Also change the algorithm of open connections; needs CAP_SYS_ADMIN to enter network namespaces
    #[arg(long)]
    live: bool,
    /// Print each change that would be made; make none
    #[arg(short = 'n', long)]
    dry_run: bool,
}

impl Args {
    /// Applies, and says what was done.
    ///
    /// Errors: mistakes in the file; a need of this host; the kernel's refusal.
    pub fn run(&self) -> Result<()> {
        let policy = self.file.read()?;
        let mut out = io::stdout().lock();
        if self.dry_run {
            let plan = change::plan(&policy, self.live).map_err(|error| in_file(&self.file, error))?;
            writeln!(out, "applying {} would", self.file.file.display())?;
            plan.iter().try_for_each(|change| writeln!(out, "  {change}"))?;
            return Ok(());
        }
        let applied = change::apply(&policy, Some(&self.file.path()), Role::Permanent, self.live);
        let applied = applied.map_err(|error| in_file(&self.file, error))?;
        print(&mut out, &applied)
    }
}

/// Says what applying a policy did.
fn print(out: &mut impl io::Write, applied: &Applied) -> Result<()> {
    let generation = &applied.generation;
    applied.loaded.iter().try_for_each(|name| writeln!(out, "\"{name}\" loaded"))?;
    let rules = generation.policy.rules.len();
    writeln!(
        out,
        "policy generation {}: {rules} rule{} at the cgroup {}",
        generation.number,
        if rules == 1 { "" } else { "s" },
        generation.cgroup.display()
    )?;
    applied.unloaded.iter().try_for_each(|name| writeln!(out, "\"{name}\" unloaded: no rule names it any more"))?;
    match &applied.moves {
        Some(moves) => write_moves(out, moves)?,
        None => note("open connections keep their algorithm; `--live` moves them too"),
    }
    Ok(())
}

/// Says what became of open connections.
pub(super) fn write_moves(out: &mut impl io::Write, moves: &Moves) -> io::Result<()> {
    let Moves { seen, moved, already, chosen, failed } = moves;
    writeln!(
        out,
        "open connections: {seen} seen, {moved} moved, {already} had it, {chosen} chosen by programs or routes"
    )?;
    if *failed > 0 { writeln!(out, "open connections: {failed} that the kernel refused to move") } else { Ok(()) }
}
