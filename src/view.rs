//! The terminal dashboard, `tccc top`: sockets as a table, one flow over time, algorithms side by side.
//!
//! Draws what [`crate::model::live`] says and computes nothing of its own; only what is on the screen is formatted.

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

/// How often keys and events are looked for.
const TICK: Duration = Duration::from_millis(50);
/// How long more of them are waited for: what waits is not looked at in no time at all.
const MORE: Duration = Duration::from_millis(1);

#[derive(Debug, Clone, Copy)]
pub struct Settings {
    /// Time between two pictures; a key is answered at once.
    pub refresh: Duration,
    pub theme: Theme,
}

/// Shows a source until the reader leaves or `stop` is set.
///
/// Errors: the terminal cannot be drawn to; the source is broken.
/// Side effects: the terminal is put back as it was, also after a panic.
pub fn run(source: &mut dyn EventSource, settings: Settings, stop: &AtomicBool) -> Result<()> {
    let mut terminal = term::TerminalGuard::take()?;
    let mut app = App::new(settings.theme);
    let mut drawn: Option<Instant> = None;
    while !stop.load(Ordering::Relaxed) && !app.is_done {
        app.take_in(source)?;
        let is_due = drawn.is_none_or(|at| at.elapsed() >= settings.refresh);
        let is_asked = std::mem::take(&mut app.wants_redraw);
        if is_due || is_asked {
            if is_due {
                app.refresh(source);
                drawn = Some(Instant::now());
            }
            terminal.draw(|frame| draw(frame, &mut app))?;
        }
        answer_keys(&mut app, source)?;
    }
    Ok(())
}

/// Waits a moment for keys and answers all that wait.
fn answer_keys(app: &mut App, source: &mut dyn EventSource) -> Result<()> {
    let mut wait = TICK;
    while event::poll(wait).context("wait for a key")? {
        app.answer(&event::read().context("read a key")?, source);
        wait = MORE;
    }
    Ok(())
}

pub fn draw(frame: &mut Frame, app: &mut App) {
    let areas = frame::areas(frame.area(), app);
    frame::draw(frame, app, &areas);
    match app.view() {
        View::Table => table::draw(frame, app, areas.body),
        View::Flow(socket) => flow::draw(frame, app, areas.body, socket),
        View::Summary => summary::draw(frame, app, areas.body),
    }
    if app.shows_help {
        help::draw(frame, app, areas.body);
    }
}
