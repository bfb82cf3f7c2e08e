//! Errors that occur while a chart or an HTML page is drawn.

use askama::Template;

/// Why a chart or an HTML page cannot be drawn.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
#[expect(missing_docs, reason = "the error message of a variant describes it")]
pub enum DrawError {
    #[error("no samples to draw")]
    NoSamples,
    #[error("no steps were recorded; align the runs by their start")]
    NoSteps,
    #[error("no samples in the given time range; the recording lasts from {from} to {to}")]
    NothingInSpan { from: String, to: String },
    #[error(
        "'{0}' is not a time: give seconds since the start (12.5), a duration (2m30s) or a time (2026-11-15 07:02:03 UTC)"
    )]
    BadMoment(String),
    #[error("a picture of {width}x{height} pixels is too large to draw")]
    TooLarge { width: u32, height: u32 },
    #[error("cannot rasterize the drawing: {0}")]
    Raster(String),
    #[error("cannot render the page: {0}")]
    Page(String),
}

/// Renders a page or a part of a page from its template.
pub(crate) fn rendered(page: &impl Template) -> Result<String, DrawError> {
    let rendered = page.render();
    rendered.map_err(|error| DrawError::Page(error.to_string()))
}
