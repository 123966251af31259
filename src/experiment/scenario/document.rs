//! The scenario file as it is written: TOML with `$name` in strings, read once per combination of the sweep.

mod files;
mod flow;
mod link;
mod message;
mod ns2;
mod place;
mod resolve;
mod selection;
mod shape;
mod shown;
mod value;

use std::collections::BTreeMap;
use std::fmt::Display;
use std::time::Duration;

use serde::de::IgnoredAny;
use serde::{Deserialize, Serialize};
use toml::Spanned;
use toml::de::{DeTable, DeValue};

use self::files::Files;
use self::flow::{FlowText, VariantText};
use self::link::LinkText;
use self::ns2::Ns2Text;
pub use self::place::{place_in_flow, place_in_link, place_of_metric};
pub use self::selection::{Goal, SelectionSpec};
pub use self::shown::{DifferenceSpec, Draw, FigureSpec, Places, TIME};
use self::value::{Ordered, Text};
use super::position::{Step, field_at, field_name, line_of, range_of, value_at};
use super::{ALGORITHM, Cell, LinkSpec, Profile, Scenario, ScenarioError, VARIANT, VIRTUAL_MAX, Variable, VirtualSpec};
use crate::experiment::algorithms;
use crate::model::run::{At, Engine};
use crate::nearest::nearest;
use crate::path::named::shown;
use crate::units::{self, Share};

/// Where published numbers come from.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Source {
    /// The paper.
    pub paper: String,
    /// Table or figure.
    #[serde(rename = "where")]
    pub place: String,
}

/// What the report shows.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ReportSpec {
    /// The variant or algorithm others are compared with.
    pub baseline: Option<String>,
    /// Metrics in the order of the table.
    pub metrics: Vec<String>,
    /// How far a measurement may lie from its target to be `within`.
    pub tolerance: Option<Share>,
}

/// Numbers of the source along one sweep variable.
///
/// As a ratio, they are shown where the source has no value of the baseline.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Published {
    /// Metric they are of.
    pub metric: String,
    /// The metric itself, its ratio to the baseline, or what it saves.
    #[serde(default)]
    pub of: Of,
    /// Table, row, column.
    pub place: String,
    /// The sweep variable the lists go along.
    pub over: String,
    /// Variant or algorithm to one number per value of `over`, in its order; NaN where the source has none.
    pub values: BTreeMap<String, Vec<f64>>,
}

/// What a published or expected number is of.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Of {
    /// The metric itself.
    #[default]
    Value,
    /// The metric divided by that of the baseline.
    Ratio,
    /// By how much the metric is below that of the baseline: shown as the baseline's measured mean less it.
    Saved,
}

/// Numbers a faithful implementation should give.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Expected {
    /// Metric they are of.
    pub metric: String,
    /// The metric itself, its ratio to the baseline, or what it saves.
    #[serde(default)]
    pub of: Of,
    /// The sweep variable the lists go along.
    pub over: String,
    /// Variant or algorithm to one number per value of `over`, in its order; NaN where nothing is expected.
    pub values: BTreeMap<String, Vec<f64>>,
    /// Allowed distance from each of `values`, in the same shape and unit.
    pub plus_minus: BTreeMap<String, Vec<f64>>,
    /// Why these numbers: one sentence.
    pub basis: String,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Document {
    title: String,
    claim: String,
    profile: Profile,
    #[serde(with = "units::duration_text")]
    duration: Duration,
    runs: u32,
    seed: u64,
    #[serde(default = "default_sample", with = "units::duration_text")]
    sample: Duration,
    #[serde(default = "default_mtu")]
    mtu: u32,
    source: Option<Source>,
    /// Read before the rest, because its values are replaced in it.
    #[serde(rename = "sweep")]
    _sweep: Option<IgnoredAny>,
    /// Read before the rest, because they stand for links.
    #[serde(rename = "dumbbell")]
    _dumbbell: Option<IgnoredAny>,
    #[serde(rename = "parking_lot")]
    _parking_lot: Option<IgnoredAny>,
    #[serde(default)]
    link: Vec<LinkText>,
    flow: Vec<FlowText>,
    #[serde(default)]
    variant: Ordered<VariantText>,
    #[serde(default)]
    report: ReportSpec,
    selection: Option<SelectionSpec>,
    ns2: Option<Ns2Text>,
    #[serde(default, rename = "virtual")]
    virtual_time: VirtualSpec,
    #[serde(default)]
    published: Vec<Published>,
    #[serde(default)]
    expected: Vec<Expected>,
    #[serde(default)]
    figure: Vec<FigureSpec>,
    #[serde(default)]
    difference: Vec<DifferenceSpec>,
}

/// Fine enough to see each round of a path with 100 ms or more, coarse enough that a 100 s run stays under a megabyte.
fn default_sample() -> Duration {
    Duration::from_millis(100)
}

/// Ethernet's.
fn default_mtu() -> u32 {
    1500
}

/// The file while it is read: what errors need to say where they are.
struct Reader<'a> {
    file: &'a str,
    text: &'a str,
    /// What is read: of one combination, with every `$name` replaced and every shape drawn.
    table: Spanned<DeTable<'a>>,
    files: &'a Files,
    /// What the file says; none where that is what is read.
    written: Option<&'a Spanned<DeTable<'a>>>,
}

/// What a scenario is read for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Purpose {
    /// To run it here, by this engine.
    Run(Engine),
    /// To report what may have run elsewhere, with what that kernel has.
    Report,
}

/// Reads the file: variables first, then the whole once per combination of their values.
pub fn parse(file: &str, text: &str, purpose: Purpose) -> Result<Scenario, ScenarioError> {
    let table = DeTable::parse(text).map_err(|error| message::not_toml(file, text, &error))?;
    let files = Files::beside(file);
    let reader = Reader { file, text, table, files: &files, written: None };
    let sweep = reader.sweep()?;
    reader.check_amount(&sweep)?;
    let mut cells = Vec::new();
    let mut first = None;
    for at in combinations(&sweep) {
        let reader = reader.at(&at)?;
        let document = reader.document()?;
        cells.push(reader.cell(&document, at)?);
        first.get_or_insert(document);
    }
    let mut document = first.expect("a sweep has at least one combination");
    let ns2 = reader.ns2(document.ns2.take(), &cells[0].links)?;
    reader.check_virtual(document.virtual_time)?;
    reader.check_distinct(&sweep, &cells)?;
    let checked = reader.check_report(&document, &sweep, &measured(&sweep, &cells));
    // A name that differs from a misspelt algorithm's is no mistake. The simulator has algorithms of its own.
    let unknown = || match purpose {
        Purpose::Run(engine) if ns2.is_none() => reader.unknown_algorithm(&cells, engine),
        _ => None,
    };
    checked.map_err(|error| unknown().unwrap_or(error))?;
    let stem = std::path::Path::new(file).file_stem().map(|stem| stem.to_string_lossy().into_owned());
    Ok(Scenario {
        file: file.to_owned(),
        name: stem.unwrap_or_else(|| file.to_owned()),
        text: text.to_owned(),
        files: files.into_texts(),
        title: document.title,
        claim: document.claim,
        profile: document.profile,
        runs: document.runs,
        seed: document.seed,
        sample: document.sample,
        source: document.source,
        sweep,
        report: document.report,
        selection: document.selection,
        ns2,
        virtual_time: document.virtual_time,
        published: document.published,
        expected: document.expected,
        figures: document.figure,
        differences: document.difference,
        cells,
    })
}

/// The names under which results are compared: the values of the variable that names them, else the flows' labels.
fn measured(sweep: &[Variable], cells: &[Cell]) -> Vec<String> {
    let of = |name| sweep.iter().find(|variable| variable.name == name);
    if let Some(variable) = of(VARIANT).or_else(|| of(ALGORITHM)) {
        return variable.values.clone();
    }
    let mut labels = Vec::new();
    for label in cells.iter().flat_map(|cell| cell.flows.iter().map(|flow| cell.label(flow))) {
        if !labels.contains(&label) {
            labels.push(label);
        }
    }
    labels
}

/// Every combination of the sweep's values; the last variable varies fastest.
fn combinations(sweep: &[Variable]) -> Vec<At> {
    sweep.iter().fold(vec![At::new()], |cells, variable| {
        let extend = |at: &At| {
            let at = at.clone();
            variable.values.iter().map(move |value| {
                let mut at = at.clone();
                at.insert(variable.name.clone(), value.clone());
                at
            })
        };
        cells.iter().flat_map(extend).collect::<Vec<_>>()
    })
}

impl Reader<'_> {
    /// What the file says, before anything is replaced.
    fn written(&self) -> &DeTable<'_> {
        self.written.unwrap_or(&self.table).get_ref()
    }

    fn line_at(&self, offset: usize) -> usize {
        line_of(self.text, offset)
    }

    /// An algorithm that does not exist.
    fn unknown_algorithm(&self, cells: &[Cell], engine: Engine) -> Option<ScenarioError> {
        let (cell, flow, why) = algorithms::first_unknown(cells, engine)?;
        let (line, field) = place_in_flow(self.text, &cell.at, &flow.name, "algorithm");
        Some(ScenarioError { file: self.file.to_owned(), line, field, what: why.what, hint: why.hint })
    }

    fn check_virtual(&self, spec: VirtualSpec) -> Result<(), ScenarioError> {
        let given = [("start_spread", spec.start_spread), ("host_delay", spec.host_delay)];
        for ((name, time), most) in given.into_iter().zip(VIRTUAL_MAX) {
            if time > most {
                let range = format!("outside 0s..{}", units::format_duration(most));
                return Err(self.refuse_value(&[Step::Key("virtual"), Step::Key(name)], range));
            }
        }
        Ok(())
    }

    /// A mistake at a field.
    fn refuse(&self, path: &[Step<'_>], what: impl Into<String>) -> ScenarioError {
        let range = range_of(self.table.get_ref(), path);
        let field = match (value_at(self.written(), path), value_at(self.table.get_ref(), path)) {
            (None, Some(_)) => field_at(self.written(), &range), // of a link that a shape stands for
            _ => field_name(path),
        };
        let line = line_of(self.text, range.start);
        let error = ScenarioError { file: self.file.to_owned(), line, field, what: what.into(), hint: None };
        self.placed(&range, error)
    }

    /// A mistake in the value of a field, which is shown as it is written.
    fn refuse_value(&self, path: &[Step<'_>], what: impl Display) -> ScenarioError {
        let given = value_at(self.table.get_ref(), path).and_then(|value| message::written_as(value.get_ref()));
        let given = given.map_or(String::new(), |text| format!("\"{}\": ", shown(text)));
        self.refuse(path, format!("{given}{what}"))
    }

    /// As [`Reader::refuse`], where the message begins with the value as it was read: the value is shown as it is written.
    fn refuse_read(&self, path: &[Step<'_>], what: &str) -> ScenarioError {
        let given = value_at(self.table.get_ref(), path).and_then(|value| message::written_as(value.get_ref()));
        match (given, what.strip_prefix('"').and_then(|rest| rest.split_once('"'))) {
            (Some(given), Some((_, rest))) => self.refuse(path, format!("\"{}\"{rest}", shown(given))),
            _ => self.refuse(path, what),
        }
    }

    /// The variables and their values, before anything else is read.
    fn sweep(&self) -> Result<Vec<Variable>, ScenarioError> {
        let table = self.table.get_ref();
        let mut sweep = Vec::new();
        let variants: Vec<String> = match table.get("variant").map(|value| value.get_ref()) {
            Some(DeValue::Table(variants)) => variants.keys().map(|key| key.get_ref().to_string()).collect(),
            _ => Vec::new(),
        };
        if let Some(written) = table.get("sweep") {
            let deserializer = toml::de::ValueDeserializer::from(written.clone());
            let written = Ordered::<Vec<Text>>::deserialize(deserializer).map_err(|error| self.translate(&error))?;
            for (name, values) in written.0 {
                let path = [Step::Key("sweep"), Step::Key(&name)];
                let values: Vec<String> = values.into_iter().map(|value| value.0).collect();
                self.check_variable(&path, &name, &values, &variants)?;
                sweep.push(Variable { name, values });
            }
        }
        if !variants.is_empty() && !sweep.iter().any(|variable| variable.name == VARIANT) {
            sweep.insert(0, Variable { name: VARIANT.to_owned(), values: variants });
        }
        Ok(sweep)
    }

    fn check_variable(
        &self,
        path: &[Step<'_>],
        name: &str,
        values: &[String],
        variants: &[String],
    ) -> Result<(), ScenarioError> {
        if !name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_') {
            return Err(self.refuse(path, "expected a name of letters, digits and _, so that $name can refer to it"));
        }
        if values.is_empty() {
            return Err(self.refuse(path, "expected at least one value"));
        }
        if let Some(twice) = values.iter().enumerate().find(|(i, value)| values[..*i].contains(value)) {
            return Err(self.refuse(path, format!("\"{}\" is listed twice", twice.1)));
        }
        let unknown = values.iter().find(|value| name == VARIANT && !variants.contains(value));
        if let Some(unknown) = unknown {
            let known = if variants.is_empty() { "there is no [variant.NAME]".into() } else { variants.join(", ") };
            return Err(self.refuse(path, format!("\"{unknown}\": expected a variant of this file: {known}")));
        }
        Ok(())
    }

    /// The reader of one combination: each `$name` is replaced by its value, and shapes by their links.
    fn at<'b>(&'b self, at: &At) -> Result<Reader<'b>, ScenarioError> {
        let mut table = self.table.clone();
        for (key, value) in table.get_mut().iter_mut() {
            if key.get_ref() != "sweep" {
                self.substitute(value, at)?;
            }
        }
        let mut reader =
            Reader { file: self.file, text: self.text, table, files: self.files, written: Some(&self.table) };
        reader.draw_shapes()?;
        Ok(reader)
    }

    fn document(&self) -> Result<Document, ScenarioError> {
        let deserializer = toml::de::Deserializer::from(self.table.clone());
        Document::deserialize(deserializer).map_err(|error| self.translate(&error))
    }

    fn substitute(&self, value: &mut Spanned<DeValue<'_>>, at: &At) -> Result<(), ScenarioError> {
        let range = value.span();
        match value.get_mut() {
            DeValue::String(text) if text.contains('$') => {
                let replaced = replace_names(text, at).map_err(|name| self.unknown_name(&range, &name, at))?;
                *text = replaced.into();
            }
            DeValue::Array(items) => items.iter_mut().try_for_each(|item| self.substitute(item, at))?,
            DeValue::Table(table) => {
                table.iter_mut().try_for_each(|(_, value)| self.substitute(value, at))?;
            }
            _ => {}
        }
        Ok(())
    }
}

/// Replaces every `$name`; `$$` stands for one dollar sign. The error is a name that has no value.
fn replace_names(text: &str, at: &At) -> Result<String, String> {
    let mut pieces = text.split('$');
    let mut replaced = pieces.next().unwrap_or_default().to_owned();
    while let Some(piece) = pieces.next() {
        let end = piece.find(|c: char| !c.is_ascii_alphanumeric() && c != '_').unwrap_or(piece.len());
        let (name, rest) = piece.split_at(end);
        if piece.is_empty() {
            replaced.push('$');
            replaced.push_str(pieces.next().unwrap_or_default());
            continue;
        }
        replaced.push_str(at.get(name).ok_or_else(|| name.to_owned())?);
        replaced.push_str(rest);
    }
    Ok(replaced)
}
