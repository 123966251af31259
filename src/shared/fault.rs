//! Points at which a test kills or stops this process, to see what it leaves behind.
//!
//! Release builds have none. Layer 0: uses no other module.

use nix::sys::signal::{Signal, raise};

/// Environment variable that names the point; `:stop` after the name stops the process instead of killing it.
pub const VARIABLE: &str = "TCCC_FAULT";

/// In the order in which a command reaches them.
pub const POINTS: [&str; 30] = [
    "load.locked",
    "load.companion",
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

/// Kills or stops this process here if a test names this point.
pub fn point(name: &'static str) {
    if cfg!(debug_assertions) {
        assert!(POINTS.contains(&name), "{name} is not in the list");
        let signal = match std::env::var(VARIABLE).as_deref().ok().and_then(|wanted| wanted.strip_prefix(name)) {
            Some("") => Signal::SIGKILL,
            Some(":stop") => Signal::SIGSTOP,
            _ => return,
        };
        let _ = raise(signal); // cannot fail
    }
}
