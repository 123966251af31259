//! What libbpf says while it works: kept per thread, so that it never reaches the terminal unasked.

use std::cell::RefCell;
use std::sync::Once;
use std::sync::atomic::{AtomicBool, Ordering};

use libbpf_rs::{PrintLevel, set_print};

thread_local! {
    static LINES: RefCell<String> = const { RefCell::new(String::new()) };
}

static IS_INSTALLED: AtomicBool = AtomicBool::new(false);
/// Whether each line also goes to stderr as it comes.
static ECHO: AtomicBool = AtomicBool::new(false);

/// Sends libbpf's words here from now on, for the whole process.
///
/// Side effects: with `echo`, debug lines go to stderr as they come (the command line's `-v`).
pub fn install(echo: bool) {
    ECHO.store(echo, Ordering::Relaxed);
    IS_INSTALLED.store(true, Ordering::Relaxed);
    set_print(Some((if echo { PrintLevel::Debug } else { PrintLevel::Info }, keep)));
}

/// As [`install`] without echo, unless it was installed already: for users of the library.
pub fn install_if_none() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        if !IS_INSTALLED.load(Ordering::Relaxed) {
            install(false);
        }
    });
}

/// What libbpf said on this thread since the last call.
pub fn take() -> String {
    LINES.with(|lines| std::mem::take(&mut *lines.borrow_mut()))
}

fn keep(_: PrintLevel, line: String) {
    if ECHO.load(Ordering::Relaxed) {
        eprint!("{line}");
    }
    LINES.with(|lines| lines.borrow_mut().push_str(&line));
}
