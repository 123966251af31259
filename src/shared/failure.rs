//! A failure with a hint and an exit code, for callers that distinguish failures.
//!
//! Everything else is plain `anyhow` with context. Layer 0: no I/O.

/// Exit codes of `tccc`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FailureKind {
    Failed = 1,
    /// The request itself is wrong: an unknown name, a value out of range.
    Usage = 2,
    /// Measured outside the expected range: the path of a scenario, or a cell of `report --check`.
    Outside = 3,
    /// This host lacks a requirement.
    Unmet = 4,
    /// The same request may succeed later, for example because another process is in the way.
    Again = 5,
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{what}")]
pub struct Failure {
    pub kind: FailureKind,
    /// What failed and why: lower case, no full stop.
    pub what: String,
    /// The next step, printed as an indented `hint:` line.
    pub hint: Option<String>,
}

impl Failure {
    fn new(kind: FailureKind, what: impl Into<String>) -> Self {
        Failure { kind, what: what.into(), hint: None }
    }

    pub fn usage(what: impl Into<String>) -> Self {
        Self::new(FailureKind::Usage, what)
    }

    pub fn unmet(what: impl Into<String>) -> Self {
        Self::new(FailureKind::Unmet, what)
    }

    pub fn failed(what: impl Into<String>) -> Self {
        Self::new(FailureKind::Failed, what)
    }

    pub fn again(what: impl Into<String>) -> Self {
        Self::new(FailureKind::Again, what)
    }

    pub fn outside(what: impl Into<String>) -> Self {
        Self::new(FailureKind::Outside, what)
    }

    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }
}
