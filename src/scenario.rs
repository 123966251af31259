//! A scenario: one TOML file that says what is measured on which path, and what others published about it.
//!
//! [`mod@reference`] declares every field. Reading is strict: every mistake is named with its file, line, field and what is
//! allowed there.

pub(crate) mod algorithm;
mod bottleneck;
mod document;
mod measurable;
mod ns2;
pub(crate) mod reference;
mod spec;
mod virtual_time;
mod whole;

use std::path::Path;

use anyhow::{Context, Result};

use self::document::Purpose;
use crate::bounded;
use crate::failure::Failure;
use crate::model::run::Engine;
use crate::written::Mistake;

pub(crate) use self::document::link::read_link;
pub use self::document::ns2::Ns2Spec;
pub use self::document::report::{Expected, Of, Published, ReportSpec, Source};
pub use self::document::selection::{Goal, SelectionSpec};
pub use self::document::shown::{DifferenceSpec, Draw, FigureSpec, Points, TIME};
pub(crate) use self::reference::ONE_WAY;
pub use self::spec::{ALGORITHM, DEFAULT_TOLERANCE, PLANNED_RUNS_MAX, RUNS_MAX, UDP, VARIANT};
pub use self::spec::{Asked, Cell, FlowSpec, Profile, ScenarioFile, Sender, Sends, Variable};
pub use self::virtual_time::{VIRTUAL_MAX, VirtualSpec};
pub use self::whole::Scenario;
pub use crate::path::route::LinkSpec;

/// A single mistake is one of a scenario: other files have all their mistakes reported at once.
impl From<Box<Mistake>> for Failure {
    fn from(mistake: Box<Mistake>) -> Failure {
        let failure = Failure::usage(mistake.to_string());
        failure.hint(mistake.hint.unwrap_or_else(|| reference::hint(&mistake.field)))
    }
}

/// Largest scenario, bytes.
const BYTES_MAX: u64 = 16 << 20;

impl Scenario {
    /// Reads a scenario from a file, to run it by an engine.
    ///
    /// Errors: the file cannot be read; any mistake in it, as a usage failure that names file, line and field.
    pub fn load(path: &Path, engine: Engine) -> Result<Scenario> {
        let file = path.display().to_string();
        let bytes = match bounded::read(path, BYTES_MAX) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                let what = format!("no scenario \"{}\": no such file", path.display());
                return Err(Failure::usage(what).hint("`ls scenarios` shows those that come with tccc").into());
            }
            Err(error) if error.raw_os_error().is_none() => {
                let what = format!("cannot read the scenario \"{}\": {error}", path.display());
                return Err(Failure::usage(what).hint("name a TOML file, such as one below scenarios/").into());
            }
            other => other.with_context(|| format!("read the scenario \"{}\"", path.display()))?,
        };
        let text = str::from_utf8(&bytes).map_err(|error| {
            let line = bytes[..error.valid_up_to()].iter().filter(|byte| **byte == b'\n').count() + 1;
            let expected = "expected a TOML file, which is text in UTF-8".to_owned();
            let (file, field) = (file.clone(), String::new());
            Failure::from(Box::new(Mistake { file, line: Some(line), field, given: None, expected, hint: None }))
        })?;
        Ok(document::parse(&file, text, Purpose::Run(engine)).map_err(Failure::from)?)
    }

    /// Reads a scenario from its text; `file` is only named in errors.
    ///
    /// Errors: the first mistake found.
    pub fn parse(file: &str, text: &str) -> Result<Scenario, Box<Mistake>> {
        document::parse(file, text, Purpose::Report)
    }
}

#[cfg(test)]
pub(crate) mod tests;
