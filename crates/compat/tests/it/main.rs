//! The analyses of stormlog 0.3.9 over recordings, and who may depend on them.

mod dependents;
mod document;
