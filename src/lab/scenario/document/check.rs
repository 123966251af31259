//! `[[check]]`: whether its names, moments and quantities are those of the cells.

use std::time::Duration;

use super::CellReader;
use super::report::MeasuredNames;
use super::shown::check_points;
use crate::path::route::RoundTrip;
use crate::scenario::check::{Begin, Check, Condition, QuantityOf, Test};
use crate::scenario::reference::{Published, ScenarioFields};
use crate::scenario::spec::{Cell, FlowSpec, Sends};
use host::toml_reader::{Found, Mistake, Result, Table, Value, each};
use shared::catalog;
use shared::suggest::nearest;
use shared::units::format_duration;

/// A condition with its table.
type Placed<'t, 'c> = (Table<'t>, &'c Condition);

impl CellReader<'_> {
    /// Checks that a run of the cells can decide each check.
    ///
    /// `is_to_run`: the algorithms are looked up too, because the scenario is to be run here.
    pub(super) fn check_checks(
        &self,
        fields: &ScenarioFields,
        measured: &MeasuredNames,
        cells: &[Cell],
        is_to_run: bool,
    ) -> Result<()> {
        let document = self.document();
        let duration = self.duration()?;
        let tables = document.tables("check")?;
        let names: Vec<&str> = fields.check.iter().map(|check| check.name.as_str()).collect();
        let one = |(index, table): (usize, Table<'_>)| {
            let check = &fields.check[index];
            let mut found = Found::default();
            if names[..index].contains(&check.name.as_str()) {
                found.add(table.need("name")?.refuse("another check has this name"));
            }
            found.keep(check_times(&table, check, duration));
            let points = found.keep(check_points(&table, measured, &[] as &[Published]));
            let cells: Vec<&Cell> = cells.iter().filter(|cell| check.at.contain(&cell.at)).collect();
            if points.is_some() && cells.is_empty() {
                found.add(table.need("at")?.refuse_field("no cell of the sweep is at one of these points"));
            }
            let cells: Vec<&Cell> = match cells.iter().any(|cell| check.is_about(cell)) {
                true => cells.into_iter().filter(|cell| check.is_about(cell)).collect(),
                false => cells,
            };
            let flows = found.keep(flows(&table, check, &cells));
            let Some(flows) = flows.filter(|_| found.is_empty()) else { return Err(found) };
            found.keep(check_rounds(&table, check, fields.sample, &flows));
            for (place, condition) in placed(&table, check)? {
                found.keep(check_path(&place, condition, &flows));
                if is_to_run {
                    found.keep(check_layout(&place, condition, &flows));
                }
            }
            found.end()
        };
        each(tables.into_iter().enumerate(), one).map(drop)
    }
}

/// The conditions of a check, each with the table that has its fields.
fn placed<'t, 'c>(table: &Table<'t>, check: &'c Check) -> Result<Vec<Placed<'t, 'c>>> {
    let begin = match &check.begin {
        Begin::Start => ("after", &[][..]),
        Begin::After(conditions) => ("after", &conditions[..]),
        Begin::Each(conditions) => ("each", &conditions[..]),
    };
    let mut placed = vec![(table.clone(), &check.condition)];
    for (field, conditions) in [begin, ("until", &check.until), ("while", &check.only_while)] {
        placed.extend(table.tables(field)?.into_iter().zip(conditions));
    }
    Ok(placed)
}

fn check_times(table: &Table<'_>, check: &Check, duration: Duration) -> Result<()> {
    if check.to.is_some_and(|to| to > duration) {
        let what = format!("expected at most the duration of a run, {}", format_duration(duration));
        return Err(table.need("to")?.refuse(what).into());
    }
    let end = check.to.unwrap_or(duration);
    match check.from.filter(|from| *from >= end) {
        Some(_) => Err(table.need("from")?.refuse(format!("expected less than {}", format_duration(end))).into()),
        None => Ok(()),
    }
}

/// The checked flows of each cell.
fn flows<'c>(table: &Table<'_>, check: &Check, cells: &[&'c Cell]) -> Result<Vec<(&'c Cell, &'c FlowSpec)>> {
    let Some(name) = &check.flow else {
        let all = cells.iter().flat_map(|cell| cell.flows.iter().map(move |flow| (*cell, flow)));
        let all: Vec<_> = all.filter(|(_, flow)| flow.is_tcp() && flow.compared).collect();
        return match all.iter().find(|(cell, flow)| flow.connections(cell.duration) > 1) {
            Some((_, flow)) => Err(table.refuse_field("flow", &several(flow)).into()),
            None => Ok(all),
        };
    };
    let value = table.need("flow")?;
    let mut flows = Vec::new();
    for cell in cells {
        let own: Vec<&FlowSpec> = cell.flows.iter().filter(|flow| flow.is_of(name)).collect();
        match own.first() {
            None => return Err(unknown_flow(&value, name, cell).into()),
            Some(flow) if !flow.is_tcp() => {
                let what = "expected a TCP flow: datagrams have no events";
                return Err(value.refuse(what).into());
            }
            Some(flow) if flow.connections(cell.duration) > 1 => return Err(value.refuse(several(flow)).into()),
            Some(_) => flows.extend(own.into_iter().map(|flow| (*cell, flow))),
        }
    }
    Ok(flows)
}

fn several(flow: &FlowSpec) -> String {
    let fix = match flow.sends {
        Sends::Transfers { .. } => "; with `keep_alive = true` it has one",
        _ => "",
    };
    format!("flow \"{}\" has several connections, whose events are not told apart{fix}", flow.name)
}

fn unknown_flow(value: &Value<'_>, name: &str, cell: &Cell) -> Box<Mistake> {
    if cell.leaves_out(name) {
        return value.refuse("the variants at the points of the check leave this flow out");
    }
    let names: Vec<&str> = cell.flows.iter().map(|flow| flow.name.as_str()).collect();
    let mistake = value.refuse(format!("expected a flow: {}", names.join(", ")));
    mistake.suggest(nearest(name, names))
}

/// Rounds are counted between samples, so a sample must not be longer than a round.
fn check_rounds(table: &Table<'_>, check: &Check, sample: Duration, flows: &[(&Cell, &FlowSpec)]) -> Result<()> {
    let trips = flows.iter().filter_map(|(cell, flow)| {
        let trip = RoundTrip::between(&cell.links, &flow.from, &flow.to)?;
        Some(trip.directions(&cell.links).map(|direction| direction.delays()[0]).sum::<Duration>())
    });
    // Without a delay, the rate alone decides how long a round is.
    let shortest = trips.min().filter(|shortest| !shortest.is_zero());
    match shortest.filter(|shortest| check.counts_rounds() && sample > *shortest) {
        Some(shortest) => {
            let [shortest, sample] = [shortest, sample].map(format_duration);
            let what = format!("it counts rounds, which can be as short as {shortest}, but `sample` is {sample}");
            Err(table.refuse(what).or_hint(format!("sample = \"{shortest}\" or less records every round")).into())
        }
        None => Ok(()),
    }
}

/// A bound relative to the path needs a path with a rate; a queue needs its link.
fn check_path(table: &Table<'_>, condition: &Condition, flows: &[(&Cell, &FlowSpec)]) -> Result<()> {
    let has_rate = |(cell, flow): &(&Cell, &FlowSpec)| {
        let trip = RoundTrip::between(&cell.links, &flow.from, &flow.to);
        trip.is_some_and(|trip| trip.there.iter().any(|hop| hop.direction(&cell.links).rate.is_some()))
    };
    let is_queue = condition.what.of == QuantityOf::Queue && condition.link.is_none();
    let relative = condition.bounds().find(|(_, bound)| bound.is_of_path());
    let needs_rate = relative.map(|(field, _)| field).or_else(|| is_queue.then_some("what"));
    if let (Some(field), Some((_, flow))) = (needs_rate, flows.iter().find(|one| !has_rate(one))) {
        let what = format!("no link on the way of flow \"{}\" has a `rate`", flow.name);
        return Err(table.need(field)?.refuse(what).into());
    }
    let Some([from, to]) = &condition.link else { return Ok(()) };
    let joins = |cell: &Cell| {
        cell.links.iter().any(|link| link.ends == [from.clone(), to.clone()] || link.ends == [to.clone(), from.clone()])
    };
    match flows.iter().find(|(cell, _)| !joins(cell)) {
        Some((cell, _)) => {
            let links: Vec<String> = cell.links.iter().map(|link| link.name()).collect();
            Err(table.need("link")?.refuse(format!("expected the ends of a link: {}", links.join(", "))).into())
        }
        None => Ok(()),
    }
}

/// The phases and fields that a condition names must be those of every algorithm in the catalogue that it is about.
fn check_layout(table: &Table<'_>, condition: &Condition, flows: &[(&Cell, &FlowSpec)]) -> Result<()> {
    let (mut known, mut is_closed) = (Vec::new(), !flows.is_empty());
    for (_, flow) in flows {
        // A source file and the kernel's own algorithms have layouts that only a run knows.
        let Ok(algorithm) = catalog::find(&flow.algorithm) else {
            is_closed = false;
            continue;
        };
        for quantity in condition.quantities() {
            match quantity.words_in(&algorithm.layout) {
                Ok(words) if quantity == &condition.what => known.extend(words),
                Ok(_) => {}
                Err((lacking, instead)) => {
                    let what = format!("\"{}\" has no {lacking}; it has {instead}", algorithm.id);
                    let field = condition.bounds().map(|(field, _)| field).next();
                    let field = field.filter(|_| quantity != &condition.what).unwrap_or("what");
                    let hint = "`at` and `flow` restrict a check to flows that have it";
                    return Err(table.need(field)?.refuse(what).or_hint(hint).into());
                }
            }
        }
    }
    let Test::Is { words, expected } = &condition.test else { return Ok(()) };
    match words.iter().find(|word| is_closed && !known.is_empty() && !known.contains(word)) {
        Some(word) => {
            known.sort();
            known.dedup();
            let value = table.need(if *expected { "is" } else { "is_not" })?;
            let near = nearest(word, known.iter().map(String::as_str));
            let mistake = value.mistake(format!("expected one of {}", known.join(", ")));
            Err(mistake.given(format!("\"{word}\"")).suggest(near).into())
        }
        None => Ok(()),
    }
}
