//! Why a picture cannot be drawn.

/// Why a picture cannot be drawn.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
#[expect(missing_docs, reason = "the messages say it")]
pub enum DrawError {
    #[error("no samples to draw")]
    NoSamples,
    #[error("no samples between the given times; the recording runs from {from} to {to}")]
    NothingInSpan { from: String, to: String },
    #[error(
        "'{0}' is no time: give seconds since the start (12.5), a duration (2m30s) or a time stamp (2026-11-15T07:02:03Z)"
    )]
    BadMoment(String),
    #[error("{width}x{height} pixels are more than a picture may have")]
    TooLarge { width: u32, height: u32 },
    #[error("cannot rasterise the drawing: {0}")]
    Raster(String),
    #[error("cannot fill the page: {0}")]
    Page(String),
}
