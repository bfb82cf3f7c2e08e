//! Puts the terminal into the mode that the interface needs, and restores it whenever the interface
//! ends.

use std::io::{Stdout, stdout};
use std::sync::Once;
use std::sync::atomic::{AtomicBool, Ordering};

use ratatui::Terminal;
use ratatui::backend::CrosstermBackend;
use ratatui::crossterm::cursor::Show;
use ratatui::crossterm::event::{DisableMouseCapture, EnableMouseCapture};
use ratatui::crossterm::execute;
use ratatui::crossterm::terminal::{
    Clear, ClearType, EnterAlternateScreen, LeaveAlternateScreen, disable_raw_mode, enable_raw_mode,
};

use super::colours::SixteenColours;

/// Whether the interface uses the terminal. A panic restores the terminal and clears this flag;
/// then the interface draws nothing more.
static TAKEN: AtomicBool = AtomicBool::new(false);
static HOOK: Once = Once::new();

/// The terminal in raw mode on its alternate screen; the normal mode and screen are restored when
/// this value is dropped.
pub(crate) struct Guard {
    pub(crate) terminal: Terminal<CrosstermBackend<SixteenColours<Stdout>>>,
}

impl Guard {
    /// Puts the terminal into raw mode. A panic of any thread restores the terminal before the
    /// panic is printed.
    pub(crate) fn enter(mouse: bool) -> anyhow::Result<Self> {
        HOOK.call_once(|| {
            let previous = std::panic::take_hook();
            std::panic::set_hook(Box::new(move |panic| {
                give_back();
                previous(panic);
            }));
        });
        TAKEN.store(true, Ordering::SeqCst);
        enable_raw_mode()?;
        // From this point on the terminal is in raw mode, so every later error must restore the
        // terminal, directly or by dropping the guard.
        let terminal = Terminal::new(CrosstermBackend::new(SixteenColours::new(stdout())));
        if terminal.is_err() {
            give_back();
        }
        let guard = Self {
            terminal: terminal?,
        };
        // The screen is cleared here and not by ratatui: ratatui would first request the cursor
        // position, which not every terminal reports.
        execute!(stdout(), EnterAlternateScreen, Clear(ClearType::All))?;
        if mouse {
            execute!(stdout(), EnableMouseCapture)?;
        }
        Ok(guard)
    }

    /// Whether a panic on some thread has already restored the terminal.
    pub(crate) fn is_lost() -> bool {
        !TAKEN.load(Ordering::SeqCst)
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        give_back();
    }
}

/// Restores the terminal; does nothing if the terminal is already restored.
fn give_back() {
    if TAKEN.swap(false, Ordering::SeqCst) {
        // Errors while the terminal is restored are ignored, because it may already be closed.
        let _ = disable_raw_mode();
        let _ = execute!(stdout(), DisableMouseCapture, LeaveAlternateScreen, Show);
    }
}

#[cfg(test)]
mod tests {
    use std::process::{Command, Stdio};

    use super::*;

    #[test]
    #[ignore = "run by the test below, in a terminal"]
    fn takes_the_terminal_and_panics() {
        let _guard = Guard::enter(true).unwrap();
        // The panic happens on another thread than the main loop, which does not notice such a
        // panic by itself.
        let thread = std::thread::spawn(|| panic!("on purpose"));
        assert!(thread.join().is_err() && Guard::is_lost());
    }

    #[test]
    fn a_panic_gives_the_terminal_back_before_it_prints() {
        let program = std::env::current_exe().unwrap();
        let name = "tui::terminal::tests::takes_the_terminal_and_panics";
        let command = format!(
            "'{}' --ignored --exact {name} --nocapture",
            program.display()
        );
        let done = Command::new("script")
            .args(["-qec", &command, "/dev/null"])
            .stdin(Stdio::null())
            .output();
        let Ok(done) = done else {
            return; // without script(1) there is no terminal to try this in
        };
        let written = String::from_utf8_lossy(&done.stdout).into_owned();
        let index = |text: &str| written.find(text).unwrap_or_else(|| panic!("{written}"));
        assert!(index("\x1b[?1049h") < index("\x1b[?1049l"));
        assert!(index("\x1b[?1049l") < index("on purpose"));
        assert!(done.status.success(), "{written}");
    }
}
