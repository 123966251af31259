//! Colours that colour-blind people can distinguish.

use ratatui::style::{Color, Modifier, Style};
use ratatui::symbols::Marker;

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Theme {
    has_colour: bool,
    has_braille: bool,
}

/// The palette of Okabe and Ito, in the terminal's 256 colours.
pub const CWND: Color = Color::Indexed(32);
pub const SSTHRESH: Color = Color::Indexed(214);
/// Colour of round-trip times and goodput.
pub const MEASURE: Color = Color::Indexed(36);
const ALARM: Color = Color::Indexed(202);
const FAINT: Color = Color::Indexed(245);

/// First and last line of the screen.
pub const BAR: Style = Style::new().add_modifier(Modifier::REVERSED);
pub const HEADING: Style = Style::new().add_modifier(Modifier::BOLD);
pub const CHOSEN: Style = Style::new().add_modifier(Modifier::REVERSED.union(Modifier::BOLD));

impl Theme {
    pub fn new(has_colour: bool, has_braille: bool) -> Theme {
        Theme { has_colour, has_braille }
    }

    pub fn colour(self, colour: Color) -> Style {
        if self.has_colour { Style::new().fg(colour) } else { Style::new() }
    }

    pub fn alarm(self) -> Style {
        self.colour(ALARM).add_modifier(Modifier::BOLD)
    }

    pub fn faint(self) -> Style {
        if self.has_colour { Style::new().fg(FAINT) } else { Style::new().add_modifier(Modifier::DIM) }
    }

    pub fn marker(self) -> Marker {
        if self.has_braille { Marker::Braille } else { Marker::Dot }
    }
}
