//! Notes the risk of an algorithm before connections get it unasked, and requires consent if the risk is high.

use crate::cli::output::note;
use host::policy::change;
use host::policy::resolve;
use host::policy::rule::Policy;
use host::state::{Record, Store};
use shared::catalog::risk::Risk;
use shared::catalog::{self, Algorithm, Setting};
use shared::failure::Failure;
use shared::kernel::congestion;

#[derive(Debug, Clone, Copy, clap::Args)]
pub struct Acceptance {
    /// Continue even if the risk is high or not measured; `tccc show` says why
    #[arg(long = "accept-risk")]
    pub accepts: bool,
}

/// The risk of an algorithm that connections are about to get unasked.
pub struct AlgorithmRisk {
    /// Name in the kernel.
    pub name: String,
    risk: Risk,
}

impl AlgorithmRisk {
    pub fn new(name: &str, algorithm: &Algorithm, settings: &[Setting]) -> AlgorithmRisk {
        AlgorithmRisk { name: name.to_owned(), risk: Risk::of_tuned(algorithm, settings) }
    }

    /// Every algorithm that the rules of a policy give, except the kernel's own.
    pub fn of_rules(policy: &Policy) -> Vec<AlgorithmRisk> {
        let loaded = |name: String| match Store::of_host().record(&name) {
            Some(record) => Some(AlgorithmRisk { name, risk: risk_of(&record) }),
            None => Some(AlgorithmRisk::new(&name, catalog::find(&name).ok()?, &[])),
        };
        resolve::algorithms(policy).into_iter().filter_map(loaded).collect()
    }

    /// Notes the risk. `what` is what the user wants to do, `trial` is a hint.
    ///
    /// # Errors
    /// The risk is high or not measured, and `is_allowed` is false.
    pub fn admit(&self, what: &str, trial: &str, is_allowed: bool) -> Result<(), Failure> {
        self.check(what, trial, is_allowed)?;
        note(&self.phrase());
        Ok(())
    }

    /// # Errors
    /// As [`AlgorithmRisk::admit`].
    pub fn check(&self, what: &str, trial: &str, is_allowed: bool) -> Result<(), Failure> {
        if is_allowed || !self.risk.level.counts_as_high() {
            return Ok(());
        }
        let why = format!("cannot {what}: its risk is {}", self.why());
        Err(Failure::usage(why).hint(format!("{trial}, or add `--accept-risk`; `tccc list` shows every risk")))
    }

    pub fn phrase(&self) -> String {
        format!("risk of \"{}\": {}", self.name, self.why())
    }

    /// Level and reason.
    fn why(&self) -> String {
        let Risk { level, sentence, of_this_code, criteria } = &self.risk;
        if criteria.is_empty() {
            return format!("not measured, which counts as high: {sentence}");
        }
        let version = if *of_this_code { "" } else { "; another version of its code was evaluated" };
        format!("{level}: {sentence}{version}")
    }
}

/// The risk of a loaded algorithm with its tunables.
pub fn risk_of(record: &Record) -> Risk {
    let opened = match &record.file {
        Some(file) => catalog::open(file),
        None => catalog::find(&record.algorithm).cloned(),
    };
    match opened.and_then(|algorithm| Ok((algorithm.recorded(&record.tunables)?, algorithm))) {
        Ok((_, algorithm)) if algorithm.digest() != record.digest => Risk::of_other_code(),
        Ok((settings, algorithm)) => Risk::of_tuned(&algorithm, &settings),
        Err(_) => Risk::gone(),
    }
}

/// Whether new connections get this name without asking: it is the default, or a rule gives it.
pub fn is_given_unasked(name: &str) -> bool {
    let is_default = congestion::default().is_ok_and(|default| default == name);
    let policy = change::current().ok().flatten().map(|generation| generation.policy);
    is_default || policy.is_some_and(|policy| resolve::algorithms(&policy).contains(name))
}

pub fn note_patents(name: &str, algorithm: &Algorithm) {
    if let Some(patents) = algorithm.patents() {
        note(&format!("\"{name}\" is patented, for research only: {}", patents.replace('\n', " ")));
    }
}
