//! Reads keys and mouse events from the terminal on a thread of its own, and sends them to the main
//! loop as messages.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::Sender;
use std::thread::JoinHandle;
use std::time::Duration;

use ratatui::crossterm::event;
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::message::Message;

/// How often the thread that reads terminal events checks whether it should stop.
const POLL: Duration = Duration::from_millis(100);

/// The thread that reads terminal events while the interface is shown.
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
        let Some(thread) = self.thread.take() else {
            return;
        };
        // The loop waits until the thread that reads input has ended. If the terminal is closed,
        // this thread never ends, because crossterm reads the end of the input again and again; the
        // loop then stops waiting. The terminal may be closed at any moment of the wait, so every
        // pass of the loop checks whether the terminal is closed.
        while !thread.is_finished() {
            if is_terminal_gone() {
                return;
            }
            std::thread::sleep(POLL / 10);
        }
        let _ = thread.join();
    }
}

/// Waits for a terminal event and sends it as a message; returns `None` when reading or sending is
/// no longer possible.
fn pass_on(sender: &Sender<Message>) -> Option<()> {
    if event::poll(POLL).ok()? {
        let event = event::read().ok()?;
        if let Some(message) = Message::of_event(&event) {
            sender.send(message).ok()?;
        }
    }
    Some(())
}

/// Whether the kernel reports that the terminal window was closed or its connection lost.
pub(super) fn is_terminal_gone() -> bool {
    let stdout = rustix::stdio::stdout();
    let mut asked = [PollFd::from_borrowed_fd(stdout, PollFlags::empty())];
    let at_once = Timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    let gone = PollFlags::HUP | PollFlags::ERR | PollFlags::NVAL;
    poll(&mut asked, Some(&at_once)).is_ok() && asked[0].revents().intersects(gone)
}
