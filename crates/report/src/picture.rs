//! The kinds of charts, and drawing a story as one of them.

use stormlog_format::names;

use crate::canvas::Canvas;
use crate::error::DrawError;
use crate::scene::Scene;
use crate::story::Story;
use crate::{dashboard, gap, heatmap, ranks, steps, timeline};

/// The kind of a chart: what it shows and how.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PictureKind {
    /// The memory of each rank over time in a plot of its own, with alerts and findings as marks.
    #[default]
    Timeline,
    /// The memory of all ranks in one plot, with times on a shared clock.
    Ranks,
    /// The memory of ranks over time as a heat map, with one row per rank.
    Heatmap,
    /// Hidden memory alone: device memory in use outside the framework's allocator.
    Gap,
    /// The memory in use at the end of each training step, and the highest use during each step.
    Steps,
    /// Several plots of the other kinds below each other, with the verdict.
    Dashboard,
}

names!(PictureKind {
    Timeline => "timeline",
    Ranks => "ranks",
    Heatmap => "heatmap",
    Gap => "gap",
    Steps => "steps",
    Dashboard => "dashboard",
});

/// Draws a story as a chart of the given kind; fails if the story has no samples.
pub fn draw(story: &Story, kind: PictureKind, canvas: Canvas) -> Result<Scene, DrawError> {
    if story.tracks.is_empty() {
        return Err(DrawError::NoSamples);
    }
    let canvas = Canvas {
        width: canvas.width.clamp(320, 16_384),
        height: canvas.height.map(|height| height.clamp(200, 16_384)),
        ..canvas
    };
    match kind {
        PictureKind::Timeline => timeline::draw(story, canvas),
        PictureKind::Ranks => ranks::draw(story, canvas),
        PictureKind::Heatmap => heatmap::draw(story, canvas),
        PictureKind::Gap => gap::draw(story, canvas),
        PictureKind::Steps => steps::draw(story, canvas),
        PictureKind::Dashboard => dashboard::draw(story, canvas),
    }
}
