//! The properties of the host ring over a native build, each in a process of its own: what undefined behaviour ends, or what
//! never ends, is that process.

use std::os::unix::process::ExitStatusExt as _;
use std::path::Path;
use std::process::{Command, Output};

use anyhow::{Context, Result};
use nix::sys::resource::{Resource, setrlimit};
use nix::sys::signal::Signal;

use super::compile::Sanitizer;
use super::ring::property::Property;

/// More than any property takes of an algorithm that ends, seconds.
const CPU_SECONDS: u64 = 30;

/// A native build and the object of the same file.
#[derive(Debug, Clone, Copy)]
pub struct Build<'a> {
    pub library: &'a Path,
    /// What it does at undefined behaviour.
    pub sanitizer: Sanitizer,
    pub object: &'a Path,
}

impl Build<'_> {
    /// Checks a property in a process of its own, which `ring` makes of this program.
    ///
    /// Returns why it does not hold; none when it does.
    ///
    /// Errors: the process cannot be started.
    pub fn check(&self, property: Property, mut ring: Command) -> Result<Option<String>> {
        ring.arg(self.library).arg(self.object).arg(property.name());
        let output = ring.output().context("start a process for the native build")?;
        Ok((!output.status.success()).then(|| reason(&output)))
    }
}

/// Has the kernel end this process where the code that it is about to run never ends.
///
/// Errors: the kernel refuses.
pub fn limit_time() -> Result<()> {
    // At the first limit the kernel says why, at the second it ends the process.
    setrlimit(Resource::RLIMIT_CPU, CPU_SECONDS, CPU_SECONDS + 1).context("limit the time of the native build")
}

fn reason(output: &Output) -> String {
    let [out, err] = [&output.stdout, &output.stderr].map(|said| String::from_utf8_lossy(said));
    if let Some(line) = err.lines().find(|line| line.contains("runtime error:")) {
        return line.to_owned();
    }
    match (output.status.signal().map(Signal::try_from), out.lines().next_back()) {
        (Some(Ok(Signal::SIGXCPU)), _) => format!("it does not end within {CPU_SECONDS} s"),
        (Some(signal), _) => {
            let name = signal.map_or("a signal", Signal::as_str);
            format!("it ends by {name}: undefined behaviour, or a bad pointer")
        }
        (None, Some(line)) => line.to_owned(),
        (None, None) => err.lines().next().unwrap_or("it fails without a word").to_owned(),
    }
}
