//! What a verb does to this host: whether its output may fail it, and whether a signal may end it.

/// Each verb has one, so that a new verb cannot forget it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Effect {
    /// Changes nothing. If stdout is full, it fails; if the reader went away, it ends.
    Query,
    /// Makes one change that lasts. Signals wait until it is complete. The text says how to undo it.
    Change(String),
    /// Works until it is done or stopped, and handles signals itself.
    Work,
}

impl Effect {
    /// A change, unless it is only printed.
    pub fn change(is_dry: bool, undo: impl Into<String>) -> Self {
        if is_dry { Effect::Query } else { Effect::Change(undo.into()) }
    }

    pub fn work(is_dry: bool) -> Self {
        if is_dry { Effect::Query } else { Effect::Work }
    }
}
