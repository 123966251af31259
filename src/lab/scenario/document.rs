//! Reads the scenario file. Each value is read once for every cell of the sweep.

mod check;
mod files;
pub(super) mod flow;
pub(super) mod link;
pub(super) mod ns2;
mod place;
pub(super) mod report;
pub(super) mod selection;
pub(super) mod shown;
mod sweep;
mod topology;
mod variables;
mod variant;

use std::time::Duration;

use self::files::Files;
use self::report::MeasuredNames;
use self::variables::{CellVariables, UsedNames};
use super::algorithm;
use super::reference::{DOCUMENT, ScenarioFields, hint};
use super::spec::{Cell, FlowSpec, Variable};
use super::whole::Scenario;
use host::toml_reader::{Document, Found, MISTAKES_MAX, Mistake, Mistakes, Result, Source, Table, Unquoted};
use shared::model::run::{At, Engine};

const REFERENCE: &str = "scenarios/REFERENCE.md";
/// Begins the dotted name of every variable.
const SWEEP: &str = "sweep.";
/// Most mistakes that are met in all cells, because many have the same line and text.
const MET_MAX: usize = 20 * MISTAKES_MAX;

/// Reads a scenario: the sweep first, then each cell, then the numbers that a report compares them with.
///
/// `engine` is the one that runs the scenario here. Without it, algorithms are not looked up, because the runs of a
/// report may be from another host.
///
/// # Errors
/// All mistakes in the fields; if there is none, those between fields.
pub fn parse(file: &str, text: &str, engine: Option<Engine>) -> Result<Scenario, Mistakes> {
    let files = Files::beside(file);
    let read = Document::parse(file, text).and_then(|document| {
        let scenario = FileReader { source: document.source(), files: &files, used: &UsedNames::default() };
        scenario.read(engine)
    });
    match read {
        Ok(scenario) => Ok(Scenario { files: files.into_texts(), ..scenario }),
        Err(found) => {
            let mut mistakes = Mistakes::sorted(file, found.into_vec(), REFERENCE);
            if let Some(first) = mistakes.mistakes.first_mut() {
                first.hint.get_or_insert_with(|| hint(&first.field));
            }
            Err(mistakes)
        }
    }
}

/// Reads a scenario file.
#[derive(Clone, Copy)]
struct FileReader<'t> {
    source: Source<'t>,
    files: &'t Files,
    used: &'t UsedNames,
}

/// Reads a scenario file for one cell.
#[derive(Clone, Copy)]
struct CellReader<'t> {
    /// The file, with the variables of the cell.
    source: Source<'t>,
    variables: &'t CellVariables<'t>,
    files: &'t Files,
}

impl FileReader<'_> {
    /// Reads with the variables of a cell. `None`: the sweep cannot be read.
    fn at<T>(&self, at: Option<&At>, read: impl FnOnce(&CellReader<'_>) -> T) -> T {
        let FileReader { source, files, used } = *self;
        let variables = CellVariables { source, at, used };
        read(&CellReader { source: Source { variables: Some(&variables), ..source }, variables: &variables, files })
    }

    /// Reads everything but the texts of other files.
    fn read(self, engine: Option<Engine>) -> Result<Scenario> {
        let mut found = Found::default();
        let sweep = found.keep(self.at(None, |reader| reader.read_sweep()));
        let places = match &sweep {
            Some(sweep) if found.keep(self.at(None, |reader| reader.check_cells(sweep))).is_some() => {
                sweep::combinations(sweep).into_iter().map(Some).collect()
            }
            Some(sweep) => vec![Some(sweep::first(sweep))],
            None => vec![None],
        };
        let place = places[0].as_ref();
        let fixed = match engine {
            Some(_) => found.keep(self.at(place, |reader| reader.check_fixed())),
            None => Some(()), // a stored scenario may be older than this rule
        };
        // A variable where none may be is reported once.
        let fields = found.keep(self.at(place.filter(|_| fixed.is_some()), |reader| reader.fields()));
        let cells = found.keep(self.cells(&places));
        let (Some(sweep), Some(fields), Some(cells)) = (sweep, fields, cells) else { return Err(found) };
        found.end()?;
        self.at(places[0].as_ref(), |reader| reader.scenario(engine, fields, (sweep, cells)))
    }

    fn cells(&self, places: &[Option<At>]) -> Result<Vec<Cell>> {
        let (mut found, mut cells, mut met) = (Found::default(), Vec::new(), 0);
        for at in places {
            match self.at(at.as_ref(), |reader| reader.cell()) {
                Ok(cell) => cells.push(cell),
                Err(mut more) => {
                    met += more.len().max(1);
                    if !found.is_empty() {
                        more.retain(|it| it.field.starts_with(SWEEP)); // the others are those of the cell before
                    }
                    found.add(more);
                }
            }
            if found.is_full() || met > MET_MAX {
                break;
            }
        }
        if met == 0 { Ok(cells) } else { Err(found) }
    }
}

impl<'t> CellReader<'t> {
    fn document(&self) -> Table<'t> {
        self.source.document(&DOCUMENT)
    }

    /// The fields that are the same in every cell.
    fn fields(&self) -> Result<ScenarioFields> {
        let document = self.document();
        let fields = ScenarioFields::of_table(&document)?;
        let refuse = |expected: &str| Err(document.need("sample")?.refuse(expected).into());
        match fields.sample {
            sample if sample.is_zero() => refuse("expected more than 0, such as 100ms"),
            sample if sample >= fields.duration && document.has("sample") => {
                refuse("expected less than the duration, such as 100ms")
            }
            _ => Ok(fields),
        }
    }

    /// Checks what the cells have in common, and adds what the report needs.
    fn scenario(
        &self,
        engine: Option<Engine>,
        fields: ScenarioFields,
        (sweep, cells): (Vec<Variable>, Vec<Cell>),
    ) -> Result<Scenario> {
        self.check_runs(fields.runs.0 as usize, cells.len())?;
        if engine.is_some() {
            self.check_used(&sweep)?;
            self.check_names(&cells)?;
            self.check_distinct(&sweep, &cells)?;
        }
        let fixed = fields.r#virtual.host_delay;
        let cells: Vec<Cell> = cells.into_iter().map(|cell| cell.with_fixed_host_delay(fixed)).collect();
        let scenario = self.compared(fields, &MeasuredNames::new(sweep, &cells), (&cells, engine.is_some()));
        // If an algorithm is misspelt, report that instead of the label that seems unknown because of it. ns-2 has
        // algorithms of its own.
        let engine = engine.filter(|_| !self.document().has("ns2"));
        let unknown = || engine.and_then(|engine| self.unknown_algorithm(&cells, engine));
        let scenario = scenario.map_err(|found| unknown().map_or(found, Found::from))?;
        Ok(Scenario { cells, ..scenario })
    }

    /// Reads one cell and checks it.
    fn cell(&self) -> Result<Cell> {
        let document = self.document();
        let mut found = Found::default();
        let duration = found.keep(self.duration());
        let mtu = found.keep(document.declared("mtu")).map(|Unquoted(mtu)| mtu);
        let links = found.keep(self.links(duration.unwrap_or(Duration::MAX), mtu));
        let flows = found.keep(self.read_flows());
        let left_out =
            flows.iter().flatten().filter(|(flow, _)| !flow.runs).map(|(flow, _)| flow.name.clone()).collect();
        // What stopped the reader of one table does not hide the mistakes in the others.
        let unread = [
            ("link", links.is_none()),
            ("dumbbell", links.is_none()),
            ("parking_lot", links.is_none()),
            ("flow", flows.is_none()),
        ];
        for (key, _) in unread.into_iter().filter(|(_, is_unread)| *is_unread) {
            found.keep(document.check_field(key));
        }
        let (Some(duration), Some(mtu), Some((links, used)), Some(flows)) = (duration, mtu, links, flows) else {
            return Err(found);
        };
        let at = self.variables.at.cloned().ok_or_else(Found::default)?; // the sweep's own mistake is known
        let (flows, stays): (Vec<FlowSpec>, Vec<bool>) = self.flows(flows, &links, duration, mtu)?.into_iter().unzip();
        let cell = Cell { at, duration, mtu, links, flows, left_out }.with_host_delays().keeping(&stays);
        let of_file = self.variables.used;
        if !used.iter().all(|used| of_file.has_all(used)) {
            cell.passed_links().into_iter().for_each(|link| of_file.add_all(&used[link]));
        }
        Ok(cell)
    }

    fn duration(&self) -> Result<Duration> {
        let duration: Duration = self.document().needed("duration")?;
        match duration.subsec_nanos() {
            0 => Ok(duration),
            _ => {
                let expected = "expected whole seconds, because iperf3 counts in them";
                Err(self.document().need("duration")?.refuse(expected).into())
            }
        }
    }

    /// Adds what the report needs.
    ///
    /// `is_to_run`: an engine is to run the cells here.
    fn compared(
        &self,
        mut fields: ScenarioFields,
        measured: &MeasuredNames,
        (cells, is_to_run): (&[Cell], bool),
    ) -> Result<Scenario> {
        let file = self.source.file;
        let stem = std::path::Path::new(file).file_stem().map(|stem| stem.to_string_lossy().into_owned());
        let document = self.document();
        let mut found = Found::default();
        let report = found.keep(self.report(std::mem::take(&mut fields.report), measured));
        found.keep(report::check_published(&document, &fields.published, measured));
        found.keep(report::check_expected(&document, &fields.expected, measured));
        found.keep(shown::check_differences(&document, &fields, measured));
        found.keep(self.check_checks(&fields, measured, cells, is_to_run));
        found.keep(self.check_ns2(fields.ns2.as_ref()));
        let Some(report) = report else { return Err(found) };
        let selection = fields.selection.as_ref().map(|fields| self.selection(fields, measured, &report)).transpose();
        let selection = found.keep(selection);
        found.keep(shown::check_figures(&document, &fields, measured, &report));
        found.keep(report::check_margins(&document, &fields.margin, &report));
        found.end()?;
        Ok(Scenario {
            file: file.to_owned(),
            name: stem.unwrap_or_else(|| file.to_owned()),
            text: self.source.text.to_owned(),
            title: fields.title,
            claim: fields.claim,
            profile: fields.profile,
            runs: fields.runs.0,
            seed: fields.seed.0,
            sample: fields.sample,
            source: fields.source,
            sweep: measured.sweep.clone(),
            report,
            selection: selection.flatten(),
            ns2: fields.ns2,
            virtual_time: fields.r#virtual,
            kernel: fields.kernel,
            published: fields.published,
            expected: fields.expected,
            checks: fields.check,
            criterion: fields.criterion,
            margins: fields.margin,
            figures: fields.figure,
            differences: fields.difference,
            ..Scenario::default()
        })
    }

    fn unknown_algorithm(&self, cells: &[Cell], engine: Engine) -> Option<Box<Mistake>> {
        let (cell, flow, why) = algorithm::first_unknown(cells, engine)?;
        let mut mistake = self.at(&cell.at, |reader| reader.mistake_in_flow(&flow.name, "algorithm", why.what));
        mistake.hint = why.hint.or(mistake.hint);
        Some(mistake)
    }

    /// Reads with the variables of another cell.
    fn at<T>(&self, at: &At, read: impl FnOnce(&CellReader<'_>) -> T) -> T {
        let CellVariables { source, used, .. } = *self.variables;
        FileReader { source, files: self.files, used }.at(Some(at), read)
    }
}
