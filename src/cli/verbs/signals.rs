//! Flags for the signals that ask a program to end.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use anyhow::{Context, Result};
use procfs::process::Process;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::flag;

use shared::interrupt;

/// Exit code of a process ended by its second Ctrl-C.
const INTERRUPTED: i32 = 128 + SIGINT;

/// SIGINT, SIGTERM and, unless `nohup` ignores it, SIGHUP.
pub(super) fn that_end() -> impl Iterator<Item = i32> {
    [SIGINT, SIGTERM, SIGHUP].into_iter().filter(|&signal| signal != SIGHUP || !is_ignored(SIGHUP))
}

/// A flag that the first signal sets. A second SIGINT or SIGTERM ends the process, in case its output is blocked.
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

/// Lets signals wait while this process changes the host: they set the flags of [`interrupt`].
///
/// Side effects: signal handlers for the rest of the process.
pub fn hold() -> Result<()> {
    for signal in that_end().filter(|&signal| !is_ignored(signal)) {
        if signal != SIGHUP {
            let at_once = Arc::clone(interrupt::ends_at_once());
            flag::register_conditional_shutdown(signal, INTERRUPTED, at_once).context("watch for Ctrl-C")?;
        }
        for flag in interrupt::flags() {
            flag::register(signal, flag).context("watch for Ctrl-C")?;
        }
    }
    Ok(())
}

fn is_ignored(signal: i32) -> bool {
    let status = Process::myself().and_then(|process| process.status());
    status.is_ok_and(|status| status.sigign >> (signal - 1) & 1 == 1)
}
