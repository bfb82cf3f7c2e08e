//! Sends data from the machine while a run is alive: metrics for Prometheus and OTLP, and alerts.
//!
//! [`Levels`] is the current state of recordings; [`prometheus`] and [`otlp`] render it. A
//! [`Delivery`] sends what is offered to it on its own thread: it never blocks its caller, and
//! counts what could not be sent.

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
pub use alert::{Alert, AlertFormat};
pub use confirmation::Confirmation;
pub use delivery::{Delivered, Delivery, Policy, WhenFull};
pub use levels::Levels;
pub use recordings::Recordings;
