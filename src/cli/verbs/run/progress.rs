//! How an experiment goes, on stderr: a bar with the time that is left on a terminal, a line now and then elsewhere,
//! sentences for what went wrong.

mod file;

use std::fmt::Write as _;
use std::io::{self, IsTerminal};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressState, ProgressStyle};

use crate::cli::output;
use crate::lab::work::{Forecast, Progress};
use crate::plain::{count, plain_lines};

pub use self::file::ProgressFile;

/// Characters of the bar.
const BAR: usize = 30;
/// Where there is no terminal, a line for every such part of the runs.
const PARTS: u64 = 10;
/// Shortest time that is said to be left.
const SHORTEST: Duration = Duration::from_secs(1);
/// How often the bar is drawn.
const DRAW_EVERY: Duration = Duration::from_millis(200);

/// Time gone and time left, as it was last said.
#[derive(Debug, Clone, Copy)]
struct Clock {
    begun: Instant,
    said: Instant,
    left: Duration,
}

impl Clock {
    fn left(&self) -> Duration {
        self.left.saturating_sub(self.said.elapsed())
    }

    /// The share of the whole time that is over.
    fn share(&self) -> f64 {
        let (gone, left) = (self.begun.elapsed().as_secs_f64(), self.left().as_secs_f64());
        gone / (gone + left).max(1e-3)
    }
}

/// The bar of one scenario.
pub struct Display {
    bar: ProgressBar,
    clock: Arc<Mutex<Clock>>,
    /// `table-2 (1 of 5)`, or the scenario's name where there is one.
    what: String,
}

impl Display {
    /// Shows nothing before the runner speaks.
    pub fn new(what: String) -> Self {
        let bar = ProgressBar::hidden();
        if !output::is_quiet() {
            bar.set_draw_target(ProgressDrawTarget::stderr()); // hides itself where stderr is no terminal
        }
        let now = Instant::now();
        let clock = Arc::new(Mutex::new(Clock { begun: now, said: now, left: Duration::ZERO }));
        let (for_bar, for_left) = (Arc::clone(&clock), Arc::clone(&clock));
        let read = |clock: &Mutex<Clock>| *clock.lock().unwrap_or_else(PoisonError::into_inner);
        let style = ProgressStyle::with_template("{part} {pos}/{len} runs, {left} left  {msg}");
        let style = style.unwrap_or_else(|_| ProgressStyle::default_bar());
        let part = move |_: &ProgressState, w: &mut dyn std::fmt::Write| {
            let _ = w.write_str(&drawn(read(&for_bar).share())); // a bar that cannot be drawn is not missed
        };
        let left = move |_: &ProgressState, w: &mut dyn std::fmt::Write| {
            let _ = w.write_str(&seconds(read(&for_left).left()));
        };
        bar.set_style(style.with_key("part", part).with_key("left", left));
        Display { bar, clock, what }
    }

    /// Says a line above the bar.
    pub fn say(&self, line: &str) {
        if !output::is_quiet() {
            self.bar.suspend(|| output::tell(&format!("{}\n", plain_lines(line))));
        }
    }

    /// Takes the bar away.
    pub fn end(&self) {
        self.bar.finish_and_clear();
    }

    /// Shows what the runner told.
    pub fn show(&self, progress: &Progress) {
        match progress {
            Progress::Begins(forecast) => self.begin(forecast),
            Progress::Calibrating(place) => self.bar.set_message(format!("measuring the empty path: {place}")),
            Progress::Disturbed { others, waits: Some(waits) } => {
                let waits = seconds(*waits);
                self.say(&format!("tccc: note: {}: waiting up to {waits} for a quiet host: {others}", self.what));
            }
            Progress::Disturbed { others, waits: None } => {
                self.say(&format!("tccc: warning: {}: the host did not become quiet: {others}", self.what));
            }
            Progress::LeftOut { runs, why } => self.leave_out(*runs, why),
            Progress::Left { going, left } => {
                self.set_left(*left);
                self.bar.set_message(format!("{}: {going} at once", self.what));
            }
            Progress::Finished(_) => self.finish_one(),
            Progress::Again { id, attempt, why, last: false } => {
                self.say(&format!("tccc: warning: {id}: attempt {attempt} does not count and is repeated: {why}"));
            }
            Progress::Again { id, attempt, why, last: true } => {
                self.say(&format!("tccc: warning: {id}: given up after {attempt} attempts: {why}"));
            }
        }
    }

    fn begin(&self, forecast: &Forecast) {
        self.say(&format!("tccc: note: {}: {}", self.what, sentence(forecast)));
        self.bar.set_length(forecast.to_do as u64);
        self.set_left(forecast.expected);
        self.bar.enable_steady_tick(DRAW_EVERY); // not before there is a length to draw
    }

    fn leave_out(&self, runs: usize, why: &str) {
        self.say(&format!("tccc: warning: {}: {} left out: {why}", self.what, count(runs, "run")));
        self.bar.set_length(self.bar.length().unwrap_or(0).saturating_sub(runs as u64));
    }

    fn finish_one(&self) {
        self.bar.inc(1);
        let (done, all) = (self.bar.position(), self.bar.length().unwrap_or(0).max(1));
        if !io::stderr().is_terminal() && done * PARTS / all > (done - 1) * PARTS / all {
            let left = self.clock.lock().unwrap_or_else(PoisonError::into_inner).left();
            // Runs that take longer than expected say nothing of what is left.
            let about = if left < SHORTEST { String::new() } else { format!(", about {} left", seconds(left)) };
            self.say(&format!("tccc: note: {}: {done} of {all} runs{about}", self.what));
        }
    }

    fn set_left(&self, left: Duration) {
        let mut clock = self.clock.lock().unwrap_or_else(PoisonError::into_inner);
        (clock.said, clock.left) = (Instant::now(), left);
    }
}

/// What one call has to do, as people say it: `12 runs on 2 paths, 9 finished before, about 3m 20s, at most 4 at once`.
pub fn sentence(forecast: &Forecast) -> String {
    let mut text = count(forecast.to_do, "run");
    if forecast.paths > 0 {
        let _ = write!(text, " on {}", count(forecast.paths, "path")); // writing to a string does not fail
    }
    if forecast.finished > 0 {
        let _ = write!(text, ", {} finished before", forecast.finished);
    }
    let at_once = if forecast.at_once > 1 { format!(", at most {} at once", forecast.at_once) } else { String::new() };
    format!("{text}, about {}{at_once}", seconds(forecast.expected))
}

/// A time in whole seconds: `1h 2m 3s`.
pub fn seconds(time: Duration) -> String {
    humantime::format_duration(Duration::from_secs(time.as_secs_f64().round() as u64)).to_string()
}

/// The bar, filled up to a share.
fn drawn(share: f64) -> String {
    let filled = ((share.clamp(0.0, 1.0) * BAR as f64) as usize).min(BAR);
    "█".repeat(filled) + &"░".repeat(BAR - filled)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_is_said_in_plain_english() {
        let expected = Duration::from_millis(200_400);
        let forecast = Forecast { paths: 1, to_do: 12, finished: 0, expected, at_once: 4 };
        assert_eq!(sentence(&forecast), "12 runs on 1 path, about 3m 20s, at most 4 at once");
        let resumed = Forecast { paths: 3, to_do: 1, finished: 9, at_once: 1, ..forecast };
        assert_eq!(sentence(&resumed), "1 run on 3 paths, 9 finished before, about 3m 20s");
    }

    #[test]
    fn bar_is_empty_at_first_and_full_at_last() {
        assert_eq!(drawn(0.0), "░".repeat(BAR));
        assert_eq!(drawn(0.5), "█".repeat(BAR / 2) + &"░".repeat(BAR / 2));
        assert_eq!(drawn(7.0), "█".repeat(BAR));
    }
}
