//! The signals that ask a program to end.

use std::ptr;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use anyhow::{Context, Result};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::flag;

/// Exit code of a process ended by its second Ctrl-C.
const INTERRUPTED: i32 = 128 + SIGINT;

/// SIGINT, SIGTERM and, unless `nohup` ignores it, SIGHUP.
pub fn that_end() -> impl Iterator<Item = i32> {
    [SIGINT, SIGTERM, SIGHUP].into_iter().filter(|&signal| signal != SIGHUP || !is_ignored(SIGHUP))
}

/// A flag that the first signal sets. A second SIGINT or SIGTERM ends the process, in case its reader takes nothing.
///
/// A second SIGHUP does not: the kernel and the shell each send one when a session ends.
pub fn stop_flag() -> Result<Arc<AtomicBool>> {
    let stop = Arc::new(AtomicBool::new(false));
    for signal in that_end() {
        if signal != SIGHUP {
            flag::register_conditional_shutdown(signal, INTERRUPTED, Arc::clone(&stop)).context("watch for Ctrl-C")?;
        }
        flag::register(signal, Arc::clone(&stop)).context("watch for Ctrl-C")?;
    }
    Ok(stop)
}

fn is_ignored(signal: i32) -> bool {
    // SAFETY: plain numbers and addresses, for which all zeros is a value.
    let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
    // SAFETY: without a new action the call only writes the present one to `action`, which outlives it.
    let asked = unsafe { libc::sigaction(signal, ptr::null(), &mut action) };
    asked == 0 && action.sa_sigaction == libc::SIG_IGN
}
