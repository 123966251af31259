//! What keys and the mouse do.

use crossterm::event::{Event, KeyCode, KeyEvent, KeyEventKind, KeyModifiers, MouseButton, MouseEvent, MouseEventKind};
use ratatui::layout::Position;

use super::app::{App, SPANS_NS, View};
use crate::trace::source::EventSource;
use shared::model::live::listing::SocketColumn;

const WHEEL_ROWS: isize = 3;
const TYPED_MAX: usize = 200;
/// Jumps in a replay, nanoseconds.
const STEP_NS: i64 = 10_000_000_000;
const LEAP_NS: i64 = 60_000_000_000;
const FASTER: f64 = 2.0;

impl App {
    pub fn answer(&mut self, event: &Event, source: &mut dyn EventSource) {
        self.wants_redraw = true;
        match event {
            Event::Key(key) if key.kind != KeyEventKind::Release => self.answer_key(*key, source),
            Event::Mouse(mouse) => self.answer_mouse(*mouse),
            _ => {}
        }
    }

    fn answer_key(&mut self, key: KeyEvent, source: &mut dyn EventSource) {
        if key.modifiers.contains(KeyModifiers::CONTROL) {
            self.is_done |= matches!(key.code, KeyCode::Char('c' | 'd'));
            return;
        }
        if self.is_typing {
            return self.type_key(key.code);
        }
        if self.shows_help {
            self.shows_help = false;
            return;
        }
        match key.code {
            KeyCode::Char('q') => self.is_done = true,
            KeyCode::Char('?') | KeyCode::F(1) => self.shows_help = true,
            KeyCode::Char('/') => {
                self.show(View::Table);
                self.is_typing = true;
            }
            KeyCode::Tab => self.show_next(),
            KeyCode::Char('t') => self.show(View::Table),
            KeyCode::Char('a') => self.show(View::Summary),
            KeyCode::Char(' ') => self.pause(source),
            KeyCode::Char('c') if self.view() == View::Summary => self.count_costs(source),
            _ if self.answer_in_replay(key.code, source) => {}
            code => match self.view() {
                View::Table => self.answer_in_table(code),
                View::Flow(_) => self.answer_in_flow(code),
                View::Summary => self.answer_in_summary(code),
            },
        }
    }

    fn answer_in_table(&mut self, code: KeyCode) {
        let page = isize::from(self.targets.rows.height.max(2) as i16 - 1);
        match code {
            KeyCode::Up | KeyCode::Char('k') => self.move_by(-1),
            KeyCode::Down | KeyCode::Char('j') => self.move_by(1),
            KeyCode::PageUp => self.move_by(-page),
            KeyCode::PageDown => self.move_by(page),
            KeyCode::Home | KeyCode::Char('g') => self.move_by(isize::MIN / 2),
            KeyCode::End | KeyCode::Char('G') => self.move_by(isize::MAX / 2),
            KeyCode::Left | KeyCode::Char('<') => self.sort_next(SocketColumn::ALL.len() - 1),
            KeyCode::Right | KeyCode::Char('>') => self.sort_next(1),
            KeyCode::Char('r') => self.sort_by(self.listing.by),
            KeyCode::Enter => self.open(),
            KeyCode::Esc if !self.typed.is_empty() => {
                self.typed.clear();
                self.apply_typed();
            }
            _ => {}
        }
    }

    fn answer_in_flow(&mut self, code: KeyCode) {
        match code {
            KeyCode::Esc | KeyCode::Enter | KeyCode::Backspace => self.show(View::Table),
            KeyCode::Char('z') => self.span = (self.span + 1) % SPANS_NS.len(),
            KeyCode::Up | KeyCode::Left | KeyCode::Char('k') => self.open_neighbour(-1),
            KeyCode::Down | KeyCode::Right | KeyCode::Char('j') => self.open_neighbour(1),
            _ => {}
        }
    }

    fn answer_in_summary(&mut self, code: KeyCode) {
        match code {
            KeyCode::Esc | KeyCode::Backspace => self.show(View::Table),
            KeyCode::Up | KeyCode::Char('k') => self.move_algorithm_by(-1),
            KeyCode::Down | KeyCode::Char('j') => self.move_algorithm_by(1),
            KeyCode::Enter => self.show_sockets_of_algorithm(),
            _ => {}
        }
    }

    fn show_sockets_of_algorithm(&mut self) {
        self.move_algorithm_by(0); // the chosen one may be gone
        if let Some(name) = &self.chosen_algorithm {
            self.typed = format!("algorithm:{name}");
            self.apply_typed();
            self.show(View::Table);
        }
    }

    fn type_key(&mut self, code: KeyCode) {
        match code {
            KeyCode::Enter => self.is_typing = false,
            KeyCode::Esc => {
                self.is_typing = false;
                self.typed.clear();
            }
            KeyCode::Backspace => drop(self.typed.pop()),
            KeyCode::Char(letter) if self.typed.len() < TYPED_MAX => self.typed.push(letter),
            _ => return,
        }
        self.apply_typed();
    }

    fn show_next(&mut self) {
        let next = match (self.view(), self.selected) {
            (View::Table, Some(socket)) => View::Flow(socket),
            (View::Table, None) | (View::Flow(_), _) => View::Summary,
            (View::Summary, _) => View::Table,
        };
        self.show(next);
    }

    fn sort_next(&mut self, columns: usize) {
        let index = SocketColumn::ALL.iter().position(|column| *column == self.listing.by).unwrap_or(0);
        self.sort_by(SocketColumn::ALL[(index + columns) % SocketColumn::ALL.len()]);
    }

    fn open(&mut self) {
        if let Some(socket) = self.selected {
            self.show(View::Flow(socket));
        }
    }

    fn open_neighbour(&mut self, rows: isize) {
        self.move_by(rows);
        self.open();
    }

    /// Pauses or continues a replay. Freezes or unfreezes the screen of a live source.
    fn pause(&mut self, source: &mut dyn EventSource) {
        match source.playback() {
            Some(playback) if playback.speed() > 0.0 => {
                self.speed_before_pause = playback.speed();
                playback.set_speed(0.0);
            }
            Some(playback) => playback.set_speed(self.speed_before_pause),
            None => return self.toggle_freeze(source),
        }
        self.refresh(source);
    }

    /// Switches the kernel's counting of callback costs on or off.
    fn count_costs(&mut self, source: &mut dyn EventSource) {
        let refusal = source.count_costs(!source.counts_costs()).err();
        self.refresh(source);
        self.counts_costs = source.counts_costs(); // even on a frozen screen
        self.notices.extend(refusal.map(|why| format!("{why:#}")));
    }

    /// Returns false without a replay, or if the key does nothing in one.
    fn answer_in_replay(&mut self, code: KeyCode, source: &mut dyn EventSource) -> bool {
        let now = source.now_ns();
        let Some(playback) = source.playback() else { return false };
        let (begin, end) = playback.span_ns();
        match code {
            KeyCode::Char('+' | '=') => playback.set_speed(playback.speed() * FASTER),
            KeyCode::Char('-') => playback.set_speed(playback.speed() / FASTER),
            KeyCode::Char('[') => playback.seek(now.saturating_add_signed(-STEP_NS)),
            KeyCode::Char(']') => playback.seek(now.saturating_add_signed(STEP_NS)),
            KeyCode::Char('{') => playback.seek(now.saturating_add_signed(-LEAP_NS)),
            KeyCode::Char('}') => playback.seek(now.saturating_add_signed(LEAP_NS)),
            KeyCode::Char(digit @ '0'..='9') => {
                let tenths = u64::from(digit.to_digit(10).unwrap_or(0));
                playback.seek(begin + end.saturating_sub(begin) / 10 * tenths);
            }
            _ => return false,
        }
        self.refresh(source);
        true
    }

    fn answer_mouse(&mut self, mouse: MouseEvent) {
        let at = Position { x: mouse.column, y: mouse.row };
        match mouse.kind {
            MouseEventKind::ScrollUp => self.scroll(-WHEEL_ROWS),
            MouseEventKind::ScrollDown => self.scroll(WHEEL_ROWS),
            MouseEventKind::Down(_) if self.shows_help => self.shows_help = false,
            MouseEventKind::Down(MouseButton::Right) if self.view() != View::Table => self.show(View::Table),
            MouseEventKind::Down(MouseButton::Left) if self.view() == View::Table => self.click(at),
            _ => {}
        }
    }

    fn scroll(&mut self, rows: isize) {
        match self.view() {
            View::Table => self.move_by(rows),
            View::Flow(_) => {}
            View::Summary => self.move_algorithm_by(rows.signum()),
        }
    }

    /// Sorts by a heading, selects a row, or opens the selected row.
    fn click(&mut self, at: Position) {
        let heading = self.targets.headings.iter().find(|(_, place)| place.contains(at)).map(|(column, _)| *column);
        if let Some(column) = heading {
            return self.sort_by(column);
        }
        if !self.targets.rows.contains(at) {
            return;
        }
        let row = self.top + usize::from(at.y - self.targets.rows.y);
        let Some(socket) = self.order.get(row).copied() else { return };
        if self.selected == Some(socket) {
            self.open();
        } else {
            self.selected = Some(socket);
        }
    }
}
