//! How handlers reply: work on threads where blocking is allowed, pages from templates, and short
//! messages.

use axum::http::StatusCode;
use axum::response::{Html, IntoResponse, Response};

/// Runs a function that reads files on a thread where blocking is allowed.
pub(crate) async fn reading<T: Send + 'static>(
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, Response> {
    tokio::task::spawn_blocking(work).await.map_err(|_| {
        let text = "this page could not be made; the server keeps running\n";
        (StatusCode::INTERNAL_SERVER_ERROR, text).into_response()
    })
}

/// Like [`reading`], for functions that return `None` when what the request asks for does not exist;
/// then the response has status 404.
pub(crate) async fn found<T: Send + 'static>(
    work: impl FnOnce() -> Option<T> + Send + 'static,
) -> Result<T, Response> {
    match reading(work).await? {
        Some(found) => Ok(found),
        None => Err(not_found().await),
    }
}

/// Renders a template as an HTTP response with an HTML page.
pub(crate) fn rendered(template: &impl askama::Template) -> Response {
    match template.render() {
        Ok(text) => Html(text).into_response(),
        Err(error) => {
            let text = format!("cannot render the page: {error}\n");
            (StatusCode::INTERNAL_SERVER_ERROR, text).into_response()
        }
    }
}

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
    let page = rendered(&Message { title, text });
    (status, page).into_response()
}
