//! Collects libbpf's messages per thread, so that they reach the terminal only on request.

use std::cell::RefCell;
use std::sync::OnceLock;

pub use libbpf_rs::PrintLevel;
use libbpf_rs::set_print;

thread_local! {
    static LINES: RefCell<String> = const { RefCell::new(String::new()) };
}

/// Also gets each line as it comes. Set by the first call of [`install`].
static ECHO: OnceLock<Option<fn(&str)>> = OnceLock::new();

/// Collects libbpf's messages of `level` or above in the whole process. Only the first call has an effect.
///
/// [`PrintLevel::Debug`] gives some thousand lines per object. `echo` gets each line as it comes (`-v`).
pub fn install(echo: Option<fn(&str)>, level: PrintLevel) {
    if ECHO.set(echo).is_ok() {
        set_print(Some((level, keep)));
    }
}

/// Discards this thread's earlier messages. For users of the library, installs the collection without echo.
pub fn start() {
    install(None, PrintLevel::Info);
    take();
}

/// The messages on this thread since the last call.
pub fn take() -> String {
    LINES.take()
}

/// The last message on this thread since the last call, or the text of `error` without one.
pub fn take_last(error: &libbpf_rs::Error) -> String {
    take().lines().next_back().map_or_else(|| error.to_string(), |line| line.trim().to_owned())
}

fn keep(_: PrintLevel, line: String) {
    if let Some(Some(echo)) = ECHO.get() {
        echo(&line);
    }
    LINES.with_borrow_mut(|lines| lines.push_str(&line));
}
