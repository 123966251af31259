//! Reading the kernel's iterators: rows of one size.

use std::io::{ErrorKind, Read as _};

use anyhow::{Context, Result};
use libbpf_rs::{Iter, Link};

/// Rows read at once.
const ROWS: usize = 512;

/// Hands over each row of one pass.
///
/// Errors: the iterator cannot be opened or read.
pub fn rows(link: &Link, row_bytes: usize, mut take: impl FnMut(&[u8])) -> Result<()> {
    let mut iterator = Iter::new(link).context("open the iterator")?;
    let mut buffer = vec![0; ROWS * row_bytes];
    let mut filled = 0;
    loop {
        match iterator.read(&mut buffer[filled..]) {
            Ok(0) => return Ok(()),
            Ok(bytes) => filled += bytes,
            // The kernel pauses after a million sockets for which nothing is written.
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => continue,
            Err(error) => return Err(error).context("read the iterator"),
        }
        let whole = filled - filled % row_bytes;
        buffer[..whole].chunks_exact(row_bytes).for_each(&mut take);
        buffer.copy_within(whole..filled, 0);
        filled -= whole;
    }
}

/// One pass of an iterator whose program writes nothing.
///
/// Errors: the iterator cannot be opened or read.
pub fn pass(link: &Link) -> Result<()> {
    rows(link, 1, |_| {})
}
