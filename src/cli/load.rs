//! `tccc load`: register an algorithm with the kernel so that it outlives this command.

use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Result;

use super::confirm::{parse_trial, start_guard};
use super::{note, warn};
use crate::catalog::{self, Algorithm};
use crate::failure::Failure;
use crate::kernel::netns::Netns;
use crate::kernel::probe::Features;
use crate::kernel::{congestion, offload};
use crate::loader::confirm::Guard;
use crate::loader::{self, Loaded, Options, Request};
use crate::state::Store;
use crate::units::format_duration;

/// Register an algorithm with the kernel, until `tccc unload`
///
/// Sockets can then choose it by its name (`iperf3 -C dtcp`); with `--default` all that choose none get it. Tunables are
/// whole numbers in the unit that `tccc show` gives; each has its own range.
///
/// Example: `tccc load dtcp --as dtcp_mild --set keep_avoidance=896`
///
/// Needs CAP_BPF, CAP_PERFMON, CAP_NET_ADMIN and a mounted BPF file system.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// An algorithm of `tccc list`, or an object file of your own (a path that ends in .o)
    #[arg(value_name = "ID|FILE.bpf.o")]
    algorithm: String,
    /// Name in the kernel, at most 15 letters, digits and _
    #[arg(long = "as", value_name = "NAME")]
    name: Option<String>,
    /// Value of a tunable, in its own unit; may be given several times
    #[arg(long = "set", value_name = "TUNABLE=VALUE")]
    settings: Vec<String>,
    /// Also make it the default algorithm of this host; `tccc unload` restores the one before
    #[arg(long)]
    default: bool,
    /// Put it in the place of one loaded under the same name; open sockets keep the old code
    #[arg(long)]
    replace: bool,
    /// Set up the receiving side alone, for an algorithm whose senders need one; registers nothing
    #[arg(long, conflicts_with_all = ["default", "replace", "settings"])]
    receiver: bool,
    /// Where to attach an algorithm's companion program, below the cgroup v2 mount; without it for every socket
    #[arg(long, value_name = "PATH")]
    cgroup: Option<PathBuf>,
    /// Undo everything after this time, such as 60s, unless `tccc confirm` follows before
    #[arg(long, value_name = "TIME", conflicts_with = "replace", value_parser = parse_trial)]
    confirm: Option<Duration>,
    /// Have the kernel verify it and print each change that would be made; make none
    #[arg(short = 'n', long)]
    dry_run: bool,
}

impl Args {
    /// Loads, and prints what was done.
    ///
    /// Errors: wrong words; a need of this host; the kernel's refusal.
    pub fn run(&self) -> Result<()> {
        let (algorithm, file) = find(&self.algorithm)?;
        let settings = algorithm.settings(&self.settings)?;
        let name = self.name.as_deref().unwrap_or(&algorithm.id);
        let request =
            Request { algorithm: &algorithm, name, settings: &settings, file, cgroup: self.cgroup.as_deref() };
        loader::check_name(name)?;
        let trial = self.confirm.filter(|_| !self.dry_run);
        let guard = trial.map(|patience| start_guard(name, patience)).transpose()?;
        let options = Options {
            make_default: self.default,
            replace: self.replace,
            dry_run: self.dry_run,
            unconfirmed: guard.as_ref().map(Guard::unconfirmed),
            with_policy: false,
        };
        let load = if self.receiver { loader::load_receiver } else { loader::load };
        let features = Features::probe()?;
        let loaded = load(&request, options, &features)?;
        if let Some(Err(too_late)) = guard.map(Guard::release) {
            loader::unload(name, &features)?;
            return Err(too_late);
        }
        loaded.adapted.iter().for_each(|phrase| note(phrase));
        if let Some(patents) = algorithm.patents() {
            note(&format!("\"{name}\" is patented, for research alone: {}", patents.replace('\n', " ")));
        }
        self.report(&loaded)?;
        if let Some(trial) = trial {
            let name = &loaded.record.name;
            note(&format!("undone in {} unless `tccc confirm {name}` follows", format_duration(trial)));
        }
        if algorithm.companion.is_some_and(|companion| companion.times_single_packets) {
            warn_of_merged_packets();
        }
        Ok(())
    }

    fn report(&self, loaded: &Loaded) -> Result<()> {
        let mut out = io::stdout().lock();
        if self.dry_run {
            let what = if self.receiver { "its receiving side" } else { "it" };
            writeln!(out, "\"{}\" passes the verifier; loading {what} would", loaded.record.name)?;
            loaded.changes.iter().try_for_each(|change| writeln!(out, "  {change}"))?;
            if let Some(trial) = self.confirm {
                writeln!(out, "  start a process that undoes all this after {}", format_duration(trial))?;
            }
            return Ok(());
        }
        let record = &loaded.record;
        if let Some(attachment) = &record.companion {
            let (program, cgroup) = (&attachment.program, attachment.cgroup.display());
            let sides = if self.receiver { "receiving side" } else { "companion" };
            writeln!(out, "\"{}\" {sides}: \"{program}\" attached to the cgroup {cgroup}", record.name)?;
        }
        if self.receiver {
            return Ok(());
        }
        let title = if record.title.is_empty() { &record.algorithm } else { &record.title };
        let generation =
            if record.generation > 1 { format!(", generation {}", record.generation) } else { String::new() };
        writeln!(out, "\"{}\" registered{generation}: {title}", record.name)?;
        if let Some(previous) = record.previous_default.as_ref().filter(|_| self.default) {
            writeln!(out, "default algorithm: \"{}\" (was \"{previous}\")", record.name)?;
        }
        Ok(())
    }
}

/// The interfaces of this namespace whose driver merges what arrives: what is timed there is not the path.
fn warn_of_merged_packets() {
    let Ok(netns) = Netns::current() else { return };
    let folder = std::fs::read_dir("/sys/class/net").into_iter().flatten().flatten();
    let is_up =
        |name: &str| std::fs::read_to_string(format!("/sys/class/net/{name}/carrier")).is_ok_and(|it| it == "1\n");
    let names = folder.map(|entry| entry.file_name().to_string_lossy().into_owned());
    let names = names.filter(|name| name != "lo" && is_up(name));
    let mut merging: Vec<String> =
        names.filter(|name| offload::offloads(&netns, name).is_ok_and(|offloads| offloads.gro)).collect();
    merging.sort();
    if let Some(first) = merging.first() {
        let what = format!("GRO is on at {}: packets that arrive merged measure nothing", merging.join(", "));
        warn(&what, Some(&format!("on the receiving host: `ethtool -K {first} gro off`")));
    }
}

/// An algorithm by id, or a user's file where the text looks like one or is one.
///
/// Errors: no such algorithm; the file is none.
pub fn find(text: &str) -> Result<(Algorithm, Option<&Path>), Failure> {
    let path = Path::new(text);
    let known = catalog::find(text);
    if text.contains('/') || text.ends_with(".o") || (known.is_err() && path.is_file()) {
        let algorithm = catalog::open(path)?;
        if algorithm.title.is_empty() {
            note(&format!("\"{}\" does not describe itself: no title, source or card of tccc in it", algorithm.id));
        }
        return Ok((algorithm, Some(path)));
    }
    let unknown = match known {
        Ok(algorithm) => return Ok((algorithm.clone(), None)),
        Err(unknown) => unknown,
    };
    if let Some(record) = Store::of_host().record(text) {
        let what = format!("\"{text}\" is \"{}\" loaded under another name", record.algorithm);
        return Err(Failure::usage(what).hint(format!("`tccc status` shows it; `tccc show {text}` its card")));
    }
    if congestion::available().is_ok_and(|names| names.iter().any(|name| name == text)) {
        let what = format!("\"{text}\" is the kernel's own: tccc has nothing to load or show of it");
        return Err(Failure::usage(what).hint("sockets choose it by name; `tccc list` shows what tccc carries"));
    }
    Err(unknown)
}
