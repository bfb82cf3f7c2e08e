//! The server as a client on the network sees it.

mod access;
mod client;
mod connections;
mod pages;
