//! Takes over the terminal, and restores it however the program ends.

use std::fs::File;
use std::io::{self, BufWriter};
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::{Context, Result};
use crossterm::cursor::Show;
use crossterm::event::{DisableMouseCapture, EnableMouseCapture};
use crossterm::execute;
use crossterm::terminal::{EnterAlternateScreen, LeaveAlternateScreen, disable_raw_mode, enable_raw_mode};
use ratatui::backend::CrosstermBackend;
use ratatui::{Frame, Terminal};

/// Most frames are smaller, so that one write sends them.
const PICTURE_BYTES: usize = 64 << 10;

/// Restores the terminal when dropped, and before the message of a panic.
pub struct TerminalGuard {
    terminal: Terminal<CrosstermBackend<BufWriter<File>>>,
}

impl TerminalGuard {
    /// Side effects: raw mode, the alternate screen and mouse reports until the value is dropped.
    ///
    /// # Errors
    /// Raw mode cannot be enabled; the terminal cannot be drawn to.
    pub fn take() -> Result<TerminalGuard> {
        let before = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |panic| {
            restore();
            before(panic);
        }));
        IS_TAKEN.store(true, Ordering::SeqCst);
        enable_raw_mode().context("switch the terminal to raw mode")?;
        let open = || {
            let mut screen = screen()?;
            execute!(screen, EnterAlternateScreen, EnableMouseCapture)?;
            Terminal::new(CrosstermBackend::new(BufWriter::with_capacity(PICTURE_BYTES, screen)))
        };
        let terminal = open().inspect_err(|_| restore()).context("draw to the terminal")?;
        Ok(TerminalGuard { terminal })
    }

    /// # Errors
    /// The terminal is gone.
    pub fn draw(&mut self, picture: impl FnOnce(&mut Frame)) -> Result<()> {
        self.terminal.draw(picture).context("draw to the terminal")?;
        Ok(())
    }
}

impl Drop for TerminalGuard {
    fn drop(&mut self) {
        restore();
    }
}

/// Not stdout, which is for results.
fn screen() -> io::Result<File> {
    File::options().read(true).write(true).open("/dev/tty")
}

static IS_TAKEN: AtomicBool = AtomicBool::new(false);

/// Restores the terminal only once, because a second time would move the cursor over later output. Does nothing if the
/// terminal is gone.
fn restore() {
    if !IS_TAKEN.swap(false, Ordering::SeqCst) {
        return;
    }
    if let Ok(mut screen) = screen() {
        let _ = execute!(screen, DisableMouseCapture, LeaveAlternateScreen, Show);
    }
    let _ = disable_raw_mode();
}
