//! Reads the rows of the kernel's socket iterators.

use std::io::{ErrorKind, Read as _};

use anyhow::{Context, Result};
use libbpf_rs::{Iter, Link};
use zerocopy::{FromBytes, IntoBytes};

use super::namespaces;
use super::netns::Netns;

/// More than the kernel's own buffer.
const READ_BYTES: usize = 1 << 16;

/// Passes the rows of one pass to `take`, several at a time.
///
/// # Errors
/// The iterator cannot be opened or read; those of `take`.
pub fn rows<T>(link: &Link, mut take: impl FnMut(&[T]) -> Result<()>) -> Result<()>
where
    T: FromBytes + IntoBytes + Clone,
{
    let mut iterator = Iter::new(link).context("open the socket iterator")?;
    let mut buffer = vec![T::new_zeroed(); READ_BYTES / size_of::<T>()];
    let mut filled = 0;
    loop {
        match iterator.read(&mut buffer.as_mut_bytes()[filled..]) {
            Ok(0) => return Ok(()),
            Ok(bytes) => filled += bytes,
            // The kernel pauses after a million sockets for which nothing is written.
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => continue,
            Err(error) => return Err(error).context("read the socket iterator"),
        }
        let whole = filled / size_of::<T>();
        take(&buffer[..whole])?;
        let begin = whole * size_of::<T>();
        buffer.as_mut_bytes().copy_within(begin..filled, 0);
        filled -= begin;
    }
}

/// Runs one pass of an iterator over sockets in every network namespace. Its program writes no rows.
///
/// Returns the number of processes and namespaces that this process has no right to look at.
///
/// # Errors
/// /proc is not mounted; the iterator cannot be read.
pub fn pass_everywhere(link: &Link) -> Result<usize> {
    let survey = namespaces::all()?;
    let here = Netns::current()?.inode();
    let mut hidden = survey.hidden;
    for netns in survey.reachable {
        // Entering even the own namespace needs the right to enter.
        let done = if netns.inode() == here { Ok(pass(link)) } else { netns.run(|| Ok(pass(link))) };
        match done {
            Ok(done) => done?,
            Err(_) => hidden += 1,
        }
    }
    Ok(hidden)
}

/// Runs one pass of an iterator whose program writes no rows.
///
/// # Errors
/// The iterator cannot be opened or read.
pub fn pass(link: &Link) -> Result<()> {
    rows::<u8>(link, |_| Ok(()))
}
