//! Reads the scenario file. Each value is read once for every cell of the sweep.

mod all;
mod files;
mod flow;
pub(super) mod link;
pub(super) mod ns2;
mod place;
pub(super) mod report;
pub(super) mod selection;
pub(super) mod shown;
mod sweep;
pub(super) mod table;
mod topology;
mod tuple;
mod value;

use std::time::Duration;

use self::files::Files;
use self::report::MeasuredNames;
use self::sweep::UsedNames;
use self::table::{CellReader, Result, syntax};
use self::value::Read;
use super::algorithm;
use super::spec::{Cell, VirtualSpec};
use super::whole::Scenario;
use host::written::{Mistake, Mistakes, line_starts};
use shared::model::run::{At, Engine};

/// Default of `sample`: it shows each round trip of 100 ms or more, and a 100 s run stays below a megabyte.
const SAMPLE: Duration = Duration::from_millis(100);
/// The MTU of Ethernet.
const MTU: u32 = 1500;

/// Reads a scenario: the sweep first, then each cell, then the numbers that a report compares them with.
///
/// `engine` is the one that runs the scenario here. Without it, algorithms are not looked up, because the runs of a
/// report may be from another host.
///
/// Errors: the first mistake that reading meets, and all others that the declarations show.
pub fn parse(file: &str, text: &str, engine: Option<Engine>) -> Result<Scenario, Mistakes> {
    let whole = syntax(file, text).map_err(all::described)?;
    let (files, lines) = (Files::beside(file), line_starts(text));
    let (at, used) = (At::new(), UsedNames::default());
    let reader = CellReader { file, text, lines: &lines, whole: &whole, files: &files, at: &at, used: &used };
    let scenario = reader.scenario(engine).map_err(|first| reader.all_mistakes(*first))?;
    Ok(Scenario { files: files.into_texts(), ..scenario })
}

impl CellReader<'_> {
    /// Reads everything but the texts of other files.
    fn scenario(self, engine: Option<Engine>) -> Result<Scenario> {
        self.document().known()?;
        let sweep = self.read_sweep()?;
        self.check_amount(&sweep)?;
        let places = sweep::combinations(&sweep);
        let of = |at| CellReader { at, ..self };
        let reader = of(&places[0]);
        if engine.is_some() {
            reader.check_fixed()?; // a stored scenario may be older than this rule
        }
        let head = reader.head()?;
        let cells = places.iter().map(|at| of(at).cell()).collect::<Result<Vec<Cell>, _>>()?;
        if engine.is_some() {
            reader.check_used(&sweep)?;
            reader.check_names(&cells)?;
            reader.check_distinct(&sweep, &cells)?;
        }
        let fixed = head.virtual_time.host_delay;
        let cells: Vec<Cell> = cells.into_iter().map(|cell| cell.with_host_delays(fixed)).collect();
        let scenario = reader.compared(head, &MeasuredNames::new(sweep, &cells));
        // If an algorithm is misspelt, report that instead of the label that seems unknown because of it. ns-2 has
        // algorithms of its own.
        let engine = engine.filter(|_| !reader.document().has("ns2"));
        let unknown = || engine.and_then(|engine| reader.unknown_algorithm(&cells, engine));
        let scenario = scenario.map_err(|mistake| unknown().unwrap_or(mistake))?;
        Ok(Scenario { cells, ..scenario })
    }

    /// Reads one cell and checks it.
    fn cell(&self) -> Result<Cell> {
        let mtu = self.document().get("mtu").map(|mtu| mtu.unquoted()).transpose()?;
        let (duration, mtu) = (self.duration()?, mtu.map_or(MTU, |mtu| mtu as u32));
        let (links, used) = self.links(duration, mtu)?;
        let flows = self.flows(&links, duration, mtu)?;
        let cell = Cell { at: self.at.clone(), duration, mtu, links, flows };
        if !used.iter().all(|used| self.used.has_all(used)) {
            cell.passed_links().into_iter().for_each(|link| self.used.add_all(&used[link]));
        }
        Ok(cell)
    }

    fn duration(&self) -> Result<Duration> {
        let value = self.document().need("duration")?;
        let duration = Duration::read(&value)?;
        match duration.subsec_nanos() {
            0 => Ok(duration),
            _ => Err(value.refuse("expected whole seconds, because iperf3 counts in them")),
        }
    }

    /// Reads the fields that are the same in every cell.
    fn head(&self) -> Result<Scenario> {
        let document = self.document();
        let stem = std::path::Path::new(self.file).file_stem().map(|stem| stem.to_string_lossy().into_owned());
        Ok(Scenario {
            file: self.file.to_owned(),
            name: stem.unwrap_or_else(|| self.file.to_owned()),
            text: self.text.to_owned(),
            title: document.needed("title")?,
            claim: document.needed("claim")?,
            profile: document.needed("profile")?,
            runs: document.need("runs")?.unquoted()? as u32,
            seed: document.need("seed")?.unquoted()?,
            sample: self.sample()?,
            source: self.source()?,
            virtual_time: self.virtual_time()?,
            ..Scenario::default()
        })
    }

    /// Adds what the report needs.
    fn compared(&self, head: Scenario, measured: &MeasuredNames) -> Result<Scenario> {
        let report = self.report(measured)?;
        let published = self.published(measured)?;
        Ok(Scenario {
            selection: self.selection(measured, &report)?,
            ns2: self.ns2()?,
            expected: self.expected(measured)?,
            figures: self.figures(measured, &report, &published)?,
            differences: self.differences(measured, &published)?,
            sweep: measured.sweep.clone(),
            report,
            published,
            ..head
        })
    }

    fn sample(&self) -> Result<Duration> {
        let Some(value) = self.document().get("sample") else { return Ok(SAMPLE) };
        let sample = Duration::read(&value)?;
        if sample.is_zero() {
            return Err(value.refuse("expected more than 0, such as 100ms"));
        }
        if sample >= self.duration()? {
            return Err(value.refuse("expected less than the duration, such as 100ms"));
        }
        Ok(sample)
    }

    fn virtual_time(&self) -> Result<VirtualSpec> {
        let table = self.document().table("virtual")?;
        let usual = VirtualSpec::default();
        Ok(VirtualSpec {
            start_spread: table.read("start_spread")?.unwrap_or(usual.start_spread),
            host_delay: table.read("host_delay")?,
        })
    }

    fn unknown_algorithm(&self, cells: &[Cell], engine: Engine) -> Option<Box<Mistake>> {
        let (cell, flow, why) = algorithm::first_unknown(cells, engine)?;
        let mut mistake = CellReader { at: &cell.at, ..*self }.mistake_in_flow(&flow.name, "algorithm", why.what);
        mistake.hint = why.hint.or(mistake.hint);
        Some(mistake)
    }
}
