//! `tccc ring`: one property of a native build, in a process of its own, which undefined behaviour may end.

use std::io::{self, Write};
use std::path::PathBuf;

use anyhow::{Result, anyhow};
use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};

use crate::author::native;
use crate::author::ring::native::Native;
use crate::author::ring::property::Property;
use crate::catalog;
use crate::failure::Failure;

/// Random connections for each property.
const CASES: u32 = 300;

/// Check one property of an algorithm's native build (`tccc check` starts this)
#[derive(Debug, clap::Args)]
#[command(hide = true)]
pub struct Args {
    /// The native library
    library: PathBuf,
    /// The object of the same file
    object: PathBuf,
    /// Name of the property
    property: String,
}

impl Args {
    /// Checks it, with the same connections each time.
    ///
    /// Errors: the property does not hold: why is the last line on stdout.
    pub fn run(&self) -> Result<()> {
        let property = Property::ALL.into_iter().find(|property| property.name() == self.property);
        let property = property.ok_or_else(|| Failure::usage(format!("unknown property \"{}\"", self.property)))?;
        native::limit_time()?;
        let algorithm = catalog::open(&self.object)?;
        let mut native = Native::open(&self.library, &algorithm.id)?;
        let config = Config { cases: CASES, failure_persistence: None, ..Config::default() };
        let runner = TestRunner::new_with_rng(config, TestRng::deterministic_rng(RngAlgorithm::ChaCha));
        std::panic::set_hook(Box::new(|_| {})); // a case that fails panics, and is made smaller
        if let Err(why) = property.check(&mut native, &algorithm, runner) {
            writeln!(io::stdout(), "{}", why.replace('\n', " "))?;
            return Err(anyhow!("the property does not hold"));
        }
        Ok(())
    }
}
