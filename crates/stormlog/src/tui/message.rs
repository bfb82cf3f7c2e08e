//! What can happen.

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
    /// What machine this is.
    Machine(Machine),
    /// These paths are being opened.
    Opened(Vec<PathBuf>),
    /// What the paths hold, from their manifests.
    Sessions(Vec<SessionRow>),
    /// What their rollups say, where there are any.
    Outline(Outline),
    /// Bytes read, and bytes in total.
    Progress(u64, u64),
    /// Everything is read; now it is looked through.
    Looking,
    /// The run is loaded and looked through.
    Run(Arc<Report>, Box<Story>),
    /// Another run of those that are loaded.
    Shown(usize, Box<Story>),
    /// The issues of the artifacts.
    Issues(Vec<Issue>),
    /// The other artifact, to compare with.
    Compared(Box<Comparison>),
    /// What a folder holds, and which.
    Listed(String, Vec<Entry>),
    /// Fresh events of what is watched.
    Watched(Vec<Event>),
    /// What is watched cannot be read.
    WatchFailed(String),
    /// Something went well that the user asked for.
    Done(String),
    /// Something did not.
    NotDone(String),
    /// What was opened, analysed or compared could not be.
    Failed(String),
}

impl Message {
    /// What an event of the terminal means, if anything.
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
