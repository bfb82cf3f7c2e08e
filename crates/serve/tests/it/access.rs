//! Token, origin, host name and content policy.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::time::{Duration, Instant};

use axum::routing::{get, post};
use stormlog_serve::{Binding, Router, Server, Token};

use crate::client::{self, send};

/// A server with one page and one change.
fn start(address: &str) -> (Server, SocketAddr, Token) {
    let token = Token::random();
    let binding = Binding::bind(address, token.clone()).expect("an address");
    let port = binding.address().port();
    let mut stopping = binding.stopping();
    let router = Router::new()
        .route("/", get(|| async { "page" }))
        .route("/change", post(|| async { "changed" }))
        .route(
            "/endless",
            get(|| async move {
                stopping.wait().await;
                "stopped"
            }),
        );
    let server = binding.serve(router).expect("threads");
    let reached = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), port);
    (server, reached, token)
}

#[test]
fn on_loopback_pages_are_open_and_changes_are_not() {
    let (server, at, token) = start("127.0.0.1:0");
    assert_eq!(client::get(at, "/").status, 200);
    let own = format!("http://{at}");
    let cookie = format!("other=1; stormlog-{}={}", at.port(), token.secret());
    let bearer = format!("Bearer {}", token.secret());
    let change = |headers: &[(&str, &str)]| send(at, "POST /change", headers, "").status;
    assert_eq!(change(&[]), 403);
    assert_eq!(change(&[("Origin", &own)]), 403);
    assert_eq!(change(&[("Cookie", &cookie)]), 403);
    assert_eq!(
        change(&[("Cookie", &cookie), ("Origin", "http://evil.example")]),
        403
    );
    assert_eq!(change(&[("Cookie", &cookie), ("Origin", "null")]), 403);
    assert_eq!(
        change(&[("Cookie", &cookie), ("Sec-Fetch-Site", "cross-site")]),
        403
    );
    assert_eq!(change(&[("Cookie", "stormlog-1=0"), ("Origin", &own)]), 403);
    assert_eq!(change(&[("Authorization", "Bearer wrong")]), 403);
    assert_eq!(
        change(&[
            ("Authorization", &bearer),
            ("Origin", "http://evil.example")
        ]),
        403
    );
    assert_eq!(change(&[("Cookie", &cookie), ("Origin", &own)]), 200);
    assert_eq!(change(&[("Authorization", &bearer)]), 200);
    server.stop();
}

#[test]
fn any_other_address_needs_the_token_to_read() {
    let (server, at, token) = start("0.0.0.0:0");
    let refused = client::get(at, "/");
    assert_eq!(refused.status, 403);
    assert!(refused.body.contains("token"), "{}", refused.body);
    assert_eq!(client::get(at, "/nothing").status, 403);
    assert_eq!(client::get(at, "/?token=wrong").status, 403);
    let bearer = format!("Bearer {}", token.secret());
    let read = send(at, "GET /", &[("Authorization", &bearer)], "");
    assert_eq!((read.status, read.body.as_str()), (200, "page"));
    server.stop();
}

#[test]
fn the_token_moves_from_the_address_into_a_cookie() {
    let (server, at, token) = start("0.0.0.0:0");
    let admitted = client::get(at, &format!("/?filter=a&token={}", token.secret()));
    assert_eq!(admitted.status, 303);
    assert_eq!(admitted.header("location"), Some("/?filter=a"));
    let cookie = admitted.header("set-cookie").unwrap().to_owned();
    assert!(cookie.contains("HttpOnly") && cookie.contains("SameSite=Strict"));
    let pair = cookie.split(';').next().unwrap();
    assert_eq!(send(at, "GET /", &[("Cookie", pair)], "").status, 200);
    server.stop();
}

#[test]
fn a_foreign_name_of_this_machine_is_refused() {
    let (server, at, _) = start("127.0.0.1:0");
    for host in ["evil.example", "localhost.evil.example", ""] {
        assert_eq!(
            send(at, "GET /", &[("Host", host)], "").status,
            403,
            "{host}"
        );
    }
    // What a forwarded port looks like.
    assert_eq!(
        send(at, "GET /", &[("Host", "localhost:9000")], "").status,
        200
    );
    server.stop();
}

#[test]
fn every_answer_has_the_policy() {
    let (server, at, _) = start("127.0.0.1:0");
    let refused = send(at, "POST /change", &[], "");
    for answer in [client::get(at, "/"), client::get(at, "/nothing"), refused] {
        let policy = answer.header("content-security-policy").unwrap();
        assert!(policy.starts_with("default-src 'none'"), "{policy}");
        assert!(!policy.contains("unsafe"), "{policy}");
        assert_eq!(answer.header("x-content-type-options"), Some("nosniff"));
        assert_eq!(answer.header("cache-control"), Some("no-store"));
        assert_eq!(answer.header("referrer-policy"), Some("same-origin"));
        assert_eq!(answer.header("access-control-allow-origin"), None);
    }
    server.stop();
}

#[test]
fn stopping_ends_answers_that_go_on() {
    let (server, at, _) = start("127.0.0.1:0");
    let waiting = std::thread::spawn(move || client::get(at, "/endless"));
    std::thread::sleep(Duration::from_millis(200));
    let begun = Instant::now();
    server.stop();
    assert!(begun.elapsed() < Duration::from_secs(30));
    assert_eq!(waiting.join().unwrap().body, "stopped");
    assert!(std::net::TcpStream::connect(at).is_err());
}

#[test]
fn an_address_that_cannot_be_used_is_an_error() {
    let message = |address: &str| {
        let error = Binding::bind(address, Token::random()).unwrap_err();
        error.to_string()
    };
    assert!(message("nonsense").contains("HOST:PORT"));
    let (server, at, _) = start("127.0.0.1:0");
    assert_eq!(message(&at.to_string()), format!("cannot listen on {at}"));
    server.stop();
}
