//! The state of the dashboard, changed by keys and by the source.

use anyhow::Result;
use ratatui::layout::Rect;

use super::theme::Theme;
use crate::trace::source::EventSource;
use shared::model::live::Live;
use shared::model::live::filter::SocketFilter;
use shared::model::live::listing::{Listing, SocketColumn};
use shared::model::live::summary::Summary;

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum View {
    #[default]
    Table,
    /// One socket over time.
    Flow(u64),
    /// Algorithms side by side.
    Summary,
}

/// Time spans of the flow view, nanoseconds.
pub(super) const SPANS_NS: [u64; 4] = [10_000_000_000, 30_000_000_000, 60_000_000_000, 120_000_000_000];

#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct ReplayPosition {
    /// Recorded seconds per second; 0 while paused.
    pub speed: f64,
    /// Time since the beginning, nanoseconds.
    pub at_ns: u64,
    pub length_ns: u64,
}

/// Areas that react to the mouse, as last drawn.
#[derive(Debug, Clone, Default)]
pub(super) struct MouseTargets {
    pub rows: Rect,
    pub headings: Vec<(SocketColumn, Rect)>,
}

#[derive(Debug, Default)]
pub struct App {
    pub(super) live: Live,
    /// The present state while the screen is frozen.
    pub(super) behind: Option<Live>,
    pub(super) theme: Theme,
    pub(super) listing: Listing,
    /// The sockets in the order of the last refresh.
    pub(super) order: Vec<u64>,
    pub(super) selected: Option<u64>,
    /// First row on the screen.
    pub(super) top: usize,
    /// Text of the filter, and why it is invalid.
    pub(super) typed: String,
    pub(super) refusal: Option<String>,
    pub(super) is_typing: bool,
    /// A name, because the order of the algorithms changes.
    pub(super) chosen_algorithm: Option<String>,
    pub(super) span: usize,
    pub(super) targets: MouseTargets,
    pub(super) title: String,
    pub(super) notices: Vec<String>,
    /// `None` for a live source.
    pub(super) replay: Option<ReplayPosition>,
    pub(super) counts_costs: bool,
    pub(super) speed_before_pause: f64,
    view: View,
    pub(super) shows_help: bool,
    pub(super) is_done: bool,
    pub(super) wants_redraw: bool,
}

impl App {
    pub fn new(theme: Theme) -> App {
        App { theme, span: 2, speed_before_pause: 1.0, ..App::default() }
    }

    /// Applies the source's waiting events. A frozen screen does not show them.
    ///
    /// # Errors
    /// The source fails.
    pub fn take_in(&mut self, source: &mut dyn EventSource) -> Result<()> {
        let live = self.behind.as_mut().unwrap_or(&mut self.live);
        source.poll(std::time::Duration::ZERO, &mut |arrival| live.apply(arrival))
    }

    /// Updates what the screen shows to the present, unless it is frozen.
    pub fn refresh(&mut self, source: &mut dyn EventSource) {
        let now_ns = source.now_ns();
        if let Some(live) = &mut self.behind {
            return live.advance(now_ns);
        }
        self.live.advance(now_ns);
        self.title = source.title();
        self.notices = source.notices();
        self.counts_costs = source.counts_costs();
        self.replay = source.playback().map(|playback| {
            let (begin, end) = playback.span_ns();
            let at_ns = now_ns.saturating_sub(begin);
            ReplayPosition { speed: playback.speed(), at_ns, length_ns: end.saturating_sub(begin) }
        });
        self.choose_algorithm();
        self.relist();
    }

    pub(super) fn toggle_freeze(&mut self, source: &mut dyn EventSource) {
        match self.behind.take() {
            Some(live) => {
                self.live = live;
                self.refresh(source);
            }
            None => {
                self.refresh(source);
                self.behind = Some(self.live.clone());
            }
        }
    }

    /// Sorts and filters the sockets again, and keeps the selection or its row.
    pub(super) fn relist(&mut self) {
        let row = self.selected_row();
        self.order = self.live.list(&self.listing);
        if self.selected_row().is_none() {
            self.select_row(row.unwrap_or(0));
        }
        self.wants_redraw = true;
    }

    pub(super) fn selected_row(&self) -> Option<usize> {
        let selected = self.selected?;
        self.order.iter().position(|socket| *socket == selected)
    }

    fn select_row(&mut self, row: usize) {
        self.selected = self.order.get(row.min(self.order.len().saturating_sub(1))).copied();
    }

    pub(super) fn move_by(&mut self, rows: isize) {
        self.select_row(self.selected_row().unwrap_or(0).saturating_add_signed(rows));
        self.wants_redraw = true;
    }

    /// Applies the filter as typed so far; an invalid one leaves the list unchanged.
    pub(super) fn apply_typed(&mut self) {
        match SocketFilter::parse(&self.typed) {
            Ok(words) => {
                (self.listing.filter, self.refusal) = (words, None);
                self.relist();
            }
            Err(refusal) => self.refusal = Some(refusal.to_string()),
        }
        self.wants_redraw = true;
    }

    /// Sorts by a column, or reverses the order if it already does.
    pub(super) fn sort_by(&mut self, column: SocketColumn) {
        let is_same = self.listing.by == column;
        self.listing.reversed = is_same && !self.listing.reversed;
        self.listing.by = column;
        self.relist();
    }

    pub(super) fn show(&mut self, view: View) {
        self.view = view;
        let held = match view {
            View::Flow(socket) => Some(socket),
            View::Table | View::Summary => None,
        };
        [Some(&mut self.live), self.behind.as_mut()].into_iter().flatten().for_each(|live| live.hold(held));
        self.choose_algorithm();
        self.wants_redraw = true;
    }

    fn choose_algorithm(&mut self) {
        if self.view == View::Summary && self.chosen_algorithm.is_none() {
            self.move_algorithm_by(0);
        }
    }

    /// Index of the chosen algorithm, or of the first one.
    pub(super) fn chosen_index(&self, summaries: &[Summary]) -> usize {
        let chosen = self.chosen_algorithm.as_deref();
        summaries.iter().position(|summary| Some(summary.algorithm) == chosen).unwrap_or(0)
    }

    pub(super) fn move_algorithm_by(&mut self, rows: isize) {
        let summaries = self.live.summaries();
        let index = self.chosen_index(&summaries).saturating_add_signed(rows);
        let chosen = summaries.get(index.min(summaries.len().saturating_sub(1)));
        self.chosen_algorithm = chosen.map(|summary| summary.algorithm.to_owned());
    }

    pub fn view(&self) -> View {
        self.view
    }
}
