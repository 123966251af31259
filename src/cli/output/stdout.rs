//! Stdout, where verbs print their results.
//!
//! A query that cannot print fails, because printing is all that it does. A verb that changes something does not: printing
//! must neither end a change half-way nor decide its exit code. Each verb says which one it is: see
//! [`Effect`](crate::cli::effect::Effect).

use std::fs::File;
use std::io::{self, ErrorKind, IsTerminal as _, Stdout, StdoutLock, Write};
use std::os::fd::AsFd as _;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::{Context, Result};
use terminal_size::terminal_size_of;

use shared::kernel::io_error::reason;

/// Columns of a terminal that does not tell its size.
const WIDTH: usize = 80;

/// Whether the verb that runs is a query. Set once, before it runs.
static IS_QUERY: AtomicBool = AtomicBool::new(true);
/// The first failure to write, unless the verb is a query.
static FAILURE: OnceLock<io::Error> = OnceLock::new();

/// Keeps failures of stdout from the verb. [`failure`] returns the first one.
pub fn never_fail() {
    IS_QUERY.store(false, Ordering::Relaxed);
}

/// The first failure that [`never_fail`] hid.
pub fn failure() -> Option<&'static io::Error> {
    FAILURE.get()
}

/// Stdout could not be written. Tells this failure from those of other files and connections.
#[derive(Debug, thiserror::Error)]
#[error("cannot write to stdout: {}", reason(.0))]
struct Unwritable(io::Error);

/// Whether an error is that the reader of stdout went away (`tccc list | head -1`).
pub fn is_closed(error: &anyhow::Error) -> bool {
    let mut causes = error.chain().filter_map(|cause| cause.downcast_ref::<io::Error>()?.get_ref()?.downcast_ref());
    causes.any(|Unwritable(cause)| cause.kind() == ErrorKind::BrokenPipe)
}

/// Writes to stdout. Its errors are of stdout only, and there are none unless the verb is a query.
#[derive(Debug)]
pub struct Results<W = StdoutLock<'static>>(W);

pub fn results() -> Results {
    Results(io::stdout().lock())
}

/// Stdout for a writer that other threads may use.
pub fn shared_results() -> Results<Stdout> {
    Results(io::stdout())
}

/// Stdout without its buffer, for large pieces.
///
/// # Errors
/// Its file descriptor cannot be copied.
pub fn unbuffered_results() -> Result<Results<File>> {
    Ok(Results(File::from(io::stdout().as_fd().try_clone_to_owned().context("open stdout")?)))
}

/// Columns of the terminal; `None` if stdout is not a terminal.
pub fn terminal_width() -> Option<usize> {
    let stdout = io::stdout();
    let width = || terminal_size_of(&stdout).map_or(WIDTH, |(terminal_size::Width(columns), _)| columns.into());
    stdout.is_terminal().then(width)
}

impl<W: Write> Write for Results<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        settled(bytes.len(), || self.0.write(bytes))
    }

    fn flush(&mut self) -> io::Result<()> {
        settled((), || self.0.flush())
    }
}

/// Writes unless stdout failed before. `done`: what a success returns.
fn settled<T>(done: T, write: impl FnOnce() -> io::Result<T>) -> io::Result<T> {
    if FAILURE.get().is_some() {
        return Ok(done);
    }
    match write() {
        Err(error) if error.kind() == ErrorKind::Interrupted => Err(error), // the caller repeats it
        Err(error) if IS_QUERY.load(Ordering::Relaxed) => Err(unwritable(error)),
        Err(error) => {
            let _ = FAILURE.set(error); // another thread may have failed first
            Ok(done)
        }
        written => written,
    }
}

/// Marks an error as one of stdout.
pub fn unwritable(error: io::Error) -> io::Error {
    io::Error::new(error.kind(), Unwritable(error))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Any broken pipe once counted as a closed stdout, so that a run whose Mininet had died ended with success.
    #[test]
    fn only_stdout_s_own_broken_pipe_is_a_closed_stdout() {
        let broken = || io::Error::from(ErrorKind::BrokenPipe);
        let told = |error: io::Error| is_closed(&anyhow::Error::from(error).context("print"));
        assert!(told(unwritable(broken())));
        assert!(!told(broken()));
        assert!(!told(unwritable(ErrorKind::StorageFull.into())));
        let error = parquet::errors::ParquetError::External(Box::new(unwritable(broken())));
        assert!(is_closed(&error.into()));
    }
}
