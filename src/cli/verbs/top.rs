//! `tccc top`: the terminal dashboard.

use std::io::{self, IsTerminal};
use std::path::PathBuf;
use std::time::Duration;

use anyhow::Result;

use super::capabilities;
use super::selection::Selection;
use super::trace::{parse_interval, parse_ring, stop_flag};
use crate::cli::output::naming;
use crate::failure::Failure;
use crate::trace::replay::Replay;
use crate::trace::rules::OfRules;
use crate::trace::source::EventSource;
use crate::trace::watch::{self, Watch};
use crate::units::{parse_duration, within};
use crate::view::theme::Theme;
use crate::view::{self, Settings};

/// Slowest and fastest picture.
const REFRESH: [Duration; 2] = [Duration::from_millis(100), Duration::from_secs(60)];

/// Watch every TCP connection of this host, or a recording, in the terminal
///
/// A table of sockets that sorts and filters; Enter shows one flow over time with its algorithm's own state; `a`
/// shows the algorithms side by side. `?` shows the keys.
///
/// Example: `tccc top --port 443`; `tccc top --replay night.tccc`
#[derive(Debug, clap::Args)]
#[command(after_long_help = capabilities::of("top", " A replay needs none."))]
pub struct Args {
    /// Time between samples of one connection; a longer one costs less
    #[arg(long, value_name = "TIME", default_value = "500ms", value_parser = parse_interval)]
    interval: Duration,
    /// Time between two updates of the screen
    #[arg(long, value_name = "TIME", default_value = "500ms", value_parser = parse_refresh)]
    refresh: Duration,
    /// Buffer between kernel and reader, rounded up to a power of two
    #[arg(long, value_name = "SIZE", default_value = "8MiB", value_parser = parse_ring)]
    ring: u32,
    /// Show a recording of `tccc trace --record` instead of this host
    #[arg(
        long,
        value_name = "FILE",
        conflicts_with_all = ["interval", "ring", "port", "address", "algorithm", "cgroup", "netns"]
    )]
    replay: Option<PathBuf>,
    #[command(flatten)]
    selection: Selection,
}

impl Args {
    /// Shows the dashboard until the reader leaves or a signal comes.
    ///
    /// Errors: no terminal; a need of the tracer is missing; the recording cannot be read.
    pub fn run(&self) -> Result<()> {
        if !(io::stdout().is_terminal() && io::stdin().is_terminal()) {
            let refusal = Failure::usage("cannot draw: this is not a terminal");
            return Err(refusal.hint("`tccc sockets` and `tccc trace` print what `tccc top` shows").into());
        }
        let stop = stop_flag()?;
        let mut source = self.source()?;
        view::run(source.as_mut(), Settings { refresh: self.refresh, theme: theme() }, &stop)
    }

    fn source(&self) -> Result<Box<dyn EventSource>> {
        let rules = self.selection.rules();
        if let Some(file) = &self.replay {
            return Ok(Box::new(OfRules::new(Replay::open(file)?, rules)));
        }
        let (interval, ring_bytes, layouts) = (self.interval, self.ring, naming::layouts());
        let settings = watch::WatchSettings { filter: self.selection.filter()?, interval, ring_bytes, layouts };
        Ok(Box::new(OfRules::new(Watch::start(settings)?, rules)))
    }
}

/// Colours unless `NO_COLOR` is set to something; the kernel's own console has no braille dots.
fn theme() -> Theme {
    let has_colour = std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty());
    let terminal = std::env::var("TERM").unwrap_or_default();
    Theme::new(has_colour && terminal != "dumb", terminal != "linux")
}

pub(super) fn parse_refresh(text: &str) -> Result<Duration, String> {
    within(parse_duration(text), REFRESH[0]..=REFRESH[1], "expected 100ms to 60s")
}
