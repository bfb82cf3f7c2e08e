//! What the terminal reports, turned into messages by a thread of its own.

use std::os::fd::BorrowedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::Sender;
use std::thread::JoinHandle;
use std::time::Duration;

use ratatui::crossterm::event;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::termios::isatty;

use super::message::Message;

/// How long to wait for a key before looking whether to stop or whether the size has changed.
const WAIT_NS: i64 = 50_000_000;

/// The thread, while the interface is shown.
pub(super) struct Input {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Input {
    pub(super) fn start(sender: Sender<Message>) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = Arc::clone(&stop);
        let thread = std::thread::spawn(move || {
            while !stopped.load(Ordering::Relaxed) {
                if wait(WAIT_NS) == State::Gone {
                    let _ = sender.send(Message::TerminalGone);
                    break;
                }
                if pass_on(&sender).is_none() {
                    break;
                }
            }
        });
        Self {
            stop,
            thread: Some(thread),
        }
    }
}

impl Drop for Input {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        // The thread may have been reading a terminal just as it went away; then it never ends.
        if let Some(thread) = self.thread.take()
            && wait(0) != State::Gone
        {
            let _ = thread.join();
        }
    }
}

/// Sends on everything that has been reported; nothing when that is not possible any more.
fn pass_on(sender: &Sender<Message>) -> Option<()> {
    while event::poll(Duration::ZERO).ok()? {
        let event = event::read().ok()?;
        if let Some(message) = Message::of_event(&event) {
            sender.send(message).ok()?;
        }
    }
    Some(())
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// There may be something to read.
    There,
    /// The window was closed or the connection lost.
    Gone,
}

/// Waits until the terminal has something to say, at most so long. Asked of the kernel, because
/// crossterm reads the end of a terminal that is gone over and over and never returns.
fn wait(at_most_ns: i64) -> State {
    let stdin = rustix::stdio::stdin();
    let stdout = rustix::stdio::stdout();
    // What crossterm reads where the standard input is no terminal goes away with the output.
    let terminal: BorrowedFd<'_> = if isatty(stdin) { stdin } else { stdout };
    let mut asked = [PollFd::from_borrowed_fd(terminal, PollFlags::IN)];
    let limit = Timespec {
        tv_sec: 0,
        tv_nsec: at_most_ns,
    };
    let answered = poll(&mut asked, Some(&limit)).is_ok();
    let gone = PollFlags::HUP | PollFlags::ERR | PollFlags::NVAL;
    if answered && asked[0].revents().intersects(gone) {
        State::Gone
    } else {
        State::There
    }
}
