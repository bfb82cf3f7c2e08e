//! The font in which all text of charts is drawn (Roboto, part of the program), and the width of
//! text in this font.

use std::sync::LazyLock;

use skrifa::instance::{LocationRef, Size};
use skrifa::{FontRef, MetadataProvider};

/// The Roboto font under the Apache License 2.0; the README in the fonts folder names its origin.
pub(crate) const REGULAR: &[u8] = include_bytes!("../fonts/Roboto-Regular.ttf");
pub(crate) const BOLD: &[u8] = include_bytes!("../fonts/Roboto-Bold.ttf");

/// The name of the font family inside the font files.
pub(crate) const FAMILY: &str = "Roboto";

/// The font weight of a text, regular or bold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Weight {
    Regular,
    Bold,
}

/// Characters below this code have their widths in a table; all others are assumed to have a
/// typical width.
const TABLED: usize = 0x460;

struct Widths {
    /// The width of each character below [`TABLED`] as a share of the font size (one em); the index
    /// is the code of the character.
    advance: Vec<f32>,
}

impl Widths {
    fn of(font: &[u8]) -> Self {
        let typical = vec![0.56; TABLED];
        let Ok(font) = FontRef::new(font) else {
            return Self { advance: typical };
        };
        let metrics = font.glyph_metrics(Size::new(1.0), LocationRef::default());
        let charmap = font.charmap();
        let advance = (0..TABLED).map(|code| {
            let glyph = charmap.map(code as u32)?;
            metrics.advance_width(glyph)
        });
        Self {
            advance: advance.map(|width| width.unwrap_or(0.56)).collect(),
        }
    }
}

static REGULAR_WIDTHS: LazyLock<Widths> = LazyLock::new(|| Widths::of(REGULAR));
static BOLD_WIDTHS: LazyLock<Widths> = LazyLock::new(|| Widths::of(BOLD));

/// The width of a text in pixels, for a font size in pixels.
pub(crate) fn width(text: &str, size: f64, weight: Weight) -> f64 {
    let widths = match weight {
        Weight::Regular => &REGULAR_WIDTHS,
        Weight::Bold => &BOLD_WIDTHS,
    };
    let ems: f32 = text
        .chars()
        .map(|c| widths.advance.get(c as usize).copied().unwrap_or(0.8))
        .sum();
    f64::from(ems) * size
}

/// Cuts a text and adds an ellipsis so that the text fits into the width. Returns an empty text
/// when not even the ellipsis fits.
pub(crate) fn fit(text: &str, room: f64, size: f64, weight: Weight) -> String {
    if width(text, size, weight) <= room {
        return text.to_owned();
    }
    let room = room - width("…", size, weight);
    let mut used = 0.0;
    let mut short = String::new();
    for character in text.chars() {
        used += width(character.encode_utf8(&mut [0; 4]), size, weight);
        if used > room {
            break;
        }
        short.push(character);
    }
    if short.is_empty() {
        return short;
    }
    short.truncate(short.trim_end().len());
    short.push('…');
    short
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn widths_come_from_the_font() {
        let narrow = width("iiii", 10.0, Weight::Regular);
        let wide = width("MMMM", 10.0, Weight::Regular);
        assert!(narrow < 11.0 && wide > 30.0, "{narrow} {wide}");
        assert!(width("MMMM", 10.0, Weight::Bold) > wide);
    }

    #[test]
    fn text_is_cut_to_fit() {
        let short = fit("Large allocation detected", 60.0, 12.0, Weight::Regular);
        assert!(short.ends_with('…') && width(&short, 12.0, Weight::Regular) <= 60.0);
        assert_eq!(fit("abc", 2.0, 12.0, Weight::Regular), "");
    }
}
