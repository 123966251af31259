//! `tccc show`: the card of one algorithm.

use std::collections::BTreeMap;
use std::io::{self, Write};

use anyhow::Result;
use serde::Serialize;

use super::load::find;
use crate::cli::output::plain::{marked_title, write_indented};
use crate::cli::output::{OutputFormat, note};
use host::loader::{self, Request};
use host::state::Store;
use shared::catalog::risk::{Level, Risk};
use shared::catalog::{self, Algorithm, Card, Companion, CompanionPlace, StateLayout, Tunable};
use shared::kernel::privilege;
use shared::kernel::probe::Features;

/// Blanks before each line of a section.
const INDENT: u16 = 2;

/// Show one algorithm: header, risk, tunables, phases, callbacks
///
/// The risk is what `tccc evaluate` finds in each criterion of RFC 9743. The ratio of its worst cell is to the milder one of
/// Reno and CUBIC on the same path, with its 95 % confidence interval. Low is on average within the margin, medium is
/// worse, and high is worse even if twice as much were allowed. An object mine.bpf.o has its own in mine.risk.json, which
/// `tccc evaluate mine.bpf.c` writes.
///
/// As root it also asks the kernel's verifier about each callback, and prints how many instructions the verifier processed.
/// It registers nothing.
///
/// Example: `tccc show dtcp`
#[derive(Debug, clap::Args)]
pub struct Args {
    /// An algorithm of `tccc list`, or your own object file; FILE:TABLE if it has several ops tables
    #[arg(value_name = "ID|FILE.bpf.o[:TABLE]")]
    algorithm: String,
    /// How to print the result
    #[arg(short, long, value_enum, default_value_t = OutputFormat::Table)]
    output: OutputFormat,
}

#[derive(Serialize)]
struct CallbackLine<'a> {
    member: &'a str,
    program: &'a str,
    /// `None` if the verifier was not asked, or this kernel does not use the callback.
    verified_instructions: Option<u32>,
}

#[derive(Serialize)]
struct CardDocument<'a> {
    id: &'a str,
    title: &'a str,
    source: &'a str,
    patented: bool,
    card: &'a Card,
    tunables: &'a [Tunable],
    state: &'a StateLayout,
    callbacks: Vec<CallbackLine<'a>>,
    risk: Risk,
    /// The program that `tccc load` also attaches, to a cgroup or to network devices.
    companion: Option<&'a str>,
    /// What it needs that not every supported kernel has.
    needs: Option<String>,
    /// Why the verifier cost is missing.
    no_cost: Option<String>,
}

impl Args {
    /// # Errors
    /// No such algorithm; the file is not an algorithm.
    pub fn run(&self) -> Result<()> {
        let text = loaded_from(&self.algorithm).unwrap_or_else(|| self.algorithm.clone());
        let (algorithm, _) = find(&text)?;
        let (costs, no_cost) = match verifier_cost(&algorithm) {
            Ok(costs) => (costs, None),
            Err(error) => (BTreeMap::new(), Some(format!("{error:#}"))),
        };
        let callbacks = algorithm.callbacks.iter().map(|callback| CallbackLine {
            member: &callback.member,
            program: &callback.program,
            verified_instructions: costs.get(&callback.program).copied(),
        });
        let document = CardDocument {
            id: &algorithm.id,
            title: &algorithm.title,
            source: &algorithm.source,
            patented: algorithm.patents().is_some(),
            card: &algorithm.card,
            tunables: &algorithm.tunables,
            state: &algorithm.layout,
            callbacks: callbacks.collect(),
            risk: Risk::of(&algorithm),
            companion: algorithm.companion.as_ref().map(|companion| companion.program.as_str()),
            needs: algorithm.need.map(|need| format!("{}: {} or newer", need.phrase(), need.release())),
            no_cost,
        };
        let companion = algorithm.companion.as_ref();
        self.output.print(&document, |out, document| write_card(out, document, companion))
    }
}

/// The algorithm or file behind a loaded name, if the name is not an algorithm's id.
fn loaded_from(name: &str) -> Option<String> {
    let record = Store::of_host().record(name).filter(|_| catalog::find(name).is_err())?;
    note(&record.origin());
    Some(record.file.map_or(record.algorithm, |path| path.display().to_string()))
}

fn verifier_cost(algorithm: &Algorithm) -> Result<BTreeMap<String, u32>> {
    privilege::require("ask the verifier", &privilege::FOR_LOAD)?;
    let verified = loader::verify(&Request::of(algorithm), &Features::probe()?)?;
    Ok(verified.verifier_cost()?.into_iter().filter(|(_, instructions)| *instructions > 0).collect())
}

fn write_card(out: &mut impl Write, shown: &CardDocument, companion: Option<&Companion>) -> io::Result<()> {
    let title = if shown.title.is_empty() { "no title" } else { shown.title };
    writeln!(out, "{}: {}", shown.id, marked_title(title, shown.patented))?;
    for (heading, text) in &shown.card.sections {
        writeln!(out, "\n{heading}")?;
        text.lines().try_for_each(|line| writeln!(out, "{}", format!("  {line}").trim_end()))?;
    }
    write_risk(out, &shown.risk)?;
    write_tunables(out, shown.tunables)?;
    write_state(out, shown.state)?;
    if let Some(needs) = &shown.needs {
        writeln!(out, "\nNeeds\n  {needs}")?;
    }
    if let Some(Companion { program, place }) = companion {
        let what = match place {
            CompanionPlace::Cgroup { .. } => "(sock_ops), attached to a cgroup by `tccc load`; see also `--receiver`",
            CompanionPlace::Egress => "(tcx), attached to the egress of every network device by `tccc load`",
        };
        writeln!(out, "\nCompanion\n  {program} {what}")?;
    }
    write_callbacks(out, shown)
}

fn write_risk(out: &mut impl Write, risk: &Risk) -> io::Result<()> {
    let Risk { level, sentence, of_this_code, criteria } = risk;
    writeln!(out, "\nRisk")?;
    if criteria.is_empty() {
        return writeln!(out, "  {level}, which counts as high: {sentence}");
    }
    let counts = if *level == Level::NotMeasured { ", which counts as high" } else { "" };
    writeln!(out, "  {level}{counts}: {sentence}\n")?;
    if !of_this_code {
        writeln!(out, "  another version of its code was evaluated\n")?;
    }
    let rows = criteria.iter().map(|finding| {
        [finding.criterion.clone(), finding.verdict.clone(), finding.value(), finding.level.to_string()]
    });
    write_indented(out, INDENT, ["criterion", "verdict", "ratio", "risk"], rows)
}

fn write_tunables(out: &mut impl Write, tunables: &[Tunable]) -> io::Result<()> {
    if tunables.is_empty() {
        return writeln!(out, "\nTunables\n  none");
    }
    writeln!(out, "\nTunables")?;
    let rows = tunables
        .iter()
        .map(|tunable| [tunable.name.clone(), tunable.default.to_string(), tunable.range(), tunable.why.clone()]);
    write_indented(out, INDENT, ["name", "default", "range (unit)", "why"], rows)
}

fn write_state(out: &mut impl Write, state: &StateLayout) -> io::Result<()> {
    let list = |names: Vec<&str>| if names.is_empty() { "none declared".into() } else { names.join(", ") };
    let phases = list(state.phases.iter().map(|phase| phase.name.as_str()).collect());
    let fields = list(state.fields.iter().map(|field| field.name.as_str()).collect());
    writeln!(out, "\nPhases\n  {phases}")?;
    writeln!(out, "\nState ({} of {} bytes)\n  {fields}", state.size, catalog::STATE_BYTES_MAX)
}

fn write_callbacks(out: &mut impl Write, shown: &CardDocument) -> io::Result<()> {
    writeln!(out, "\nCallbacks")?;
    let rows = shown.callbacks.iter().map(|callback| {
        let absent = if shown.no_cost.is_some() { "-" } else { "not used on this kernel" };
        let cost = callback.verified_instructions.map_or(absent.to_owned(), |count| count.to_string());
        [callback.member.to_owned(), callback.program.to_owned(), cost]
    });
    write_indented(out, INDENT, ["callback", "program", "verifier cost (instructions)"], rows)?;
    shown.no_cost.iter().try_for_each(|why| writeln!(out, "  no verifier cost: {why}"))
}
