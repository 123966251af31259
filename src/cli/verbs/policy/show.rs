//! `tccc policy show`: the rules in force, and what they have done.

use std::io::Write;
use std::path::PathBuf;

use anyhow::Result;
use clap::ValueEnum;
use serde::Serialize;

use crate::cli::output::plain::write_columns;
use crate::cli::output::{results, warn, write_json};
use crate::cli::verbs::older::{self, Older};
use host::policy::change;
use host::policy::counts::{ArmCounts, PolicyCounts};
use host::policy::file::write;
use host::policy::record::GenerationRecord;
use host::policy::rule::{Policy, Rule};
use host::trial;

/// Show the rules in force, and what they have done since they were applied
///
/// Shows the rules that decide about new connections now. After a trial whose guard died, these are the rules before it.
///
/// Counts connections by rule and arm: those that got the algorithm, and those that kept theirs. Two more columns count
/// those whose algorithm a program or a route chose, and those that the kernel refused to change. Changes nothing.
///
/// Example: `tccc policy show -o toml > web.toml`
#[derive(Debug, clap::Args)]
pub struct Args {
    /// How to print the result
    #[arg(short, long, value_enum, default_value_t = PolicyFormat::Table)]
    output: PolicyFormat,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum PolicyFormat {
    /// Columns for people
    Table,
    /// One JSON document with a schema number
    Json,
    /// The rules as a policy file
    Toml,
}

#[derive(Serialize)]
struct PolicyDocument<'a> {
    generation: Option<u32>,
    since: Option<&'a str>,
    file: Option<&'a PathBuf>,
    cgroup: Option<&'a PathBuf>,
    policy: Option<&'a Policy>,
    counts: Option<&'a PolicyCounts>,
    /// Open connections of each rule that have another algorithm because they are older than the rules.
    older: Older,
    /// Why a trial that is still attached no longer decides.
    over: Option<&'a str>,
    drift: &'a [String],
}

impl Args {
    /// # Errors
    /// The record of the policy cannot be read.
    pub fn run(&self) -> Result<()> {
        let standing = change::standing_now()?;
        let over = trial::lapsed()?;
        let generation = standing.generation.as_ref();
        let mut out = results();
        match self.output {
            PolicyFormat::Json => {
                let document = PolicyDocument {
                    generation: generation.map(|it| it.number),
                    since: generation.map(|it| it.since.as_str()),
                    file: generation.and_then(|it| it.file.as_ref()),
                    cgroup: generation.map(|it| &it.cgroup),
                    policy: generation.map(|it| &it.policy),
                    counts: standing.counts.as_ref(),
                    older: generation.and_then(older::of),
                    over: over.as_deref(),
                    drift: &standing.drift,
                };
                write_json(&mut out, &document)?;
            }
            PolicyFormat::Toml => write!(out, "{}", generation.map(|it| write(&it.policy)).unwrap_or_default())?,
            PolicyFormat::Table => match generation {
                Some(generation) => {
                    write_table(&mut out, generation, standing.counts.as_ref())?;
                    older::write(&mut out, &older::of(generation))?;
                }
                None if over.is_some() => writeln!(out, "no rule decides now")?,
                None if standing.drift.is_empty() => writeln!(out, "there is no policy")?,
                None => {}
            },
        }
        over.iter().for_each(|over| warn(over, None));
        standing.drift.iter().for_each(|drift| warn(&format!("policy: {drift}"), None));
        Ok(())
    }
}

fn write_table(out: &mut impl Write, generation: &GenerationRecord, counts: Option<&PolicyCounts>) -> Result<()> {
    let file = generation.file.as_ref().map_or(String::new(), |file| format!(" from {}", file.display()));
    let GenerationRecord { number, since, cgroup, .. } = generation;
    writeln!(out, "policy generation {number}{file}, since {since}, at the cgroup {}\n", cgroup.display())?;
    let mut rows = Vec::new();
    for (at, rule) in generation.policy.rules.iter().enumerate() {
        for (place, arm) in rule.split.arms.iter().enumerate() {
            let count = counts.and_then(|counts| counts.arms.get(at)?.get(place));
            let number = |of: fn(&ArmCounts) -> u64| count.map_or("-".to_owned(), |count| of(count).to_string());
            let [name, conditions] =
                if place == 0 { [rule.name.clone(), conditions(rule)] } else { Default::default() };
            rows.push([
                name,
                conditions,
                arm.treatment.to_string(),
                arm.portion.to_string(),
                number(ArmCounts::total),
                number(|it| it.set),
                number(|it| it.kept),
                number(|it| it.chosen + it.routed),
                number(ArmCounts::refused),
            ]);
        }
    }
    let header = ["rule", "for", "gets", "share", "connections", "set", "kept", "left alone", "refused"];
    write_columns(out, header, rows)?;
    let Some(counts) = counts else { return Ok(()) };
    writeln!(out, "\nno rule: {} connections", counts.unmatched)?;
    let sum = |of: fn(&ArmCounts) -> u64| counts.arms.iter().flatten().map(of).sum::<u64>();
    let remarks = [
        (
            sum(|it| it.over_route),
            "connections got another algorithm than the one their route names (`ip route … congctl`)",
        ),
        (sum(|it| it.locked), "connections were refused: their route locks the algorithm (`congctl lock`)"),
        (sum(|it| it.missing), "connections were refused: the rule's algorithm was not registered"),
        (counts.missed_cgroups, "cgroups did not fit in the table: rules by cgroup did not match in them"),
    ];
    for (count, what) in remarks.iter().filter(|(count, _)| *count > 0) {
        writeln!(out, "{count} {what}")?;
    }
    Ok(())
}

fn conditions(rule: &Rule) -> String {
    const SHOWN: usize = 2;
    let when = &rule.when;
    fn list<T: ToString>(name: &str, values: &[T]) -> Option<String> {
        let more = values.len().saturating_sub(SHOWN);
        let shown: Vec<String> = values.iter().take(SHOWN).map(ToString::to_string).collect();
        let more = if more > 0 { format!(" and {more} more") } else { String::new() };
        (!values.is_empty()).then(|| format!("{name} {}{more}", shown.join(", ")))
    }
    let parts = [
        when.direction.map(|way| way.to_string()),
        list("in", &when.cgroups),
        list("netns", &when.netns),
        list("to", &when.to),
        list("local port", &when.local_port),
        list("remote port", &when.remote_port),
        list("instead of", &when.current),
    ];
    let parts: Vec<String> = parts.into_iter().flatten().collect();
    if parts.is_empty() { "every connection".to_owned() } else { parts.join("; ") }
}
