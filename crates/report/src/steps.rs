//! Draws memory by training step: the memory in use at the end of each step, and the highest use
//! during each step. A leak is a slope in this chart, however long the steps take.

use crate::bytes::{grouped, human};
use crate::canvas::Canvas;
use crate::chart::{self, BELOW, Key, LEFT, Look, RIGHT};
use crate::error::DrawError;
use crate::lines;
use crate::measure::Measure;
use crate::scale::{Span, TimeScale, byte_ceiling, nice_step};
use crate::scene::{Area, Scene, Stroke, TextStyle};
use crate::story::Story;
use crate::theme::Theme;
use crate::timeline::MOST_PANELS;
use crate::track::DrawnTrack;

/// Height in pixels of the plot of one track.
const PANEL: u32 = 300;

pub(crate) fn draw(story: &Story, canvas: Canvas) -> Result<Scene, DrawError> {
    let span = story.shown()?;
    let theme = canvas.theme;
    let shown = tracks_of(story, span);
    let height = 130 + PANEL * shown.len().max(1) as u32;
    let subtitle = [story.subtitle()];
    let (mut scene, rest) = chart::sheet(story, canvas, height, "Memory by step", &subtitle);
    if shown.is_empty() {
        let style = TextStyle::new(13.0, theme.muted());
        let text = "no steps were recorded; 'stormlog run' records the steps of PyTorch's \
                    optimizers, other loops call stormlog.step()";
        scene.text((rest.x, rest.y + 20.0), style.fit(text, rest.width), style);
        return Ok(scene);
    }
    let plots = chart::legend(&mut scene, rest, &keys(&shown, span, theme));
    let each = plots.height / shown.len() as f64;
    // All panels have the same scale of bytes, so that they can be compared.
    let peaks = shown.iter().flat_map(|track| track.steps_within(span));
    let top = peaks.map(|step| step.peak.max(step.floor)).max();
    for (index, track) in shown.iter().enumerate() {
        let area = plots.strip(index, each);
        let name = (shown.len() > 1).then(|| story.track_name(track));
        panel(&mut scene, area, track, span, (top.unwrap_or(0), name));
    }
    Ok(scene)
}

/// The tracks to draw: the first few that have training steps in the shown time range, that of the
/// leading finding first.
pub(crate) fn tracks_of(story: &Story, span: Span) -> Vec<&DrawnTrack> {
    let with_steps = story
        .tracks
        .iter()
        .filter(|track| track.steps_within(span).len() > 1);
    let mut tracks: Vec<&DrawnTrack> = with_steps.collect();
    if let Some(focus) = &story.focus {
        tracks.sort_by_key(|track| !focus.is_of(track));
    }
    tracks.truncate(MOST_PANELS);
    tracks
}

fn keys(tracks: &[&DrawnTrack], span: Span, theme: Theme) -> Vec<Key> {
    let steps = || tracks.iter().flat_map(|track| track.steps_within(span));
    let floor = steps().map(|step| step.floor).max().unwrap_or(0);
    let peak = steps().map(|step| step.peak).max().unwrap_or(0);
    vec![
        Key {
            ink: theme.measure(Measure::Allocated),
            text: format!("in use at the end of a step (highest {})", human(floor)),
            look: Look::Line,
        },
        Key {
            ink: theme.measure(Measure::Reserved),
            text: format!(
                "peak of a step, as far as recorded (highest {})",
                human(peak)
            ),
            look: Look::Line,
        },
    ]
}

fn panel(
    scene: &mut Scene,
    area: Area,
    track: &DrawnTrack,
    span: Span,
    (top, name): (i64, Option<String>),
) {
    let above = if name.is_some() { 30.0 } else { 18.0 };
    let plot = area.inset(LEFT, above, RIGHT, BELOW);
    let steps = track.steps_within(span);
    let (Some(first), Some(last)) = (steps.first(), steps.last()) else {
        return;
    };
    let value = chart::byte_axis(scene, plot, (0.0, byte_ceiling(top as f64, 4)));
    let scale = TimeScale {
        span: Span::new(first.number, last.number),
        left: plot.x,
        width: plot.width,
    };
    let numbers: Vec<i64> = steps.iter().map(|step| step.number).collect();
    let curves = [
        (
            Measure::Reserved,
            steps.iter().map(|step| step.peak).collect::<Vec<i64>>(),
        ),
        (
            Measure::Allocated,
            steps.iter().map(|step| step.floor).collect(),
        ),
    ];
    for (measure, values) in curves {
        let pieces = lines::pieces((&numbers, &values), scale, value, i64::MAX);
        scene.lines(pieces, Stroke::solid(scene.theme.measure(measure), 1.6));
    }
    if let Some(name) = name {
        let style = TextStyle::new(12.5, scene.theme.text()).bold();
        scene.text((area.x, area.y + 12.0), name, style);
    }
    step_axis(scene, plot, scale);
}

/// Draws the x axis below a plot, with ticks at round numbers of training steps.
fn step_axis(scene: &mut Scene, plot: Area, scale: TimeScale) {
    let every = round_step(scale.span.length(), (plot.width / 90.0).round().max(2.0));
    let first = scale
        .span
        .from
        .div_euclid(every)
        .saturating_add(1)
        .saturating_mul(every);
    let numbers = std::iter::successors(Some(first), |at| at.checked_add(every));
    let ticks = numbers
        .take_while(|at| *at <= scale.span.to)
        .map(|at| (scale.x(at), grouped(at)));
    chart::x_axis(scene, plot, ticks, "step");
}

/// The distance between two ticks, 1, 2 or 5 times a power of ten, so that about `count` ticks fit
/// into `length`.
fn round_step(length: i64, count: f64) -> i64 {
    nice_step((length as f64 / count).max(1.0)) as i64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_have_round_numbers() {
        let steps = [(10, 5.0), (999, 10.0), (1_000_000, 8.0), (0, 4.0)];
        let found = steps.map(|(length, count)| round_step(length, count));
        assert_eq!(found, [2, 100, 200_000, 1]);
    }
}
