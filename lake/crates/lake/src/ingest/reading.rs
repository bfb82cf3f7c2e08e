//! Reads the ranges of files that an ingest lacks, on a thread of its own, a few blocks ahead of the
//! thread that encodes rows.

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::Arc;

use anyhow::{Context, Result};
use stormlog_analysis::{
    Events, LoadError, LoadOptions, StreamedLines, stream_events, stream_lines,
};
use tokio::sync::mpsc;

use super::plan::{How, Piece, Unit, offset};

/// How many blocks of events may wait between the thread that reads and the thread that encodes.
const WAITING: usize = 4;

/// A range of a file that is read, given by positions in its stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Job {
    /// The index of the unit, and of the piece in it.
    pub(super) unit: usize,
    pub(super) piece: usize,
    pub(super) range: Range<i64>,
}

/// The jobs that are being read, in their order.
pub(super) struct Reading {
    jobs: VecDeque<Job>,
    messages: mpsc::Receiver<Message>,
}

/// What the reading thread sends: the events of a job in blocks, then how the job ended.
pub(super) enum Message {
    Block(Events),
    End(Result<StreamedLines, LoadError>),
}

impl Reading {
    /// Starts to read all jobs, one after the other.
    pub(super) fn start(units: &Arc<Vec<Unit>>, jobs: Vec<Job>) -> Self {
        let (sender, messages) = mpsc::channel(WAITING);
        let (units, todo) = (Arc::clone(units), jobs.clone());
        tokio::task::spawn_blocking(move || {
            for job in todo {
                let unit = &units[job.unit];
                let end = read(unit, &unit.pieces[job.piece], &job.range, &sender);
                // Sending fails only when the whole ingest has ended.
                if sender.blocking_send(Message::End(end)).is_err() {
                    return;
                }
            }
        });
        Self {
            jobs: jobs.into(),
            messages,
        }
    }

    /// Removes and returns the next job, if it reads the given unit.
    pub(super) fn next_job(&mut self, unit: usize) -> Option<Job> {
        self.jobs.pop_front_if(|job| job.unit == unit)
    }

    /// The next message about the job that [`next_job`](Self::next_job) returned last.
    pub(super) async fn message(&mut self) -> Result<Message> {
        let message = self.messages.recv().await;
        message.context("the thread that reads recordings ended too early")
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
        // A failed send is noticed at the end of the job.
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
