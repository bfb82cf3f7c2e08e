//! Decides for every HTTP request, before any page handles it, whether the client may read and
//! whether it may change anything.
//!
//! On a loopback address everyone on the machine may read, but only if the `Host` header names this
//! machine: a foreign page whose name was made to resolve to this machine (DNS rebinding) sends its
//! own name in `Host`. On an address other than loopback, reading requires the token. A request
//! that changes something always requires the token, and must come from a page of this server.

use std::net::{IpAddr, SocketAddr};

use axum::extract::{Request, State};
use axum::http::header::{self, HeaderMap, HeaderName, HeaderValue};
use axum::http::uri::Authority;
use axum::http::{Method, StatusCode, Uri};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};

use crate::token::Token;

/// The name of the query parameter in which a URL contains the token: `/?token=...`.
const PARAMETER: &str = "token";
const FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");

/// What decides whether a server answers a request: its token, and whether reading needs the token.
#[derive(Clone, Debug)]
pub(crate) struct Access {
    token: Token,
    open_to_readers: bool,
    /// The name of the cookie contains the port, because browsers send cookies to all ports of a
    /// host and two servers may run on one machine.
    cookie: String,
}

/// Whether the client of a request may change anything. `check` stores this value in the extensions
/// of the request, where the handlers of pages read the value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct MayChange(pub(crate) bool);

impl Access {
    pub(crate) fn new(address: SocketAddr, token: Token) -> Self {
        Self {
            token,
            open_to_readers: address.ip().is_loopback(),
            cookie: format!("stormlog-{}", address.port()),
        }
    }

    /// Whether the headers of a request contain the right token, and in which form.
    fn presented(&self, headers: &HeaderMap) -> Presented {
        let bearer =
            text(headers, &header::AUTHORIZATION).and_then(|it| it.strip_prefix("Bearer "));
        if bearer.is_some_and(|secret| self.token.is(secret.trim())) {
            return Presented::Bearer;
        }
        let cookies = headers.get_all(header::COOKIE).iter();
        let cookies = cookies.filter_map(|value| value.to_str().ok());
        let mut pairs = cookies.flat_map(|value| value.split(';'));
        let ours = pairs.any(|pair| {
            pair.trim()
                .split_once('=')
                .is_some_and(|(name, value)| name == self.cookie && self.token.is(value))
        });
        if ours {
            Presented::Cookie
        } else {
            Presented::None
        }
    }
}

/// In which form a request contains the token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Presented {
    None,
    /// The token is in a cookie, which the browser sends with every request, no matter which page
    /// caused the request.
    Cookie,
    /// The token is in a header that was set by a program that knows the token.
    Bearer,
}

/// Passes a request on to the page that handles it. Responds with status 403 if the client may not
/// read, or if the request would change something and has no token or comes from a page of another
/// server.
pub(crate) async fn check(
    State(access): State<Access>,
    mut request: Request,
    next: Next,
) -> Response {
    let headers = request.headers();
    if access.open_to_readers && !is_loopback_name(headers) {
        return refuse(
            "this server answers on localhost only; open the address that it printed when it \
             started",
        );
    }
    if let Some((secret, clean)) = token_in(request.uri()) {
        return admit(&access, &secret, &clean);
    }
    let presented = access.presented(headers);
    if presented == Presented::None && !access.open_to_readers {
        return refuse(
            "a token is needed: open the address that the server printed when it started, or send \
             it as 'Authorization: Bearer TOKEN'",
        );
    }
    let reads = [Method::GET, Method::HEAD].contains(request.method());
    if !reads {
        if presented == Presented::None {
            return refuse(
                "a change needs the token: open the address that the server printed when it started",
            );
        }
        if !is_same_origin(headers, presented) {
            return refuse("a change has to come from a page of this server");
        }
    }
    request
        .extensions_mut()
        .insert(MayChange(presented != Presented::None));
    next.run(request).await
}

/// Stores the token of a URL in a cookie and redirects to the URL without the token, so that the
/// token is neither in the browser's history nor in links that are shared.
fn admit(access: &Access, secret: &str, clean: &str) -> Response {
    if !access.token.is(secret) {
        return refuse("wrong token: the server prints a new one each time it starts");
    }
    let cookie = format!(
        "{}={}; Path=/; HttpOnly; SameSite=Strict",
        access.cookie,
        access.token.secret()
    );
    let headers = [
        (header::LOCATION, HeaderValue::from_str(clean)),
        (header::SET_COOKIE, HeaderValue::from_str(&cookie)),
    ];
    let mut response = StatusCode::SEE_OTHER.into_response();
    for (name, value) in headers {
        let Ok(value) = value else {
            return StatusCode::BAD_REQUEST.into_response();
        };
        response.headers_mut().insert(name, value);
    }
    response
}

fn refuse(why: &'static str) -> Response {
    (StatusCode::FORBIDDEN, format!("{why}\n")).into_response()
}

/// The token in the query of a URL, and the URL without the token; `None` if the URL has none.
fn token_in(uri: &Uri) -> Option<(String, String)> {
    let query = uri.query()?;
    let mut secret = None;
    let mut rest: Vec<&str> = Vec::new();
    for pair in query.split('&') {
        match pair.split_once('=') {
            Some((PARAMETER, value)) => secret = Some(value.to_owned()),
            _ => rest.push(pair),
        }
    }
    // A redirect to a path that begins with two slashes would lead to another host, so all but one
    // of the slashes are removed.
    let path = format!("/{}", uri.path().trim_start_matches('/'));
    let clean = if rest.is_empty() {
        path
    } else {
        format!("{path}?{}", rest.join("&"))
    };
    Some((secret?, clean))
}

/// Whether the `Host` header of the request is `localhost` or a loopback address.
fn is_loopback_name(headers: &HeaderMap) -> bool {
    let Some(authority) = host(headers) else {
        return false;
    };
    let name = authority.host();
    let address = name.trim_start_matches('[').trim_end_matches(']');
    name.eq_ignore_ascii_case("localhost")
        || address.parse::<IpAddr>().is_ok_and(|ip| ip.is_loopback())
}

/// Whether a request that changes something comes from a page of this server. A browser sends the
/// origin of the page with such a request, and this origin must be the server itself; a program
/// that sends the token in a header needs no origin.
fn is_same_origin(headers: &HeaderMap, presented: Presented) -> bool {
    if let Some(origin) = text(headers, &header::ORIGIN) {
        let ours = host(headers).map(|host| format!("http://{host}"));
        return ours.is_some_and(|ours| ours.eq_ignore_ascii_case(origin));
    }
    presented == Presented::Bearer || text(headers, &FETCH_SITE) == Some("same-origin")
}

fn host(headers: &HeaderMap) -> Option<Authority> {
    text(headers, &header::HOST)?.parse().ok()
}

fn text<'a>(headers: &'a HeaderMap, name: &HeaderName) -> Option<&'a str> {
    headers.get(name)?.to_str().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_token_leaves_the_address() {
        let uri: Uri = "/run/1?from=2&token=abc&to=3".parse().unwrap();
        let found = token_in(&uri);
        assert_eq!(found, Some(("abc".into(), "/run/1?from=2&to=3".into())));
        let uri: Uri = "//evil.example/?token=abc".parse().unwrap();
        assert_eq!(token_in(&uri).unwrap().1, "/evil.example/");
        assert_eq!(token_in(&"/?tokens=1".parse().unwrap()), None);
    }

    #[test]
    fn only_names_of_this_machine_are_loopback() {
        let named = |host: &str| {
            let mut headers = HeaderMap::new();
            headers.insert(header::HOST, HeaderValue::from_str(host).unwrap());
            is_loopback_name(&headers)
        };
        for ours in [
            "localhost",
            "localhost:80",
            "127.0.0.1:8",
            "127.9.9.9",
            "[::1]:8",
        ] {
            assert!(named(ours), "{ours}");
        }
        for other in [
            "evil.example",
            "localhost.evil.example",
            "10.0.0.1",
            "",
            "127.0.0.1@evil.example",
        ] {
            assert!(!named(other), "{other}");
        }
        assert!(!is_loopback_name(&HeaderMap::new()));
    }
}
