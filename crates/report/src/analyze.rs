//! A report on runs: for people as text or Markdown, for programs as JSON.

mod json;
mod markdown;
mod text;
mod words;

pub use json::{end, finding, report as to_json, resources};
pub use markdown::report as to_markdown;
pub use text::{ledger as ledger_text, report as to_text};
pub use words::{cause_lines, note_line};
