//! What the dashboard shows and where the reader is in it: plain state, changed by keys and by the source.

use anyhow::Result;
use ratatui::layout::Rect;

use super::theme::Theme;
use crate::model::live::Live;
use crate::model::live::filter::Words;
use crate::model::live::listing::{Column, Listing};
use crate::trace::source::Source;

/// What is on the screen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum View {
    /// Every socket.
    Table,
    /// One socket over time.
    Flow(u64),
    /// Algorithms side by side.
    Summary,
}

/// Spans of time that the view of a flow can show, nanoseconds.
pub(super) const SPANS_NS: [u64; 4] = [10_000_000_000, 30_000_000_000, 60_000_000_000, 120_000_000_000];

/// Where a replay is.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Playing {
    /// Recorded seconds per second; 0 is a pause.
    pub speed: f64,
    /// Time since the begin, nanoseconds.
    pub at_ns: u64,
    /// Length, nanoseconds.
    pub length_ns: u64,
}

/// Places of the screen that answer to the mouse, as they were drawn.
#[derive(Debug, Clone, Default)]
pub(super) struct Places {
    pub rows: Rect,
    /// Column and place of its heading.
    pub headings: Vec<(Column, Rect)>,
}

/// The state of the dashboard.
#[derive(Debug)]
pub struct App {
    pub(super) live: Live,
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
    pub(super) chosen_algorithm: usize,
    pub(super) span: usize,
    pub(super) places: Places,
    pub(super) title: String,
    pub(super) notices: Vec<String>,
    pub(super) playing: Option<Playing>,
    pub(super) counts_costs: bool,
    pub(super) speed_before_pause: f64,
    pub(super) view: View,
    pub(super) is_frozen: bool,
    pub(super) shows_help: bool,
    pub(super) is_done: bool,
    pub(super) wants_redraw: bool,
}

impl App {
    /// A dashboard that has seen nothing yet.
    pub fn new(theme: Theme) -> App {
        App {
            live: Live::default(),
            theme,
            listing: Listing::default(),
            order: Vec::new(),
            selected: None,
            top: 0,
            typed: String::new(),
            refusal: None,
            is_typing: false,
            chosen_algorithm: 0,
            span: 2,
            places: Places::default(),
            title: String::new(),
            notices: Vec::new(),
            playing: None,
            counts_costs: false,
            speed_before_pause: 1.0,
            view: View::Table,
            is_frozen: false,
            shows_help: false,
            is_done: false,
            wants_redraw: false,
        }
    }

    /// Takes in what the source has; a frozen picture stays while the model goes on.
    ///
    /// Errors: the source is broken.
    pub fn take_in(&mut self, source: &mut dyn Source) -> Result<()> {
        source.poll(std::time::Duration::ZERO, &mut |arrival| self.live.apply(arrival))
    }

    /// Makes the next picture that of this moment.
    pub fn refresh(&mut self, source: &mut dyn Source) {
        if self.is_frozen {
            return;
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
        self.relist();
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

    /// Row of the chosen socket.
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
        match Words::parse(&self.typed) {
            Ok(words) => {
                (self.listing.words, self.refusal) = (words, None);
                self.relist();
            }
            Err(refusal) => self.refusal = Some(refusal.to_string()),
        }
        self.wants_redraw = true;
    }

    /// Sorts by a column; by the same again turns the order round.
    pub(super) fn sort_by(&mut self, column: Column) {
        let is_same = self.listing.by == column;
        self.listing.reversed = is_same && !self.listing.reversed;
        self.listing.by = column;
        self.relist();
    }

    /// Shows another view.
    pub(super) fn show(&mut self, view: View) {
        self.view = view;
        self.live.hold(match view {
            View::Flow(socket) => Some(socket),
            View::Table | View::Summary => None,
        });
        self.wants_redraw = true;
    }

    /// What is on the screen.
    pub fn view(&self) -> View {
        self.view
    }

    /// Whether the help lies over it.
    pub fn shows_help(&self) -> bool {
        self.shows_help
    }

    /// Whether the reader left.
    pub fn is_done(&self) -> bool {
        self.is_done
    }

    /// Whether something changed that should be seen at once; asked once.
    pub fn take_redraw(&mut self) -> bool {
        std::mem::take(&mut self.wants_redraw)
    }
}
