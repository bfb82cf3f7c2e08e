//! Parts that all charts share: heading, axes, grid, legend, bands for phases.

use crate::bytes::human;
use crate::canvas::Canvas;
use crate::measure::Measure;
use crate::story::Story;
use stormlog_format::human_duration;

use crate::phase::Phase;
use crate::scale::{Span, Tick, TimeScale, ValueScale, byte_ticks, time_ticks};
use crate::scene::{Anchor, Area, Scene, Stroke, TextStyle};
use crate::theme::{Ink, Theme};
use crate::time;

/// Space in pixels left of the plot for the numbers of the y axis.
pub(crate) const LEFT: f64 = 64.0;
pub(crate) const RIGHT: f64 = 20.0;
/// Space in pixels below the plot for the numbers and the name of the x axis.
pub(crate) const BELOW: f64 = 44.0;
/// Height in pixels of one row of phase bands above the plot.
const PHASE_ROW: f64 = 16.0;
/// The largest number of rows of phase bands. More deeply nested phases are not drawn.
const PHASE_ROWS: usize = 3;
/// The layout of the verdict, the text below the heading that states what was found in a run: the
/// size of the text in pixels, and the height of a row in pixels.
const VERDICT: f64 = 13.0;
const VERDICT_ROW: f64 = 17.0;
/// Size in pixels of the text of the heading, and the height of one of its rows.
const HEADING: f64 = 18.0;
const HEADING_ROW: f64 = 23.0;
/// Height in pixels of a row of the texts below the heading.
const SUBTITLE_ROW: f64 = 16.0;

/// Starts a picture with the heading and the verdict of a story (the content of a chart); returns
/// the area below them. If the canvas sets no height, the picture is as high as `height` plus the
/// height of the verdict and of the further rows of the heading.
pub(crate) fn sheet(
    story: &Story,
    canvas: Canvas,
    height: u32,
    title: &str,
    subtitle: &[String],
) -> (Scene, Area) {
    let theme = canvas.theme;
    let width = f64::from(canvas.width);
    let verdict = story.verdict.as_ref().map(|(severity, text)| {
        let style = TextStyle::new(VERDICT, theme.severity(*severity)).bold();
        let lines = wrapped(text, style, width - 48.0, usize::MAX);
        (style, text, lines)
    });
    let taken = verdict
        .as_ref()
        .map_or(0.0, |(_, _, lines)| lines.len() as f64 * VERDICT_ROW + 12.0);
    let title = story.heading(title);
    let rows = heading_lines(&title, theme, width - 48.0).len() - 1;
    let subtitles: usize = subtitle
        .iter()
        .map(|line| subtitle_lines(line, theme, width - 48.0).len() - 1)
        .sum();
    let taken = taken + rows as f64 * HEADING_ROW + subtitles as f64 * SUBTITLE_ROW;
    let height = canvas.height.unwrap_or(height + taken as u32);
    let mut scene = Scene::new(canvas.width, height, theme);
    scene.zero_ns = story.start_ns();
    let page = Area::new(0.0, 0.0, width, f64::from(height)).inset(24.0, 18.0, 24.0, 14.0);
    let mut y = heading(&mut scene, page, &title, subtitle);
    if let Some((style, text, lines)) = verdict {
        // The verdict is drawn 8 pixels higher, because the heading leaves more space below it than
        // is needed.
        y -= 8.0;
        for line in lines {
            y += VERDICT_ROW;
            scene.text((page.x, y), line, style);
        }
        scene.description = format!("{}. {text}", scene.description);
        y += 12.0;
    }
    (scene, page.below(y))
}

/// Draws the heading and the subtitle of a chart; returns the y position below them.
pub(crate) fn heading(scene: &mut Scene, area: Area, title: &str, subtitle: &[String]) -> f64 {
    let style = TextStyle::new(HEADING, scene.theme.text()).bold();
    let mut y = area.y + 18.0 - HEADING_ROW;
    for line in heading_lines(title, scene.theme, area.width) {
        y += HEADING_ROW;
        scene.text((area.x, y), line, style);
    }
    y += 4.0;
    let style = TextStyle::new(12.0, scene.theme.muted());
    for line in subtitle {
        for line in subtitle_lines(line, scene.theme, area.width) {
            y += SUBTITLE_ROW;
            scene.text((area.x, y), line, style);
        }
    }
    scene.description = format!("{title}. {}", subtitle.join(". "));
    y + 12.0
}

fn heading_lines(title: &str, theme: Theme, width: f64) -> Vec<String> {
    let style = TextStyle::new(HEADING, theme.text()).bold();
    wrapped_or_empty(title, style, width)
}

fn subtitle_lines(line: &str, theme: Theme, width: f64) -> Vec<String> {
    wrapped_or_empty(line, TextStyle::new(12.0, theme.muted()), width)
}

/// The lines of a text, at least one; a text that fits stays as it is.
fn wrapped_or_empty(text: &str, style: TextStyle, width: f64) -> Vec<String> {
    if text.is_empty() || style.width(text) <= width {
        return vec![text.to_owned()];
    }
    wrapped(text, style, width, usize::MAX)
}

/// Wraps a text into at most `most` lines; text that does not fit into them is cut.
pub(crate) fn wrapped(text: &str, style: TextStyle, width: f64, most: usize) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    let mut words = text.split_whitespace().peekable();
    while words.peek().is_some() {
        if lines.len() + 1 == most {
            let rest: Vec<&str> = words.collect();
            lines.push(style.fit(&rest.join(" "), width));
            break;
        }
        let mut line = words.next().unwrap_or_default().to_owned();
        while let Some(word) = words.peek() {
            let longer = format!("{line} {word}");
            if style.width(&longer) > width {
                break;
            }
            line = longer;
            words.next();
        }
        lines.push(style.fit(&line, width));
    }
    lines
}

/// An entry of a chart's legend: a colour sample and its text.
pub(crate) struct Key {
    pub(crate) ink: Ink,
    pub(crate) text: String,
    pub(crate) look: Look,
}

/// How the colour sample of a legend entry is drawn.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Look {
    Line,
    Dashed,
    Patch,
}

/// Draws a legend at the top of the area, in as many rows as it needs; returns the area below it.
pub(crate) fn legend(scene: &mut Scene, area: Area, keys: &[Key]) -> Area {
    let style = TextStyle::new(12.5, scene.theme.text());
    let (mut x, mut y) = (area.x, area.y + 12.0);
    for key in keys {
        let width = 28.0 + style.width(&key.text) + 20.0;
        if x > area.x && x + width - 20.0 > area.right() {
            x = area.x;
            y += 19.0;
        }
        match key.look {
            Look::Patch => scene.rounded(Area::new(x, y - 10.0, 22.0, 11.0), key.ink, 2.0),
            look => scene.line(
                (x, y - 4.0),
                (x + 22.0, y - 4.0),
                Stroke {
                    ink: key.ink,
                    width: 2.5,
                    dashed: look == Look::Dashed,
                },
            ),
        }
        let text = style.fit(&key.text, area.right() - x - 28.0);
        scene.text((x + 28.0, y), text, style);
        x += width;
    }
    if keys.is_empty() {
        area
    } else {
        area.below(y + 10.0)
    }
}

/// Draws the background of the plot, the y axis with amounts in bytes, and its grid; returns the
/// scale of the y axis. The unit of an axis that does not start at zero says so.
pub(crate) fn byte_axis(scene: &mut Scene, plot: Area, range: (f64, f64)) -> ValueScale {
    let scale = ValueScale {
        low: range.0,
        high: range.1,
        top: plot.y,
        height: plot.height,
    };
    scene.rect(plot, scene.theme.panel());
    let count = (plot.height / 46.0).round().clamp(2.0, 8.0) as usize;
    let (ticks, unit) = byte_ticks(range.0, range.1, count);
    let style = TextStyle::new(12.0, scene.theme.muted()).anchored(Anchor::End);
    let mut rules = Vec::new();
    for tick in ticks {
        let y = scale.y(tick.value as i64);
        rules.push(vec![(plot.x, y), (plot.right(), y)]);
        scene.text((plot.x - 8.0, y + 4.0), tick.text, style);
    }
    scene.lines(rules, Stroke::solid(scene.theme.grid(), 1.0));
    let middle = plot.y + plot.height / 2.0;
    let style = TextStyle::new(12.0, scene.theme.muted()).anchored(Anchor::Middle);
    let unit = if range.0 > 0.0 {
        format!("{unit}, not from 0")
    } else {
        unit.to_owned()
    };
    scene.text((plot.x - 50.0, middle), unit, style.upwards());
    scale
}

/// Draws the time axis below a plot. The ticks count from the start of the run, which is printed
/// below them.
pub(crate) fn time_axis(scene: &mut Scene, plot: Area, span: Span) {
    let scale = time_scale(plot, span);
    let count = (plot.width / 90.0).round().clamp(2.0, 14.0) as usize;
    let zero_ns = scene.zero_ns.unwrap_or(span.from);
    let (ticks, unit) = time_ticks(span, zero_ns, count);
    let x = |tick: &Tick| scale.x(zero_ns.saturating_add(tick.value as i64));
    let ticks = ticks.into_iter().map(|tick| (x(&tick), tick.text));
    let name = match unit {
        "s" => "seconds".to_owned(),
        unit => format!("time ({unit})"),
    };
    let name = format!("{name} since {}", time::moment(zero_ns));
    x_axis(scene, plot, ticks, &name);
}

/// Draws the x axis below a plot: its line, its ticks (each with its x position and its text), and
/// its name.
pub(crate) fn x_axis(
    scene: &mut Scene,
    plot: Area,
    ticks: impl Iterator<Item = (f64, String)>,
    name: &str,
) {
    let style = TextStyle::new(12.0, scene.theme.muted()).anchored(Anchor::Middle);
    let mut marks = vec![vec![(plot.x, plot.bottom()), (plot.right(), plot.bottom())]];
    for (x, text) in ticks {
        marks.push(vec![(x, plot.bottom()), (x, plot.bottom() + 5.0)]);
        scene.text((x, plot.bottom() + 19.0), text, style);
    }
    scene.lines(marks, Stroke::solid(scene.theme.axis(), 1.0));
    let centre = plot.x + plot.width / 2.0;
    let name = style.fit(name, plot.width);
    scene.text((centre, plot.bottom() + 37.0), name, style);
}

pub(crate) fn time_scale(plot: Area, span: Span) -> TimeScale {
    TimeScale {
        span,
        left: plot.x,
        width: plot.width,
    }
}

/// Shades the sampling gaps (times without samples) in the plot.
pub(crate) fn sampling_gaps(scene: &mut Scene, plot: Area, span: Span, gaps: &[Span]) {
    let scale = time_scale(plot, span);
    let style = TextStyle::new(11.0, scene.theme.muted()).anchored(Anchor::Middle);
    for gap in gaps {
        let (left, right) = (
            scale.x(gap.from).max(plot.x),
            scale.x(gap.to).min(plot.right()),
        );
        if right - left < 1.0 {
            continue;
        }
        let area = Area::new(left, plot.y, right - left, plot.height);
        scene.rect(area, scene.theme.muted().with_opacity(0.12));
        let text = format!("no samples, {}", human_duration(gap.length()));
        if style.width(&text) + 8.0 < area.width {
            let centre = left + area.width / 2.0;
            scene.text((centre, plot.y + plot.height / 2.0), text, style);
        }
    }
}

/// The height in pixels of all rows of phase bands above a plot; 0 if there are no phases.
pub(crate) fn phases_height(phases: &[Phase]) -> f64 {
    let deepest = phases.iter().map(|phase| phase.depth).max();
    deepest.map_or(0.0, |depth| {
        (depth.min(PHASE_ROWS - 1) + 1) as f64 * PHASE_ROW + 4.0
    })
}

/// Draws phases as named bands in rows above the plot, and tints the plot below the bands of the
/// outermost phases.
pub(crate) fn phase_bands(scene: &mut Scene, plot: Area, span: Span, phases: &[Phase]) {
    let scale = time_scale(plot, span);
    let top = plot.y - phases_height(phases);
    let mut names: Vec<&str> = Vec::new();
    let style = TextStyle::new(11.0, scene.theme.text());
    for band in bands_of(phases, scale) {
        let index = names.iter().position(|name| *name == band.name);
        let index = index.unwrap_or_else(|| {
            names.push(band.name);
            names.len() - 1
        });
        let ink = scene.theme.phase(index);
        let row = Area::new(
            band.left,
            top + band.depth as f64 * PHASE_ROW,
            (band.right - band.left).max(0.5),
            PHASE_ROW - 1.5,
        );
        scene.rect(row, ink);
        if row.width > 24.0 {
            let text = match band.count {
                1 => band.name.to_owned(),
                count => format!("{} ×{count}", band.name),
            };
            let text = style.fit(&text, row.width - 8.0);
            scene.text((band.left + 4.0, row.y + 11.0), text, style);
        }
        if band.depth == 0 {
            let under = Area::new(band.left, plot.y, row.width, plot.height);
            scene.rect(under, ink.with_opacity(0.25));
        }
    }
}

/// Phases of the same name and depth that are so close to each other that they are drawn as one
/// band.
struct Band<'a> {
    name: &'a str,
    depth: usize,
    left: f64,
    right: f64,
    count: usize,
}

fn bands_of(phases: &[Phase], scale: TimeScale) -> Vec<Band<'_>> {
    let mut bands: Vec<Band<'_>> = Vec::new();
    let (first, last) = (scale.left, scale.left + scale.width);
    for depth in 0..PHASE_ROWS {
        let of_depth = phases.iter().filter(|phase| {
            let seen = phase.end_ns >= scale.span.from && phase.start_ns <= scale.span.to;
            phase.depth == depth && seen
        });
        for phase in of_depth {
            let (left, right) = (
                scale.x(phase.start_ns).max(first),
                scale.x(phase.end_ns).min(last),
            );
            match bands.last_mut() {
                Some(band)
                    if band.depth == depth
                        && band.name == phase.name
                        && left - band.right < 3.0
                        && right - left < 24.0 =>
                {
                    band.right = band.right.max(right);
                    band.count += 1;
                }
                _ => bands.push(Band {
                    name: &phase.name,
                    depth,
                    left,
                    right,
                    count: 1,
                }),
            }
        }
    }
    bands
}

/// Draws the memory limit of the process, if it is lower than the memory of the device; returns the
/// area of its label.
pub(crate) fn process_limit(scene: &mut Scene, plot: Area, value: ValueScale, limit: i64) -> Area {
    let ink = scene.theme.measure(Measure::Capacity);
    let y = value.y(limit);
    scene.line((plot.x, y), (plot.right(), y), Stroke::dashed(ink, 1.5));
    let style = TextStyle::new(11.0, ink);
    let text = format!("memory limit of this process: {}", human(limit));
    let at = (plot.x + 6.0, (y - 4.0).max(plot.y + 10.0));
    let area = Area::new(at.0, at.1 - 11.0, style.width(&text), 14.0);
    scene.text(at, text, style);
    area
}
