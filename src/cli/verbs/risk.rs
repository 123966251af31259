//! Shows the risk of an algorithm before connections get it unasked, and asks for consent where the risk is high.

use crate::catalog::risk::Risk;
use crate::catalog::{self, Algorithm, Setting};
use crate::failure::Failure;
use crate::kernel::congestion;
use crate::policy::change;
use crate::policy::resolve;
use crate::policy::rule::Policy;
use crate::state::{Record, Store};

use crate::cli::output::note;

/// Whether the operator takes a high risk.
#[derive(Debug, Clone, Copy, clap::Args)]
pub struct Acceptance {
    /// Continue although the risk is high or not measured, or a default is patented; `tccc show` says why
    #[arg(long = "accept-risk")]
    pub accepts: bool,
}

/// An algorithm that connections are about to get unasked.
pub struct Given {
    /// In the kernel.
    pub name: String,
    risk: Risk,
}

impl Given {
    /// An algorithm under its name in the kernel, with these tunables set.
    pub fn new(name: &str, algorithm: &Algorithm, settings: &[Setting]) -> Given {
        Given { name: name.to_owned(), risk: Risk::of_tuned(algorithm, settings) }
    }

    /// What is loaded, or would be loaded, under a name.
    ///
    /// None: it is the kernel's own.
    fn by_name(name: &str) -> Option<Given> {
        match Store::of_host().record(name) {
            Some(record) => Some(Given { name: name.to_owned(), risk: risk_of(&record) }),
            None => Some(Given::new(name, catalog::find(name).ok()?, &[])),
        }
    }

    /// Every algorithm of ours that the rules of a policy give.
    pub fn by_rules(policy: &Policy) -> Vec<Given> {
        resolve::algorithms(policy).iter().filter_map(|name| Given::by_name(name)).collect()
    }

    /// Says what is risked; refuses a high risk that is neither accepted nor on trial.
    ///
    /// Errors: the risk is high or not measured. `what` is refused then, and `trial` is the way to try it.
    pub fn admit(&self, what: &str, trial: &str, is_allowed: bool) -> Result<(), Failure> {
        if is_allowed || !self.risk.level.counts_as_high() {
            note(&self.phrase());
            return Ok(());
        }
        let why = format!("cannot {what}: its risk is {}", self.why());
        Err(Failure::usage(why).hint(format!("{trial}, or add `--accept-risk`; `tccc list` shows every risk")))
    }

    /// Whose risk it is, and [`Given::why`].
    pub fn phrase(&self) -> String {
        format!("risk of \"{}\": {}", self.name, self.why())
    }

    /// The word, its reason, and what there is to know about the figures.
    fn why(&self) -> String {
        let Risk { level, sentence, of_this_code, figures } = &self.risk;
        let version =
            if *of_this_code || figures.is_empty() { "" } else { "; measured for another version of its code" };
        let level = match figures.is_empty() {
            true => "not measured, which counts as high".to_owned(),
            false => level.to_string(),
        };
        format!("{level}: {sentence}{version}")
    }
}

/// Of what is loaded: the record says from where, and with which tunables.
pub fn risk_of(record: &Record) -> Risk {
    let opened = match &record.file {
        Some(file) => catalog::open(file),
        None => catalog::find(&record.algorithm).cloned(),
    };
    let settings: Vec<String> = record.tunables.iter().map(|(name, value)| format!("{name}={value}")).collect();
    match opened.and_then(|algorithm| Ok((algorithm.settings(&settings)?, algorithm))) {
        Ok((settings, algorithm)) => Risk::of_tuned(&algorithm, &settings),
        Err(_) => Risk::gone(),
    }
}

/// Whether new connections get a name without asking for it: it is the default, or a rule gives it.
pub fn is_given_unasked(name: &str) -> bool {
    let is_default = congestion::default().is_ok_and(|default| default == name);
    let policy = change::current().ok().flatten().map(|generation| generation.policy);
    is_default || policy.is_some_and(|policy| resolve::algorithms(&policy).contains(name))
}
