//! The crate as its users see it, on real files and with real processes.

mod background;
mod crash;
mod events;
mod full_disk;
mod neighbours;
mod process;
mod round_trip;
mod sink;
