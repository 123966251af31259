//! `tccc apply`: make this host what `/etc/tccc/*.toml` declares.

use std::io::{self, Write};
use std::path::{Path, PathBuf};

use anyhow::Result;
use serde::Serialize;

use super::capabilities;
use super::guard::guard_command;
use super::risk::Given;
use crate::catalog;
use crate::cli::output::{Format, note, tell};
use crate::declaration::carry_out::{self, Tools};
use crate::declaration::difference::{self, ApplyStep, Cure, Difference};
use crate::declaration::{self, Declaration};
use crate::failure::Failure;
use crate::kernel::privilege;
use crate::kernel::probe::Features;
use crate::plain::plain_lines;
use crate::policy::resolve;
use crate::policy::rule::Policy;
use crate::trial;

/// Make this host what the files in /etc/tccc declare
///
/// They declare algorithms with their tunables, the default algorithm and the policy. What differs from them is changed;
/// what an earlier `tccc apply` loaded and no file declares any more is unloaded. Run again, it changes nothing. What was
/// loaded by hand is left alone.
///
/// A policy that its guard took back is not applied again until its file changes.
///
/// Example: `tccc apply --dry-run`
#[derive(Debug, clap::Args)]
#[command(after_long_help = capabilities::of("apply", ""))]
pub struct Args {
    /// Folder of the files
    #[arg(long, value_name = "FOLDER", default_value = declaration::FOLDER)]
    config: PathBuf,
    /// Print each difference and the change that it would lead to; make none
    #[arg(short = 'n', long)]
    dry_run: bool,
    /// End with 1 where something differs; with --dry-run
    #[arg(long, requires = "dry_run")]
    exit_code: bool,
    /// How the result is printed
    #[arg(short, long, value_enum, default_value_t = Format::Table)]
    output: Format,
}

#[derive(Serialize)]
struct Document<'a> {
    folder: &'a Path,
    files: &'a [PathBuf],
    differences: Vec<DifferenceLine>,
}

#[derive(Serialize)]
struct DifferenceLine {
    what: String,
    /// What was changed, or would be; none: only a person can.
    change: Option<String>,
    /// Why only a person can.
    waits_for: Option<String>,
    done: bool,
    /// Why it was not, although it was tried.
    error: Option<String>,
}

impl Args {
    /// Compares, changes, and prints what was done.
    ///
    /// Errors: mistakes in the files; a need of this host; a change that the kernel refuses; what only a person can change.
    pub fn run(&self) -> Result<()> {
        let declaration = declaration::file::read(&self.config)?;
        let features = Features::probe()?;
        if !self.dry_run {
            privilege::require("make this host as it is declared", &privilege::FOR_LOAD)?;
            trial::sweep()?;
        }
        let differences = difference::between(&declaration, &features)?;
        check_risks(&declaration, &differences)?;
        let mut guard = guard_command;
        let mut tools = Tools { features: &features, guard: &mut guard };
        let carry = |it: &Difference| line(it, |step| carry_out::carry_out(step, &declaration, &mut tools));
        let look = |it: &Difference| DifferenceLine { done: false, ..line(it, |_| Ok(())) };
        let mut lines: Vec<DifferenceLine> = match self.dry_run {
            true => differences.iter().map(look).collect(),
            false => differences.iter().map(carry).collect(),
        };
        if lines.iter().any(|line| line.error.is_some()) {
            forgive_what_another_did(&mut lines, &difference::between(&declaration, &features)?);
        }
        self.print(&declaration, lines)
    }

    fn print(&self, declaration: &Declaration, lines: Vec<DifferenceLine>) -> Result<()> {
        let undone = lines.iter().filter(|line| !line.done).count();
        let Declaration { folder, files, .. } = declaration;
        let document = Document { folder, files, differences: lines };
        self.output.print(&document, |out, document| write_lines(out, document, self.dry_run))?;
        io::stdout().flush()?;
        if self.dry_run && self.exit_code && undone > 0 {
            std::process::exit(1);
        }
        if !self.dry_run && undone > 0 {
            let what = format!("{undone} of the differences from {} are left", declaration.folder.display());
            return Err(Failure::failed(what).hint("`tccc apply --dry-run` lists them").into());
        }
        Ok(())
    }
}

/// Says what is risked where connections get an algorithm unasked: it is the default, or a rule gives it without a guard.
///
/// Errors: the risk of one is high or not measured, and the declaration does not accept it.
fn check_risks(declaration: &Declaration, differences: &[Difference]) -> Result<()> {
    let comes =
        |wanted: fn(&ApplyStep) -> bool| differences.iter().any(|it| matches!(&it.cure, Cure::Step(it) if wanted(it)));
    let default = declaration.default.iter().filter(|_| comes(|step| matches!(step, ApplyStep::SetDefault(_))));
    let of_default = default.map(|name| (name.clone(), "make", "the default"));
    let policy = declaration.policy.as_ref().filter(|_| comes(|step| *step == ApplyStep::ApplyPolicy));
    let policy = policy.map(|declared| declared.policy.clone()).unwrap_or_default();
    let unguarded = Policy { rules: policy.rules.into_iter().filter(|rule| rule.trial.is_none()).collect() };
    let of_rules = resolve::algorithms(&unguarded).into_iter().map(|name| (name, "give", "to connections"));
    for (name, verb, place) in of_default.chain(of_rules) {
        let declared = declaration.algorithms.get(&name);
        let given = match declared {
            Some(declared) => Given::new(&name, &declared.algorithm, &declared.settings),
            None => match catalog::find(&name) {
                Ok(algorithm) => Given::new(&name, algorithm, &[]),
                Err(_) => continue, // the kernel's own, or one that somebody loads by hand
            },
        };
        let is_accepted = declared.is_some_and(|declared| declared.accepts_risk);
        given.admit(&format!("{verb} \"{name}\" {place}"), "", is_accepted).map_err(|failure| {
            failure.hint(format!("give its rules a `guard`, or write `accept_risk = true` below [algorithm.{name}]"))
        })?;
    }
    Ok(())
}

/// Another `tccc apply` may have made the same change first.
fn forgive_what_another_did(lines: &mut [DifferenceLine], left: &[Difference]) {
    let is_gone = |line: &&mut DifferenceLine| line.error.is_some() && !left.iter().any(|it| it.what == line.what);
    for line in lines.iter_mut().filter(is_gone) {
        (line.done, line.error) = (true, None);
    }
}

fn line(difference: &Difference, mut carry_out: impl FnMut(&ApplyStep) -> Result<()>) -> DifferenceLine {
    let what = difference.what.clone();
    match &difference.cure {
        Cure::Person(why) => {
            DifferenceLine { what, change: None, waits_for: Some(why.clone()), done: false, error: None }
        }
        Cure::Step(step) => {
            let error = carry_out(step).err().map(|error| format!("{error:#}"));
            DifferenceLine { what, change: Some(step.to_string()), waits_for: None, done: error.is_none(), error }
        }
    }
}

fn write_lines(out: &mut impl Write, document: &Document, is_dry: bool) -> io::Result<()> {
    let folder = document.folder.display();
    if document.differences.is_empty() {
        return writeln!(out, "this host is what {folder} declares");
    }
    if document.files.is_empty() {
        note(&format!("{folder} has no .toml file: nothing is declared"));
    }
    for DifferenceLine { what, change, waits_for, error, .. } in &document.differences {
        let change = change.as_deref().unwrap_or_default();
        match (waits_for, error) {
            (Some(why), _) => writeln!(out, "{what}: left as it is: {why}")?,
            (None, Some(error)) => {
                tell(&format!("tccc: {}\n", plain_lines(&format!("{what}: cannot {change}: {error}"))))
            }
            (None, None) if is_dry => writeln!(out, "{what}: would {change}")?,
            (None, None) => writeln!(out, "{what}: {change}: done")?,
        }
    }
    Ok(())
}
