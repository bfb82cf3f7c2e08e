//! The program as a whole, on real files.

mod generated;
mod questions;
