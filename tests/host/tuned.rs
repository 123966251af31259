//! An algorithm with other tunables than its defaults.

use tccc::catalog;

use crate::native::{self, Native};

/// A copy of an algorithm with these settings, as `--set` takes them.
pub fn copy(id: &str, settings: &[&str]) -> Native {
    let mut native = native::own(id);
    for setting in catalog::find(id).unwrap().settings(settings).unwrap() {
        native.set(&setting.name, &setting.bytes);
    }
    native
}
