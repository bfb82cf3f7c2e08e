//! Messages: everything that can happen to the terminal interface.

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

/// The result of a repeated analysis of a running job.
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

/// Something that happened and that the model must be updated for.
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
    /// Facts about this machine were read.
    Machine(Machine),
    /// The loading of these paths has begun.
    Opened(Vec<PathBuf>),
    /// The sessions of the opened paths were read from their manifests.
    Sessions(Vec<SessionRow>),
    /// Totals were read from the rollups of the opened paths.
    Outline(Outline),
    /// The progress of loading: how many bytes were read, and how many there are in total.
    Progress(u64, u64),
    /// All events of the opened paths were read and the analysis has begun.
    Looking,
    /// The opened run is loaded and analyzed.
    Run(Arc<Report>, Box<Story>),
    /// The opened run is still being recorded and will be analyzed again from time to time.
    Live,
    /// The running job was loaded and analyzed again.
    Refreshed(Box<Fresh>),
    /// Recent runs, newest first.
    Recent(Vec<Recent>),
    /// Another one of the loaded runs was drawn; the number is its index.
    Shown(usize, Box<Story>),
    /// The issues of the opened artifacts.
    Issues(Vec<Issue>),
    /// The shown run was compared with another artifact.
    Compared(Box<Comparison>),
    /// The folder of the path that the user is typing was listed: the typed path and the folder's
    /// entries.
    Listed(String, Vec<Entry>),
    /// New events of the sampled target have arrived.
    Watched(Vec<Event>),
    /// The sampled target cannot be read; the text is the reason.
    WatchFailed(String),
    /// A requested action succeeded.
    Done(String),
    /// A requested action failed.
    NotDone(String),
    /// Opening, analyzing or comparing failed.
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
