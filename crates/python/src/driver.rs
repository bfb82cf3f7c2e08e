//! Memory of a device as the CUDA driver knows it: which processes hold memory, and which library
//! asked the driver for which memory.

use std::path::PathBuf;

use pyo3::prelude::*;
use pyo3::types::PyDict;
use stormlog_capture::collect::{nvml, tree};
use stormlog_driver::{self as driver, Question, Site, State};

use crate::convert::{dicts_of, seconds};

/// Used and total bytes of a GPU, and the bytes of processes by pid.
type Shares = (u64, u64, Vec<(u32, u64)>);

/// The memory of a GPU, by the driver's index: used and total bytes, and the bytes of each process
/// that the driver lists; `None` when the driver does not answer.
#[pyfunction]
pub(crate) fn device_shares(py: Python<'_>, index: u32) -> Option<Shares> {
    py.detach(|| {
        let memory = nvml::device_memory(index).ok()?;
        let shares = nvml::shares(index).unwrap_or_default();
        let shares = shares.iter().map(|share| (share.pid, share.bytes));
        Some((memory.used, memory.total, shares.collect()))
    })
}

/// The command line of a process with secrets removed; `None` where it cannot be read.
#[pyfunction]
pub(crate) fn process_name(pid: u32) -> Option<String> {
    tree::process_name(pid)
}

/// Waits until this process has a CUDA context on a device that is not in `known`; checks this
/// every `every_s` seconds. Returns the devices with a new context, and the time of the last check
/// that found none, in seconds since the call (`None` if the first check found one).
#[pyfunction]
pub(crate) fn wait_for_contexts(
    py: Python<'_>,
    known: Vec<u32>,
    every_s: f64,
    patience_s: f64,
) -> (Vec<u32>, Option<f64>) {
    let (every, patience) = (seconds(every_s), seconds(patience_s));
    let found = py.detach(|| driver::wait_for_contexts(&known, every, patience));
    let last_without = found.last_without.map(|after| after.as_secs_f64());
    (found.devices, last_without)
}

/// Starts to attribute the driver's allocations to the libraries and the lines of Python that cause
/// them. If this is impossible, returns the reason.
#[pyfunction]
pub(crate) fn driver_start(libraries: Vec<PathBuf>) -> Option<String> {
    driver::start(&libraries).err()
}

/// Ends the attribution of the driver's allocations and releases CUPTI (NVIDIA's profiling
/// interface), so that a profiler of the program can use it.
#[pyfunction]
pub(crate) fn driver_stop(py: Python<'_>, reason: &str) {
    py.detach(|| driver::stop(reason));
}

/// Whether the driver's allocations are attributed ("off", "on", "ended"), and why the attribution
/// ended.
#[pyfunction]
pub(crate) fn driver_state() -> (&'static str, Option<String>) {
    match driver::state() {
        State::Off => ("off", None),
        State::On => ("on", None),
        State::Ended(reason) => ("ended", Some(reason)),
    }
}

/// The memory that was allocated through the driver and is in use, summed by device, kind, library
/// and line. Also returns the number of allocations that the sums do not include, because too many
/// earlier allocations were still in use.
#[pyfunction]
pub(crate) fn driver_held(py: Python<'_>) -> PyResult<(Vec<Bound<'_, PyDict>>, u64)> {
    let held = py.detach(driver::held);
    Ok((dicts_of(py, &held)?, driver::missed()))
}

/// Waits until a thread that allocates through the driver asks which line of Python it is
/// executing. Returns the number of the question and the thread's id (`threading.get_ident`), or
/// `None` if no question comes within `patience_s` seconds.
#[pyfunction]
pub(crate) fn driver_question(py: Python<'_>, patience_s: f64) -> Option<(u64, u64)> {
    let question = py.detach(|| driver::next_question(seconds(patience_s)))?;
    Some((question.number, question.thread))
}

/// Answers a question that `driver_question` returned. The argument `site` is the file, line and
/// function that the asking thread executes, or `None` if they are not known.
#[pyfunction]
#[pyo3(signature = (question, site))]
pub(crate) fn driver_answer(question: (u64, u64), site: Option<(String, u32, String)>) {
    let (number, thread) = question;
    let site = site.map(|(file, line, function)| Site {
        file,
        line,
        function,
    });
    driver::answer(Question { number, thread }, site);
}
