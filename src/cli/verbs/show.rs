//! `tccc show`: the card of one algorithm.

use std::collections::BTreeMap;
use std::io::{self, Write};

use anyhow::Result;

use serde::Serialize;

use super::capabilities;
use super::load::find;
use crate::catalog::risk::{HIGH_FROM, Level, MEDIUM_FROM, Risk, RiskFigure};
use crate::catalog::{self, Algorithm, Card, StateLayout, Tunable};
use crate::cli::output::plain::{marked_title, write_columns};
use crate::cli::output::{Format, note};
use crate::kernel::privilege;
use crate::kernel::probe::Features;
use crate::loader::{self, Request};
use crate::state::Store;

/// Show one algorithm: header, risk, tunables, phases, callbacks
///
/// Each figure of the risk is a ratio to Reno on the same path, beside CUBIC to CUBIC, with its 95 % interval. A figure that
/// is 2 times worse or more makes the risk high, 1.25 times medium. scenarios/safety/README.md has the rule.
///
/// As root it also asks the kernel's verifier about each callback, and prints how many instructions the verifier looked at. It
/// registers nothing.
///
/// Example: `tccc show dtcp`
#[derive(Debug, clap::Args)]
#[command(after_long_help = capabilities::of("show", ""))]
pub struct Args {
    /// An algorithm of `tccc list`, or an object file of your own; FILE:TABLE where it has several ops tables
    #[arg(value_name = "ID|FILE.bpf.o[:TABLE]")]
    algorithm: String,
    /// How the result is printed
    #[arg(short, long, value_enum, default_value_t = Format::Table)]
    output: Format,
}

#[derive(Serialize)]
struct CallbackLine<'a> {
    member: &'a str,
    program: &'a str,
    /// Instructions that the verifier went through; none where it was not asked or the callback is not loaded here.
    verified_instructions: Option<u32>,
}

#[derive(Serialize)]
struct Document<'a> {
    id: &'a str,
    title: &'a str,
    source: &'a str,
    patented: bool,
    card: &'a Card,
    tunables: &'a [Tunable],
    state: &'a StateLayout,
    callbacks: Vec<CallbackLine<'a>>,
    risk: Risk,
    /// The program that is attached to a cgroup with it.
    companion: Option<&'a str>,
    /// Why no verifier cost is given.
    no_cost: Option<String>,
}

impl Args {
    /// Prints the card.
    ///
    /// Errors: no such algorithm; the file is none.
    pub fn run(&self) -> Result<()> {
        let text = loaded_from(&self.algorithm).unwrap_or_else(|| self.algorithm.clone());
        let (algorithm, _) = find(&text)?;
        let (costs, no_cost) = match verifier_cost(&algorithm) {
            Ok(costs) => (costs, None),
            Err(error) => (BTreeMap::new(), Some(format!("{error:#}"))),
        };
        let document = document(&algorithm, &costs, no_cost);
        self.output.print(&document, |out, document| write_card(out, document))
    }
}

/// The algorithm of the catalogue, or the user's file, that was loaded under a name that the catalogue has not.
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

fn document<'a>(algorithm: &'a Algorithm, costs: &BTreeMap<String, u32>, no_cost: Option<String>) -> Document<'a> {
    let callbacks = algorithm.callbacks.iter().map(|callback| CallbackLine {
        member: &callback.member,
        program: &callback.program,
        verified_instructions: costs.get(&callback.program).copied(),
    });
    Document {
        id: &algorithm.id,
        title: &algorithm.title,
        source: &algorithm.source,
        patented: algorithm.patents().is_some(),
        card: &algorithm.card,
        tunables: &algorithm.tunables,
        state: &algorithm.layout,
        callbacks: callbacks.collect(),
        risk: Risk::of(algorithm),
        companion: algorithm.companion.as_ref().map(|companion| companion.program.as_str()),
        no_cost,
    }
}

fn write_card(out: &mut impl Write, shown: &Document) -> io::Result<()> {
    let title = if shown.title.is_empty() { "no title" } else { shown.title };
    writeln!(out, "{}: {}", shown.id, marked_title(title, shown.patented))?;
    for (heading, text) in &shown.card.sections {
        writeln!(out, "\n{heading}")?;
        text.lines().try_for_each(|line| writeln!(out, "{}", format!("  {line}").trim_end()))?;
    }
    write_risk(out, &shown.risk)?;
    write_tunables(out, shown.tunables)?;
    write_state(out, shown.state)?;
    if let Some(program) = shown.companion {
        writeln!(
            out,
            "\nCompanion\n  {program} (sock_ops), attached to a cgroup by `tccc load`; see also `--receiver`"
        )?;
    }
    write_callbacks(out, shown)
}

/// The word and its reason, then what it is made of.
fn write_risk(out: &mut impl Write, risk: &Risk) -> io::Result<()> {
    let level = risk.level;
    writeln!(out, "\nRisk")?;
    if risk.figures.is_empty() {
        return writeln!(out, "  {level}, which counts as high: {}", risk.sentence);
    }
    let reason = match level {
        Level::Low => "the worst of its figures: ",
        _ => "",
    };
    writeln!(out, "  {level}: {reason}{}\n", risk.sentence)?;
    if !risk.of_this_code {
        writeln!(out, "  measured for another version of its code\n")?;
    }
    let rows = risk
        .figures
        .iter()
        .map(|figure| [format!("  {}", figure.what()), figure.value(), runs(figure), figure.level().to_string()]);
    write_columns(out, ["  figure", "ratio", "runs", "risk"], rows)?;
    writeln!(
        out,
        "\n  Ratios are to Reno on the same path, beside CUBIC to CUBIC. Medium is {MEDIUM_FROM} times worse, high {HIGH_FROM} times."
    )
}

fn runs(figure: &RiskFigure) -> String {
    let by = if figure.engine == "kernel" { " on the real kernel" } else { "" };
    format!("{}{by}", figure.n)
}

fn write_tunables(out: &mut impl Write, tunables: &[Tunable]) -> io::Result<()> {
    if tunables.is_empty() {
        return writeln!(out, "\nTunables\n  none");
    }
    writeln!(out, "\nTunables")?;
    let rows = tunables.iter().map(|tunable| {
        [format!("  {}", tunable.name), tunable.default.to_string(), tunable.range(), tunable.why.clone()]
    });
    write_columns(out, ["  name", "default", "range (unit)", "why"], rows)
}

fn write_state(out: &mut impl Write, state: &StateLayout) -> io::Result<()> {
    let phases: Vec<&str> = state.phases.iter().map(|phase| phase.name.as_str()).collect();
    writeln!(out, "\nPhases\n  {}", if phases.is_empty() { "none declared".into() } else { phases.join(", ") })?;
    let fields: Vec<&str> = state.fields.iter().map(|field| field.name.as_str()).collect();
    let fields = if fields.is_empty() { "none declared".into() } else { fields.join(", ") };
    writeln!(out, "\nState ({} of {} bytes)\n  {fields}", state.size, catalog::STATE_BYTES_MAX)
}

fn write_callbacks(out: &mut impl Write, shown: &Document) -> io::Result<()> {
    writeln!(out, "\nCallbacks")?;
    let rows = shown.callbacks.iter().map(|callback| {
        let absent = if shown.no_cost.is_some() { "-" } else { "not used on this kernel" };
        let cost = callback.verified_instructions.map_or(absent.to_owned(), |count| count.to_string());
        [format!("  {}", callback.member), callback.program.to_owned(), cost]
    });
    write_columns(out, ["  callback", "program", "verifier cost (instructions)"], rows)?;
    match &shown.no_cost {
        Some(why) => writeln!(out, "  no verifier cost: {why}"),
        None => Ok(()),
    }
}
