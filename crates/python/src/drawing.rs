//! Draws pictures and HTML pages for Python.

use std::borrow::Cow;
use std::path::PathBuf;

use pyo3::prelude::*;
use stormlog::on_this_machine;
use stormlog_analysis::{DiagnosedRun, LoadOptions, LoadedSession, OpenRun};
use stormlog_report::{
    Canvas, DrawError, DrawnTrack, FunctionBars, FunctionRow, FunctionTable, PictureKind, Scene,
    Story, Theme, draw, html_page, picture_page, to_png, to_svg,
};

use crate::errors::invalid_value;
use crate::load::load_error;
use crate::rows::EventRows;

/// A call of a profiled function: name, seconds, allocated, freed and peak bytes.
type CallFields = (String, f64, i64, i64, i64);

/// A sample of a profiler: time in nanoseconds, allocated bytes, reserved bytes, description.
type PointFields = (i64, i64, i64, String);

enum What {
    Story(PictureKind),
    Bars(FunctionBars),
    FunctionHeat,
    FunctionDashboard,
}

/// A chart of a run or of profiled functions, which can be rendered in any size as SVG, PNG or
/// HTML.
#[pyclass(frozen, module = "stormlog._core")]
pub(crate) struct Drawing {
    what: What,
    story: Story,
    functions: FunctionTable,
    title: String,
}

#[pymethods]
impl Drawing {
    /// Draws a chart of events; `kind` is the name of the chart, such as `timeline`.
    #[staticmethod]
    fn of_rows(
        py: Python<'_>,
        rows: &EventRows,
        kind: &str,
        title: Option<String>,
    ) -> PyResult<Self> {
        let story = py.detach(|| {
            let session = LoadedSession::of_events(&rows.0);
            Story::of_diagnosed(&DiagnosedRun::of(vec![session], Vec::new()))
        });
        Self::of_story(py, story, kind, title)
    }

    /// Draws the memory of all ranks in one chart, and marks the rank whose memory probably rose
    /// first.
    #[staticmethod]
    fn of_ranks(py: Python<'_>, rows: &EventRows) -> PyResult<Self> {
        let story = py.detach(|| stormlog_compat::story_of_ranks(&rows.0));
        Self::of_story(py, story, "ranks", None)
    }

    /// Draws the run that is recorded in the artifacts at the given paths.
    #[staticmethod]
    fn of_paths(
        py: Python<'_>,
        paths: Vec<PathBuf>,
        session_id: Option<&str>,
        kind: &str,
        title: Option<String>,
    ) -> PyResult<Self> {
        let options = LoadOptions::skipping();
        let opened = py.detach(|| {
            on_this_machine(|here| OpenRun::joined(&paths, session_id, &options, here))
                .map(|run| Story::of_diagnosed(&run))
        });
        let story = opened.map_err(|(_, error)| load_error(py, &error))?;
        Self::of_story(py, story, kind, title)
    }

    /// Draws the memory samples of a profiler as a timeline.
    #[staticmethod]
    fn of_points(py: Python<'_>, points: Vec<PointFields>, title: String) -> PyResult<Self> {
        let story = Story::of_tracks(vec![DrawnTrack::from_points(points)]);
        Self::of_story(py, story, "timeline", Some(title))
    }

    /// Draws profiled functions. If `what` is `memory_allocated`, `execution_time` or
    /// `peak_memory`, the chart has one bar per function for that number; if `what` is `heatmap`,
    /// it is a heat map.
    #[staticmethod]
    fn of_functions(py: Python<'_>, calls: Vec<CallFields>, what: &str) -> PyResult<Self> {
        let (what, title) = match what {
            "memory_allocated" => (What::Bars(FunctionBars::Allocated), "Memory allocated"),
            "execution_time" => (What::Bars(FunctionBars::Seconds), "Execution time"),
            "peak_memory" => (What::Bars(FunctionBars::Peak), "Peak memory"),
            "heatmap" => (What::FunctionHeat, "Profiled functions"),
            other => return Err(invalid_value(py, format!("Unknown metric: {other}"))),
        };
        Ok(Self {
            what,
            story: Story::default(),
            functions: table(calls),
            title: title.into(),
        })
    }

    /// Draws the memory samples and the function calls of a profiler together, as one HTML page.
    #[staticmethod]
    fn of_profile(points: Vec<PointFields>, calls: Vec<CallFields>) -> Self {
        Self {
            what: What::FunctionDashboard,
            story: Story::of_tracks(vec![DrawnTrack::from_points(points)]),
            functions: table(calls),
            title: "Memory profile".into(),
        }
    }

    /// The heading of the chart.
    #[getter]
    fn title(&self) -> &str {
        &self.title
    }

    fn svg(&self, py: Python<'_>, width: u32, height: Option<u32>, dark: bool) -> PyResult<String> {
        let scene = self.scene(width, height, theme(dark));
        scene
            .map(|scene| to_svg(&scene))
            .map_err(|error| invalid_value(py, error))
    }

    fn png(
        &self,
        py: Python<'_>,
        width: u32,
        height: Option<u32>,
        dark: bool,
        scale: f32,
    ) -> PyResult<Cow<'_, [u8]>> {
        py.detach(|| to_png(&self.scene(width, height, theme(dark))?, scale))
            .map(Cow::Owned)
            .map_err(|error| invalid_value(py, error))
    }

    fn html(&self, py: Python<'_>, theme: &str) -> PyResult<String> {
        let Some(theme) = Theme::parse(theme) else {
            let message = format!("unknown theme '{theme}': choose system, light or dark");
            return Err(invalid_value(py, message));
        };
        let page = py.detach(|| {
            if let What::Story(kind) = self.what {
                html_page(&self.story, kind, theme)
            } else {
                let scene = self.scene(1000, None, theme)?;
                picture_page(&scene, &self.title, theme)
            }
        });
        page.map_err(|error| invalid_value(py, error))
    }
}

impl Drawing {
    fn of_story(
        py: Python<'_>,
        mut story: Story,
        kind: &str,
        title: Option<String>,
    ) -> PyResult<Self> {
        let Some(kind) = PictureKind::parse(kind) else {
            return Err(invalid_value(
                py,
                format!("unknown kind of picture: '{kind}'"),
            ));
        };
        if title.is_some() {
            story.title = title;
        }
        Ok(Self {
            what: What::Story(kind),
            title: story.title.clone().unwrap_or_else(|| kind.as_str().into()),
            story,
            functions: FunctionTable::new(Vec::new()),
        })
    }

    fn scene(&self, width: u32, height: Option<u32>, theme: Theme) -> Result<Scene, DrawError> {
        let canvas = Canvas {
            width,
            height,
            theme,
        };
        match self.what {
            What::Story(kind) => draw(&self.story, kind, canvas),
            What::Bars(bars) => Ok(self.functions.bars(bars, canvas)),
            What::FunctionHeat => Ok(self.functions.heatmap(canvas)),
            What::FunctionDashboard => Ok(self.functions.dashboard(&self.story, canvas)),
        }
    }
}

fn table(calls: Vec<CallFields>) -> FunctionTable {
    let rows = calls
        .into_iter()
        .map(|(name, seconds, allocated, freed, peak)| FunctionRow {
            name,
            seconds,
            allocated,
            freed,
            peak,
        });
    FunctionTable::new(rows.collect())
}

fn theme(dark: bool) -> Theme {
    if dark { Theme::Dark } else { Theme::Light }
}
