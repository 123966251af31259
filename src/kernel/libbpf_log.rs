//! What libbpf says while it works: kept per thread, so that it never reaches the terminal unasked.

use std::cell::RefCell;
use std::sync::OnceLock;

use libbpf_rs::{PrintLevel, set_print};

thread_local! {
    static LINES: RefCell<String> = const { RefCell::new(String::new()) };
}

/// Who also gets each line as it comes; set once, by the first that installs.
static ECHO: OnceLock<Option<fn(&str)>> = OnceLock::new();

/// Sends libbpf's words here from now on, for the whole process; only the first call counts.
///
/// Side effects: with `echo`, debug lines go to it as they come (the command line's `-v`).
pub fn install(echo: Option<fn(&str)>) {
    if ECHO.set(echo).is_ok() {
        set_print(Some((if echo.is_some() { PrintLevel::Debug } else { PrintLevel::Info }, keep)));
    }
}

/// As [`install`] without echo: for users of the library.
pub fn install_if_none() {
    install(None);
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
