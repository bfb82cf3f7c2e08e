//! Renders the comparison of two runs: text or Markdown for people, annotations for GitHub, JSON
//! for programs.

mod github;
mod json;
mod markdown;
mod page;
mod text;
mod words;

pub use github::comparison as to_github;
pub use json::Document;
pub use markdown::comparison as to_markdown;
pub use page::{sections, verdict};
pub use text::comparison as to_text;
pub use words::unjudged_gates;
