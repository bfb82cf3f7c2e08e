//! Pages about recordings over HTTP, for the people who have them: no account, no external asset.
//!
//! [`Binding`] and [`Server`] serve any router under the same rules (loopback or a token, a strict
//! content policy, changes from the same origin only); `stormlog track --listen` uses them too.

mod access;
mod headers;
mod metrics;
mod server;
mod token;

pub use axum::Router;

pub use metrics::{Render, metrics};
pub use server::{Binding, ServeError, Server, Stopping};
pub use token::Token;
