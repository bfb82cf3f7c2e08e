//! The crate as its users see it, on real files.

mod background;
mod events;
