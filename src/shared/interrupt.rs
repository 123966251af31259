//! A signal that asks a command to end while it changes this host.
//!
//! A change must not end half-way. The command therefore looks here where it can still stop, and otherwise completes.
//! Layer 0: uses only `failure`.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, LazyLock};

use crate::failure::Failure;

type Flag = LazyLock<Arc<AtomicBool>>;

/// A signal that the command has not answered.
static ASKED: Flag = LazyLock::new(Arc::default);
static CAME: Flag = LazyLock::new(Arc::default);
static ENDS_AT_ONCE: Flag = LazyLock::new(Arc::default);

/// The flags that a signal sets.
pub fn flags() -> [Arc<AtomicBool>; 2] {
    [Arc::clone(&ASKED), Arc::clone(&CAME)]
}

/// While this flag is set, the next signal ends the process at once.
pub fn ends_at_once() -> &'static Arc<AtomicBool> {
    &ENDS_AT_ONCE
}

/// Whether a signal came since the command began.
pub fn came() -> bool {
    CAME.load(Ordering::SeqCst)
}

/// Whether a signal waits for an answer. The caller stops; what it then undoes is not interrupted by the same signal.
pub fn answer() -> bool {
    ASKED.swap(false, Ordering::SeqCst)
}

/// Stops before a change. `what` did not happen then.
///
/// # Errors
/// A signal waits for an answer.
pub fn check(what: impl FnOnce() -> String) -> Result<(), Failure> {
    if answer() { Err(Failure::again(format!("interrupted: {}", what())).hint("run it again")) } else { Ok(()) }
}
