//! `tccc apply`: make this host match what `/etc/tccc/*.toml` declares.

use std::io::{self, Write};
use std::path::{Path, PathBuf};

use anyhow::Result;
use serde::Serialize;

use super::guard::guard_command;
use super::risk::{AlgorithmRisk, is_given_unasked};
use crate::cli::effect::Effect;
use crate::cli::output::{OutputFormat, note, results, tell};
use host::declaration::carry_out::{self, Tools};
use host::declaration::difference::{self, ApplyStep, Cure, Difference};
use host::declaration::{self, Declaration};
use host::gate;
use host::policy::resolve;
use host::policy::rule::Policy;
use shared::catalog;
use shared::failure::Failure;
use shared::interrupt;
use shared::kernel::privilege;
use shared::kernel::probe::Features;
use shared::sanitize::plain_lines;

/// Make this host match the files in /etc/tccc
///
/// The files declare algorithms with their tunables, the default algorithm and the policy. Whatever differs is changed.
/// What an earlier `tccc apply` loaded is unloaded once no file declares it. What you loaded by hand stays. A second run
/// changes nothing.
///
/// A policy whose trial was reverted is not applied again until its file changes. A policy whose trial was kept is applied
/// without a trial. A trial that was interrupted, for example by a reboot, begins again.
///
/// To undo it, remove the declaration and apply again, or use `tccc unload` and `tccc policy remove`.
///
/// Example: `tccc apply --dry-run`
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Folder with the files
    #[arg(long, value_name = "FOLDER", default_value = declaration::FOLDER)]
    config: PathBuf,
    /// Print each difference and its change, and try what the kernel would refuse, without making the change
    #[arg(short = 'n', long)]
    dry_run: bool,
    /// With --dry-run, exit with 1 if anything differs
    #[arg(long, requires = "dry_run")]
    exit_code: bool,
    /// How to print the result
    #[arg(short, long, value_enum, default_value_t = OutputFormat::Table)]
    output: OutputFormat,
}

#[derive(Serialize)]
struct ApplyDocument<'a> {
    folder: &'a Path,
    files: &'a [PathBuf],
    differences: Vec<DifferenceLine>,
}

#[derive(Serialize)]
struct DifferenceLine {
    what: String,
    /// `None` if only a person can change it.
    change: Option<String>,
    /// Why only a person can change it.
    waits_for: Option<String>,
    done: bool,
    /// What the change could not reach.
    notes: Vec<String>,
    /// Why the change failed.
    error: Option<String>,
}

impl Args {
    pub fn effect(&self) -> Effect {
        Effect::change(self.dry_run, "change the files and apply them again to undo it")
    }

    /// # Errors
    /// Mistakes in the files; a missing requirement of this host; a change that the kernel refuses, or that only a
    /// person can make.
    pub fn run(&self) -> Result<()> {
        let declaration = declaration::file::read(&self.config)?;
        let features = Features::probe()?;
        if !self.dry_run {
            privilege::require("bring this host to its declared state", &privilege::FOR_LOAD)?;
            gate::sweep(&features)?;
        }
        let differences = difference::between(&declaration, &features)?;
        check_risks(&declaration, &differences)?;
        let mut guard = guard_command;
        let mut tools = Tools { features: &features, guard: &mut guard };
        // Without the rights to load, a dry run shows the differences only.
        let may_try = privilege::missing(&privilege::FOR_LOAD).is_empty();
        let mut make = |step: &ApplyStep| match self.dry_run {
            true if may_try => carry_out::try_out(step, &declaration, &features).map(|()| None),
            true => Ok(None),
            false if interrupt::came() => Err(Failure::again("interrupted").into()),
            false => carry_out::carry_out(step, &declaration, &mut tools).map(Some),
        };
        let mut lines: Vec<DifferenceLine> = differences.iter().map(|it| line(it, &mut make)).collect();
        if lines.iter().any(|line| line.error.is_some()) {
            // Another `tccc apply` may have made the same change first.
            let left = difference::between(&declaration, &features)?;
            let is_gone =
                |line: &&mut DifferenceLine| line.error.is_some() && !left.iter().any(|it| it.what == line.what);
            lines.iter_mut().filter(is_gone).for_each(|line| (line.done, line.error) = (true, None));
        }
        let undone = lines.iter().filter(|line| !line.done).count();
        let refused = lines.iter().filter(|line| line.error.is_some()).count();
        let Declaration { folder, files, .. } = &declaration;
        let document = ApplyDocument { folder, files, differences: lines };
        self.output.print(&document, |out, document| write_lines(out, document, self.dry_run))?;
        results().flush()?;
        if self.dry_run && self.exit_code && undone > 0 {
            std::process::exit(1);
        }
        if self.dry_run && refused > 0 {
            let what = format!("{refused} of the changes would fail");
            return Err(Failure::failed(what).hint("`tccc doctor` shows what this host can do").into());
        }
        if !self.dry_run && undone > 0 {
            let what = format!("{undone} of the differences from {} are left", folder.display());
            let fail = if interrupt::came() { Failure::again } else { Failure::failed };
            return Err(fail(what).hint("`tccc apply --dry-run` lists them").into());
        }
        Ok(())
    }
}

/// Notes the risk of each algorithm that connections would get unasked: the default, one of a rule without a guard, or new
/// code of a name that they get already.
///
/// # Errors
/// A risk is high or not measured, and the declaration does not accept it.
fn check_risks(declaration: &Declaration, differences: &[Difference]) -> Result<()> {
    let is_due =
        |wanted: fn(&ApplyStep) -> bool| differences.iter().any(|it| matches!(&it.cure, Cure::Step(it) if wanted(it)));
    let default = declaration.default.iter().filter(|_| is_due(|step| matches!(step, ApplyStep::SetDefault(_))));
    let of_default = default.map(|name| (name.clone(), "make", "the default"));
    let policy = declaration.policy.as_ref().filter(|_| is_due(|step| *step == ApplyStep::ApplyPolicy));
    let policy = policy.map(|declared| declared.policy.clone()).unwrap_or_default();
    let unguarded = Policy { rules: policy.rules.into_iter().filter(|rule| rule.trial.is_none()).collect() };
    let of_rules = resolve::algorithms(&unguarded).into_iter().map(|name| (name, "give", "to connections"));
    let new_code = differences.iter().filter_map(|it| match &it.cure {
        Cure::Step(ApplyStep::Upgrade(name) | ApplyStep::Reload(name)) => Some(name),
        _ => None,
    });
    let of_code = new_code.filter(|name| is_given_unasked(name)).map(|name| (name.clone(), "give new code to", ""));
    for (name, verb, place) in of_default.chain(of_rules).chain(of_code) {
        let declared = declaration.algorithms.get(&name);
        let risk = match declared {
            Some(declared) => AlgorithmRisk::new(&name, &declared.algorithm, &declared.settings),
            None => match catalog::find(&name) {
                Ok(algorithm) => AlgorithmRisk::new(&name, algorithm, &[]),
                Err(_) => continue, // the kernel's own, or loaded by hand
            },
        };
        let is_accepted = declared.is_some_and(|declared| declared.accepts_risk);
        risk.admit(format!("{verb} \"{name}\" {place}").trim_end(), "", is_accepted).map_err(|failure| {
            failure.hint(format!("give its rules a `guard`, or write `accept_risk = true` below [algorithm.{name}]"))
        })?;
    }
    Ok(())
}

/// `make` returns what the change could not reach, or `None` if it made none.
fn line(difference: &Difference, make: &mut impl FnMut(&ApplyStep) -> Result<Option<Vec<String>>>) -> DifferenceLine {
    let what = difference.what.clone();
    match &difference.cure {
        Cure::Person(why) => DifferenceLine {
            what,
            change: None,
            waits_for: Some(why.clone()),
            done: false,
            notes: Vec::new(),
            error: None,
        },
        Cure::Step(step) => {
            let (done, notes, error) = match make(step) {
                Ok(made) => (made.is_some(), made.unwrap_or_default(), None),
                Err(error) => (false, Vec::new(), Some(format!("{error:#}"))),
            };
            DifferenceLine { what, change: Some(step.to_string()), waits_for: None, done, notes, error }
        }
    }
}

fn write_lines(out: &mut impl Write, document: &ApplyDocument, is_dry: bool) -> io::Result<()> {
    let folder = document.folder.display();
    if document.differences.is_empty() {
        return writeln!(out, "this host matches {folder}");
    }
    if document.files.is_empty() {
        note(&format!("{folder} has no .toml file: nothing is declared"));
    }
    for DifferenceLine { what, change, waits_for, notes, error, .. } in &document.differences {
        let change = change.as_deref().unwrap_or_default();
        match (waits_for, error) {
            (Some(why), _) => writeln!(out, "{what}: left as it is: {why}")?,
            (None, Some(error)) => {
                tell(&format!("tccc: {}\n", plain_lines(&format!("{what}: cannot {change}: {error}"))))
            }
            (None, None) if is_dry => writeln!(out, "{what}: would {change}")?,
            (None, None) => writeln!(out, "{what}: {change}: done")?,
        }
        notes.iter().for_each(|phrase| note(phrase));
    }
    Ok(())
}
