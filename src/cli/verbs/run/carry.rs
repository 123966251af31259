//! What carries the runs of a scenario out.

use std::io::{self, Write};
use std::sync::atomic::AtomicBool;

use anyhow::Result;

use super::args::{Args, LinkChoice, NetworkChoice};
use super::planned::Planned;
use super::progress::{Display, ProgressFile};
use crate::emulate::mininet::Mininet;
use crate::emulate::netem::{self, Netem};
use crate::emulate::netns::Namespaces;
use crate::emulate::tunlink::TunLink;
use crate::emulate::{LinkDriver, Network};
use crate::kernel::probe::has_netem;
use crate::lab::cost::Jobs;
use crate::lab::part::Part;
use crate::lab::runner;
use crate::lab::work::{Work, WorkOutcome};
use crate::model::run::Engine;
use crate::report;
use crate::virtual_time::guest::Guest;
use crate::{ns2, virtual_time};

/// What carries the runs out, ready.
pub(super) enum Carrier {
    Kernel(Box<dyn Network>),
    Virtual(Box<Guest>),
    Ns2,
}

impl LinkChoice {
    /// What builds the links of all these plans.
    ///
    /// Errors: this kernel has no netem, which was asked for.
    pub fn driver(self, planned: &[Planned]) -> Result<Box<dyn LinkDriver>> {
        let links = planned.iter().flat_map(|one| one.plan.cells.iter().flat_map(|cell| &cell.links));
        let beyond_netem = links.filter_map(|link| netem::check_expressible(&link.directions).err()).next();
        Ok(match self {
            LinkChoice::Auto if has_netem() => match beyond_netem {
                None => Box::new(Netem),
                Some(lack) => {
                    crate::cli::output::note(&format!("links by the user-space emulator: {}", lack.what));
                    Box::new(TunLink)
                }
            },
            LinkChoice::Netem => Box::new(Netem::on_this_kernel()?),
            LinkChoice::Auto | LinkChoice::Tunlink => Box::new(TunLink),
        })
    }
}

impl Args {
    /// What every scenario needs of this host, whatever it asks.
    pub fn check_host(&self) -> Result<()> {
        match self.engine {
            Engine::Kernel => runner::check_host().map(drop),
            Engine::Virtual => Guest::find().map(drop),
            Engine::Ns2 => ns2::version().map(drop),
        }
    }

    pub(super) fn carrier(&self, planned: &[Planned]) -> Result<Carrier> {
        Ok(match self.engine {
            Engine::Kernel if self.network == NetworkChoice::Mininet => {
                Carrier::Kernel(Box::new(Mininet::on_this_host(self.link.driver(planned)?)?))
            }
            Engine::Kernel => Carrier::Kernel(Box::new(Namespaces::new(self.link.driver(planned)?))),
            Engine::Virtual => {
                if !virtual_time::is_caged() {
                    let what = "this kernel has no Landlock: nothing but your own rights holds a guest back";
                    crate::cli::output::warn(what, Some("run files of others elsewhere; `tccc doctor` has more"));
                }
                Carrier::Virtual(Box::new(Guest::find()?))
            }
            Engine::Ns2 => Carrier::Ns2,
        })
    }
}

/// One call of the command.
pub(super) struct Call<'a> {
    pub part: &'a Part,
    pub jobs: Jobs,
    pub carrier: Carrier,
    pub file: Option<ProgressFile>,
    /// Set from outside to stop.
    pub stop: &'a AtomicBool,
}

impl Call<'_> {
    /// Runs a part of one plan and prints its report.
    ///
    /// Errors: see [`runner::run`]; the report cannot be made.
    pub fn run(&self, one: &Planned, display: &Display) -> Result<WorkOutcome> {
        let Planned { out, scenario, plan } = one;
        let Call { part, jobs, stop, .. } = *self;
        if part.runs(scenario, plan)?.is_empty() {
            display.say(&format!("tccc: note: {}: this share has no run", scenario.name));
            return Ok(WorkOutcome::default());
        }
        let mut tell = |progress| {
            display.show(&progress);
            self.file.iter().for_each(|file| file.show(&progress));
        };
        let work = Work { scenario, plan, part, out: out.clone(), jobs, stop };
        let outcome = match &self.carrier {
            Carrier::Kernel(network) => runner::run(&work, network.as_ref(), &mut tell),
            Carrier::Virtual(guest) => virtual_time::run(&work, guest, &mut tell),
            Carrier::Ns2 => ns2::run(&work, &mut tell),
        };
        display.end();
        let outcome = outcome?;
        self.file.iter().for_each(|file| file.end(&outcome));
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
