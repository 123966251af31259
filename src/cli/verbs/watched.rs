//! The event source of `top` and `serve`: the sockets of this host, or a recording.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::Result;

use super::selection::SocketSelection;
use super::trace::{parse_interval, parse_ring};
use crate::cli::output::naming;
use host::serve::MakeSource;
use host::trace::replay::Replay;
use host::trace::rules::RuleFilter;
use host::trace::watch::{Watch, WatchSettings};

#[derive(Debug, clap::Args)]
pub struct WatchedSource {
    /// Time between samples of one connection; a longer time costs less
    #[arg(long, value_name = "TIME", default_value = "500ms", value_parser = parse_interval)]
    interval: Duration,
    /// Ring buffer between kernel and reader, rounded up to a power of two
    #[arg(long, value_name = "SIZE", default_value = "8MiB", value_parser = parse_ring)]
    ring: u32,
    /// Show a recording of `tccc trace --record` instead of this host
    #[arg(
        long,
        value_name = "FILE",
        conflicts_with_all = ["interval", "ring", "port", "address", "algorithm", "cgroup", "netns"]
    )]
    pub replay: Option<PathBuf>,
    #[command(flatten)]
    pub selection: SocketSelection,
}

impl WatchedSource {
    /// Checks the options; the returned function opens the source.
    pub fn opener(&self) -> Result<MakeSource> {
        let (replay, rules) = (self.replay.clone(), self.selection.rules());
        let (interval, ring_bytes, layouts) = (self.interval, self.ring, naming::layouts());
        let settings = WatchSettings { filter: self.selection.filter()?, interval, ring_bytes, layouts };
        Ok(Box::new(move || {
            Ok(match replay {
                Some(file) => Box::new(RuleFilter::new(Replay::open(&file)?, rules)),
                None => Box::new(RuleFilter::new(Watch::start(settings)?, rules)),
            })
        }))
    }
}
