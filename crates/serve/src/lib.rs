//! Pages about recordings over HTTP, for the people who have them: no account, no external asset.
//!
//! [`Binding`] and [`Server`] serve any router under the same rules (loopback or a token, a strict
//! content policy, changes from the same origin only); `stormlog track --listen` uses them too.
//! [`router`] is the run browser: it finds runs by their manifests, reads them when they are looked
//! at, and keeps a bounded number of drawings.

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
