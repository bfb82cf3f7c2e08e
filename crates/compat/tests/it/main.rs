//! Tests the analyses of stormlog 0.3.9 on recordings, and which crates may depend on them.

mod dependents;
mod document;
mod issues;
