//! Draws profiled functions for comparison: as bars, as a heat map, and as a dashboard of four
//! plots.

use std::collections::BTreeMap;

use crate::bytes::human;
use crate::canvas::Canvas;
use crate::chart;
use crate::label::clean;
use crate::scene::{Anchor, Area, Scene, Stroke, TextStyle};
use crate::story::Story;
use crate::theme::{Theme, heat};
use crate::timeline;

/// The largest number of functions that are drawn. One line below the bars sums up all functions
/// that are not drawn.
const MOST_BARS: usize = 24;

/// One call of a profiled function.
#[derive(Clone, Debug)]
pub struct FunctionRow {
    /// The function.
    pub name: String,
    /// How long the call took, in seconds.
    pub seconds: f64,
    /// Bytes that the call allocated.
    pub allocated: i64,
    /// Bytes that the call freed.
    pub freed: i64,
    /// The highest memory use in bytes during the call.
    pub peak: i64,
}

/// Which number a bar chart shows for each function.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FunctionBars {
    /// Mean allocated bytes per call.
    Allocated,
    /// Mean seconds per call.
    Seconds,
    /// The highest memory use in bytes during any call.
    Peak,
}

impl FunctionBars {
    fn title(self) -> &'static str {
        match self {
            Self::Allocated => "Memory allocated per call, mean",
            Self::Seconds => "Execution time per call, mean",
            Self::Peak => "Peak memory",
        }
    }
}

#[derive(Clone, Debug, Default)]
struct Function {
    calls: usize,
    seconds: f64,
    allocated: f64,
    freed: f64,
    peak: i64,
}

/// The calls of profiled functions, and the sums of their times and bytes for each function.
#[derive(Clone, Debug)]
pub struct FunctionTable {
    rows: Vec<FunctionRow>,
    functions: Vec<(String, Function)>,
}

impl FunctionTable {
    /// Groups calls by function. For each function, counts the calls, sums their times and their
    /// allocated and freed bytes, and keeps the highest peak.
    pub fn new(rows: Vec<FunctionRow>) -> Self {
        let mut indices: BTreeMap<String, usize> = BTreeMap::new();
        let mut functions: Vec<(String, Function)> = Vec::new();
        for row in &rows {
            let name = clean(&row.name);
            let index = *indices.entry(name.clone()).or_insert_with(|| {
                functions.push((name, Function::default()));
                functions.len() - 1
            });
            let function = &mut functions[index].1;
            function.calls += 1;
            function.seconds += row.seconds;
            function.allocated += row.allocated as f64;
            function.freed += row.freed as f64;
            function.peak = function.peak.max(row.peak);
        }
        Self { rows, functions }
    }

    /// Whether the table contains no calls.
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// Draws the number that `what` selects as one bar per function, the largest first.
    pub fn bars(&self, what: FunctionBars, canvas: Canvas) -> Scene {
        let rows = self.functions.len().min(MOST_BARS) as u32;
        let height = canvas.height.unwrap_or(110 + rows * 28);
        let (mut scene, area) = self.page(what.title(), canvas, height);
        self.bar_panel(&mut scene, area, what);
        scene
    }

    /// Draws a heat map with one row for each of at most `MOST_BARS` functions, and columns for
    /// time, allocated bytes, freed bytes and peak. The highest value of each column has the
    /// lightest colour.
    pub fn heatmap(&self, canvas: Canvas) -> Scene {
        let rows = self.functions.len().min(MOST_BARS) as u32;
        let height = canvas.height.unwrap_or(150 + rows * 28);
        let (mut scene, area) = self.page("Profiled functions", canvas, height);
        self.heat_panel(&mut scene, area);
        scene
    }

    /// Draws four plots: the timeline, the bars of mean allocated bytes per call, a histogram of
    /// the calls by allocated bytes, and the time of each call against its allocated bytes.
    /// Each of these four plots fills a quarter of the page; a plot without data is replaced by a
    /// note.
    pub fn dashboard(&self, story: &Story, canvas: Canvas) -> Scene {
        let height = canvas.height.unwrap_or(900);
        let (mut scene, area) = self.page("Memory profile", canvas, height);
        let (half, tall) = ((area.width - 24.0) / 2.0, (area.height - 24.0) / 2.0);
        let quarter = |scene: &mut Scene, column: f64, row: f64, title: &str| {
            let x = area.x + column * (half + 24.0);
            let y = area.y + row * (tall + 24.0);
            titled(scene, Area::new(x, y, half, tall), title)
        };
        let inner = quarter(&mut scene, 0.0, 0.0, "timeline");
        if let (Ok(span), Some(track)) = (story.shown(), story.tracks.first()) {
            timeline::Panel {
                track,
                marks: &[],
                phases: &[],
                span,
                name: None,
                time_axis: true,
                requests: &[],
                top: None,
                has_others: true,
            }
            .draw(&mut scene, inner);
        }
        let inner = quarter(&mut scene, 1.0, 0.0, "allocated per call, mean");
        self.bar_panel(&mut scene, inner, FunctionBars::Allocated);
        let inner = quarter(&mut scene, 0.0, 1.0, "calls by allocated bytes");
        self.histogram_panel(&mut scene, inner);
        let inner = quarter(&mut scene, 1.0, 1.0, "time against allocated bytes");
        self.scatter_panel(&mut scene, inner);
        scene
    }

    fn page(&self, title: &str, canvas: Canvas, height: u32) -> (Scene, Area) {
        let mut scene = Scene::new(canvas.width, height, canvas.theme);
        let whole = Area::new(0.0, 0.0, f64::from(canvas.width), f64::from(height));
        let page = whole.inset(24.0, 18.0, 24.0, 18.0);
        let subtitle = format!(
            "{calls} calls of {functions} functions",
            calls = self.rows.len(),
            functions = self.functions.len()
        );
        let y = chart::heading(&mut scene, page, title, &[subtitle]);
        (scene, page.below(y))
    }

    fn bar_panel(&self, scene: &mut Scene, area: Area, what: FunctionBars) {
        let value = |function: &Function| match what {
            FunctionBars::Allocated => function.allocated / function.calls as f64,
            FunctionBars::Seconds => function.seconds / function.calls as f64,
            FunctionBars::Peak => function.peak as f64,
        };
        let mut bars: Vec<(&str, f64)> = self
            .functions
            .iter()
            .map(|(name, function)| (name.as_str(), value(function)))
            .collect();
        bars.sort_by(|a, b| b.1.total_cmp(&a.1));
        let shown = bars.len().min(MOST_BARS);
        let most = bars.first().map_or(1.0, |bar| bar.1).max(f64::MIN_POSITIVE);
        let row = (area.height / shown.max(1) as f64).min(34.0);
        let names = area.width * 0.3;
        let numbers = 92.0;
        let label = TextStyle::new(12.5, scene.theme.text()).anchored(Anchor::End);
        let number = TextStyle::new(12.0, scene.theme.muted());
        for (index, (name, value)) in bars.iter().take(shown).enumerate() {
            let y = area.y + index as f64 * row;
            let baseline = y + row / 2.0 + 4.0;
            let text = label.fit(name, names - 12.0);
            scene.text((area.x + names - 10.0, baseline), text, label);
            let room = area.width - names - numbers;
            let width = (value.max(0.0) / most * room).max(1.0);
            let bar = Area::new(area.x + names, y + row * 0.18, width, row * 0.64);
            scene.rounded(bar, scene.theme.rank(0), 2.0);
            let text = match what {
                FunctionBars::Seconds => seconds_text(*value),
                _ => human(*value as i64),
            };
            scene.text((area.x + names + width + 8.0, baseline), text, number);
        }
    }

    fn heat_panel(&self, scene: &mut Scene, area: Area) {
        let columns = ["time", "allocated", "freed", "peak"];
        let mut functions: Vec<&(String, Function)> = self.functions.iter().collect();
        functions.sort_by(|a, b| b.1.allocated.total_cmp(&a.1.allocated));
        functions.truncate(MOST_BARS);
        let numbers = |function: &Function| {
            let calls = function.calls as f64;
            [
                function.seconds / calls,
                function.allocated / calls,
                function.freed / calls,
                function.peak as f64,
            ]
        };
        let rows: Vec<[f64; 4]> = functions
            .iter()
            .map(|(_, function)| numbers(function))
            .collect();
        let names = area.width * 0.3;
        let width = (area.width - names) / 4.0;
        let height = ((area.height - 24.0) / rows.len().max(1) as f64).min(48.0);
        let head = TextStyle::new(12.5, scene.theme.muted()).anchored(Anchor::Middle);
        let label = TextStyle::new(12.5, scene.theme.text()).anchored(Anchor::End);
        for (column, name) in columns.into_iter().enumerate() {
            let most = rows.iter().map(|row| row[column]).fold(0.0, f64::max);
            let x = area.x + names + column as f64 * width;
            scene.text((x + width / 2.0, area.y + 14.0), name, head);
            for (line, row) in rows.iter().enumerate() {
                let share = if most > 0.0 { row[column] / most } else { 0.0 };
                let y = area.y + 24.0 + line as f64 * height;
                let cell = Area::new(x + 1.0, y + 1.0, width - 2.0, height - 2.0);
                scene.rect(cell, heat(share));
                // Dark text is used on cells at the light end of the colour scale, where it is
                // readable.
                let ink = if share > 0.6 {
                    Theme::Light.text()
                } else {
                    Theme::Dark.text()
                };
                let style = TextStyle::new(12.0, ink).anchored(Anchor::Middle);
                let text = match column {
                    0 => seconds_text(row[0]),
                    _ => human(row[column] as i64),
                };
                scene.text((x + width / 2.0, y + height / 2.0 + 4.0), text, style);
            }
        }
        for (line, (name, _)) in functions.iter().enumerate() {
            let y = area.y + 24.0 + (line as f64 + 0.5) * height + 4.0;
            let text = label.fit(name, names - 12.0);
            scene.text((area.x + names - 10.0, y), text, label);
        }
    }

    fn histogram_panel(&self, scene: &mut Scene, area: Area) {
        let bins = 20;
        let most = self.rows.iter().map(|row| row.allocated).max().unwrap_or(0);
        let most = most.max(1) as f64;
        let mut counts = vec![0_usize; bins];
        for row in &self.rows {
            let share = row.allocated.max(0) as f64 / most;
            counts[((share * bins as f64) as usize).min(bins - 1)] += 1;
        }
        let highest = counts.iter().copied().max().unwrap_or(1).max(1) as f64;
        let plot = area.inset(44.0, 4.0, 8.0, 34.0);
        scene.rect(plot, scene.theme.panel());
        let width = plot.width / bins as f64;
        for (index, count) in counts.iter().enumerate() {
            let height = *count as f64 / highest * plot.height;
            let x = plot.x + index as f64 * width;
            let bar = Area::new(x + 1.0, plot.bottom() - height, width - 2.0, height);
            scene.rect(bar, scene.theme.rank(0));
        }
        let style = TextStyle::new(12.0, scene.theme.muted());
        let end = style.anchored(Anchor::End);
        scene.text((plot.x - 6.0, plot.y + 10.0), format!("{highest}"), end);
        scene.text((plot.x - 6.0, plot.bottom()), "0", end);
        ends_of_bytes(scene, plot, most);
    }

    fn scatter_panel(&self, scene: &mut Scene, area: Area) {
        let plot = area.inset(64.0, 4.0, 8.0, 34.0);
        scene.rect(plot, scene.theme.panel());
        let most = |values: &dyn Fn(&FunctionRow) -> f64| {
            self.rows
                .iter()
                .map(values)
                .fold(f64::MIN_POSITIVE, f64::max)
        };
        let bytes = most(&|row| row.allocated as f64).max(1.0);
        let seconds = most(&|row| row.seconds);
        let dots = self.rows.iter().take(5000).map(|row| {
            let x = plot.x + row.allocated.max(0) as f64 / bytes * plot.width;
            let y = plot.bottom() - row.seconds.max(0.0) / seconds * plot.height;
            vec![(x, y)]
        });
        let stroke = Stroke::solid(scene.theme.rank(0).with_opacity(0.6), 6.0);
        scene.lines(dots.collect(), stroke);
        let end = TextStyle::new(12.0, scene.theme.muted()).anchored(Anchor::End);
        scene.text((plot.x - 6.0, plot.y + 10.0), seconds_text(seconds), end);
        scene.text((plot.x - 6.0, plot.bottom()), "0", end);
        ends_of_bytes(scene, plot, bytes);
    }
}

fn titled(scene: &mut Scene, area: Area, title: &str) -> Area {
    let style = TextStyle::new(13.5, scene.theme.text()).bold();
    scene.text((area.x, area.y + 14.0), title, style);
    area.inset(0.0, 24.0, 0.0, 0.0)
}

fn ends_of_bytes(scene: &mut Scene, plot: Area, most: f64) {
    let style = TextStyle::new(12.0, scene.theme.muted());
    let y = plot.bottom() + 18.0;
    scene.text((plot.x, y), "0", style);
    let end = style.anchored(Anchor::End);
    scene.text((plot.right(), y), human(most as i64), end);
}

fn seconds_text(seconds: f64) -> String {
    match seconds {
        s if s < 1e-3 => format!("{:.0} µs", s * 1e6),
        s if s < 1.0 => format!("{:.1} ms", s * 1e3),
        s => format!("{s:.2} s"),
    }
}
