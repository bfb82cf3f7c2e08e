//! What the pictures and pages show, read back from their pixels and their text.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod allocator;
mod pages;
mod pixels;
mod sessions;
mod words;
