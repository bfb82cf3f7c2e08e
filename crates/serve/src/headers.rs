//! Adds security headers to every response: a page may load and run only assets of this server, and
//! must not be embedded in a frame or stored in a cache.

use axum::extract::Request;
use axum::http::header::{self, HeaderName, HeaderValue};
use axum::middleware::Next;
use axum::response::Response;

/// What a page may load: no inline script or style, nothing from other origins, no plug-in, no
/// frame.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; \
                      connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'";

const ALL: [(HeaderName, &str); 6] = [
    (header::CONTENT_SECURITY_POLICY, POLICY),
    (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
    // With the stricter policy `no-referrer`, browsers would send `Origin: null` with the forms of
    // this server, and changes would be refused.
    (header::REFERRER_POLICY, SAME_ORIGIN),
    (RESOURCE_POLICY, SAME_ORIGIN),
    (OPENER_POLICY, SAME_ORIGIN),
    // Recordings may contain names of private programs, so no response is stored in the browser's
    // cache.
    (header::CACHE_CONTROL, "no-store"),
];

const RESOURCE_POLICY: HeaderName = HeaderName::from_static("cross-origin-resource-policy");
const OPENER_POLICY: HeaderName = HeaderName::from_static("cross-origin-opener-policy");
const SAME_ORIGIN: &str = "same-origin";

/// Adds the security headers to every response, also when a request is refused.
pub(crate) async fn add(request: Request, next: Next) -> Response {
    let mut response = next.run(request).await;
    let headers = response.headers_mut();
    for (name, value) in ALL {
        // A header that the page has set itself is kept. The page of a snapshot, for example, has
        // inline script and style, and sets a policy that allows them by their hashes.
        let value = HeaderValue::from_static(value);
        headers.entry(name).or_insert(value);
    }
    response
}
