//! Runs made for tests, and property tests of the whole diagnosis.

mod properties;
pub(crate) mod sketch;
