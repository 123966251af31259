//! Reads the rows of the kernel's socket iterators.

use std::io::{ErrorKind, Read as _};

use anyhow::{Context, Result};
use libbpf_rs::{Iter, Link};

/// More than the kernel's own buffer.
const READ_BYTES: usize = 1 << 16;

/// Passes the rows of one pass to `take`, several whole rows at a time.
///
/// Errors: the iterator cannot be opened or read; those of `take`.
pub fn rows(link: &Link, row_bytes: usize, mut take: impl FnMut(&[u8]) -> Result<()>) -> Result<()> {
    let mut iterator = Iter::new(link).context("open the socket iterator")?;
    let mut buffer = vec![0; READ_BYTES / row_bytes * row_bytes];
    let mut filled = 0;
    loop {
        match iterator.read(&mut buffer[filled..]) {
            Ok(0) => return Ok(()),
            Ok(bytes) => filled += bytes,
            // The kernel pauses after a million sockets for which nothing is written.
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => continue,
            Err(error) => return Err(error).context("read the socket iterator"),
        }
        let whole = filled - filled % row_bytes;
        take(&buffer[..whole])?;
        buffer.copy_within(whole..filled, 0);
        filled -= whole;
    }
}

/// Runs one pass of an iterator whose program writes no rows.
///
/// Errors: the iterator cannot be opened or read.
pub fn pass(link: &Link) -> Result<()> {
    rows(link, 1, |_| Ok(()))
}
