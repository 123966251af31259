//! What libbpf says while it works: kept per thread, so that it never reaches the terminal unasked.

use std::cell::RefCell;
use std::sync::OnceLock;

pub use libbpf_rs::PrintLevel;
use libbpf_rs::set_print;

thread_local! {
    static LINES: RefCell<String> = const { RefCell::new(String::new()) };
}

/// Who also gets each line as it comes; set once, by the first that installs.
static ECHO: OnceLock<Option<fn(&str)>> = OnceLock::new();

/// Sends libbpf's words here from now on, for the whole process; only the first call counts.
///
/// Side effects: with `echo`, lines go to it as they come (the command line's `-v`): of `level` or above, which is some
/// thousand for each object where it is [`PrintLevel::Debug`].
pub fn install(echo: Option<fn(&str)>, level: PrintLevel) {
    if ECHO.set(echo).is_ok() {
        set_print(Some((level, keep)));
    }
}

/// As [`install`] without echo: for users of the library.
pub fn install_if_none() {
    install(None, PrintLevel::Info);
}

/// What libbpf said on this thread since the last call.
pub fn take() -> String {
    LINES.with(|lines| std::mem::take(&mut *lines.borrow_mut()))
}

fn keep(_: PrintLevel, line: String) {
    if let Some(Some(echo)) = ECHO.get() {
        echo(&line);
    }
    LINES.with(|lines| lines.borrow_mut().push_str(&line));
}
