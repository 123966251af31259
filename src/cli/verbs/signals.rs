//! The signals that ask a program to end.

use std::ptr;

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

/// Those that this process shall listen for: Ctrl-C, `kill`, and the end of its terminal or SSH session, unless it was
/// started to outlive that (`nohup`).
pub fn that_end() -> impl Iterator<Item = i32> {
    [SIGINT, SIGTERM, SIGHUP].into_iter().filter(|&signal| signal != SIGHUP || !is_ignored(SIGHUP))
}

fn is_ignored(signal: i32) -> bool {
    // SAFETY: plain numbers and addresses, for which all zeros is a value.
    let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
    // SAFETY: without a new action the call only writes the present one to `action`, which outlives it.
    let asked = unsafe { libc::sigaction(signal, ptr::null(), &mut action) };
    asked == 0 && action.sa_sigaction == libc::SIG_IGN
}
