//! What was found, for people. Knows nothing of terminals' sizes or of the network.

pub mod bytes;
pub mod escape;
pub mod issues;
pub mod time;
