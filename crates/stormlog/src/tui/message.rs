//! What can happen.

use std::path::PathBuf;

use ratatui::crossterm::event::{
    Event as Terminal, KeyEvent, KeyEventKind, MouseButton, MouseEventKind,
};
use stormlog_analysis::issue::Issue;
use stormlog_analysis::query::SessionRow;
use stormlog_analysis::report::Report;
use stormlog_format::Event;
use stormlog_report::Story;

use super::folder::Entry;
use super::model::{Comparison, Machine};

/// Something that happened.
#[derive(Debug)]
pub(crate) enum Message {
    /// A key was pressed.
    Key(KeyEvent),
    /// The left button was pressed at a column and a row.
    Click(u16, u16),
    /// The wheel was turned up (true) or down.
    Wheel(bool),
    /// The window has another size.
    Resized,
    /// What machine this is.
    Machine(Machine),
    /// These paths are being opened.
    Opened(Vec<PathBuf>),
    /// What the paths hold, from their manifests.
    Sessions(Vec<SessionRow>),
    /// So many of so many bytes are read.
    Progress(u64, u64),
    /// The run is loaded and looked through.
    Run(Box<Report>, Box<Story>),
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
                MouseEventKind::ScrollUp => Some(Self::Wheel(true)),
                MouseEventKind::ScrollDown => Some(Self::Wheel(false)),
                _ => None,
            },
            Terminal::Resize(..) => Some(Self::Resized),
            _ => None,
        }
    }
}
