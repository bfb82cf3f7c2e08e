//! The messages that the main loop of the terminal interface handles: input of the user, results of
//! background threads, and new samples.

use std::path::PathBuf;
use std::sync::Arc;

use ratatui::crossterm::event::{
    Event as Terminal, KeyEvent, KeyEventKind, MouseButton, MouseEventKind,
};
use stormlog_analysis::analyze::Report;
use stormlog_analysis::issue::Issue;
use stormlog_analysis::query::SessionRow;
use stormlog_format::Event;
use stormlog_report::Story;

use super::folder::Entry;
use super::model::{Comparison, Machine};
use super::outline::Outline;
use super::recent::Recent;

/// The new state of an opened job that is still being recorded, after it was loaded and analyzed
/// again.
#[derive(Debug)]
pub(crate) struct Fresh {
    pub(crate) report: Arc<Report>,
    pub(crate) story: Story,
    pub(crate) rows: Vec<SessionRow>,
    pub(crate) issues: Vec<Issue>,
    /// When the running job was analyzed, in nanoseconds since the Unix epoch.
    pub(crate) at_ns: i64,
    /// Whether the job is still running.
    pub(crate) is_live: bool,
}

/// Something that happened, such as a pressed key or a loaded file, and that changes the
/// [`Model`](super::model::Model) of the interface.
#[derive(Debug)]
pub(crate) enum Message {
    /// A key was pressed.
    Key(KeyEvent),
    /// The left mouse button was pressed at a column and a row.
    Click(u16, u16),
    /// The mouse was moved to a column and a row with the left button held.
    Drag(u16, u16),
    /// The mouse wheel was turned up (true) or down (false) at a column and a row.
    Wheel(bool, u16, u16),
    /// The window was resized to a number of columns and rows.
    Resized(u16, u16),
    /// The host name and the GPUs of this machine were read.
    Machine(Machine),
    /// The loading of these paths has begun.
    Opened(Vec<PathBuf>),
    /// The sessions of the opened paths were read from their manifests.
    Sessions(Vec<SessionRow>),
    /// The totals that the opened recordings store beside their events (rollups) were read.
    Outline(Outline),
    /// The progress of loading: how many bytes were read, and how many there are in total.
    Progress(u64, u64),
    /// All events of the opened paths were read, and their analysis has begun.
    Looking,
    /// The opened paths are loaded and analyzed: the report about all runs, and the chart of the
    /// first run.
    Run(Arc<Report>, Box<Story>),
    /// The opened run is still being recorded and will be analyzed again from time to time.
    Live,
    /// The running job was loaded and analyzed again.
    Refreshed(Box<Fresh>),
    /// The recent runs that the overview tab offers were listed, newest first.
    Recent(Vec<Recent>),
    /// The user switched to another run of the report: the index of the run in the report, and its
    /// chart.
    Shown(usize, Box<Story>),
    /// The issues (recurring problems) of the opened paths were found, or the user changed the
    /// state of one of them.
    Issues(Vec<Issue>),
    /// The shown run was compared with another run or a baseline.
    Compared(Box<Comparison>),
    /// The folder of the path that the user is typing was listed: the typed path and the folder's
    /// entries.
    Listed(String, Vec<Entry>),
    /// New events of the target that the live view samples, such as a process, have arrived.
    Watched(Vec<Event>),
    /// The target that the live view samples cannot be read; the text is the reason.
    WatchFailed(String),
    /// Something that the user requested, such as saving a plot, succeeded; the text is shown in
    /// the status line.
    Done(String),
    /// The export of events failed; the text is the reason. Unlike `Failed`, this does not end the
    /// loading of a run.
    NotDone(String),
    /// A request to the worker, such as opening or comparing a run, failed; the text is the reason.
    Failed(String),
}

impl Message {
    /// The message for a terminal event; `None` for events that have no effect.
    pub(crate) fn of_event(event: &Terminal) -> Option<Self> {
        match event {
            Terminal::Key(key) if key.kind != KeyEventKind::Release => Some(Self::Key(*key)),
            Terminal::Mouse(mouse) => match mouse.kind {
                MouseEventKind::Down(MouseButton::Left) => {
                    Some(Self::Click(mouse.column, mouse.row))
                }
                MouseEventKind::Drag(MouseButton::Left) => {
                    Some(Self::Drag(mouse.column, mouse.row))
                }
                MouseEventKind::ScrollUp => Some(Self::Wheel(true, mouse.column, mouse.row)),
                MouseEventKind::ScrollDown => Some(Self::Wheel(false, mouse.column, mouse.row)),
                _ => None,
            },
            Terminal::Resize(width, height) => Some(Self::Resized(*width, *height)),
            _ => None,
        }
    }
}
