//! `tccc run --explain`: what the fields of a scenario are, from their declarations.

use std::io::{self, Write};

use anyhow::Result;
use serde::Serialize;

use crate::cli::output::Format;
use crate::failure::Failure;
use crate::model::metrics::METRICS;
use crate::nearest::nearest;
use crate::scenario::reference::{self, FieldEntry, Kind, Unset};

/// Widest line.
const LINE: usize = 100;
/// Where the texts of fields begin in a list.
const INDENT: usize = 20;

#[derive(Serialize)]
struct Document {
    sections: Vec<Section>,
    metrics: Vec<Metric>,
}

/// Fields of one table of the file.
#[derive(Serialize)]
struct Section {
    /// As TOML writes it: `[[link]]`; empty for the top of the file.
    section: String,
    text: String,
    examples: Vec<&'static str>,
    fields: Vec<Field>,
}

#[derive(Serialize)]
struct Field {
    /// Dotted: `link.rate`.
    field: String,
    kind: String,
    from: Option<String>,
    to: Option<String>,
    units: Option<&'static str>,
    needed: bool,
    /// What holds without it: a value, or words.
    default: Option<&'static str>,
    /// Whether `default` is a value that the field could have.
    default_is_value: bool,
    text: String,
    examples: Vec<&'static str>,
}

#[derive(Serialize)]
struct Metric {
    metric: &'static str,
    unit: &'static str,
    text: &'static str,
    source: &'static str,
}

/// Prints every field and metric, or those of a name.
///
/// Errors: nothing has the name; stdout cannot be written.
pub fn run(name: Option<&str>, output: Format) -> Result<()> {
    let all = reference::entries();
    let found: Vec<&FieldEntry> = match name {
        None => all.iter().filter(|entry| !entry.is_repeated).collect(),
        Some(name) => named(name, &all)?,
    };
    let metrics = METRICS.iter().filter(|metric| name.is_none_or(|name| name == metric.name));
    let metrics = metrics.map(|metric| Metric {
        metric: metric.name,
        unit: metric.unit,
        text: metric.what,
        source: metric.source,
    });
    let is_list = found.iter().any(|entry| entry.field.section().is_some());
    let chosen = if name.is_some() { with_own_fields(&found, &all) } else { found };
    let document = Document { sections: sections(&chosen, &all), metrics: metrics.collect() };
    output.print(&document, |out, document| if is_list { document.write_list(out) } else { document.write_cards(out) })
}

/// The fields that a name means.
///
/// Errors: neither a field nor a metric has the name.
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

/// The fields, in the place of each table its own.
fn with_own_fields<'a>(found: &[&FieldEntry], all: &'a [FieldEntry]) -> Vec<&'a FieldEntry> {
    let is_of = |entry: &FieldEntry, one: &FieldEntry| match one.field.section() {
        Some(_) => one.path == entry.place(),
        None => one.path == entry.path,
    };
    all.iter().filter(|entry| found.iter().any(|one| is_of(entry, one))).collect()
}

/// Fields by the table that they are in.
fn sections(chosen: &[&FieldEntry], all: &[FieldEntry]) -> Vec<Section> {
    let mut sections: Vec<Section> = Vec::new();
    for entry in chosen {
        let holder = all.iter().find(|other| other.path == entry.place());
        let name = holder.map_or(String::new(), heading);
        match sections.iter_mut().find(|one| one.section == name) {
            Some(section) => section.fields.push(Field::new(entry)),
            None => sections.push(Section::new(name, holder, Field::new(entry))),
        }
    }
    sections
}

fn heading(holder: &FieldEntry) -> String {
    match holder.field.kind {
        Kind::Tables(_) => format!("[[{}]]", holder.path),
        _ => format!("[{}]", holder.path),
    }
}

impl Section {
    fn new(section: String, holder: Option<&FieldEntry>, first: Field) -> Self {
        let text = holder.map_or("The top of the file.".to_owned(), |holder| holder.field.text());
        let examples = holder.map_or(Vec::new(), |holder| holder.field.examples().collect());
        Section { section, text, examples, fields: vec![first] }
    }

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

impl Field {
    fn new(entry: &FieldEntry) -> Self {
        let [from, to] = entry.field.kind.range().map_or([None, None], |range| range.map(Some));
        let (default, default_is_value) = match entry.unset {
            Unset::Needed => (None, false),
            Unset::Is(value) => (Some(value), true),
            Unset::Means(words) => (Some(words), false),
        };
        Field {
            field: entry.path.clone(),
            kind: entry.field.kind.name(),
            from,
            to,
            units: entry.field.kind.units(),
            needed: default.is_none(),
            default,
            default_is_value,
            text: entry.field.text(),
            examples: entry.field.examples().collect(),
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
        let mut labels = ["example"].into_iter().chain(std::iter::repeat(""));
        let example = |(label, example): (&str, &&str)| writeln!(out, "  {label:<8} {example}");
        labels.by_ref().zip(&self.examples).try_for_each(example)
    }
}

impl Metric {
    fn write(&self, out: &mut impl Write) -> io::Result<()> {
        writeln!(out, "{}", self.metric)?;
        write_wrapped(out, "  ", self.text)?;
        writeln!(out, "  unit     {}", self.unit)?;
        writeln!(out, "  source   {}", self.source)
    }
}

impl Document {
    fn write_list(&self, out: &mut impl Write) -> io::Result<()> {
        self.sections.iter().try_for_each(|section| section.write(out))?;
        if !self.metrics.is_empty() {
            writeln!(out, "Metrics")?;
        }
        let mut metrics = self.metrics.iter();
        metrics.try_for_each(|metric| write_wrapped(out, &format!("  {:<26} ", metric.metric), metric.text))
    }

    /// One below the other, with a blank line between.
    fn write_cards(&self, out: &mut impl Write) -> io::Result<()> {
        let fields = self.sections.iter().flat_map(|section| &section.fields);
        for (index, field) in fields.enumerate() {
            if index > 0 {
                writeln!(out)?;
            }
            field.write(out)?;
        }
        self.metrics.iter().try_for_each(|metric| metric.write(out))
    }
}

/// Writes a paragraph behind a label, its further lines below its first word.
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
