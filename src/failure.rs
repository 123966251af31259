//! A failure that a caller decides by: what failed and why, the next step, and the exit code it leads to.
//!
//! Everything else is plain `anyhow` with context. Layer 0: no I/O.

/// Exit codes of `tccc`, as the command surface fixes them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FailureKind {
    /// Tried and failed.
    Failed = 1,
    /// The request itself is wrong: an unknown name, a value out of range.
    Usage = 2,
    /// Measured outside the expected range: a path that is not what a scenario asks, a cell of `report --check`.
    Outside = 3,
    /// This host lacks a need.
    Unmet = 4,
    /// Not now: another process is in the way. The same request may succeed later.
    Again = 5,
}

/// A failure with its exit code and, where one is known, the next step.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{what}")]
pub struct Failure {
    /// Decides the exit code.
    pub kind: FailureKind,
    /// What failed and why: lower case, no full stop.
    pub what: String,
    /// The next step, printed as an indented `hint:` line.
    pub hint: Option<String>,
}

impl Failure {
    /// The request itself is wrong.
    pub fn usage(what: impl Into<String>) -> Self {
        Failure { kind: FailureKind::Usage, what: what.into(), hint: None }
    }

    /// This host lacks a need.
    pub fn unmet(what: impl Into<String>) -> Self {
        Failure { kind: FailureKind::Unmet, what: what.into(), hint: None }
    }

    /// Tried and failed.
    pub fn failed(what: impl Into<String>) -> Self {
        Failure { kind: FailureKind::Failed, what: what.into(), hint: None }
    }

    /// Another process is in the way.
    pub fn again(what: impl Into<String>) -> Self {
        Failure { kind: FailureKind::Again, what: what.into(), hint: None }
    }

    /// Measured outside the expected range.
    pub fn outside(what: impl Into<String>) -> Self {
        Failure { kind: FailureKind::Outside, what: what.into(), hint: None }
    }

    /// Adds the next step.
    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }
}
