//! Progress of an experiment on stderr: a bar with the remaining time, or a line now and then without a terminal.

mod file;

use std::io::{self, IsTerminal};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressState, ProgressStyle};

use crate::cli::output;
use lab::work::{Forecast, Progress};
use shared::sanitize::{count, plain_lines};

pub use self::file::ProgressFile;

/// Characters of the bar.
const BAR: usize = 30;
/// Number of lines for all runs, without a terminal.
const PARTS: u64 = 10;
/// Shorter remaining times are not printed.
const SHORTEST: Duration = Duration::from_secs(1);
const DRAW_EVERY: Duration = Duration::from_millis(200);

#[derive(Debug, Clone, Copy)]
struct TimeLeft {
    begun: Instant,
    /// When `left` was forecast.
    forecast_at: Instant,
    left: Duration,
}

impl TimeLeft {
    fn left(&self) -> Duration {
        self.left.saturating_sub(self.forecast_at.elapsed())
    }

    /// Elapsed share of the whole time.
    fn share(&self) -> f64 {
        let (gone, left) = (self.begun.elapsed().as_secs_f64(), self.left().as_secs_f64());
        gone / (gone + left).max(1e-3)
    }
}

/// The bar of one scenario.
pub struct Display {
    bar: ProgressBar,
    time: Arc<Mutex<TimeLeft>>,
    /// `table-2 (1 of 5)`, or only the name of a single scenario.
    what: String,
}

impl Display {
    /// Shows nothing before the first progress.
    pub fn new(what: String) -> Self {
        let bar = ProgressBar::hidden();
        if !output::is_quiet() {
            bar.set_draw_target(ProgressDrawTarget::stderr()); // hides itself if stderr is not a terminal
        }
        let now = Instant::now();
        let time = Arc::new(Mutex::new(TimeLeft { begun: now, forecast_at: now, left: Duration::ZERO }));
        let key = |text: fn(TimeLeft) -> String| {
            let time = Arc::clone(&time);
            move |_: &ProgressState, w: &mut dyn std::fmt::Write| {
                let now = *time.lock().unwrap_or_else(PoisonError::into_inner);
                let _ = w.write_str(&text(now)); // ignore: the bar is optional
            }
        };
        let style = ProgressStyle::with_template("{part} {pos}/{len} runs, {left} left  {msg}");
        let style = style.unwrap_or_else(|_| ProgressStyle::default_bar());
        let style = style.with_key("part", key(|time| drawn(time.share())));
        bar.set_style(style.with_key("left", key(|time| seconds(time.left()))));
        Display { bar, time, what }
    }

    /// Prints a line above the bar.
    pub fn say(&self, line: &str) {
        if !output::is_quiet() {
            self.bar.suspend(|| output::tell(&format!("{}\n", plain_lines(line))));
        }
    }

    pub fn end(&self) {
        self.bar.finish_and_clear();
    }

    pub fn show(&self, progress: &Progress) {
        match progress {
            Progress::Begins(forecast) => {
                self.say(&format!("tccc: note: {}: {}", self.what, sentence(forecast)));
                self.bar.set_length(forecast.to_do as u64);
                self.set_left(forecast.expected);
                self.bar.enable_steady_tick(DRAW_EVERY); // only once there is a length to draw
            }
            Progress::Calibrating(place) => self.bar.set_message(format!("measuring the empty path: {place}")),
            Progress::Disturbed { others, waits: Some(waits) } => {
                let waits = seconds(*waits);
                self.say(&format!("tccc: note: {}: waiting up to {waits} for a quiet host: {others}", self.what));
            }
            Progress::Disturbed { others, waits: None } => {
                self.say(&format!("tccc: warning: {}: the host did not become quiet: {others}", self.what));
            }
            Progress::LeftOut { runs, why } => {
                self.say(&format!("tccc: warning: {}: {} left out: {why}", self.what, count(*runs, "run")));
                self.bar.set_length(self.bar.length().unwrap_or(0).saturating_sub(*runs as u64));
            }
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

    fn finish_one(&self) {
        self.bar.inc(1);
        let (done, all) = (self.bar.position(), self.bar.length().unwrap_or(0).max(1));
        if !io::stderr().is_terminal() && done * PARTS / all > (done - 1) * PARTS / all {
            let left = self.time.lock().unwrap_or_else(PoisonError::into_inner).left();
            // If runs take longer than expected, the remaining time is unknown.
            let about = if left < SHORTEST { String::new() } else { format!(", about {} left", seconds(left)) };
            self.say(&format!("tccc: note: {}: {done} of {all} runs{about}", self.what));
        }
    }

    fn set_left(&self, left: Duration) {
        let mut time = self.time.lock().unwrap_or_else(PoisonError::into_inner);
        (time.forecast_at, time.left) = (Instant::now(), left);
    }
}

/// `12 runs on 2 paths, 9 finished before, about 3m 20s, at most 4 at once`.
pub fn sentence(&Forecast { paths, to_do, finished, expected, at_once }: &Forecast) -> String {
    let mut parts = vec![count(to_do, "run")];
    if paths > 0 {
        parts[0] += &format!(" on {}", count(paths, "path"));
    }
    parts.extend((finished > 0).then(|| format!("{finished} finished before")));
    parts.push(format!("about {}", seconds(expected)));
    parts.extend((at_once > 1).then(|| format!("at most {at_once} at once")));
    parts.join(", ")
}

/// Rounds to whole seconds: `1h 2m 3s`.
pub fn seconds(time: Duration) -> String {
    humantime::format_duration(Duration::from_secs(time.as_secs_f64().round() as u64)).to_string()
}

fn drawn(share: f64) -> String {
    let filled = ((share.clamp(0.0, 1.0) * BAR as f64) as usize).min(BAR);
    "█".repeat(filled) + &"░".repeat(BAR - filled)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_is_described_in_one_sentence() {
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
