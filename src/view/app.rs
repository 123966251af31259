//! What the dashboard shows and where the reader is in it: plain state, changed by keys and by the source.

use anyhow::Result;
use ratatui::layout::Rect;

use super::theme::Theme;
use crate::model::live::Live;
use crate::model::live::filter::SocketFilter;
use crate::model::live::listing::{Listing, SocketColumn};
use crate::model::live::summary::Summary;
use crate::trace::source::EventSource;

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum View {
    #[default]
    Table,
    /// One socket over time.
    Flow(u64),
    /// Algorithms side by side.
    Summary,
}

/// Spans of time that the view of a flow can show, nanoseconds.
pub(super) const SPANS_NS: [u64; 4] = [10_000_000_000, 30_000_000_000, 60_000_000_000, 120_000_000_000];

#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Playing {
    /// Recorded seconds per second; 0 is a pause.
    pub speed: f64,
    /// Time since the begin, nanoseconds.
    pub at_ns: u64,
    pub length_ns: u64,
}

/// Places of the screen that answer to the mouse, as they were drawn.
#[derive(Debug, Clone, Default)]
pub(super) struct Places {
    pub rows: Rect,
    pub headings: Vec<(SocketColumn, Rect)>,
}

#[derive(Debug, Default)]
pub struct App {
    pub(super) live: Live,
    /// What goes on behind a frozen picture: as much as is shown, and no more.
    pub(super) behind: Option<Live>,
    pub(super) theme: Theme,
    pub(super) listing: Listing,
    /// The sockets in their order, as of the last refresh.
    pub(super) order: Vec<u64>,
    pub(super) selected: Option<u64>,
    /// First row on the screen.
    pub(super) top: usize,
    /// Text of the filter, and why it says nothing.
    pub(super) typed: String,
    pub(super) refusal: Option<String>,
    pub(super) is_typing: bool,
    /// By its name: another may have more sockets in the next picture.
    pub(super) chosen_algorithm: Option<String>,
    pub(super) span: usize,
    pub(super) places: Places,
    pub(super) title: String,
    pub(super) notices: Vec<String>,
    pub(super) playing: Option<Playing>,
    pub(super) counts_costs: bool,
    pub(super) speed_before_pause: f64,
    pub(super) view: View,
    pub(super) shows_help: bool,
    pub(super) is_done: bool,
    pub(super) wants_redraw: bool,
}

impl App {
    /// A dashboard that has seen nothing yet.
    pub fn new(theme: Theme) -> App {
        App { theme, span: 2, speed_before_pause: 1.0, ..App::default() }
    }

    /// Takes in what the source has; a frozen picture stays while the model goes on.
    ///
    /// Errors: the source is broken.
    pub fn take_in(&mut self, source: &mut dyn EventSource) -> Result<()> {
        let live = self.behind.as_mut().unwrap_or(&mut self.live);
        source.poll(std::time::Duration::ZERO, &mut |arrival| live.apply(arrival))
    }

    /// Makes the next picture that of this moment.
    pub fn refresh(&mut self, source: &mut dyn EventSource) {
        if let Some(live) = &mut self.behind {
            return live.advance(source.now_ns());
        }
        self.live.advance(source.now_ns());
        self.title = source.title();
        self.notices = source.notices();
        self.counts_costs = source.counts_costs();
        let now = source.now_ns();
        self.playing = source.playback().map(|playback| {
            let (begin, end) = playback.span_ns();
            let at_ns = now.saturating_sub(begin);
            Playing { speed: playback.speed(), at_ns, length_ns: end.saturating_sub(begin) }
        });
        self.choose_algorithm();
        self.relist();
    }

    /// Freezes the picture as it is at this moment, or shows what went on meanwhile.
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

    /// Puts the sockets in order again; the chosen one stays chosen.
    pub(super) fn relist(&mut self) {
        let place = self.selected_place();
        self.order = self.live.list(&self.listing);
        if self.selected_place().is_none() {
            let place = place.unwrap_or(0).min(self.order.len().saturating_sub(1));
            self.selected = self.order.get(place).copied();
        }
        self.wants_redraw = true;
    }

    pub(super) fn selected_place(&self) -> Option<usize> {
        let selected = self.selected?;
        self.order.iter().position(|socket| *socket == selected)
    }

    /// Chooses the row so many below, or above.
    pub(super) fn move_by(&mut self, rows: isize) {
        let place = self.selected_place().unwrap_or(0).saturating_add_signed(rows);
        self.selected = self.order.get(place.min(self.order.len().saturating_sub(1))).copied();
        self.wants_redraw = true;
    }

    /// Reads the filter as it is typed; one that says nothing leaves the list as it was.
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

    /// Sorts by a column; by the same again turns the order round.
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

    /// Chooses the first algorithm when the reader looks at them and has chosen none.
    fn choose_algorithm(&mut self) {
        if self.view == View::Summary && self.chosen_algorithm.is_none() {
            self.chosen_algorithm = self.live.summaries().first().map(|first| first.algorithm.to_owned());
        }
    }

    /// Place of the chosen algorithm among these; the first when it is not there.
    pub(super) fn chosen_place(&self, summaries: &[Summary]) -> usize {
        let chosen = self.chosen_algorithm.as_deref();
        summaries.iter().position(|summary| Some(summary.algorithm) == chosen).unwrap_or(0)
    }

    /// Chooses the algorithm so many places below, or above.
    pub(super) fn move_algorithm_by(&mut self, places: isize) {
        let summaries = self.live.summaries();
        let place = self.chosen_place(&summaries).saturating_add_signed(places);
        let chosen = summaries.get(place.min(summaries.len().saturating_sub(1)));
        self.chosen_algorithm = chosen.map(|summary| summary.algorithm.to_owned());
    }

    /// Whether the picture stays while the model goes on.
    pub(super) fn is_frozen(&self) -> bool {
        self.behind.is_some()
    }

    pub fn view(&self) -> View {
        self.view
    }
}
