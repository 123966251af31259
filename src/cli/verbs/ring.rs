//! `tccc ring`: one property of a native build, in its own process because undefined behaviour may end it.

use std::io::Write;
use std::path::PathBuf;

use anyhow::{Result, anyhow};
use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};

use crate::cli::output::results;
use author::native;
use author::ring::native::Native;
use author::ring::property::Property;
use shared::catalog;
use shared::failure::Failure;

/// Random connections for each property.
const CASES: u32 = 300;

/// Check one property of an algorithm's native build (started by `tccc check`)
#[derive(Debug, clap::Args)]
#[command(hide = true)]
pub struct Args {
    library: PathBuf,
    /// The object compiled from the same file
    object: PathBuf,
    property: String,
}

impl Args {
    /// Uses the same connections each time.
    ///
    /// # Errors
    /// The property does not hold; the last line on stdout says why.
    pub fn run(&self) -> Result<()> {
        let property = Property::ALL.into_iter().find(|property| property.name() == self.property);
        let property = property.ok_or_else(|| Failure::usage(format!("unknown property \"{}\"", self.property)))?;
        native::limit_time()?;
        let algorithm = catalog::open(&self.object)?;
        let mut native = Native::open(&self.library, &algorithm.id)?;
        let config = Config { cases: CASES, failure_persistence: None, ..Config::default() };
        let runner = TestRunner::new_with_rng(config, TestRng::deterministic_rng(RngAlgorithm::ChaCha));
        std::panic::set_hook(Box::new(|_| {})); // failing cases panic while proptest shrinks them
        if let Err(why) = property.check(&mut native, &algorithm, runner) {
            writeln!(results(), "{}", why.replace('\n', " "))?;
            return Err(anyhow!("the property does not hold"));
        }
        Ok(())
    }
}
