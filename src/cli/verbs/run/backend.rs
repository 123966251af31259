//! The engines, ready to execute the runs of a scenario.

use std::io::Write;
use std::sync::atomic::AtomicBool;

use anyhow::{Context, Result};

use super::args::{Args, LinkChoice, NetworkChoice};
use super::planned::Planned;
use super::progress::{Display, ProgressFile};
use crate::cli::output::{note, results, warn};
use crate::{ns2, virtual_time};
use lab::cost::Jobs;
use lab::emulate::mininet::Mininet;
use lab::emulate::netem::{self, Netem};
use lab::emulate::netns::Namespaces;
use lab::emulate::tunlink::TunLink;
use lab::emulate::{LinkDriver, Network};
use lab::part::RunSelection;
use lab::report;
use lab::scenario::LinkSpec;
use lab::virtual_time::guest::Guest;
use lab::work::{RunRequest, WorkOutcome};
use lab::{room, runner};
use shared::failure::Failure;
use shared::kernel::probe::has_netem;
use shared::model::run::Engine;

pub(super) enum Backend {
    Kernel(Box<dyn Network>),
    /// The guests of the plans' kernels.
    Virtual(Vec<Guest>),
    Ns2,
}

impl LinkChoice {
    /// Chooses one driver for the links of all plans.
    ///
    /// # Errors
    /// Netem was requested, or a queue discipline, but this kernel does not have it.
    pub fn driver(self, planned: &[Planned]) -> Result<Box<dyn LinkDriver>> {
        let links = || planned.iter().flat_map(|one| one.plan.cells.iter().flat_map(|cell| &cell.links));
        let is_queued = links().any(|link| netem::has_discipline(&link.directions));
        Ok(match self {
            LinkChoice::Auto if is_queued => {
                check_together(links())?;
                Self::by_netem(lacks_host_delay(links()), "")?
            }
            LinkChoice::Auto if has_netem() => match beyond_netem(links()) {
                None => Box::new(Netem),
                Some(lack) => {
                    note(&format!("links by the user-space emulator: {lack}"));
                    Box::new(TunLink)
                }
            },
            LinkChoice::Netem if is_queued => Self::by_netem(lacks_host_delay(links()), "")?,
            LinkChoice::Netem => Self::by_netem(lacks_host_delay(links()), "; `--link tunlink` adds them")?,
            LinkChoice::Auto | LinkChoice::Tunlink => Box::new(TunLink),
        })
    }

    fn by_netem(lack: Option<String>, advice: &str) -> Result<Box<dyn LinkDriver>> {
        if let Some(lack) = lack {
            note(&format!("{lack}, so flows may meet phase effects{advice}"));
        }
        Ok(Box::new(Netem::on_this_kernel()?))
    }
}

/// # Errors
/// One scenario has a queue discipline, and another what only the user-space link has.
fn check_together<'a>(mut links: impl Iterator<Item = &'a LinkSpec>) -> Result<()> {
    let Some((_, _, what)) = links.find_map(|link| netem::beyond(&link.directions)) else { return Ok(()) };
    let what = format!("cannot emulate a discipline by netem together with {what}");
    Err(Failure::unmet(what).hint("run one scenario at a time").into())
}

/// What these links ask for that netem cannot do.
fn beyond_netem<'a>(mut links: impl Iterator<Item = &'a LinkSpec> + Clone) -> Option<String> {
    let delay = lacks_host_delay(links.clone());
    links.find_map(|link| netem::check_expressible(&link.directions).err()).map(|lack| lack.what).or(delay)
}

fn lacks_host_delay<'a>(mut links: impl Iterator<Item = &'a LinkSpec>) -> Option<String> {
    let is_delayed = |link: &LinkSpec| link.directions.iter().any(|one| !one.host_delay.is_zero());
    links.any(is_delayed).then(|| "netem does not add the random host delays".to_owned())
}

impl Args {
    /// # Errors
    /// This host lacks a requirement of the engine, the links or the network.
    pub(super) fn backend(&self, planned: &[Planned]) -> Result<Backend> {
        Ok(match self.engine {
            Engine::Kernel => {
                runner::check_host()?;
                let links = self.link.driver(planned)?;
                Backend::Kernel(match self.network {
                    NetworkChoice::Netns => Box::new(Namespaces::new(links)),
                    NetworkChoice::Mininet => Box::new(Mininet::on_this_host(links)?),
                })
            }
            Engine::Virtual => {
                let mut guests: Vec<Guest> = Vec::new();
                for kernel in planned.iter().map(|one| one.plan.kernel) {
                    if !guests.iter().any(|guest| guest.kernel == kernel) {
                        guests.push(Guest::find(kernel)?);
                    }
                }
                if !virtual_time::is_caged() {
                    let what = "this kernel has no Landlock: only your own permissions limit a guest";
                    warn(what, Some("run other people's files elsewhere; `tccc doctor` says more"));
                }
                Backend::Virtual(guests)
            }
            Engine::Ns2 => ns2::version().map(|_| Backend::Ns2)?,
        })
    }
}

/// One call of the command.
pub(super) struct Call<'a> {
    pub part: &'a RunSelection,
    pub jobs: Jobs,
    pub backend: Backend,
    pub file: Option<ProgressFile>,
    /// Whether each report is printed.
    pub reports: bool,
    /// Set by a signal.
    pub stop: &'a AtomicBool,
}

impl Call<'_> {
    /// Runs a part of one plan, and prints its report if it is to.
    ///
    /// # Errors
    /// Those of [`runner::run`]; the report cannot be made.
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
        let work = RunRequest { scenario, plan, part, out: out.clone(), jobs, stop };
        let outcome = match &self.backend {
            Backend::Kernel(network) => runner::run(&work, network.as_ref(), &mut tell),
            Backend::Virtual(guests) => {
                let guest = guests.iter().find(|guest| guest.kernel == plan.kernel);
                virtual_time::run(&work, guest.context("find the guest of a plan")?, &mut tell)
            }
            Backend::Ns2 => ns2::run(&work, &mut tell),
        };
        display.end();
        let outcome = outcome.map_err(|error| room::explained(error, out))?;
        self.file.iter().for_each(|file| file.end(&outcome));
        for notice in &outcome.notices {
            display.say(&format!("tccc: warning: {notice}"));
        }
        if self.reports {
            let text = report::render(&report::load(out)?, report::ReportFormat::Text)?;
            write!(results(), "{text}\nresults: {}\n", out.display())?;
        }
        Ok(outcome)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PATH: &str = "title=\"t\"\nclaim=\"c\"\nprofile=\"paper\"\nduration=\"1s\"\nruns=1\nseed=1\n\
                        [[link]]\nends=[\"s\", \"r\"]\nrate=\"10mbit\"\n";

    /// Netem is the default where it exists, and once left the host delays out without a word.
    #[test]
    fn links_with_host_delays_are_beyond_netem() {
        let lack = |flows: &[&str]| {
            let flow = |name| format!("[[flow]]\nname={name:?}\nfrom=\"s\"\nto=\"r\"\nalgorithm=\"reno\"\n");
            let flows: String = flows.iter().map(flow).collect();
            let scenario = lab::scenario::Scenario::parse("x.toml", &format!("{PATH}{flows}")).unwrap();
            beyond_netem(scenario.cells[0].links.iter())
        };
        assert_eq!(lack(&["alone"]), None);
        assert_eq!(lack(&["one", "two"]).as_deref(), Some("netem does not add the random host delays"));
    }
}
