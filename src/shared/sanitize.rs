//! Makes untrusted text safe for a terminal: no character can move the cursor, change colours or ring the bell.
//!
//! Layer 0: standard library only.

/// Replaces each control character with a visible one.
pub fn plain(text: &str) -> String {
    text.chars().map(visible).collect()
}

/// Most characters of a user's text that a message repeats.
const SHOWN_CHARS: usize = 60;

/// As [`plain`], and cut for a message.
pub fn shown(text: &str) -> String {
    let mut chars = text.chars();
    let start: String = chars.by_ref().take(SHOWN_CHARS).map(visible).collect();
    if chars.next().is_some() { start + "…" } else { start }
}

/// As [`plain`], and at most `width` characters. Keeps the beginning.
pub fn cut(text: &str, width: usize) -> String {
    let text = plain(text);
    if text.chars().count() <= width {
        return text;
    }
    let kept: String = text.chars().take(width.saturating_sub(1)).collect();
    format!("{kept}…")
}

/// As [`cut`]. Keeps the end, which distinguishes paths and ports better.
pub fn cut_begin(text: &str, width: usize) -> String {
    let text = plain(text);
    let length = text.chars().count();
    if length <= width {
        return text;
    }
    let kept: String = text.chars().skip(length - width.saturating_sub(1)).collect();
    format!("…{kept}")
}

/// As [`plain`], for text of several lines.
pub fn plain_lines(text: &str) -> String {
    text.chars().map(|c| if matches!(c, '\n' | '\t') { c } else { visible(c) }).collect()
}

/// Also replaces marks that reverse the writing direction, which can make one word look like another.
fn visible(c: char) -> char {
    let turns = matches!(c, '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    if c.is_control() || turns { char::REPLACEMENT_CHARACTER } else { c }
}

/// `1 rule`, `2 rules`.
pub fn count(number: usize, noun: &str) -> String {
    format!("{number} {noun}{}", if number == 1 { "" } else { "s" })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn control_characters_become_visible() {
        assert_eq!(plain("a\u{1b}[2J\u{9b}b\n\u{202e}"), "a\u{fffd}[2J\u{fffd}b\u{fffd}\u{fffd}");
        assert_eq!(plain_lines("one\n\ttwo\r"), "one\n\ttwo\u{fffd}");
        assert_eq!(plain("Übertragung → 1 µs"), "Übertragung → 1 µs");
    }

    #[test]
    fn long_text_is_cut_and_hostile_text_is_made_plain() {
        assert_eq!((cut("abcdef", 4), cut_begin("abcdef", 4)), ("abc…".into(), "…def".into()));
        assert_eq!((cut("abcd", 4), cut("ab", 0)), ("abcd".into(), "…".into()));
        assert_eq!(cut("a\u{1b}[2J", 9), "a\u{fffd}[2J");
    }
}
