//! Draws the pictures that `--visualization` adds to the report of `analyze`.

use std::path::{Path, PathBuf};

use stormlog_analysis::Loaded;
use stormlog_analysis::analyze::Report;
use stormlog_report::{Canvas, PictureKind, Story, Theme, draw, html_page, to_png};

use crate::whole_file::write_whole;

/// The number of PNG pixels per pixel of the drawing, in each direction; with 2, the picture is
/// sharp when printed.
const SCALE: f32 = 2.0;

/// The content of the chart for the first run of a report: its memory use over time, and marks for
/// its findings. `None` if the run has no samples; if a `rank` is given, only that rank is drawn.
pub(crate) fn story_of(loaded: &[Loaded], report: &Report, rank: Option<i64>) -> Option<Story> {
    let mut story = Story::of_report(report.runs.first()?, loaded);
    if let Some(rank) = rank {
        story.keep_ranks(|other| other == rank);
    }
    (story.samples() > 0).then_some(story)
}

/// Writes the timeline as a PNG picture and as an HTML page; returns the paths of both files.
pub(crate) fn write_timeline(story: &Story, folder: &Path) -> anyhow::Result<Vec<PathBuf>> {
    let picture = write_picture(story, PictureKind::Timeline, folder, "timeline.png")?;
    let page = folder.join("timeline.html");
    let text = html_page(story, PictureKind::Timeline, Theme::System)?;
    write_whole(&page, text.as_bytes())?;
    Ok(vec![picture, page])
}

/// Draws a chart and writes it as a PNG picture to `folder`; returns the path of the picture.
pub(crate) fn write_picture(
    story: &Story,
    kind: PictureKind,
    folder: &Path,
    name: &str,
) -> anyhow::Result<PathBuf> {
    let file = folder.join(name);
    let scene = draw(story, kind, Canvas::default())?;
    write_whole(&file, &to_png(&scene, SCALE)?)?;
    Ok(file)
}
