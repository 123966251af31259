//! `tccc load`: register an algorithm with the kernel so that it outlives this command.

use std::io::{self, Write};
use std::path::Path;

use anyhow::Result;

use super::note;
use crate::catalog::{self, Algorithm};
use crate::failure::Failure;
use crate::kernel::congestion;
use crate::kernel::probe::Features;
use crate::loader::{self, Loaded, Options, Request};
use crate::state::Store;

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
        let request = Request { algorithm: &algorithm, name, settings: &settings, file };
        loader::check_name(name)?;
        let options = Options { make_default: self.default, replace: self.replace, dry_run: self.dry_run };
        let loaded = loader::load(&request, options, &Features::probe()?)?;
        loaded.adapted.iter().for_each(|phrase| note(phrase));
        self.report(&loaded)
    }

    fn report(&self, loaded: &Loaded) -> Result<()> {
        let mut out = io::stdout().lock();
        if self.dry_run {
            writeln!(out, "\"{}\" passes the verifier; loading it would", loaded.record.name)?;
            loaded.changes.iter().try_for_each(|change| writeln!(out, "  {change}"))?;
            return Ok(());
        }
        let record = &loaded.record;
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
