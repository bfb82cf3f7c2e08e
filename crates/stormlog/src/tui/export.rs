//! Writes the events and plots of the terminal UI to files with the time in their names.

use std::path::{Path, PathBuf};

use jiff::Zoned;
use stormlog_analysis::Events;
use stormlog_format::Event;
use stormlog_report::{Canvas, PictureKind, Story, Theme, draw, html_page, to_png};

use super::effect::PlotFormat;
use crate::export::{EventFormat, EventWriter};
use crate::whole_file::{write_in_pieces, write_whole};

/// Writes events to `exports/tracker_events_<time>.<format>` in a folder, and returns the path of
/// the new file.
pub(crate) fn events(
    folder: &Path,
    events: &[Event],
    format: EventFormat,
) -> anyhow::Result<PathBuf> {
    let extension = match format {
        EventFormat::Json => "json",
        EventFormat::Jsonl => "jsonl",
        EventFormat::Csv => "csv",
    };
    let path = target(folder, "exports", "tracker_events", extension);
    write_in_pieces(&path, |out| {
        let mut writer = EventWriter::new(format, out);
        writer.write(&Events::from_events(events))?;
        writer.finish()?;
        Ok(())
    })?;
    Ok(path)
}

/// Draws the chart of a run to `visualizations/timeline_<time>.<format>` in a folder, and returns
/// the path of the new file.
pub(crate) fn plot(folder: &Path, story: &Story, format: PlotFormat) -> anyhow::Result<PathBuf> {
    let kind = if story.tracks().len() > 1 {
        PictureKind::Ranks
    } else {
        PictureKind::Timeline
    };
    let (bytes, extension) = match format {
        PlotFormat::Png => {
            let scene = draw(story, kind, Canvas::default())?;
            (to_png(&scene, 2.0)?, "png")
        }
        PlotFormat::Html => (html_page(story, kind, Theme::System)?.into_bytes(), "html"),
    };
    let path = target(folder, "visualizations", "timeline", extension);
    write_whole(&path, &bytes)?;
    Ok(path)
}

fn target(folder: &Path, name: &str, stem: &str, extension: &str) -> PathBuf {
    let stamp = Zoned::now().strftime("%Y%m%d_%H%M%S").to_string();
    folder
        .join(name)
        .join(format!("{stem}_{stamp}.{extension}"))
}
