//! Serves pages about recordings over HTTP to the people who own the recordings; needs no account
//! and no external asset.
//!
//! [`Binding`] and [`Server`] serve any router under the same rules: access from loopback or with a
//! token, a strict content security policy, and changes only from pages of the server. `stormlog
//! track --listen` uses [`Binding`] and [`Server`] too. [`router`] serves the run browser, which
//! finds runs by their manifests, reads a run when a page shows it, and caches a bounded number of
//! drawings.

mod access;
mod app;
mod digest;
mod events;
mod headers;
mod live;
mod machine;
mod metrics;
mod pages;
mod runs;
mod server;
mod token;
mod view;

pub use axum::Router;

pub use app::router;
pub use machine::Machine;
pub use metrics::{Render, metrics};
pub use server::{Binding, ServeError, Server, Stopping};
pub use token::Token;
