//! The terminal dashboard, `tccc top`: sockets as a table, one flow over time, algorithms side by side.
//!
//! Draws the state of [`shared::model::live`] and computes nothing itself. Formats only what is on the screen.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use crossterm::event;
use ratatui::Frame;

use crate::trace::source::EventSource;

pub mod app;
mod chart;
mod flow;
mod frame;
mod help;
mod keys;
mod number;
mod paint;
mod summary;
mod table;
pub mod term;
#[cfg(test)]
mod tests;
pub mod theme;

use app::{App, View};
use theme::Theme;

/// Longest wait for the first key, and therefore between two polls of the source.
const TICK: Duration = Duration::from_millis(50);
/// Wait for each further key; a wait of zero does not see keys that are already there.
const MORE: Duration = Duration::from_millis(1);

#[derive(Debug, Clone, Copy)]
pub struct ViewSettings {
    /// Time between two refreshes. Keys are answered at once.
    pub refresh: Duration,
    pub theme: Theme,
}

/// Shows a source until the user quits or `stop` is set.
///
/// Side effects: takes over the terminal until the end, and restores it even after a panic.
///
/// # Errors
/// The terminal cannot be drawn to; the source fails.
pub fn run(source: &mut dyn EventSource, settings: ViewSettings, stop: &AtomicBool) -> Result<()> {
    let mut terminal = term::TerminalGuard::take()?;
    let mut app = App::new(settings.theme);
    let mut drawn: Option<Instant> = None;
    while !stop.load(Ordering::Relaxed) && !app.is_done {
        app.take_in(source)?;
        let is_due = drawn.is_none_or(|at| at.elapsed() >= settings.refresh);
        if is_due {
            app.refresh(source);
            drawn = Some(Instant::now());
        }
        if std::mem::take(&mut app.wants_redraw) || is_due {
            terminal.draw(|frame| draw(frame, &mut app))?;
        }
        let mut wait = TICK;
        while event::poll(wait).context("wait for a key")? {
            app.answer(&event::read().context("read a key")?, source);
            wait = MORE;
        }
    }
    Ok(())
}

pub fn draw(frame: &mut Frame, app: &mut App) {
    let body = frame::draw(frame, app);
    match app.view() {
        View::Table => table::draw(frame, app, body),
        View::Flow(socket) => flow::draw(frame, app, body, socket),
        View::Summary => summary::draw(frame, app, body),
    }
    if app.shows_help {
        help::draw(frame, body);
    }
}
