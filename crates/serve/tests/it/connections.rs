//! Clients that connect and send no request.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use axum::routing::get;
use stormlog_serve::{Binding, Router, Server, Token};

use crate::client;

fn start() -> (Server, SocketAddr) {
    let binding = Binding::bind("127.0.0.1:0", Token::random()).expect("an address");
    let at = binding.address();
    let router = Router::new().route("/", get(|| async { "page" }));
    (binding.serve(router).expect("threads"), at)
}

/// A connection on which a request was begun.
fn silent(at: SocketAddr) -> TcpStream {
    let mut stream = TcpStream::connect(at).expect("the server listens");
    stream.write_all(b"GET / HTTP/1.1\r\nHost: ").expect("sent");
    let patience = Some(Duration::from_mins(2));
    stream.set_read_timeout(patience).expect("a time-out");
    stream
}

/// Whether the server has closed the connection.
fn ends(mut stream: &TcpStream) -> bool {
    let mut all = Vec::new();
    stream.read_to_end(&mut all).is_ok_and(|_| true)
}

#[test]
fn clients_without_a_request_keep_nobody_out() {
    let (server, at) = start();
    let silent: Vec<TcpStream> = (0..300).map(|_| silent(at)).collect();
    let start = Instant::now();
    assert_eq!(client::get(at, "/").status, 200);
    // Long before the silent clients have used up their time.
    assert!(start.elapsed() < Duration::from_secs(8), "{start:?}");
    // At most 128 are open, so most were closed at once.
    assert!(silent.iter().take(150).all(ends));
    assert!(start.elapsed() < Duration::from_secs(8), "{start:?}");
    assert!(!server.is_finished());
    server.stop();
}

#[test]
fn a_client_has_seconds_to_send_its_request() {
    let (server, at) = start();
    let silent = silent(at);
    let start = Instant::now();
    assert!(ends(&silent));
    assert!(start.elapsed() > Duration::from_secs(5));
    server.stop();
}
