//! `/metrics`, where Prometheus reads numbers.

use std::sync::Arc;

use axum::Router;
use axum::http::header;
use axum::response::IntoResponse;
use axum::routing::get;

/// Renders the current numbers.
pub type Render = Arc<dyn Fn() -> String + Send + Sync>;

/// A router that answers `/metrics` with what is rendered. Files are read for it, so that it runs
/// where others do not wait.
pub fn metrics(content_type: &'static str, render: Render) -> Router {
    let answer = move || {
        let render = render.clone();
        async move {
            let text = tokio::task::spawn_blocking(move || render()).await;
            match text {
                Ok(text) => ([(header::CONTENT_TYPE, content_type)], text).into_response(),
                Err(_) => axum::http::StatusCode::INTERNAL_SERVER_ERROR.into_response(),
            }
        }
    };
    Router::new().route("/metrics", get(answer))
}
