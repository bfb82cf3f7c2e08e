//! The pages of the server, one file each.

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

/// The response for an address where no page exists.
pub(crate) async fn not_found() -> Response {
    let text = "Nothing is served under this address. The run may have been moved or deleted. \
        Right after the start, folders are still being looked through: reload in a moment.";
    message(StatusCode::NOT_FOUND, "Not found", text)
}

/// A page that contains one sentence.
pub(crate) fn message(status: StatusCode, title: &str, text: &str) -> Response {
    let page = crate::app::rendered(&Message { title, text });
    (status, page).into_response()
}

/// Escapes a value for a URL: all characters except letters, digits and a few signs become `%XX`.
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
