//! Scripts and styles, compiled into the program. The script that draws charts is the same as in
//! pages that are written to files.

use axum::extract::Path;
use axum::http::header;
use axum::response::{IntoResponse, Response};

use crate::replies::not_found;

const SCRIPT: &str = include_str!("../../assets/serve.js");
const STYLE: &str = include_str!("../../assets/serve.css");
const ICON: &str = include_str!("../../assets/icon.svg");

/// Serves a script, a style sheet or an image by its file name.
pub(crate) async fn get(Path(name): Path<String>) -> Response {
    let (kind, text) = match name.as_str() {
        "plot.js" => ("text/javascript", stormlog_report::page_script().to_owned()),
        "serve.js" => ("text/javascript", SCRIPT.to_owned()),
        "style.css" => (
            "text/css",
            format!("{}{STYLE}", stormlog_report::page_style()),
        ),
        "icon.svg" => ("image/svg+xml", ICON.to_owned()),
        _ => return not_found().await,
    };
    ([(header::CONTENT_TYPE, kind)], text).into_response()
}
