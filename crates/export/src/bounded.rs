//! Limits on how much of a recording is sent to receivers. A recording is untrusted input and may
//! contain very long names or very many processes.

/// The largest number of characters in the value of a metric's label.
const MOST_CHARACTERS: usize = 128;

/// Cuts a label value to at most [`MOST_CHARACTERS`] characters; a value that was cut ends with
/// `...`.
pub(crate) fn shortened(text: String) -> String {
    match text.char_indices().nth(MOST_CHARACTERS) {
        Some((end, _)) => {
            let kept: String = text[..end].chars().take(MOST_CHARACTERS - 3).collect();
            kept + "..."
        }
        None => text,
    }
}

/// The largest number of series that are sent for one metric. A series is one value with its
/// labels.
pub(crate) const MOST_SERIES: usize = 1000;
