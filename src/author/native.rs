//! Checks each property of a native build in its own process, because undefined behaviour or an endless loop ends the
//! process.

use std::os::unix::process::ExitStatusExt as _;
use std::path::Path;
use std::process::{Command, Output};
use std::time::Duration;

use anyhow::{Context, Result};
use nix::sys::resource::{Resource, setrlimit};
use nix::sys::signal::Signal;

use super::ring::property::Property;
use host::waits;

/// No property takes as much processor time as this.
const LIMIT: Duration = Duration::from_secs(30);

/// A property that does not hold.
pub struct Broken {
    pub why: String,
    /// The algorithm did not end.
    pub hangs: bool,
}

/// Checks a property of a native library in the process that `ring` starts. `object` comes from the same file.
///
/// Returns the fault if the property does not hold.
///
/// # Errors
/// The process cannot be started.
pub fn check(library: &Path, object: &Path, property: Property, mut ring: Command) -> Result<Option<Broken>> {
    let output = ring.arg(library).arg(object).arg(property.name()).output();
    let output = output.context("start a process for the native build")?;
    let hangs = output.status.signal() == Some(Signal::SIGXCPU as i32);
    Ok((!output.status.success()).then(|| Broken { why: reason(&output), hangs }))
}

/// Limits the processor time of this process, in case the algorithm never returns.
///
/// # Errors
/// The kernel refuses.
pub fn limit_time() -> Result<()> {
    // The kernel sends SIGXCPU at the first limit and SIGKILL at the second.
    let seconds = limit().as_secs();
    setrlimit(Resource::RLIMIT_CPU, seconds, seconds + 1).context("limit the time of the native build")
}

fn limit() -> Duration {
    waits::time_of("check.endless", LIMIT)
}

fn reason(output: &Output) -> String {
    let [out, err] = [&output.stdout, &output.stderr].map(|said| String::from_utf8_lossy(said));
    if let Some(line) = err.lines().find(|line| line.contains("runtime error:")) {
        return line.to_owned();
    }
    match (output.status.signal().map(Signal::try_from), out.lines().next_back()) {
        (Some(Ok(Signal::SIGXCPU)), _) => format!("it does not end within {} s", limit().as_secs()),
        (Some(signal), _) => {
            let name = signal.map_or("a signal", Signal::as_str);
            format!("it is killed by {name}: undefined behaviour, or a bad pointer")
        }
        (None, Some(line)) => line.to_owned(),
        (None, None) => err.lines().next().unwrap_or("it fails without a message").to_owned(),
    }
}
