//! Bounds on what a recording can make us send: it is hostile input.

/// The longest value of a label, in characters.
const LONGEST: usize = 128;

/// A text cut to the longest that is sent.
pub(crate) fn shortened(text: String) -> String {
    match text.char_indices().nth(LONGEST) {
        Some((end, _)) => {
            let kept: String = text[..end].chars().take(LONGEST - 3).collect();
            kept + "..."
        }
        None => text,
    }
}

/// Series of one metric that are sent at most.
pub(crate) const MOST_SERIES: usize = 1000;
