//! Builds the data of an interactive page: panels, series, marks and phases. Each series is contained
//! at several levels of detail, in a compact encoding.

mod comparison;

use serde::Serialize;
use stormlog_format::json::{Layout, Writer, value_of};
use stormlog_format::{Map, Value, counted};

pub use comparison::Alignment;
pub(crate) use comparison::data as comparison;

use crate::dashboard::{facts_of, verdict_of};
use crate::detail_levels::{self, Columns};
use crate::error::DrawError;
use crate::focus::Focus;
use crate::gap;
use crate::grid::Grid;
use crate::heatmap;
use crate::label::clean_paragraph;
use crate::ledger::LedgerLines;
use crate::mark::grouped;
use crate::measure::{Measure, UNKNOWN};
use crate::picture::PictureKind;
use crate::ranks;
use crate::request::FailedRequest;
use crate::scale::Span;
use crate::story::Story;
use crate::timeline::{is_drawn, panels_of, series_of};
use crate::track::DrawnTrack;

/// The largest number of lines in the panel of host memory, which has one line per rank; more lines
/// could not be distinguished.
const MOST_HOSTS: usize = 8;
/// The number of columns and the largest number of rows of a heat map on a page.
const HEAT_COLUMNS: usize = 1200;
const HEAT_ROWS: usize = 256;
/// The largest number of groups of marks on a page, of marks in one group, and of phases.
const MOST_MARKS: usize = 2000;

/// The data of a page: a description as JSON, and the samples as compressed blocks in two byte
/// strings. The page unpacks `overview` before it draws anything, and `detail` block by block as
/// needed.
pub(crate) struct PageData {
    pub(crate) spec: String,
    pub(crate) overview: Vec<u8>,
    pub(crate) detail: Vec<u8>,
}

/// One line of a panel (a plot on the page): its name, its colour and its values.
#[derive(Serialize)]
struct Line {
    name: String,
    /// The name of the colour in the style sheet and the script of the page.
    colour: String,
    #[serde(skip)]
    values: Vec<i64>,
    /// The highest value in the shown time range, printed in the legend.
    peak: Option<i64>,
    /// Whether the line is hidden until the reader selects it in the legend.
    off: bool,
}

/// What the first panel shows besides the values of the leading finding's quantity.
#[derive(Serialize)]
struct FocusSpec<'a> {
    words: &'a str,
    severity: &'static str,
    host: bool,
    /// The lowest value of the axis when all of the recording is shown; lower values are outside.
    low: i64,
    /// Time and bytes of the start and of the end of the growth.
    trend: Option<[(i64, i64); 2]>,
    limit: Option<&'a (i64, String)>,
}

/// The name of the colour of a measure.
fn measure_colour(measure: Measure) -> String {
    let name = match measure {
        Measure::Allocated => "allocated",
        Measure::Reserved => "reserved",
        Measure::Used => "used",
        Measure::Capacity => "capacity",
        Measure::Hidden | Measure::Own => "hidden",
        Measure::Others => "others",
    };
    name.to_owned()
}

/// The name of the colour of the n-th rank of a panel, counted from 0.
fn rank_colour(index: usize) -> String {
    format!("rank{}", index % 8)
}

/// The name of the colour of a measure's n-th line in a panel: the colour of the measure if it has
/// only one line, otherwise the colour of a rank.
fn line_colour(measure: Measure, index: usize, is_only: bool) -> String {
    if is_only {
        measure_colour(measure)
    } else {
        rank_colour(index)
    }
}

struct Builder {
    span: Span,
    tracks: Vec<Value>,
    panels: Vec<Value>,
    overview: Vec<u8>,
    detail: Vec<u8>,
    /// The track that the overview strip draws; `None` means those of the first panel.
    strip: Option<i64>,
    has_focus: bool,
}

pub(crate) fn data(story: &Story, kind: PictureKind) -> Result<PageData, DrawError> {
    let span = story.shown()?;
    let mut page = Builder::new(span);
    let has_focus = !matches!(kind, PictureKind::Heatmap | PictureKind::Gap);
    page.focus(story, story.focus.as_ref().filter(|_| has_focus));
    match kind {
        PictureKind::Timeline | PictureKind::Steps => {
            page.timelines(story);
            page.collapse(1);
        }
        PictureKind::Ranks => page.ranks(story),
        PictureKind::Heatmap => page.heat(story),
        PictureKind::Gap => page.gap(story),
        PictureKind::Dashboard if story.tracks.len() > 1 => {
            page.ranks(story);
            let others = page.panels.len();
            page.heat(story);
            page.gap(story);
            page.collapse(others);
        }
        PictureKind::Dashboard => {
            page.timelines(story);
            if story.tracks.iter().any(|track| !track.is_host()) {
                page.gap(story);
            }
            page.collapse(1);
        }
    }
    page.own(story);
    let mut spec = Map::new();
    spec.insert("zero_ms", span.from / 1_000_000);
    spec.insert("zero_ns_rest", span.from % 1_000_000);
    spec.insert("length", span.length());
    let zero_ns = story.start_ns().unwrap_or(span.from);
    spec.insert("offset", span.from.saturating_sub(zero_ns));
    if let Some(overview) = page.strip {
        spec.insert("overview", overview);
    }
    spec.insert("several", Value::Bool(story.ranks().len() > 1));
    spec.insert("tracks", Value::List(page.tracks));
    spec.insert("panels", Value::List(page.panels));
    spec.insert("marks", marks(story, span));
    spec.insert("phases", phases(story, span));
    spec.insert("facts", value_of(&facts_of(story, span)));
    spec.insert("requests", requests(story, span));
    if kind == PictureKind::Dashboard || story.verdict.is_some() {
        spec.insert("verdict", value_of(&verdict_of(story)));
    }
    if let Some(advice) = &story.advice {
        spec.insert("advice", Value::text(clean_paragraph(advice)));
    }
    if !story.ledgers.is_empty() {
        let ledgers = story.ledgers.iter().map(ledger).collect();
        spec.insert("ledgers", Value::List(ledgers));
    }
    for (name, lines) in [("cause", &story.cause), ("notes", &story.notes)] {
        if !lines.is_empty() {
            let lines = lines.iter().map(|line| Value::text(clean_paragraph(line)));
            spec.insert(name, Value::List(lines.collect()));
        }
    }
    let spec = Writer::new(Layout::Compact).map_to_string(&spec);
    Ok(PageData {
        spec,
        overview: page.overview,
        detail: page.detail,
    })
}

/// The ledger of a device (what uses its memory) for the page: the title of the list, and for each
/// user its name, the size of its memory, and its share of the memory in use.
fn ledger(ledger: &LedgerLines) -> Value {
    let mut map = Map::new();
    let text = |text: &str| Value::text(clean_paragraph(text));
    map.insert("title", text(&ledger.title));
    let lines = ledger.lines.iter().map(|line| {
        let share = line.share.map_or(Value::Null, Value::Float);
        Value::List(vec![text(&line.size), text(&line.name), share])
    });
    map.insert("lines", Value::List(lines.collect()));
    let unknown = ledger.unknown.as_deref();
    map.insert("unknown", unknown.map_or(Value::Null, text));
    Value::Map(map)
}

impl Builder {
    fn new(span: Span) -> Self {
        Self {
            span,
            tracks: Vec::new(),
            panels: Vec::new(),
            overview: Vec::new(),
            detail: Vec::new(),
            strip: None,
            has_focus: false,
        }
    }

    /// The line of a measure of a track in the shown time range.
    fn line(&self, track: &DrawnTrack, measure: Measure, name: &str, colour: String) -> Line {
        Line {
            name: name.to_owned(),
            colour,
            values: track.values(measure)[track.within(self.span)].to_vec(),
            peak: track.peak(measure, self.span),
            off: false,
        }
    }

    /// Adds the first panel: the quantity that the leading finding is about.
    fn focus(&mut self, story: &Story, focus: Option<&Focus>) {
        let Some(focus) = focus else {
            return;
        };
        let since_ns = |at: i64| at.saturating_sub(self.span.from);
        let (low, _) = focus.range(self.span);
        let mut spec = value_of(&FocusSpec {
            words: &focus.words,
            severity: focus.severity.as_str(),
            host: focus.on_host,
            low: low as i64,
            trend: focus
                .trend
                .map(|ends| ends.map(|(at, bytes)| (since_ns(at), bytes))),
            limit: focus.limit.as_ref(),
        });
        let colour = measure_colour(focus.measure);
        let line = self.line(&focus.track, focus.measure, focus.measure.as_str(), colour);
        let id = self.derived_track(&focus.track, &focus.title, &[line]);
        self.panel(&focus.title, &[id], None);
        if let Some(Value::Map(panel)) = self.panels.last_mut() {
            if let Value::Map(spec) = &mut spec {
                let requests = focus.requests(story).into_iter();
                let requests = requests.map(|one| request(one, self.span));
                spec.insert("requests", Value::List(requests.collect()));
            }
            panel.insert("focus", spec);
        }
        self.strip = Some(id);
        self.has_focus = true;
    }

    /// Collapses the panels from an index on, which show other memory than the first panel. Without
    /// a first panel of a finding, no panel is collapsed.
    fn collapse(&mut self, from: usize) {
        if !self.has_focus {
            return;
        }
        for panel in self.panels.iter_mut().skip(from) {
            if let Value::Map(panel) = panel {
                panel.insert("more", Value::Bool(true));
            }
        }
    }

    /// Adds the memory of the process alone for the overview strip, unless the strip shows a finding
    /// or there are several tracks.
    fn own(&mut self, story: &Story) {
        let ([track], None) = (story.tracks.as_slice(), self.strip) else {
            return;
        };
        if track.knows_own() {
            let line = self.line(
                track,
                Measure::Own,
                "process",
                measure_colour(Measure::Used),
            );
            self.strip = Some(self.derived_track(track, "process", &[line]));
        }
    }

    fn timelines(&mut self, story: &Story) {
        for track in panels_of(story) {
            let line =
                |measure, name: &str| self.line(track, measure, name, measure_colour(measure));
            let series = series_of(track).into_iter();
            let mut lines: Vec<Line> = series
                .map(|series| Line {
                    off: !is_drawn(track, &series, false),
                    ..line(series.measure, &series.name)
                })
                .collect();
            for measure in [Measure::Hidden, Measure::Others, Measure::Capacity] {
                let is_known = track.highest(measure, self.span).is_some();
                let is_of_device = matches!(measure, Measure::Hidden | Measure::Others);
                if is_known && !(is_of_device && track.is_host()) {
                    lines.push(Line {
                        off: measure == Measure::Others,
                        ..line(measure, measure.as_str())
                    });
                }
            }
            let title = if story.tracks.len() > 1 {
                story.track_name(track)
            } else {
                "memory".to_owned()
            };
            let id = self.track(track, &title, &lines);
            self.panel(&title, &[id], None);
        }
        self.hosts(story);
    }

    /// Adds host memory as a panel of its own, with one line per rank.
    fn hosts(&mut self, story: &Story) {
        let is_only = story.hosts.len() == 1;
        let mut ids = Vec::new();
        for (index, track) in story.hosts.iter().take(MOST_HOSTS).enumerate() {
            let name = if is_only {
                "host memory".to_owned()
            } else {
                format!("rank {}", track.rank)
            };
            let colour = line_colour(Measure::Allocated, index, is_only);
            let line = self.line(track, Measure::Allocated, &name, colour);
            ids.push(self.track(track, &name, &[line]));
        }
        if !ids.is_empty() {
            self.panel("host memory", &ids, Some("host"));
        }
    }

    fn ranks(&mut self, story: &Story) {
        let view = ranks::View::new(story, self.span);
        let mut ids = Vec::new();
        if let Some(envelope) = &view.envelope {
            let count = envelope.columns.len();
            let names = ["least", "tenth", "median", "ninetieth", "most"];
            let lines: Vec<Line> = names
                .into_iter()
                .enumerate()
                .map(|(index, name)| Line {
                    name: name.into(),
                    colour: "envelope".into(),
                    values: envelope
                        .columns
                        .iter()
                        .map(|column| column.map_or(UNKNOWN, |values| values[index]))
                        .collect(),
                    peak: None,
                    off: false,
                })
                .collect();
            let step = self.span.length() / count.max(1) as i64;
            let times = (0..count as i64)
                .map(|index| index * step + step / 2)
                .collect();
            let label = counted(story.tracks.len(), "rank");
            ids.push(self.columns(times, &lines, &label, None, i64::MAX, Vec::new()));
        }
        for (index, track) in view.lines.iter().enumerate() {
            let name = story.track_name(track);
            let line = self.line(track, view.measure, &name, rank_colour(index));
            ids.push(self.track(track, &name, &[line]));
        }
        let title = format!("{}, all ranks on one time axis", view.measure.as_str());
        self.panel(&title, &ids, None);
    }

    fn gap(&mut self, story: &Story) {
        let tracks = gap::widest(&story.tracks, self.span);
        let one = tracks.len() == 1;
        let mut ids = Vec::new();
        for (index, track) in tracks.into_iter().enumerate() {
            let name = story.track_name(track);
            let colour = line_colour(Measure::Hidden, index, one);
            let label = if one { "hidden" } else { &name };
            let line = self.line(track, Measure::Hidden, label, colour);
            ids.push(self.track(track, &name, &[line]));
        }
        self.panel("hidden memory", &ids, None);
    }

    fn heat(&mut self, story: &Story) {
        let measure = story.compared_measure();
        let grid = Grid::new(&story.tracks, measure, self.span, HEAT_COLUMNS);
        let (low, high) = heatmap::range(&grid);
        let count = story.tracks.len().min(HEAT_ROWS);
        let mut labels: Vec<Vec<i64>> = vec![Vec::new(); count];
        for (index, track) in story.tracks.iter().enumerate() {
            labels[grid.merged_index(index, count)].push(track.rank);
        }
        let label = |ranks: &Vec<i64>| match (ranks.first(), ranks.last()) {
            (Some(first), Some(last)) if first != last => Value::text(format!("{first}–{last}")),
            (Some(first), _) => Value::text(first.to_string()),
            _ => Value::Null,
        };
        let packed = detail_levels::pack_matrix(&grid.merged(count));
        let mut panel = Map::new();
        panel.insert("kind", "heat");
        let title = format!("{} by rank and time", measure.as_str());
        panel.insert("title", title.as_str());
        panel.insert("rows", Value::List(labels.iter().map(label).collect()));
        panel.insert("columns", grid.columns as i64);
        panel.insert("low", low);
        panel.insert("high", high);
        panel.insert("offset", self.overview.len() as i64);
        panel.insert("size", packed.len() as i64);
        self.overview.extend(packed);
        self.panels.push(Value::Map(panel));
    }

    /// Adds a panel with the lines of tracks. `flag` is the name of a property that the panel has:
    /// it shows host memory (`host`), or a band between its lines (`band`).
    fn panel(&mut self, title: &str, tracks: &[i64], flag: Option<&str>) {
        let mut panel = Map::new();
        panel.insert("kind", "lines");
        panel.insert("title", title);
        panel.insert("tracks", value_of(tracks));
        if let Some(flag) = flag {
            panel.insert(flag, Value::Bool(true));
        }
        self.panels.push(Value::Map(panel));
    }

    /// Adds values that other tracks of the page contain too.
    fn derived_track(&mut self, track: &DrawnTrack, label: &str, lines: &[Line]) -> i64 {
        let id = self.track(track, label, lines);
        if let Some(Value::Map(entry)) = self.tracks.last_mut() {
            entry.insert("derived", Value::Bool(true));
        }
        id
    }

    /// Adds the samples of a track in the shown time range to the page; returns the index of the
    /// added track.
    fn track(&mut self, track: &DrawnTrack, label: &str, lines: &[Line]) -> i64 {
        let range = track.within(self.span);
        let times = track.times()[range.clone()]
            .iter()
            .map(|time| track.shared_ns(*time).saturating_sub(self.span.from))
            .collect();
        let notes = range.filter_map(|index| track.note(index)).map(Value::text);
        let notes: Vec<Value> = notes.collect();
        let id = self.columns(times, lines, label, Some(track.rank), track.gap_ns(), notes);
        if let Some(Value::Map(entry)) = self.tracks.last_mut() {
            entry.insert("pid", track.pid);
            let device = (!track.is_host()).then_some(track.device_id);
            entry.insert("device", device);
            entry.insert("gaps", track.gaps().len() as i64);
        }
        id
    }

    fn columns(
        &mut self,
        times: Vec<i64>,
        lines: &[Line],
        label: &str,
        rank: Option<i64>,
        gap_ns: i64,
        notes: Vec<Value>,
    ) -> i64 {
        let columns = Columns {
            times,
            series: lines.iter().map(|line| line.values.as_slice()).collect(),
        };
        let count = columns.times.len();
        let packed = detail_levels::pack(&columns);
        let coarsest = packed.len() - 1;
        let mut levels = Vec::new();
        for (index, level) in packed.into_iter().enumerate() {
            let at_once = index == coarsest;
            let store = if at_once {
                &mut self.overview
            } else {
                &mut self.detail
            };
            let mut blocks = Vec::new();
            for block in level.blocks {
                let (start, size) = (store.len(), block.packed.len());
                blocks.push(value_of(&(block.count, block.from, block.to, start, size)));
                store.extend(block.packed);
            }
            let mut entry = Map::new();
            entry.insert("bucket", level.bucket as i64);
            entry.insert("store", i64::from(!at_once));
            entry.insert("blocks", Value::List(blocks));
            levels.push(Value::Map(entry));
        }
        let mut entry = Map::new();
        entry.insert("label", label);
        entry.insert("rank", rank);
        entry.insert("count", count as i64);
        entry.insert("gap", gap_ns.min(1 << 52));
        entry.insert("series", value_of(lines));
        entry.insert("levels", Value::List(levels));
        if notes.len() == count {
            entry.insert("notes", Value::List(notes));
        }
        self.tracks.push(Value::Map(entry));
        self.tracks.len() as i64 - 1
    }
}

fn marks(story: &Story, span: Span) -> Value {
    let one = |group: crate::mark::MarkGroup| {
        let mut entry = Map::new();
        entry.insert("t", group.first.time_ns.saturating_sub(span.from).max(0));
        let end = group.first.end_ns.map(|end| end.saturating_sub(span.from));
        entry.insert("end", end);
        entry.insert("rank", group.first.rank);
        entry.insert("severity", group.first.severity.as_str());
        entry.insert("kind", group.first.kind.as_str());
        entry.insert("host", Value::Bool(group.first.on_host));
        entry.insert("label", Value::text(group.label()));
        entry.insert("detail", Value::text(group.sentence()));
        let times = group.times.iter().take(MOST_MARKS);
        let times = times.map(|time| time.saturating_sub(span.from).max(0));
        entry.insert("times", value_of(&times.collect::<Vec<_>>()));
        Value::Map(entry)
    };
    let mut groups = grouped(&story.marks());
    if groups.len() > MOST_MARKS {
        // If there are too many marks, only the most severe are kept, because the event that ended
        // the run is among them.
        groups.sort_by_key(|group| (std::cmp::Reverse(group.first.severity), group.first.time_ns));
        groups.truncate(MOST_MARKS);
        groups.sort_by_key(|group| group.first.time_ns);
    }
    Value::List(groups.into_iter().map(one).collect())
}

/// A failed allocation for the page.
fn request(request: FailedRequest, span: Span) -> Value {
    let mut entry = Map::new();
    entry.insert("t", request.time_ns.saturating_sub(span.from));
    entry.insert("rank", request.rank);
    entry.insert("in_use", request.in_use);
    entry.insert("requested", request.requested);
    entry.insert("limit", request.limit);
    entry.insert("label", Value::text(request.label()));
    Value::Map(entry)
}

fn requests(story: &Story, span: Span) -> Value {
    let mut all = Vec::new();
    for track in &story.tracks {
        for request in story.requests_for(track) {
            all.push(self::request(request, span));
        }
    }
    Value::List(all)
}

fn phases(story: &Story, span: Span) -> Value {
    let one = |phase: &crate::phase::Phase| {
        let shown = |own_ns| {
            let shared_ns = story.shared_ns(Some(phase.rank), own_ns);
            shared_ns.saturating_sub(span.from)
        };
        let mut entry = Map::new();
        entry.insert("from", shown(phase.start_ns));
        entry.insert("to", shown(phase.end_ns));
        entry.insert("rank", phase.rank);
        entry.insert("depth", phase.depth as i64);
        entry.insert("name", phase.name.as_str());
        entry.insert("path", phase.path.as_str());
        Value::Map(entry)
    };
    let shown = story.phases.iter().take(MOST_MARKS);
    Value::List(shown.map(one).collect())
}
