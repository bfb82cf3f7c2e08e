//! The crate as its users see it: scripted sources, real threads, real files.

mod background;
mod bundle;
mod events;
mod recorder;
mod scripted;
