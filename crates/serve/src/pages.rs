//! The pages of `stormlog serve`, one file each.

pub(crate) mod assets;
pub(crate) mod compare;
pub(crate) mod issues;
pub(crate) mod list;
pub(crate) mod run;
mod words;

use std::fmt::Write as _;

/// Escapes a value for a URL: all characters except letters, digits and a few signs become `%XX`.
fn escaped(value: &str) -> String {
    let mut out = String::new();
    for byte in value.bytes() {
        if byte.is_ascii_alphanumeric() || b"-_.~".contains(&byte) {
            out.push(char::from(byte));
        } else {
            let _ = write!(out, "%{byte:02X}");
        }
    }
    out
}
