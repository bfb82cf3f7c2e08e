//! The complete state of the terminal interface. This module accesses neither files nor clocks nor
//! the terminal.

use std::path::PathBuf;

use stormlog_analysis::analyze::RunReport;
use stormlog_analysis::issue::Issue;
use stormlog_analysis::query::SessionRow;
use stormlog_format::names;

use super::folder::Entry;
use super::monitor::Monitor;
use super::outline::Outline;
use super::palette::Palette;
use super::plot::PlotView;
use super::recent::Recent;
use super::run::{OpenedRun, PhaseLine, RankLine};
use crate::rank_filter::RankFilter;

/// A tab of the terminal interface; the first row of the screen lists all tabs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Tab {
    #[default]
    Overview,
    Monitoring,
    Visualizations,
    Diagnostics,
    Issues,
    Sessions,
}

names!(Tab {
    Overview => "Overview",
    Monitoring => "Monitoring",
    Visualizations => "Visualizations",
    Diagnostics => "Diagnostics",
    Issues => "Issues",
    Sessions => "Sessions",
});

impl Tab {
    pub(crate) fn index(self) -> usize {
        Self::ALL.iter().position(|tab| *tab == self).unwrap_or(0)
    }
}

/// The facts about this machine that the overview tab shows.
#[derive(Clone, Debug, Default)]
pub(crate) struct Machine {
    pub(crate) host: String,
    /// The index, name and memory size of each GPU, such as `0 NVIDIA H200 140 GiB`.
    pub(crate) gpus: Vec<String>,
    /// The reason why the GPUs cannot be listed; `None` if they were listed.
    pub(crate) no_gpu: Option<String>,
}

/// How far the loading of the opened recordings has come.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Loading {
    /// Nothing is being loaded.
    #[default]
    Idle,
    /// The events are being loaded: how many bytes were read, and how many there are in total.
    Busy(u64, u64),
    /// All events are read and are being analyzed.
    Looking,
    /// All opened recordings are loaded and analyzed.
    Ready,
}

/// A comparison of the shown run with another run or a baseline, as text.
#[derive(Clone, Debug, Default)]
pub(crate) struct Comparison {
    /// The name of the run or baseline with which the shown run is compared.
    pub(crate) name: String,
    /// The text of the comparison, line by line, with control characters removed.
    pub(crate) lines: Vec<String>,
}

/// What the pane in the lower half of the diagnostics tab shows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Pane {
    #[default]
    Findings,
    Phases,
    Comparison,
}

/// A dialog in which the user types one line, such as the path of a recording.
#[derive(Clone, Debug)]
pub(crate) struct Dialog {
    pub(crate) purpose: Purpose,
    pub(crate) text: String,
    /// Whether the user has not typed anything yet; the first typed character then replaces the
    /// initial text.
    pub(crate) is_fresh: bool,
    /// Entries of a folder that complete the typed path.
    pub(crate) entries: Vec<Entry>,
    /// The index of the selected element of `entries`; `None` if no entry is selected.
    pub(crate) chosen: Option<usize>,
}

/// What the line that the user types into the dialog is used for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Purpose {
    Open,
    Compare,
    Ranks,
    Process,
    Limits,
    FilterSessions,
}

impl Purpose {
    pub(crate) fn title(self) -> &'static str {
        match self {
            Self::Open => "open: a path, or a pattern with * and ?",
            Self::Compare => "compare with: a path, or a saved baseline",
            Self::Ranks => "ranks: all, or 0,2,4-7",
            Self::Process => "process: pid",
            Self::Limits => "warning and critical threshold in percent",
            Self::FilterSessions => "sessions that contain",
        }
    }

    /// Whether the user types a path into the dialog; completions are offered only for paths.
    pub(crate) fn is_path(self) -> bool {
        matches!(self, Self::Open | Self::Compare)
    }
}

/// The column by which the table on the sessions tab is sorted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum SortBy {
    #[default]
    Start,
    Rank,
    Events,
    Status,
    Job,
}

names!(SortBy {
    Start => "start",
    Rank => "rank",
    Events => "events",
    Status => "status",
    Job => "job",
});

/// The complete state of the terminal interface, from which each frame is drawn.
#[derive(Debug, Default)]
pub(crate) struct Model {
    pub(crate) tab: Tab,
    pub(crate) palette: Palette,
    /// The width and height of the terminal in columns and rows.
    pub(crate) size: (u16, u16),
    pub(crate) now_ns: i64,
    pub(crate) machine: Machine,
    pub(crate) paths: Vec<PathBuf>,
    pub(crate) loading: Loading,
    /// When the shown job was last analyzed; `None` if the job is not running.
    pub(crate) live_ns: Option<i64>,
    /// The recent runs that the overview tab offers while nothing is open; `None` while they have
    /// not been listed yet.
    pub(crate) recent: Option<Vec<Recent>>,
    pub(crate) sessions: Vec<SessionRow>,
    pub(crate) session_filter: String,
    pub(crate) session_sort: SortBy,
    /// Totals from the rollups of the opened run, which are shown until its events are read.
    pub(crate) outline: Option<Outline>,
    pub(crate) run: Option<OpenedRun>,
    pub(crate) pane: Pane,
    /// The index of the selected line in the table of ranks.
    pub(crate) rank_cursor: usize,
    pub(crate) comparison: Option<Comparison>,
    pub(crate) ranks: RankFilter,
    /// The text of the rank filter, as the user typed it.
    pub(crate) ranks_text: String,
    pub(crate) issues: Option<Vec<Issue>>,
    pub(crate) monitor: Monitor,
    pub(crate) plot: PlotView,
    /// The index of the selected line on each tab, in the order of `Tab::ALL`.
    pub(crate) cursors: [usize; 6],
    pub(crate) dialog: Option<Dialog>,
    pub(crate) help: bool,
    /// The result of the last action, shown in the status line; `true` marks an error.
    pub(crate) note: Option<(bool, String)>,
}

impl Model {
    pub(crate) fn new(paths: Vec<PathBuf>, now_ns: i64, colours: bool) -> Self {
        Self {
            palette: Palette { colours },
            size: (80, 24),
            now_ns,
            loading: if paths.is_empty() {
                Loading::Idle
            } else {
                Loading::Busy(0, 0)
            },
            paths,
            ranks_text: "all".into(),
            ..Self::default()
        }
    }

    /// Whether many messages are expected soon; several of them are then handled before the screen
    /// is drawn again.
    pub(crate) fn is_busy(&self) -> bool {
        matches!(self.loading, Loading::Busy(..) | Loading::Looking)
    }

    /// The index of the selected line on the current tab.
    pub(crate) fn cursor(&self) -> usize {
        self.cursors[self.tab.index()]
    }

    /// The sessions that match the session filter, sorted by the column that the user chose.
    pub(crate) fn listed_sessions(&self) -> Vec<&SessionRow> {
        let wanted = self.session_filter.to_lowercase();
        let contains = |row: &&SessionRow| {
            let summary = &row.summary;
            let job = summary.job_id.as_ref().map(|job| job.to_str_lossy());
            let text = format!(
                "{} {} {} {} rank {}",
                summary.session_id.to_str_lossy(),
                summary.host.to_str_lossy(),
                job.unwrap_or_default(),
                row.effective_status.as_str(),
                summary.rank,
            );
            text.to_lowercase().contains(&wanted)
        };
        let mut rows: Vec<&SessionRow> = self.sessions.iter().filter(contains).collect();
        match self.session_sort {
            SortBy::Start => rows.sort_by_key(|row| std::cmp::Reverse(row.summary.started_at_ns)),
            SortBy::Rank => rows.sort_by_key(|row| row.summary.rank),
            SortBy::Events => rows.sort_by_key(|row| std::cmp::Reverse(row.event_count)),
            SortBy::Status => rows.sort_by_key(|row| row.effective_status),
            SortBy::Job => rows.sort_by(|a, b| a.summary.job_id.cmp(&b.summary.job_id)),
        }
        rows
    }

    /// The number of lines on the current tab that the user can select.
    pub(crate) fn lines(&self) -> usize {
        match self.tab {
            Tab::Overview => self.offered().len(),
            Tab::Visualizations => 0,
            Tab::Monitoring => self.monitor.lanes.len(),
            Tab::Diagnostics => match self.pane {
                Pane::Findings => self.shown_findings().len(),
                Pane::Phases => self.shown_phases().len(),
                Pane::Comparison => self.comparison_lines(),
            },
            Tab::Issues => self.issues.as_ref().map_or(0, Vec::len),
            Tab::Sessions => self.listed_sessions().len(),
        }
    }

    /// The recent runs that the user can open; empty when something is already open.
    pub(crate) fn offered(&self) -> &[Recent] {
        match &self.recent {
            Some(runs) if self.paths.is_empty() => runs,
            _ => &[],
        }
    }

    /// The analysis of the shown run; `None` if no run is loaded.
    pub(crate) fn shown_run(&self) -> Option<&RunReport> {
        self.run.as_ref().and_then(OpenedRun::shown)
    }

    /// The findings of the shown run, without findings about ranks that do not match the rank
    /// filter.
    pub(crate) fn shown_findings(&self) -> Vec<&stormlog_analysis::detect::Finding> {
        let Some(run) = self.shown_run() else {
            return Vec::new();
        };
        let mut findings = run.diagnosis.findings();
        findings.retain(|finding| {
            finding
                .rank
                .is_none_or(|rank| self.ranks.keeps(i64::from(rank)))
        });
        findings
    }

    /// The ranks of the shown run that match the rank filter.
    pub(crate) fn shown_ranks(&self) -> Vec<&RankLine> {
        let ranks = self.run.iter().flat_map(|run| &run.ranks);
        ranks.filter(|line| self.ranks.keeps(line.rank)).collect()
    }

    /// The phases of the shown run that were recorded on at least one rank that matches the rank
    /// filter.
    pub(crate) fn shown_phases(&self) -> Vec<&PhaseLine> {
        let phases = self.run.iter().flat_map(|run| &run.phases);
        phases
            .filter(|line| line.ranks.iter().any(|rank| self.ranks.keeps(*rank)))
            .collect()
    }

    fn comparison_lines(&self) -> usize {
        let comparison = self.comparison.as_ref();
        comparison.map_or(0, |comparison| comparison.lines.len())
    }
}
