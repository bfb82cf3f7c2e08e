//! Sends data about a run to other machines while the run is active: metrics for Prometheus and
//! OTLP, and alerts.
//!
//! [`Levels`] is the current state of recordings; [`prometheus`] and [`otlp`] render it. A
//! [`Delivery`] sends request bodies on a thread of its own, never blocks its caller, and counts
//! the bodies that could not be sent.

pub mod address;
pub mod alert;
mod bounded;
pub mod confirmation;
pub mod delivery;
pub mod levels;
pub mod otlp;
pub mod prometheus;
pub mod recordings;

pub use address::{Address, AddressError};
pub use alert::{Alert, AlertDocument, AlertFormat};
pub use confirmation::Confirmation;
pub use delivery::{Delivered, Delivery, Policy, WhenFull};
pub use levels::Levels;
pub use recordings::Recordings;
