//! Renders the report of `stormlog analyze` on runs: text or Markdown for people, JSON for
//! programs.

mod json;
mod markdown;
mod text;
mod words;

pub use json::{Document, Verdict};
pub use markdown::report as to_markdown;
pub use text::{Detail, ledger as ledger_text, report as to_text};
pub use words::{cause_lines, finding_lines, note_lines};
