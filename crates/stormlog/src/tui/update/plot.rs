//! Handles the keys and mouse events that zoom, move or save the plot of a run's memory.

use crate::tui::effect::{Effect, PlotFormat};
use crate::tui::keys::Action;
use crate::tui::model::Model;
use crate::tui::plot::PlotView;
use stormlog_report::{DrawnTrack, Story};

pub(super) fn act(model: &mut Model, action: Action) -> Vec<Effect> {
    let Some((index, whole)) = chosen_track(model) else {
        return Vec::new();
    };
    let tracks = shown_tracks(model).len();
    let plot = &mut model.plot;
    match action {
        Action::ZoomIn => plot.zoom(whole, 0.5),
        Action::ZoomOut => plot.zoom(whole, 2.0),
        Action::ZoomReset => {
            *plot = PlotView {
                track: plot.track,
                has_all: plot.has_all,
                ..PlotView::default()
            }
        }
        Action::PanLeft => plot.pan(whole, -0.25),
        Action::PanRight => plot.pan(whole, 0.25),
        Action::CursorLeft => plot.move_cursor(whole, -1),
        Action::CursorRight => plot.move_cursor(whole, 1),
        Action::NextRank => {
            plot.track = (plot.track + 1) % tracks;
            plot.part = None;
            plot.cursor_ns = None;
        }
        Action::AllMemory => plot.has_all = !plot.has_all,
        Action::NextMark => {
            if let Some(run) = &model.run {
                let rank = run.story.tracks()[index].rank;
                let from = plot.cursor_ns.unwrap_or(i64::MIN);
                let marks_of_rank = || {
                    let marks = run.marks.iter();
                    marks.filter(|mark| mark.rank.is_none_or(|marked| marked == rank))
                };
                let next = marks_of_rank()
                    .find(|mark| mark.time_ns > from)
                    .or_else(|| marks_of_rank().next());
                if let Some(mark) = next {
                    plot.put_cursor(whole, mark.time_ns);
                    model.note = Some((false, mark.label.clone()));
                }
            }
        }
        Action::SavePng => return save_plot(model, PlotFormat::Png),
        Action::SavePage => return save_plot(model, PlotFormat::Html),
        _ => {}
    }
    Vec::new()
}

/// The indices of the tracks that match the rank filter, each with the time range of its samples.
pub(crate) fn shown_tracks(model: &Model) -> Vec<(usize, (i64, i64))> {
    let Some(run) = &model.run else {
        return Vec::new();
    };
    let tracks = run.story.tracks().iter().enumerate();
    tracks
        .filter(|(_, track)| model.ranks.keeps(track.rank))
        .filter_map(|(index, track)| Some((index, span_of(&run.story, track)?)))
        .collect()
}

/// The time range of a track in the plot; with the leading finding's quantity, if that is host memory
/// beside the track of a device.
fn span_of(story: &Story, track: &DrawnTrack) -> Option<(i64, i64)> {
    let (from, to) = track.first_and_last_ns()?;
    let leading = story.leading().filter(|_| story.leads(track));
    let other = leading.and_then(|(leading, ..)| leading.first_and_last_ns());
    let (first, last) = other.unwrap_or((from, to));
    Some((from.min(first), to.max(last)))
}

fn save_plot(model: &mut Model, format: PlotFormat) -> Vec<Effect> {
    let Some(run) = &model.run else {
        return Vec::new();
    };
    let ranks: Vec<i64> = run
        .story
        .ranks()
        .into_iter()
        .filter(|rank| model.ranks.keeps(*rank))
        .collect();
    model.note = Some((false, "drawing".into()));
    vec![Effect::SavePlot(format, model.plot.part, ranks)]
}

/// Sets the cursor of the plot; `share` is its place in the shown time range, from 0 (start) to 1
/// (end).
pub(super) fn point(model: &mut Model, share: f64) {
    if let Some((_, whole)) = chosen_track(model) {
        let at = model.plot.at_share(whole, share);
        model.plot.put_cursor(whole, at);
    }
}

/// Zooms the plot in or out; the time at `share`, from 0 (start) to 1 (end) of the shown time
/// range, keeps its place.
pub(super) fn zoom_at(model: &mut Model, share: f64, factor: f64) {
    if let Some((_, whole)) = chosen_track(model) {
        model.plot.zoom_at(whole, share, factor);
    }
}

/// Shows a rank in the plot and sets the cursor to a time, which is given on the rank's own clock.
pub(super) fn show(model: &mut Model, rank: Option<i64>, at_ns: Option<i64>) {
    let Some(run) = &model.run else {
        return;
    };
    let tracks = shown_tracks(model);
    let of = |index: usize| &run.story.tracks()[index];
    let shown = rank.and_then(|rank| tracks.iter().position(|(index, _)| of(*index).rank == rank));
    let shown = shown.unwrap_or(model.plot.track);
    let mut plot = PlotView {
        track: shown,
        ..PlotView::default()
    };
    if let (Some(at_ns), Some((index, whole))) = (at_ns, tracks.get(shown)) {
        // The time of the cursor is converted from the rank's clock to the shared clock that the
        // plot uses.
        plot.put_cursor(*whole, at_ns.saturating_add(of(*index).skew_ns));
    }
    model.plot = plot;
}

/// The index of the plotted track, with the time range of its samples.
pub(crate) fn chosen_track(model: &Model) -> Option<(usize, (i64, i64))> {
    let tracks = shown_tracks(model);
    let chosen = tracks.get(model.plot.track).or(tracks.first());
    chosen.copied()
}
