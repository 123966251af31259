//! The terminal while it is ours: taken, and given back as it was however the program ends.

use std::fs::File;
use std::io::{self, BufWriter};
use std::sync::Once;
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::{Context, Result};
use crossterm::cursor::Show;
use crossterm::event::{DisableMouseCapture, EnableMouseCapture};
use crossterm::execute;
use crossterm::terminal::{EnterAlternateScreen, LeaveAlternateScreen, disable_raw_mode, enable_raw_mode};
use ratatui::backend::CrosstermBackend;
use ratatui::{Frame, Terminal};

/// A picture is sent in few pieces: most of them are smaller.
const PICTURE_BYTES: usize = 64 << 10;

/// The terminal in our hands; given back when dropped, and before a panic says what went wrong.
pub struct TerminalGuard {
    terminal: Terminal<CrosstermBackend<BufWriter<File>>>,
}

impl TerminalGuard {
    /// Takes the terminal.
    ///
    /// Errors: it cannot be switched to single keys, or not be drawn to.
    /// Side effects: single keys, another screen and mouse reports until the value is dropped.
    pub fn take() -> Result<TerminalGuard> {
        give_back_before_panics();
        IS_TAKEN.store(true, Ordering::SeqCst);
        enable_raw_mode().context("switch the terminal to single keys")?;
        draw_here()
            .inspect_err(|_| give_back())
            .map(|terminal| TerminalGuard { terminal })
            .context("draw to the terminal")
    }

    /// Draws one picture.
    ///
    /// Errors: the terminal has gone.
    pub fn draw(&mut self, picture: impl FnOnce(&mut Frame)) -> Result<()> {
        self.terminal.draw(picture).context("draw to the terminal")?;
        Ok(())
    }
}

impl Drop for TerminalGuard {
    fn drop(&mut self) {
        give_back();
    }
}

fn draw_here() -> io::Result<Terminal<CrosstermBackend<BufWriter<File>>>> {
    let mut screen = screen()?;
    execute!(screen, EnterAlternateScreen, EnableMouseCapture)?;
    Terminal::new(CrosstermBackend::new(BufWriter::with_capacity(PICTURE_BYTES, screen)))
}

/// The terminal itself: stdout is for results.
fn screen() -> io::Result<File> {
    File::options().read(true).write(true).open("/dev/tty")
}

static IS_TAKEN: AtomicBool = AtomicBool::new(false);

/// Puts everything back, once: a second time would put the cursor where it was before what was written since. A
/// terminal that has gone needs nothing.
fn give_back() {
    if !IS_TAKEN.swap(false, Ordering::SeqCst) {
        return;
    }
    if let Ok(mut screen) = screen() {
        let _ = execute!(screen, DisableMouseCapture, LeaveAlternateScreen, Show);
    }
    let _ = disable_raw_mode();
}

fn give_back_before_panics() {
    static HOOK: Once = Once::new();
    HOOK.call_once(|| {
        let before = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |panic| {
            give_back();
            before(panic);
        }));
    });
}
