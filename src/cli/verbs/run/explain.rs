//! `tccc run --explain`: the fields of a scenario, from their declarations, and the metrics.

use std::io::{self, Write};

use anyhow::Result;
use serde::Serialize;

use crate::cli::output::OutputFormat;
use lab::scenario::reference::{self, FieldEntry, Kind, Unset};
use shared::failure::Failure;
use shared::model::metrics::{METRICS, Metric};
use shared::suggest::nearest;

/// Characters of the widest line.
const LINE: usize = 100;
/// Column at which the texts of fields begin.
const INDENT: usize = 20;

#[derive(Serialize)]
struct ReferenceDocument {
    sections: Vec<SectionCard>,
    metrics: Vec<MetricCard>,
}

/// Fields of one TOML table.
#[derive(Serialize)]
struct SectionCard {
    /// As TOML writes it: `[[link]]`; empty for the top of the file.
    section: String,
    text: String,
    examples: Vec<&'static str>,
    fields: Vec<FieldCard>,
}

#[derive(Serialize)]
struct FieldCard {
    /// Dotted: `link.rate`.
    field: String,
    kind: String,
    from: Option<String>,
    to: Option<String>,
    units: Option<&'static str>,
    needed: bool,
    /// A value, or words that describe it.
    default: Option<&'static str>,
    /// Whether `default` is a value that the field could have.
    default_is_value: bool,
    text: String,
    examples: Vec<&'static str>,
}

#[derive(Serialize)]
struct MetricCard {
    metric: &'static str,
    unit: &'static str,
    text: &'static str,
    source: &'static str,
}

/// Prints every field and metric, or those with this name.
///
/// # Errors
/// Nothing has the name; stdout cannot be written.
pub fn run(name: Option<&str>, output: OutputFormat) -> Result<()> {
    let all = reference::entries();
    let found: Vec<&FieldEntry> = match name {
        None => all.iter().filter(|entry| !entry.is_repeated).collect(),
        Some(name) => named(name, &all)?,
    };
    let is_list = found.iter().any(|entry| entry.field.section().is_some());
    let chosen = if name.is_some() { with_own_fields(&found, &all) } else { found };
    let metrics = METRICS.iter().filter(|metric| name.is_none_or(|name| name == metric.name));
    let card = |it: &Metric| MetricCard { metric: it.name, unit: it.unit, text: it.what, source: it.source };
    let document = ReferenceDocument { sections: sections(&chosen, &all), metrics: metrics.map(card).collect() };
    output.print(&document, |out, document| if is_list { document.write_list(out) } else { document.write_cards(out) })
}

/// # Errors
/// Neither a field nor a metric has the name.
fn named<'a>(name: &str, all: &'a [FieldEntry]) -> Result<Vec<&'a FieldEntry>, Failure> {
    let found = reference::find(name, all);
    if found.is_empty() && !METRICS.iter().any(|metric| metric.name == name) {
        let names = all.iter().flat_map(|entry| [entry.path.as_str(), entry.field.name]);
        let near = nearest(name, names.chain(METRICS.iter().map(|metric| metric.name)));
        let meant = near.map_or(String::new(), |near| format!("did you mean \"{near}\"? "));
        let failure = Failure::usage(format!("no field or metric has the name \"{name}\""));
        return Err(failure.hint(format!("{meant}`tccc run --explain` lists every field")));
    }
    Ok(found)
}

/// Replaces each table by its fields.
fn with_own_fields<'a>(found: &[&FieldEntry], all: &'a [FieldEntry]) -> Vec<&'a FieldEntry> {
    let is_of = |entry: &FieldEntry, one: &FieldEntry| match one.field.section() {
        Some(_) => one.path == entry.place(),
        None => one.path == entry.path,
    };
    all.iter().filter(|entry| found.iter().any(|one| is_of(entry, one))).collect()
}

fn sections(chosen: &[&FieldEntry], all: &[FieldEntry]) -> Vec<SectionCard> {
    let mut sections: Vec<SectionCard> = Vec::new();
    for entry in chosen {
        let table = all.iter().find(|other| other.path == entry.place());
        let section = table.map_or(String::new(), |table| match table.field.kind {
            Kind::Tables(_) => format!("[[{}]]", table.path),
            _ => format!("[{}]", table.path),
        });
        match sections.iter_mut().find(|one| one.section == section) {
            Some(known) => known.fields.push(FieldCard::new(entry)),
            None => sections.push(SectionCard {
                section,
                text: table.map_or("The top of the file.".to_owned(), |table| table.field.text()),
                examples: table.map_or(Vec::new(), |table| table.field.examples().collect()),
                fields: vec![FieldCard::new(entry)],
            }),
        }
    }
    sections
}

impl SectionCard {
    fn write(&self, out: &mut impl Write) -> io::Result<()> {
        writeln!(out, "{}", if self.section.is_empty() { "Scenario" } else { &self.section })?;
        write_wrapped(out, "  ", &self.text)?;
        self.examples.iter().try_for_each(|example| writeln!(out, "  {example}"))?;
        writeln!(out)?;
        for field in &self.fields {
            let name = field.field.rsplit('.').next().unwrap_or_default();
            write_wrapped(out, &format!("  {name:<width$}", width = INDENT - 2), &field.text)?;
            let default = field.default.map_or("needed".to_owned(), |default| format!("default: {default}"));
            write_wrapped(out, &" ".repeat(INDENT), &format!("{}; {default}", field.value()))?;
        }
        writeln!(out)
    }
}

impl FieldCard {
    fn new(FieldEntry { path, field, unset, .. }: &FieldEntry) -> Self {
        let [from, to] = field.kind.range().map_or([None, None], |range| range.map(Some));
        let (default, default_is_value) = match unset {
            Unset::Needed => (None, false),
            Unset::Is(value) => (Some(*value), true),
            Unset::Means(words) => (Some(*words), false),
        };
        FieldCard {
            field: path.clone(),
            kind: field.kind.name(),
            from,
            to,
            units: field.kind.units(),
            needed: default.is_none(),
            default,
            default_is_value,
            text: field.text(),
            examples: field.examples().collect(),
        }
    }

    /// Kind and range.
    fn value(&self) -> String {
        match (&self.from, &self.to) {
            (Some(from), Some(to)) => format!("{} from {from} to {to}", self.kind),
            _ => self.kind.clone(),
        }
    }

    fn write(&self, out: &mut impl Write) -> io::Result<()> {
        writeln!(out, "{}", self.field)?;
        write_wrapped(out, "  ", &self.text)?;
        writeln!(out, "  value    {}", self.value())?;
        self.units.iter().try_for_each(|units| writeln!(out, "  units    {units}"))?;
        writeln!(out, "  default  {}", self.default.unwrap_or("none: the field is needed"))?;
        for (place, example) in self.examples.iter().enumerate() {
            writeln!(out, "  {:<8} {example}", if place == 0 { "example" } else { "" })?;
        }
        Ok(())
    }
}

impl ReferenceDocument {
    fn write_list(&self, out: &mut impl Write) -> io::Result<()> {
        self.sections.iter().try_for_each(|section| section.write(out))?;
        if !self.metrics.is_empty() {
            writeln!(out, "Metrics")?;
        }
        let mut metrics = self.metrics.iter();
        metrics.try_for_each(|metric| write_wrapped(out, &format!("  {:<26} ", metric.metric), metric.text))
    }

    /// Writes fields and metrics with a blank line between two fields.
    fn write_cards(&self, out: &mut impl Write) -> io::Result<()> {
        let fields = self.sections.iter().flat_map(|section| &section.fields);
        for (index, field) in fields.enumerate() {
            if index > 0 {
                writeln!(out)?;
            }
            field.write(out)?;
        }
        for MetricCard { metric, unit, text, source } in &self.metrics {
            writeln!(out, "{metric}")?;
            write_wrapped(out, "  ", text)?;
            writeln!(out, "  unit     {unit}\n  source   {source}")?;
        }
        Ok(())
    }
}

/// Wraps a paragraph after a label and indents its other lines by the label's width.
fn write_wrapped(out: &mut impl Write, label: &str, text: &str) -> io::Result<()> {
    let indent = " ".repeat(label.len());
    let mut line = label.to_owned();
    for word in text.split_whitespace() {
        if line.trim_end().len() > indent.len() && line.chars().count() + word.chars().count() > LINE {
            writeln!(out, "{}", line.trim_end())?;
            line.clone_from(&indent);
        }
        line += word;
        line.push(' ');
    }
    writeln!(out, "{}", line.trim_end())
}
