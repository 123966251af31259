//! Runs every check of one file: rules, verifier, properties, fuzzer, proof. Registers nothing.

use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use serde::Serialize;

use super::compile::BuildFolder;
use super::proof::Proof;
use super::ring::property::Property;
use super::subject::Subject;
use super::{fuzzer, lint, native, proof};
use host::loader::{self, Request};
use shared::catalog::{self, Algorithm};
use shared::failure::{Failure, FailureKind};
use shared::kernel::io_error;
use shared::kernel::privilege;
use shared::kernel::probe::Features;
use shared::read_limited;

const SOURCE_ENDING: &str = ".bpf.c";

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum CheckOutcome {
    Passed,
    Failed,
    /// The host or the file lacks something that the check needs.
    Skipped,
}

#[derive(Debug, Clone, Serialize)]
pub struct Check {
    pub name: String,
    pub outcome: CheckOutcome,
    /// Observations if it passed, faults if it failed, the missing need if it was skipped.
    ///
    /// Shape: one phrase each; at least one unless it passed.
    pub details: Vec<String>,
    pub seconds: f64,
}

/// The groups of checks for `tccc check --only`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum CheckGroup {
    /// Header, name, tunables, phases, callbacks
    Rules,
    /// The kernel's verifier
    Verifier,
    /// The native build under random connections
    Properties,
    /// Clang's fuzzer
    Fuzzer,
    /// Frama-C
    Proof,
    /// The module for the guest of virtual time
    VirtualTime,
}

pub struct Inspection<'a> {
    /// `FILE.bpf.c`, `FILE.bpf.o` or `FILE.bpf.o:TABLE`.
    pub file: &'a Path,
    /// Empty: all groups.
    pub only: &'a [CheckGroup],
    /// Running time of the fuzzer. 0: it does not run.
    pub fuzz: Duration,
    /// Prepares a process of this program that checks one property.
    pub ring: fn() -> Command,
    /// Compiles a file for the guest of virtual time, under the algorithm's name.
    pub module: fn(&str, &Path) -> Result<()>,
    /// Called with each check as it ends.
    pub tell: &'a mut dyn FnMut(&Check),
}

/// The result of a check; a [`Failure`] of kind unmet skips it.
type CheckResult = Result<Findings>;

enum Findings {
    /// Passes if there is no fault.
    Faults(Vec<String>),
    Seen(Vec<String>),
}

const SOUND: Findings = Findings::Faults(Vec::new());

/// Name of the check of [`CheckGroup::VirtualTime`].
const MODULE: &str = "virtual time";
const HANGS: &str = "not checked: the algorithm did not end in the check before";

impl Inspection<'_> {
    /// Runs every check; returns the algorithm's name and the checks.
    ///
    /// # Errors
    /// The file cannot be read; the object holds no algorithm; clang is missing for a source.
    pub fn run(mut self) -> Result<(String, Vec<Check>)> {
        let mut checks = Vec::new();
        if !self.file.to_string_lossy().ends_with(SOURCE_ENDING) {
            let algorithm = catalog::open(self.file)?;
            self.check_object(&algorithm, None, &mut checks);
            let why = "needs the source, FILE.bpf.c: this is an object";
            let properties = Property::ALL.map(|property| (CheckGroup::Properties, property.name()));
            let others =
                [(CheckGroup::VirtualTime, MODULE), (CheckGroup::Fuzzer, "fuzzer"), (CheckGroup::Proof, "proof")];
            for (group, name) in properties.into_iter().chain(others) {
                self.add_of(group, &mut checks, name, || Err(Failure::unmet(why).into()));
            }
            return Ok((algorithm.id, checks));
        }
        let text = read(self.file)?;
        // An absolute path makes the compilers' messages independent of their folder.
        let source = std::path::absolute(self.file).context("find the file")?;
        let bench = BuildFolder::set_up(&source)?;
        let object = match bench.object(&source, &["-Werror"]) {
            Err(error) if kind_of(&error) == FailureKind::Failed => {
                self.add(&mut checks, "compiles for BPF", || Ok(Findings::Faults(said(&error, &bench))));
                return Ok((self.stem(), checks));
            }
            other => other?,
        };
        self.add(&mut checks, "compiles for BPF", || Ok(SOUND));
        let algorithm = match catalog::open(&object) {
            Ok(algorithm) => algorithm,
            Err(failure) => {
                let why = failure.what.rsplit("\": ").next().unwrap_or_default().to_owned();
                self.add(&mut checks, "is an algorithm", || Ok(Findings::Faults(vec![why])));
                return Ok((self.stem(), checks));
            }
        };
        self.check_object(&algorithm, Some(&text), &mut checks);
        let module = || (self.module)(&algorithm.id, self.file);
        let compiled = self.wants(CheckGroup::VirtualTime).then(module);
        self.add_of(CheckGroup::VirtualTime, &mut checks, MODULE, || compiled.map_or(Ok(SOUND), guest_module));
        let mut hangs = false;
        if self.wants(CheckGroup::Properties) {
            hangs = self.check_native(&bench, &source, &object, &mut checks);
        }
        let (subject, seconds) = (Subject::new(&source, &algorithm, &bench), self.fuzz.as_secs() as u32);
        self.add_of(CheckGroup::Fuzzer, &mut checks, "fuzzer", || match hangs {
            true => Err(Failure::unmet(HANGS).into()),
            false => fuzz(&subject, seconds),
        });
        self.add_of(CheckGroup::Proof, &mut checks, "proof", || prove(&subject));
        Ok((algorithm.id, checks))
    }

    fn wants(&self, group: CheckGroup) -> bool {
        self.only.is_empty() || self.only.contains(&group)
    }

    fn file_name(&self) -> String {
        self.file.file_name().unwrap_or_default().to_string_lossy().into_owned()
    }

    /// The algorithm's name according to the file name.
    fn stem(&self) -> String {
        self.file_name().trim_end_matches(SOURCE_ENDING).to_owned()
    }

    fn add_of(&mut self, group: CheckGroup, checks: &mut Vec<Check>, name: &str, check: impl FnOnce() -> CheckResult) {
        if self.wants(group) {
            self.add(checks, name, check);
        }
    }

    fn add(&mut self, checks: &mut Vec<Check>, name: &str, check: impl FnOnce() -> CheckResult) {
        let start = Instant::now();
        let (outcome, details) = match check() {
            Ok(Findings::Faults(faults)) if !faults.is_empty() => (CheckOutcome::Failed, faults),
            Ok(Findings::Faults(seen) | Findings::Seen(seen)) => (CheckOutcome::Passed, seen),
            Err(error) if kind_of(&error) == FailureKind::Unmet => (CheckOutcome::Skipped, vec![format!("{error:#}")]),
            Err(error) => (CheckOutcome::Failed, vec![format!("{error:#}")]),
        };
        let check = Check { name: name.to_owned(), outcome, details, seconds: start.elapsed().as_secs_f64() };
        (self.tell)(&check);
        checks.push(check);
    }

    fn check_object(&mut self, algorithm: &Algorithm, source: Option<&str>, checks: &mut Vec<Check>) {
        for (rule, faults) in lint::rules(algorithm, self.file, source) {
            self.add_of(CheckGroup::Rules, checks, rule, || Ok(Findings::Faults(faults)));
        }
        if source.is_none() && !lint::describes_itself(algorithm) {
            let why = "the object was not written for tccc: it has no header to check";
            self.add_of(CheckGroup::Rules, checks, "header", || Err(Failure::unmet(why).into()));
        }
        self.add_of(CheckGroup::Verifier, checks, "verifier", || verify(algorithm));
    }

    /// Returns whether the algorithm did not end. Checks after that are skipped, because they would not end either.
    fn check_native(&mut self, bench: &BuildFolder, source: &Path, object: &Path, checks: &mut Vec<Check>) -> bool {
        let (library, sanitizer) = match bench.library(source) {
            Ok(built) => built,
            Err(error) if kind_of(&error) == FailureKind::Failed => {
                self.add(checks, "compiles natively", || Ok(Findings::Faults(said(&error, bench))));
                return false;
            }
            Err(error) => {
                self.add(checks, "compiles natively", || Err(error));
                return false;
            }
        };
        self.add(checks, "compiles natively", || Ok(Findings::Seen(vec![sanitizer.to_owned()])));
        let (ring, mut hangs) = (self.ring, false);
        for property in Property::ALL {
            self.add(checks, property.name(), || {
                if hangs {
                    return Err(Failure::unmet(HANGS).into());
                }
                let broken = native::check(&library, object, property, ring())?;
                hangs = broken.as_ref().is_some_and(|broken| broken.hangs);
                Ok(Findings::Faults(broken.iter().map(|broken| bench.short(&broken.why)).collect()))
            });
        }
        hangs
    }
}

/// No algorithm's source is larger.
const SOURCE_BYTES_MAX: u64 = 1 << 20;

fn read(file: &Path) -> Result<String> {
    let refuse = |why: String| Failure::usage(format!("cannot read \"{}\": {why}", file.display()));
    let bytes = read_limited::read(file, SOURCE_BYTES_MAX).map_err(|error| refuse(io_error::reason(&error)))?;
    Ok(String::from_utf8(bytes).map_err(|_| refuse("it is not text in UTF-8".to_owned()))?)
}

fn kind_of(error: &anyhow::Error) -> FailureKind {
    let failure = error.chain().find_map(|cause| cause.downcast_ref::<Failure>());
    failure.map_or(FailureKind::Failed, |failure| failure.kind)
}

/// The first error lines of a compiler.
fn said(error: &anyhow::Error, bench: &BuildFolder) -> Vec<String> {
    let words = bench.short(&format!("{error:#}"));
    let is_reason = |line: &&str| line.contains("error:") || line.contains("undefined reference");
    let reasons: Vec<String> = words.lines().filter(is_reason).take(5).map(str::to_owned).collect();
    if reasons.is_empty() { vec![words] } else { reasons }
}

/// The refusal of the guest's compiler is a fault of the file; anything else is not.
fn guest_module(compiled: Result<()>) -> CheckResult {
    let Err(error) = compiled else { return Ok(SOUND) };
    match error.chain().find_map(|cause| cause.downcast_ref::<Failure>()) {
        Some(refused) if refused.kind == FailureKind::Usage => {
            let hint = refused.hint.iter().filter(|hint| !hint.starts_with('`')).map(String::as_str);
            Ok(Findings::Faults(refused.what.lines().skip(1).chain(hint).map(str::to_owned).collect()))
        }
        _ => Err(error),
    }
}

/// Loads the algorithm without registering it.
fn verify(algorithm: &Algorithm) -> CheckResult {
    privilege::require("ask the verifier", &privilege::FOR_LOAD)?;
    let verified = loader::verify(&Request::of(algorithm), &Features::probe()?)?;
    let costs = verified.verifier_cost()?;
    let total: u32 = costs.iter().map(|(_, instructions)| instructions).sum();
    let mut seen = vec![format!("{total} instructions in {} programs", costs.len())];
    seen.extend(verified.adapted.iter().cloned());
    Ok(Findings::Seen(seen))
}

fn fuzz(subject: &Subject, seconds: u32) -> CheckResult {
    if seconds == 0 {
        return Err(Failure::unmet("not requested: add `--fuzz 10s`").into());
    }
    let fuzzed = fuzzer::fuzz(subject, subject.bench.path(), seconds)?;
    Ok(match fuzzed.crash {
        Some(crash) => {
            let why = subject.bench.short(&crash.why);
            Findings::Faults(vec![format!("{why} (found after {} inputs)", fuzzed.runs)])
        }
        None => Findings::Seen(vec![format!("{} inputs, {} edges", fuzzed.runs, fuzzed.edges)]),
    })
}

fn prove(subject: &Subject) -> CheckResult {
    let Proof { findings, proved, asserts, reached, statements, .. } = proof::prove(subject)?;
    Ok(match findings.is_empty() {
        false => Findings::Faults(findings),
        true => {
            Findings::Seen(vec![format!("{proved} of {asserts} asserts, {reached} of {statements} statements reached")])
        }
    })
}
