//! What is fuzzed, and the corpus that is kept of it.

pub mod corpus;
pub mod targets;
