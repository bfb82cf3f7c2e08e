//! Styles: the sixteen colours that every terminal has, or none of them.

use ratatui::style::{Color, Modifier, Style};
use stormlog_report::Measure;

/// Which styles may be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Palette {
    pub(crate) colours: bool,
}

impl Palette {
    fn colour(self, colour: Color) -> Style {
        if self.colours {
            Style::new().fg(colour)
        } else {
            Style::new()
        }
    }

    pub(crate) fn heading(self) -> Style {
        self.colour(Color::Cyan).add_modifier(Modifier::BOLD)
    }

    pub(crate) fn muted(self) -> Style {
        if self.colours {
            self.colour(Color::DarkGray)
        } else {
            Style::new().add_modifier(Modifier::DIM)
        }
    }

    #[expect(
        clippy::unused_self,
        reason = "a style like the others, the same in every palette"
    )]
    pub(crate) fn selected(self) -> Style {
        Style::new().add_modifier(Modifier::REVERSED)
    }

    pub(crate) fn good(self) -> Style {
        self.colour(Color::Green)
    }

    pub(crate) fn severity(self, severity: &str) -> Style {
        match severity {
            "critical" | "error" => self.colour(Color::Red).add_modifier(Modifier::BOLD),
            "warning" => self.colour(Color::Yellow),
            _ => Style::new(),
        }
    }

    /// The colour of a measure's line; the same as in pictures, as far as there are colours.
    pub(crate) fn measure(self, measure: Measure) -> Color {
        if !self.colours {
            return Color::Reset;
        }
        match measure {
            Measure::Allocated => Color::Blue,
            Measure::Reserved => Color::Yellow,
            Measure::Used => Color::Green,
            Measure::Capacity => Color::DarkGray,
            Measure::Hidden => Color::Magenta,
        }
    }
}
