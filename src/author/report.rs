//! Every check of one file in turn: rules, verifier, properties, fuzzer, proof. Nothing is registered.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use serde::Serialize;

use super::compile::{Bench, Sanitizer};
use super::native::Build;
use super::ring::property::Property;
use super::subject::Subject;
use super::{fuzzer, lint, proof};
use crate::bounded;
use crate::catalog::{self, Algorithm};
use crate::failure::{Failure, FailureKind};
use crate::kernel::privilege;
use crate::kernel::probe::Features;
use crate::loader::{self, Request};

const SOURCE_ENDING: &str = ".bpf.c";

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    Passed,
    Failed,
    /// This host lacks a need, or the file does.
    Skipped,
}

#[derive(Debug, Clone, Serialize)]
pub struct Check {
    pub name: String,
    pub outcome: Outcome,
    /// What was seen, what is wrong, or which need is missing.
    ///
    /// Shape: one phrase a finding; at least one unless it passed.
    pub details: Vec<String>,
    pub seconds: f64,
}

/// A group of checks, as `tccc check --only` names it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum CheckGroup {
    /// Header, name, tunables, phases, callbacks
    Rules,
    /// The kernel's verifier
    Verifier,
    /// The native build under random connections
    Properties,
    /// The fuzzer of clang
    Fuzzer,
    /// Frama-C
    Proof,
}

pub struct Inspection<'a> {
    /// The file: `FILE.bpf.c`, `FILE.bpf.o` or `FILE.bpf.o:TABLE`.
    pub file: &'a Path,
    /// The groups that are wanted; all where it is empty.
    pub only: &'a [CheckGroup],
    /// How long the fuzzer looks; none at zero.
    pub fuzz: Duration,
    /// Makes a process of this program that checks one property.
    pub ring: fn() -> Result<Command>,
    /// Takes each check as it ends.
    pub tell: &'a mut dyn FnMut(&Check),
}

/// What a check found, and what it needs that is not here.
type Found = Result<Findings>;

struct Findings {
    wrong: Vec<String>,
    seen: Vec<String>,
}

impl Findings {
    fn of_wrong(wrong: Vec<String>) -> Self {
        Findings { wrong, seen: Vec::new() }
    }

    fn seen(what: String) -> Self {
        Findings { wrong: Vec::new(), seen: vec![what] }
    }
}

impl Inspection<'_> {
    /// Runs every check, and returns the algorithm's name with them.
    ///
    /// Errors: the file cannot be read; an object is no algorithm; clang is missing for a source.
    pub fn run(mut self) -> Result<(String, Vec<Check>)> {
        let mut checks = Vec::new();
        if !self.file.to_string_lossy().ends_with(SOURCE_ENDING) {
            let algorithm = catalog::open(self.file)?;
            self.check_object(&algorithm, None, &mut checks);
            let why = "needs the source, FILE.bpf.c: this is an object";
            let properties = Property::ALL.map(|property| (CheckGroup::Properties, property.name()));
            for (group, name) in
                properties.into_iter().chain([(CheckGroup::Fuzzer, "fuzzer"), (CheckGroup::Proof, "proof")])
            {
                if self.wants(group) {
                    self.add(&mut checks, name, || Err(Failure::unmet(why).into()));
                }
            }
            return Ok((algorithm.id, checks));
        }
        let text = read(self.file)?;
        // What the compilers say then names the file in full, wherever they run.
        let source = std::path::absolute(self.file).context("find the file")?;
        let bench = Bench::set_up(&source)?;
        let object = match bench.object(&source, &["-Werror"]) {
            Err(error) if kind_of(&error) == FailureKind::Failed => {
                self.add(&mut checks, "compiles for BPF", || Ok(Findings::of_wrong(said(&error, &source))));
                return Ok((self.stem(), checks));
            }
            other => other?,
        };
        self.add(&mut checks, "compiles for BPF", || Ok(Findings::of_wrong(Vec::new())));
        let algorithm = match catalog::open(&object) {
            Ok(algorithm) => algorithm,
            Err(failure) => {
                let why = failure.what.rsplit("\": ").next().unwrap_or_default().to_owned();
                self.add(&mut checks, "is an algorithm", || Ok(Findings::of_wrong(vec![why])));
                return Ok((self.stem(), checks));
            }
        };
        self.check_object(&algorithm, Some(&text), &mut checks);
        if self.wants(CheckGroup::Properties) {
            self.check_native(&bench, &source, &object, &mut checks);
        }
        let subject = Subject::new(&source, &algorithm, &bench);
        self.check_inputs(&subject, &mut checks);
        Ok((algorithm.id, checks))
    }

    fn wants(&self, group: CheckGroup) -> bool {
        self.only.is_empty() || self.only.contains(&group)
    }

    /// What the file's name says that the algorithm is called.
    fn stem(&self) -> String {
        let name = self.file.file_name().unwrap_or_default().to_string_lossy();
        name.trim_end_matches(SOURCE_ENDING).to_owned()
    }

    fn add(&mut self, checks: &mut Vec<Check>, name: &str, check: impl FnOnce() -> Found) {
        let start = Instant::now();
        let (outcome, details) = match check() {
            Ok(Findings { wrong, seen }) if wrong.is_empty() => (Outcome::Passed, seen),
            Ok(Findings { wrong, .. }) => (Outcome::Failed, wrong),
            Err(error) if kind_of(&error) == FailureKind::Unmet => (Outcome::Skipped, vec![format!("{error:#}")]),
            Err(error) => (Outcome::Failed, vec![format!("{error:#}")]),
        };
        let check = Check { name: name.to_owned(), outcome, details, seconds: start.elapsed().as_secs_f64() };
        (self.tell)(&check);
        checks.push(check);
    }

    fn check_object(&mut self, algorithm: &Algorithm, source: Option<&str>, checks: &mut Vec<Check>) {
        if self.wants(CheckGroup::Rules) {
            for rule in lint::rules(algorithm, self.file, source) {
                self.add(checks, rule.name, || Ok(Findings::of_wrong(rule.faults)));
            }
            if source.is_none() && !lint::describes_itself(algorithm) {
                let why = "it has no words of tccc in it: nothing to check";
                self.add(checks, "header", || Err(Failure::unmet(why).into()));
            }
        }
        if self.wants(CheckGroup::Verifier) {
            self.add(checks, "verifier", || verify(algorithm));
        }
    }

    fn check_native(&mut self, bench: &Bench, source: &Path, object: &Path, checks: &mut Vec<Check>) {
        let (library, sanitizer): (PathBuf, Sanitizer) = match bench.library(source) {
            Ok(built) => built,
            Err(error) if kind_of(&error) == FailureKind::Failed => {
                return self.add(checks, "compiles natively", || Ok(Findings::of_wrong(said(&error, source))));
            }
            Err(error) => return self.add(checks, "compiles natively", || Err(error)),
        };
        self.add(checks, "compiles natively", || {
            Ok(Findings::seen(
                match sanitizer {
                    Sanitizer::Words => "with the sanitizer of undefined behaviour",
                    Sanitizer::Trap => "with the sanitizer of undefined behaviour, which does not say why here",
                    Sanitizer::None => "without a sanitizer: the compiler has none",
                }
                .to_owned(),
            ))
        });
        let ring = self.ring;
        let build = Build { library: &library, sanitizer, object };
        for property in Property::ALL {
            self.add(checks, property.name(), || {
                Ok(Findings::of_wrong(build.check(property, ring()?)?.into_iter().collect()))
            });
        }
    }

    fn check_inputs(&mut self, subject: &Subject, checks: &mut Vec<Check>) {
        let seconds = self.fuzz.as_secs() as u32;
        if self.wants(CheckGroup::Fuzzer) {
            self.add(checks, "fuzzer", || match seconds {
                0 => Err(Failure::unmet("not asked for: `--fuzz 10s`").into()),
                _ => fuzz(subject, seconds),
            });
        }
        if self.wants(CheckGroup::Proof) {
            self.add(checks, "proof", || prove(subject));
        }
    }
}

/// No source of an algorithm is larger.
const SOURCE_BYTES_MAX: u64 = 1 << 20;

fn read(file: &Path) -> Result<String> {
    let refuse = |why: String| Failure::usage(format!("cannot read \"{}\": {why}", file.display()));
    let bytes = bounded::read(file, SOURCE_BYTES_MAX).map_err(|error| refuse(bounded::reason(&error)))?;
    Ok(String::from_utf8(bytes).map_err(|_| refuse("it is not text in UTF-8".to_owned()))?)
}

fn kind_of(error: &anyhow::Error) -> FailureKind {
    let failure = error.chain().find_map(|cause| cause.downcast_ref::<Failure>());
    failure.map_or(FailureKind::Failed, |failure| failure.kind)
}

/// The lines of a compiler that say what is wrong, with the file's name instead of its path.
fn said(error: &anyhow::Error, source: &Path) -> Vec<String> {
    let folder = source.parent().map(|folder| format!("{}/", folder.display())).unwrap_or_default();
    let words = format!("{error:#}").replace(&folder, "");
    let is_reason = |line: &&str| line.contains("error:") || line.contains("undefined reference");
    let reasons: Vec<String> = words.lines().filter(is_reason).take(5).map(str::to_owned).collect();
    if reasons.is_empty() { vec![words] } else { reasons }
}

/// Loads it without registering it.
fn verify(algorithm: &Algorithm) -> Found {
    privilege::require("ask the verifier", &privilege::FOR_LOAD)?;
    let verified = loader::verify(&Request::of(algorithm), &Features::probe()?)?;
    let costs = verified.verifier_cost()?;
    let total: u32 = costs.iter().map(|(_, instructions)| instructions).sum();
    let mut seen = vec![format!("{total} instructions in {} programs", costs.len())];
    seen.extend(verified.adapted.iter().cloned());
    Ok(Findings { wrong: Vec::new(), seen })
}

fn fuzz(subject: &Subject, seconds: u32) -> Found {
    let fuzzed = fuzzer::fuzz(subject, subject.bench.path(), seconds)?;
    Ok(match fuzzed.crash {
        Some(crash) => Findings::of_wrong(vec![format!("{} (found after {} inputs)", crash.why, fuzzed.runs)]),
        None => Findings::seen(format!("{} inputs, {} edges", fuzzed.runs, fuzzed.edges)),
    })
}

fn prove(subject: &Subject) -> Found {
    let proof = proof::prove(subject)?;
    let seen = format!(
        "{} of {} asserts, {} of {} statements reached",
        proof.proved, proof.asserts, proof.reached, proof.statements
    );
    Ok(Findings { wrong: proof.findings, seen: vec![seen] })
}
