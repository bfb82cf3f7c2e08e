//! Reads the ranges of files that the tables lack, on a thread of its own. The thread is a few
//! blocks of events ahead of the thread that encodes rows.

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::Arc;

use anyhow::{Result, bail};
use stormlog_analysis::{
    Events, LoadError, LoadOptions, StreamedLines, stream_events, stream_lines,
};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;

use super::plan::{How, Piece, Unit, offset};

/// How many blocks of events may wait between the thread that reads and the thread that encodes.
const WAITING: usize = 4;

/// A job of the reading thread: to read one range of a file, which is given by positions in the
/// file's stream. In this module, a job is never a training job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Job {
    /// The index of the unit, and of the piece in it.
    pub(super) unit: usize,
    pub(super) piece: usize,
    pub(super) range: Range<i64>,
}

/// The thread that reads ranges of files, and its jobs that [`next_job`](Self::next_job) has not
/// returned yet.
pub(super) struct Reading {
    units: Arc<Vec<Unit>>,
    jobs: VecDeque<Job>,
    messages: mpsc::Receiver<Message>,
    /// A message lets the thread begin to read the next file or bundle that is read as a whole.
    /// Such a file or bundle may take much memory, so the thread does not read it ahead.
    starts: std::sync::mpsc::Sender<()>,
    thread: JoinHandle<()>,
}

/// What the reading thread sends: the events of one range of a file in blocks, then whether the
/// range was read without error.
pub(super) enum Message {
    Block(Events),
    End(Result<StreamedLines, LoadError>),
}

impl Reading {
    /// Starts the thread, which reads the ranges of all jobs, one after the other.
    pub(super) fn start(units: &Arc<Vec<Unit>>, jobs: Vec<Job>) -> Self {
        let (sender, messages) = mpsc::channel(WAITING);
        let (starts, may_start) = std::sync::mpsc::channel();
        let (all, todo) = (Arc::clone(units), jobs.clone());
        let thread = tokio::task::spawn_blocking(move || {
            for job in todo {
                let unit = &all[job.unit];
                let piece = &unit.pieces[job.piece];
                // Sending and receiving fail only when the whole ingest has ended.
                if piece.read == How::Whole && may_start.recv().is_err() {
                    return;
                }
                let end = read(unit, piece, &job.range, &sender);
                if sender.blocking_send(Message::End(end)).is_err() {
                    return;
                }
            }
        });
        Self {
            units: Arc::clone(units),
            jobs: jobs.into(),
            messages,
            starts,
            thread,
        }
    }

    /// Removes and returns the next job, if it reads the given unit.
    pub(super) fn next_job(&mut self, unit: usize) -> Option<Job> {
        let job = self.jobs.pop_front_if(|job| job.unit == unit)?;
        if self.units[job.unit].pieces[job.piece].read == How::Whole {
            // If the thread has ended, the next message reports it.
            let _ = self.starts.send(());
        }
        Some(job)
    }

    /// The next message about the job that [`next_job`](Self::next_job) returned last.
    pub(super) async fn message(&mut self) -> Result<Message> {
        if let Some(message) = self.messages.recv().await {
            return Ok(message);
        }
        // The thread ends before its last message only by a panic, which is passed on.
        (&mut self.thread).await?;
        bail!("the thread that reads recordings ended too early")
    }
}

fn read(
    unit: &Unit,
    piece: &Piece,
    range: &Range<i64>,
    sender: &mpsc::Sender<Message>,
) -> Result<StreamedLines, LoadError> {
    let options = LoadOptions::skipping();
    let mut visit = |events: &Events| {
        // A failed send is ignored here: the message at the end of the job then fails too.
        let _ = sender.blocking_send(Message::Block(events.clone()));
    };
    let to = match piece.read {
        How::Whole => {
            let damage = stream_events(&piece.file, &options, &mut visit)?;
            return Ok(StreamedLines {
                damage,
                are_complete: false,
            });
        }
        How::Lines => offset(range.end),
        How::CompressedLines => u64::MAX,
    };
    let bytes = offset(range.start)..to;
    let manifest = unit.manifest.as_ref();
    stream_lines(&piece.file, manifest, bytes, &options, &mut visit)
}
