//! Limits on how much of a recording is sent to receivers. A recording is untrusted input and may
//! contain very long names or very many processes.

/// The longest value of a label, in characters.
const LONGEST: usize = 128;

/// Cuts a label value to at most `LONGEST` characters.
pub(crate) fn shortened(text: String) -> String {
    match text.char_indices().nth(LONGEST) {
        Some((end, _)) => {
            let kept: String = text[..end].chars().take(LONGEST - 3).collect();
            kept + "..."
        }
        None => text,
    }
}

/// The largest number of series of one metric that are sent.
pub(crate) const MOST_SERIES: usize = 1000;
