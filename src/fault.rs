//! Points at which a test lets this process die or stop, to see what it leaves behind.
//!
//! Builds for release have none of them. Layer 0: uses no other module.

#[cfg(debug_assertions)]
use nix::sys::signal::{Signal, raise};

/// Environment variable that names the point, with `:stop` after it to stop there instead of dying.
pub const VARIABLE: &str = "TCCC_FAULT";

/// Every point, in the order in which a command comes to it.
pub const POINTS: [&str; 29] = [
    "load.locked",
    "load.registered",
    "apply.algorithms",
    "apply.noted",
    "apply.pinned",
    "apply.numbered",
    "apply.attached",
    "apply.settled",
    "remove.detached",
    "remove.cleared",
    "trial.guard",
    "trial.begun",
    "revert.swapped",
    "revert.noted",
    "revert.cleared",
    "confirm.noted",
    "confirm.default",
    "confirm.upgraded",
    "confirm.swapped",
    "upgrade.noted",
    "upgrade.companion",
    "upgrade.linked",
    "upgrade.pinned",
    "upgrade.defaults",
    "rollback.linked",
    "rollback.pinned",
    "beside.bridged",
    "beside.loaded",
    "beside.restored",
];

/// Ends or stops this process here, if a test asked for that.
pub fn point(name: &'static str) {
    debug_assert!(POINTS.contains(&name), "{name} is not in the list");
    #[cfg(debug_assertions)]
    meet(name);
    #[cfg(not(debug_assertions))]
    let _ = name;
}

#[cfg(debug_assertions)]
fn meet(name: &str) {
    let Ok(wanted) = std::env::var(VARIABLE) else { return };
    let signal = match wanted.strip_prefix(name) {
        Some("") => Signal::SIGKILL,
        Some(":stop") => Signal::SIGSTOP,
        _ => return,
    };
    let _ = raise(signal); // neither can be refused
}
