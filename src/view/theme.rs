//! Colours that people with any colour vision tell apart, and signs that need none.

use ratatui::style::{Color, Modifier, Style};
use ratatui::symbols::Marker;

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Theme {
    has_colour: bool,
    has_braille: bool,
}

/// The colours of Okabe and Ito, in the 256 that terminals have.
const BLUE: Color = Color::Indexed(32);
const ORANGE: Color = Color::Indexed(214);
const VERMILLION: Color = Color::Indexed(202);
const GREEN: Color = Color::Indexed(36);
const GREY: Color = Color::Indexed(245);

impl Theme {
    /// With or without colours; braille dots where the terminal's font has them.
    pub fn new(has_colour: bool, has_braille: bool) -> Theme {
        Theme { has_colour, has_braille }
    }

    fn colour(self, colour: Color) -> Style {
        if self.has_colour { Style::new().fg(colour) } else { Style::new() }
    }

    /// The head and the foot of the screen.
    pub fn bar(self) -> Style {
        Style::new().add_modifier(Modifier::REVERSED)
    }

    /// Names of columns and parts.
    pub fn heading(self) -> Style {
        Style::new().add_modifier(Modifier::BOLD)
    }

    /// The chosen row or column.
    pub fn chosen(self) -> Style {
        Style::new().add_modifier(Modifier::REVERSED | Modifier::BOLD)
    }

    /// Something that a reader must not miss.
    pub fn alarm(self) -> Style {
        self.colour(VERMILLION).add_modifier(Modifier::BOLD)
    }

    /// What is less important.
    pub fn faint(self) -> Style {
        if self.has_colour { Style::new().fg(GREY) } else { Style::new().add_modifier(Modifier::DIM) }
    }

    pub fn cwnd(self) -> Style {
        self.colour(BLUE)
    }

    pub fn ssthresh(self) -> Style {
        self.colour(ORANGE)
    }

    /// Round-trip times, goodput.
    pub fn measure(self) -> Style {
        self.colour(GREEN)
    }

    pub fn marker(self) -> Marker {
        if self.has_braille { Marker::Braille } else { Marker::Dot }
    }
}
