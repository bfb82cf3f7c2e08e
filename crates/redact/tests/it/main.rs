//! The filter as its users see it.

#![expect(clippy::unwrap_used, reason = "a test panics when it cannot continue")]

mod forms;
mod secrets;
mod survey;
