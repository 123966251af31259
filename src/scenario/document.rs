//! The scenario file as it is written: each value is read once for every cell that it is a part of.

mod files;
mod flow;
pub(super) mod link;
pub(super) mod ns2;
mod place;
pub(super) mod report;
pub(super) mod selection;
mod shape;
pub(super) mod shown;
mod sweep;
pub(super) mod table;
mod value;
mod variant;

use std::time::Duration;

use self::files::Files;
use self::report::Measured;
use self::table::{Reader, Result, syntax};
use self::value::Read;
use super::algorithm;
use super::spec::{Cell, DURATION_MAX};
use super::virtual_time::VirtualSpec;
use super::whole::Scenario;
use crate::model::run::{At, Engine};
use crate::written::Mistake;

/// Fine enough to see each round of a path with 100 ms or more, coarse enough that a 100 s run stays under a megabyte.
const SAMPLE: Duration = Duration::from_millis(100);
/// Ethernet's.
const MTU: u32 = 1500;

/// What a scenario is read for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Purpose {
    /// To run it here, by this engine.
    Run(Engine),
    /// To report what may have run elsewhere, with what that kernel has.
    Report,
}

/// Reads the file: variables first, then each cell, then what a report compares them with.
pub fn parse(file: &str, text: &str, purpose: Purpose) -> Result<Scenario> {
    let whole = syntax(file, text)?;
    let files = Files::beside(file);
    let nowhere = At::new();
    let reader = Reader { file, text, whole: &whole, files: &files, at: &nowhere };
    reader.document().known()?;
    let sweep = reader.read_sweep()?;
    reader.check_amount(&sweep)?;
    let places = sweep::combinations(&sweep);
    let of = |at| Reader { at, ..reader };
    let reader = of(&places[0]);
    let head = reader.head()?;
    let cells = places.iter().map(|at| of(at).cell()).collect::<Result<Vec<Cell>, _>>()?;
    reader.check_distinct(&sweep, &cells)?;
    let scenario = reader.compared(head, &Measured::new(sweep, &cells));
    // A name that differs from a misspelt algorithm's is no mistake. The simulator has algorithms of its own.
    let unknown = || match purpose {
        Purpose::Run(engine) if !reader.document().has("ns2") => reader.unknown_algorithm(&cells, engine),
        _ => None,
    };
    let scenario = scenario.map_err(|mistake| unknown().unwrap_or(mistake))?;
    Ok(Scenario { cells, files: files.into_texts(), ..scenario })
}

impl Reader<'_> {
    /// One cell, with everything resolved and checked.
    fn cell(&self) -> Result<Cell> {
        let document = self.document();
        let duration = self.duration()?;
        let mtu = document.get("mtu").map(|mtu| mtu.unquoted()).transpose()?;
        let mtu = mtu.map_or(MTU, |mtu| mtu as u32);
        let links = self.links(duration, mtu)?;
        let flows = self.flows(&links, duration, mtu)?;
        Ok(Cell { at: self.at.clone(), duration, mtu, links, flows })
    }

    fn duration(&self) -> Result<Duration> {
        let document = self.document();
        let value = document.need("duration")?;
        let duration = Duration::read(&value)?;
        if duration > DURATION_MAX {
            let most = DURATION_MAX.as_secs();
            return Err(value.refuse(format!("expected at most {most}s: iperf3 can time no longer run")));
        }
        if duration.subsec_nanos() != 0 || duration.is_zero() {
            return Err(value.refuse("expected whole seconds, at least 1s: iperf3 counts in them"));
        }
        Ok(duration)
    }

    /// What holds for every cell.
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

    /// What the cells are compared with.
    fn compared(&self, head: Scenario, measured: &Measured) -> Result<Scenario> {
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
            start_spread: table.get("start_spread").map_or(Ok(usual.start_spread), |value| value.time())?,
            host_delay: table.get("host_delay").map_or(Ok(usual.host_delay), |value| value.time())?,
        })
    }

    /// An algorithm that does not exist.
    fn unknown_algorithm(&self, cells: &[Cell], engine: Engine) -> Option<Box<Mistake>> {
        let (cell, flow, why) = algorithm::first_unknown(cells, engine)?;
        let mut mistake = Reader { at: &cell.at, ..*self }.mistake_in_flow(&flow.name, "algorithm", why.what);
        mistake.hint = why.hint.or(mistake.hint);
        Some(mistake)
    }
}
