//! What carries the runs of a scenario out.

use std::io::{self, Write};
use std::sync::atomic::AtomicBool;

use anyhow::Result;

use super::Planned;
use super::progress::Display;
use crate::emulate::Network;
use crate::lab::cost::Jobs;
use crate::lab::part::Part;
use crate::lab::runner;
use crate::lab::work::{Outcome, Work};
use crate::report;
use crate::virtual_time::guest::Guest;
use crate::{ns2, virtual_time};

/// What carries the runs out, ready.
pub(super) enum Carrier {
    Kernel(Box<dyn Network>),
    Virtual(Box<Guest>),
    Ns2,
}

/// One call of the command.
pub(super) struct Call<'a> {
    pub part: &'a Part,
    pub jobs: Jobs,
    pub carrier: Carrier,
    /// Set from outside to stop.
    pub stop: &'a AtomicBool,
}

impl Call<'_> {
    /// Runs a part of one plan and prints its report.
    ///
    /// Errors: see [`runner::run`]; the report cannot be made.
    pub fn run(&self, one: &Planned, display: &Display) -> Result<Outcome> {
        let Planned { out, scenario, plan } = one;
        let Call { part, jobs, stop, .. } = *self;
        if part.runs(scenario, plan)?.is_empty() {
            display.say(&format!("tccc: note: {}: this share has no run", scenario.name));
            return Ok(Outcome::default());
        }
        let mut tell = |progress| display.show(&progress);
        let work = Work { scenario, plan, part, out: out.clone(), jobs, stop };
        let outcome = match &self.carrier {
            Carrier::Kernel(network) => runner::run(&work, network.as_ref(), &mut tell),
            Carrier::Virtual(guest) => virtual_time::run(&work, guest, &mut tell),
            Carrier::Ns2 => ns2::run(&work, &mut tell),
        };
        display.end();
        let outcome = outcome?;
        for notice in &outcome.notices {
            display.say(&format!("tccc: warning: {notice}"));
        }
        let report = report::load(out)?;
        let text = report::render(&report, report::Format::Text)?;
        io::stdout().write_all(text.as_bytes())?;
        writeln!(io::stdout(), "\nresults: {}", out.display())?;
        Ok(outcome)
    }
}
