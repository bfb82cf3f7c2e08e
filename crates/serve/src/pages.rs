//! The pages of `stormlog serve`, one file each.

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

/// The response with status 404 for a URL where no page exists, or whose run does not exist.
pub(crate) async fn not_found() -> Response {
    let text = "Nothing is served under this address. The run may have been moved or deleted. \
        Right after its start, the server is still searching its folders: reload in a moment.";
    message(StatusCode::NOT_FOUND, "Not found", text)
}

/// A page that shows only a title and a short text, such as an error message.
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
