//! A scenario: one TOML file with a path, the flows on it, what varies, and the numbers that others published.
//!
//! [`mod@reference`] declares every field. Reading is strict: each mistake is reported with its file, line and field,
//! and with what is allowed there.

pub mod algorithm;
mod bottleneck;
mod buffers;
pub mod check;
pub(crate) mod datagrams;
mod document;
mod host_delay;
mod measurable;
mod ns2;
pub(crate) mod pattern;
pub mod reference;
mod spec;
mod whole;

use std::io::ErrorKind;
use std::path::Path;

use anyhow::{Context, Result};

use host::toml_reader::{Mistake, Mistakes};
use shared::failure::Failure;
use shared::kernel::io_error;
use shared::model::run::Engine;
use shared::read_limited;

pub use self::bottleneck::Ways;
pub use self::buffers::{BufferShortage, buffer_shortages};
pub use self::datagrams::{DatagramSpec, FrameSpec};
pub use self::document::link::read_link;
pub use self::document::report::{Of, ReportSpec};
pub use self::document::selection::{Goal, SelectionSpec};
pub use self::document::shown::{Draw, Points, TIME, Together};
pub use self::reference::ONE_WAY;
pub use self::reference::{DifferenceSpec, Expected, FigureSpec, Ns2Spec, Published, SourceSpec, VirtualSpec};
pub use self::spec::{ALGORITHM, DEFAULT_TOLERANCE, PERTURBED, PLANNED_RUNS_MAX, RUNS_MAX, UDP, VARIANT};
pub use self::spec::{
    AlgorithmRequest, BulkSender, Cell, Ecn, FlowSpec, GuestKernel, LeftOut, NumberedFlow, Profile, Receiver,
    ScenarioFile, Sends, Variable,
};
pub use self::whole::Scenario;
pub use crate::path::route::LinkSpec;

/// The failure of a single mistake. Unless the mistake has a hint, the hint describes the field.
fn refusal(mistake: Mistake) -> Failure {
    let failure = Failure::usage(mistake.to_string());
    failure.hint(mistake.hint.unwrap_or_else(|| reference::hint(&mistake.field)))
}

/// Largest scenario, bytes.
const BYTES_MAX: u64 = 16 << 20;

impl Scenario {
    /// Reads a scenario that an engine is to run.
    ///
    /// # Errors
    /// The file cannot be read; mistakes in it, as a usage failure.
    pub fn load(path: &Path, engine: Engine) -> Result<Scenario> {
        let file = path.display().to_string();
        let bytes = match read_limited::read(path, BYTES_MAX) {
            Err(error) if error.kind() == ErrorKind::NotFound || error.raw_os_error().is_none() => {
                let what = format!("cannot read the scenario \"{file}\": {}", io_error::reason(&error));
                return Err(Failure::usage(what)
                    .hint("name a scenario file; `ls scenarios` in the source of tccc lists some")
                    .into());
            }
            other => other.with_context(|| format!("read the scenario \"{file}\""))?,
        };
        let text = str::from_utf8(&bytes).map_err(|error| {
            let line = bytes[..error.valid_up_to()].iter().filter(|byte| **byte == b'\n').count() + 1;
            let expected = "expected a TOML file, which is text in UTF-8".to_owned();
            let (file, field) = (file.clone(), String::new());
            refusal(Mistake { file, line: Some(line), field, given: None, expected, hint: None })
        })?;
        Ok(document::parse(&file, text, Some(engine)).map_err(Failure::from)?)
    }

    /// Reads a scenario from its text. `file` names the scenario in errors. Other files are looked up in its folder.
    ///
    /// # Errors
    /// The mistakes in it.
    pub fn parse(file: &str, text: &str) -> Result<Scenario, Mistakes> {
        document::parse(file, text, None)
    }
}

#[cfg(test)]
pub(crate) mod tests;
