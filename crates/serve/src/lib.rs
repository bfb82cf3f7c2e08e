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
mod connections;
mod digest;
mod error;
mod events;
mod found_issues;
mod headers;
mod live;
mod machine;
mod metrics;
mod pages;
mod replies;
mod routes;
mod runs;
mod server;
mod stopping;
mod token;
mod view;

pub use axum::Router;

pub use error::ServeError;
pub use machine::Machine;
pub use metrics::{Render, metrics};
pub use routes::router;
pub use server::{Binding, Server};
pub use stopping::Stopping;
pub use token::Token;
