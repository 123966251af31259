//! Writes text to the screen: cut to its place, and without control characters.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::Style;

use shared::sanitize::cut;

/// Cuts text that is too long and marks it with `…`.
pub fn text(buffer: &mut Buffer, place: Rect, text: &str, style: Style) {
    if place.height > 0 && place.width > 0 {
        buffer.set_stringn(place.x, place.y, cut(text, place.width.into()), place.width.into(), style);
    }
}

/// Writes each text in its own line.
pub fn lines<T: AsRef<str>>(buffer: &mut Buffer, place: Rect, lines: impl IntoIterator<Item = (T, Style)>) {
    for (row, (line_text, style)) in lines.into_iter().enumerate() {
        text(buffer, line(place, row as u16), line_text.as_ref(), style);
    }
}

/// Aligns text at the right end of a place.
pub fn right(buffer: &mut Buffer, place: Rect, words: &str, style: Style) {
    let words = cut(words, place.width.into());
    let free = usize::from(place.width).saturating_sub(words.chars().count()) as u16;
    text(buffer, Rect { x: place.x + free, width: place.width - free, ..place }, &words, style);
}

/// One line of a place. Its height is 0 if the place has fewer lines.
pub fn line(place: Rect, row: u16) -> Rect {
    let height = u16::from(row < place.height);
    Rect { y: place.y + row.min(place.height.saturating_sub(height)), height, ..place }
}

/// The place without its first lines.
pub fn below(place: Rect, rows: u16) -> Rect {
    let rows = rows.min(place.height);
    Rect { y: place.y + rows, height: place.height - rows, ..place }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_outside_a_place_have_no_height() {
        let place = Rect::new(2, 3, 10, 2);
        assert_eq!([0, 1, 2].map(|row| line(place, row).height), [1, 1, 0]);
        assert_eq!(
            [0, 1, 5].map(|rows| below(place, rows)).map(|rest| (rest.y, rest.height)),
            [(3, 2), (4, 1), (5, 0)]
        );
    }
}
