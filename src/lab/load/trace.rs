//! Transfers from a file.

use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::PlannedTransfer;
use crate::path::loss::FILE_PREFIX;
use crate::path::trace_file;
use shared::sanitize::shown;
use shared::units::nanos;

/// Latest start: a day.
const LAST_S: f64 = 86_400.0;
/// Largest size.
const BYTES_MAX: u64 = 1_000_000_000_000;

/// Starts and sizes, in the order of the starts.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct TransferTrace {
    /// As it was written: `trace:web.txt`.
    pub name: String,
    pub count: usize,
    /// SHA-256 of starts and sizes. A plan has this instead of them.
    pub sha256: String,
    /// Empty if it was read from a plan.
    #[serde(skip)]
    transfers: Arc<[PlannedTransfer]>,
}

impl PartialEq for TransferTrace {
    fn eq(&self, other: &Self) -> bool {
        (&self.name, &self.sha256) == (&other.name, &other.sha256)
    }
}

impl TransferTrace {
    /// Reads a file with one transfer per line: its start in seconds and its size in bytes.
    ///
    /// # Errors
    /// A line of another form, or out of order; no transfer.
    pub fn read(file: &str, text: &str) -> Result<Self, String> {
        let mut transfers: Vec<PlannedTransfer> = Vec::new();
        for (line, written) in trace_file::lines(text) {
            let one = transfer(written).ok_or_else(|| {
                let form = format!("seconds from 0 to {LAST_S} and bytes from 1 to {BYTES_MAX}, such as 0.25 20000");
                format!("line {line}: \"{}\": expected {form}", shown(written))
            })?;
            if transfers.len() == trace_file::NUMBERS_MAX {
                return Err(format!("line {line}: expected at most {} transfers", trace_file::NUMBERS_MAX));
            }
            if transfers.last().is_some_and(|before| before.start_ns > one.start_ns) {
                return Err(format!("line {line}: \"{}\": expected starts in order", shown(written)));
            }
            transfers.push(one);
        }
        if transfers.is_empty() {
            return Err("expected at least one transfer, such as 0.25 20000".to_owned());
        }
        let sha256 = trace_file::digest(transfers.iter().flat_map(|one| [one.start_ns, one.bytes]));
        let (name, count) = (format!("{FILE_PREFIX}{file}"), transfers.len());
        Ok(TransferTrace { name, count, sha256, transfers: transfers.into() })
    }

    /// Those that start within a time.
    pub fn within(&self, time: Duration) -> &[PlannedTransfer] {
        &self.transfers[..self.transfers.partition_point(|one| one.start_ns < nanos(time))]
    }
}

fn transfer(line: &str) -> Option<PlannedTransfer> {
    let (start, size) = line.split_once(char::is_whitespace)?;
    let is_plain = start.chars().all(|c| c.is_ascii_digit() || c == '.');
    let start_s: f64 = start.parse().ok().filter(|start| is_plain && (0.0..=LAST_S).contains(start))?;
    let bytes = size.trim().parse().ok().filter(|bytes| (1..=BYTES_MAX).contains(bytes))?;
    Some(PlannedTransfer { start_ns: (start_s * 1e9).round() as u64, bytes })
}
