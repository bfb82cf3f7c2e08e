//! The pages, one file each.

pub(crate) mod assets;
pub(crate) mod compare;
pub(crate) mod issues;
pub(crate) mod list;
pub(crate) mod run;
mod words;

use std::fmt::Write as _;

use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};

#[derive(askama::Template)]
#[template(path = "message.html")]
struct Message<'a> {
    title: &'a str,
    text: &'a str,
}

/// What is answered where nothing is.
pub(crate) async fn not_found() -> Response {
    let text = "Nothing is served under this address. The run may have been moved or deleted. \
        Right after the start, folders are still being looked through: reload in a moment.";
    message(StatusCode::NOT_FOUND, "Not found", text)
}

/// A page with one sentence.
pub(crate) fn message(status: StatusCode, title: &str, text: &str) -> Response {
    let page = crate::app::rendered(&Message { title, text });
    (status, page).into_response()
}

/// A value for an address: everything but letters, digits and a few signs as `%XX`.
fn escaped(value: &str) -> String {
    let mut out = String::new();
    for byte in value.bytes() {
        if byte.is_ascii_alphanumeric() || b"-_.~".contains(&byte) {
            out.push(char::from(byte));
        } else {
            let _ = write!(out, "%{byte:02X}");
        }
    }
    out
}
