//! The terminal user interface: a model, messages that change the model, and views that draw it.
//!
//! [`update`](update::update) is a pure function that returns [`Effect`]s for all work that needs
//! files, clocks or collectors; threads carry out the effects and reply with messages.

mod clerk;
mod colours;
mod comparison;
mod effect;
mod export;
mod folder;
mod input;
mod keys;
mod message;
mod model;
mod monitor;
mod outline;
mod palette;
mod plot;
pub(crate) mod recent;
mod run;
mod sampler;
mod terminal;
mod update;
mod view;
mod worker;

#[cfg(test)]
mod equal_numbers;
#[cfg(test)]
mod same_runs;
#[cfg(test)]
mod same_verdict;
#[cfg(test)]
mod tests;

use std::path::PathBuf;
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use crate::machine::now_ns;
use crate::signals::Signals;
use effect::Effect;
use input::Input;
use message::Message;
use model::Model;
use sampler::Sampler;
use terminal::Guard;

/// Options of the terminal interface.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Options {
    /// Whether colours may be used.
    pub(crate) colours: bool,
    /// Whether mouse events are handled.
    pub(crate) mouse: bool,
}

/// The time between two frames while many messages arrive. With 30 ms between frames and the time
/// for drawing, the screen is drawn about thirty times a second.
const FRAME: Duration = Duration::from_millis(30);
/// If no message arrives for this time, the screen is drawn again to update its clock.
const IDLE: Duration = Duration::from_millis(500);

/// Shows the terminal interface until the user leaves it.
pub(crate) fn run(paths: Vec<PathBuf>, options: Options) -> anyhow::Result<()> {
    let signals = Signals::that_end()?;
    let (sender, messages) = channel();
    let worker = worker::start(sender.clone());
    let clerk = clerk::start(sender.clone());
    let mut sampler = Sampler::new(sender.clone());
    let mut guard = Guard::enter(options.mouse)?;
    let _input = Input::start(sender);
    let mut model = Model::new(paths, now_ns(), options.colours);
    let size = guard.terminal.size()?;
    model.size = (size.width, size.height);
    let mut effects = Vec::new();
    effects.push(if model.paths.is_empty() {
        Effect::ListRuns
    } else {
        Effect::Open(model.paths.clone())
    });
    effects.push(Effect::AskMachine);
    loop {
        for effect in effects.drain(..) {
            match effect {
                Effect::Quit => return Ok(()),
                Effect::Watch(target) => sampler.watch(target),
                Effect::StopWatching => sampler.stop(),
                effect => {
                    let thread = match effect {
                        Effect::AskMachine
                        | Effect::ListRuns
                        | Effect::List(_)
                        | Effect::Export(..) => &clerk,
                        _ => &worker,
                    };
                    // Sending fails only after the thread has ended, which happens when nobody
                    // receives its replies any more.
                    let _ = thread.send(effect);
                }
            }
        }
        if Guard::is_lost() {
            anyhow::bail!("a part of the interface failed, see above");
        }
        guard.terminal.draw(|frame| view::draw(&model, frame))?;
        effects = next(&messages, &mut model);
        if signals.take().is_some() || input::is_terminal_gone() {
            return Ok(());
        }
    }
}

/// Waits for a message, then handles all messages that arrive within the time of one frame.
fn next(messages: &Receiver<Message>, model: &mut Model) -> Vec<Effect> {
    let mut effects = Vec::new();
    let is_busy = model.is_busy();
    let begin = Instant::now();
    match messages.recv_timeout(if is_busy { FRAME } else { IDLE }) {
        Ok(message) => effects.extend(update::update(model, message)),
        Err(RecvTimeoutError::Timeout) => {}
        Err(RecvTimeoutError::Disconnected) => effects.push(Effect::Quit),
    }
    model.now_ns = now_ns();
    let end = if is_busy { begin } else { Instant::now() } + FRAME;
    while effects.is_empty() {
        let left = end.saturating_duration_since(Instant::now());
        if left.is_zero() {
            break;
        }
        match messages.try_recv() {
            Ok(message) => effects.extend(update::update(model, message)),
            // If no further messages are expected, the screen is drawn without waiting for the end
            // of the frame, so that a key press takes effect at once.
            Err(_) if !model.is_busy() => break,
            Err(_) => std::thread::sleep(left.min(Duration::from_millis(5))),
        }
    }
    effects
}
