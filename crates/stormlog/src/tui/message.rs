//! Messages: everything that can happen.

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

/// The current state of a running job.
#[derive(Debug)]
pub(crate) struct Fresh {
    pub(crate) report: Arc<Report>,
    pub(crate) story: Story,
    pub(crate) rows: Vec<SessionRow>,
    pub(crate) issues: Vec<Issue>,
    /// When it was analyzed.
    pub(crate) at_ns: i64,
    /// Whether the run still goes on.
    pub(crate) is_live: bool,
}

/// Something that happened.
#[derive(Debug)]
pub(crate) enum Message {
    /// A key was pressed.
    Key(KeyEvent),
    /// The left button was pressed at a column and a row.
    Click(u16, u16),
    /// The mouse was moved there with the left button held.
    Drag(u16, u16),
    /// The wheel was turned up (true) or down at a column and a row.
    Wheel(bool, u16, u16),
    /// The size of the window in columns and rows.
    Resized(u16, u16),
    /// Facts about this machine.
    Machine(Machine),
    /// These paths are being opened.
    Opened(Vec<PathBuf>),
    /// The sessions of the paths, from their manifests.
    Sessions(Vec<SessionRow>),
    /// Totals from their rollups, if there are any.
    Outline(Outline),
    /// Bytes read, and bytes in total.
    Progress(u64, u64),
    /// Everything is read and is being analyzed.
    Looking,
    /// The run is loaded and analyzed.
    Run(Arc<Report>, Box<Story>),
    /// The run is still being recorded and will be analyzed again from time to time.
    Live,
    /// The current state of the run.
    Refreshed(Box<Fresh>),
    /// Recent runs, newest first.
    Recent(Vec<Recent>),
    /// Another of the loaded runs, drawn.
    Shown(usize, Box<Story>),
    /// The issues of the artifacts.
    Issues(Vec<Issue>),
    /// The comparison with another artifact.
    Compared(Box<Comparison>),
    /// The typed path, and the entries of its folder.
    Listed(String, Vec<Entry>),
    /// New events of the watched target.
    Watched(Vec<Event>),
    /// The watched target cannot be read.
    WatchFailed(String),
    /// A requested action succeeded.
    Done(String),
    /// A requested action failed.
    NotDone(String),
    /// Opening, analyzing or comparing failed.
    Failed(String),
}

impl Message {
    /// The message for a terminal event, if there is one.
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
