//! The program as people call it: real processes, real files.

mod issues;
mod query;
mod schema;
mod story;
mod support;
