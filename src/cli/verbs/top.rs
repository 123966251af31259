//! `tccc top`: the terminal dashboard.

use std::io::{self, IsTerminal};
use std::time::Duration;

use anyhow::Result;

use super::signals::stop_flag;
use super::watched::WatchedSource;
use crate::cli::output::stdout::terminal_width;
use host::view::theme::Theme;
use host::view::{self, ViewSettings};
use shared::failure::Failure;
use shared::units::time_within;

/// Watch every TCP connection of this host, or a recording, in the terminal
///
/// Shows a table of sockets that sorts and filters. Enter shows one flow over time with its algorithm's private state, `a`
/// the algorithms side by side, and `?` the keys. Changes nothing: its BPF programs disappear with the process.
///
/// Example: `tccc top --port 443`; `tccc top --replay night.tccc`
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Time between two updates of the screen
    #[arg(long, value_name = "TIME", default_value = "500ms", value_parser = time_within(["100ms", "60s"]))]
    refresh: Duration,
    #[command(flatten)]
    source: WatchedSource,
}

impl Args {
    /// Shows the dashboard until the user quits or a signal comes.
    ///
    /// # Errors
    /// No terminal; the tracer lacks a requirement; the recording cannot be read.
    pub fn run(&self) -> Result<()> {
        if !(terminal_width().is_some() && io::stdin().is_terminal()) {
            let refusal = Failure::usage("cannot draw: this is not a terminal");
            return Err(refusal.hint("`tccc sockets` and `tccc trace` print what `tccc top` shows").into());
        }
        let stop = stop_flag()?;
        let has_colour = std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty());
        let terminal = std::env::var("TERM").unwrap_or_default();
        // The kernel's own console has no braille dots.
        let theme = Theme::new(has_colour && terminal != "dumb", terminal != "linux");
        let mut source = self.source.opener()?()?;
        view::run(source.as_mut(), ViewSettings { refresh: self.refresh, theme }, &stop)
    }
}
