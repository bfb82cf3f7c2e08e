//! The size and the colours of a chart.

use crate::theme::Theme;

/// The size and the colour theme of a chart.
#[derive(Clone, Copy, Debug)]
pub struct Canvas {
    /// Width in pixels.
    pub width: u32,
    /// Height in pixels; `None` means the height that the kind of chart needs.
    pub height: Option<u32>,
    /// The colour theme, light or dark.
    pub theme: Theme,
}

impl Default for Canvas {
    fn default() -> Self {
        Self {
            width: 1000,
            height: None,
            theme: Theme::Light,
        }
    }
}
