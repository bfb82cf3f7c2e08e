//! The clerk: a thread for short work, such as listing folders, exporting events and reading facts
//! about the machine. Another thread, the worker, loads artifacts, so that short work need not wait
//! while a large artifact is loaded.

use std::path::Path;
use std::sync::mpsc::{Receiver, Sender, channel};

use stormlog_capture::collect::nvml;
use stormlog_report::bytes;

use super::effect::Effect;
use super::message::Message;
use super::model::Machine;
use super::{export, folder, recent};
use crate::machine::on_this_machine;

/// Starts the clerk, a thread that does short work for the terminal UI. The clerk carries out the
/// effects that are sent to it; its replies arrive as messages.
pub(crate) fn start(replies: Sender<Message>) -> Sender<Effect> {
    let (requests, inbox) = channel();
    std::thread::spawn(move || work(&inbox, &replies));
    requests
}

fn work(inbox: &Receiver<Effect>, replies: &Sender<Message>) {
    while let Ok(effect) = inbox.recv() {
        let reply = match effect {
            Effect::AskMachine => Message::Machine(machine()),
            Effect::ListRuns => Message::Recent(recent::runs(Path::new("."))),
            Effect::List(text) => {
                let entries = folder::entries(&text);
                Message::Listed(text, entries)
            }
            Effect::Export(events, format) => {
                match export::events(Path::new("."), &events, format) {
                    Ok(path) => Message::Done(format!("wrote {}", path.display())),
                    Err(error) => Message::NotDone(format!("{error:#}")),
                }
            }
            // All other effects are handled by the worker or by the main loop.
            _ => continue,
        };
        if replies.send(reply).is_err() {
            return;
        }
    }
}

fn machine() -> Machine {
    let mut machine = Machine {
        host: on_this_machine(|surroundings| surroundings.host.to_owned()),
        ..Machine::default()
    };
    match nvml::gpus() {
        Ok(gpus) => {
            machine.gpus = gpus
                .iter()
                .map(|gpu| {
                    let memory = nvml::device_memory(gpu.index).ok();
                    let total = memory.and_then(|memory| i64::try_from(memory.total).ok());
                    let total = total.map(bytes::human).unwrap_or_default();
                    format!("{} {} {total}", gpu.index, gpu.name)
                })
                .collect();
        }
        Err(reason) => machine.no_gpu = Some(reason),
    }
    machine
}
