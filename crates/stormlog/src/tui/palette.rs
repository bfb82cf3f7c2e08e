//! Text styles with the sixteen colours that every terminal has, or without colours.

use ratatui::style::{Color, Modifier, Style};
use stormlog_report::Measure;

/// The pen with which a curve is drawn: its colour and its dots. On a terminal without colours,
/// curves are distinguished by dotted lines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Pen {
    pub(crate) colour: Color,
    /// The curve is drawn in every n-th column of the plot, and this is n: with 1 the line is
    /// solid, with a larger number it is dotted.
    pub(crate) every: usize,
}

impl Pen {
    /// The symbol in front of a curve's name in the legend: a short piece of its solid or dotted
    /// line.
    pub(crate) fn sample(self) -> &'static str {
        match self.every {
            1 => "━",
            2 => "╍",
            _ => "┈",
        }
    }
}

/// The text styles of the interface, with or without colours.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
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
        reason = "callers use this style like the other styles, which depend on the palette"
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

    /// The style for a level of memory use or for the most severe finding; `fine` stands for none.
    pub(crate) fn level(self, level: &str) -> Style {
        match level {
            "fine" => self.good(),
            severity => self.severity(severity),
        }
    }

    /// The pen for the curve of a measure. The colour of the pen is similar to that of the measure
    /// in PNG and HTML charts.
    pub(crate) fn pen(self, measure: Measure) -> Pen {
        let (colour, every) = match measure {
            Measure::Allocated => (Color::Blue, 6),
            Measure::Reserved => (Color::Yellow, 2),
            Measure::Used => (Color::Green, 1),
            Measure::Capacity => (Color::DarkGray, 8),
            Measure::Others => (Color::Gray, 7),
            Measure::Hidden | Measure::Own => (Color::Magenta, 4),
        };
        if self.colours {
            Pen { colour, every: 1 }
        } else {
            Pen {
                colour: Color::Reset,
                every,
            }
        }
    }

    /// The colour of a severity, for lines in a plot; unlike text, a line has a colour but no text
    /// style.
    pub(crate) fn severity_colour(self, severity: &str) -> Color {
        self.severity(severity).fg.unwrap_or(if self.colours {
            Color::DarkGray
        } else {
            Color::Reset
        })
    }
}
