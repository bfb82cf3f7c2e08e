//! Runs the program `stormlog` inside the extension module, for the console scripts.

use std::ffi::OsString;
use std::io::Write;

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use stormlog::{Console, Dialect};

use crate::services::PythonServices;

/// Runs the program under the name `dialect`, such as `stormlog` or `gpumemprof`, with the given
/// arguments and returns its exit code.
#[pyfunction]
pub(crate) fn main(py: Python<'_>, dialect: &str, arguments: Vec<OsString>) -> PyResult<u8> {
    let dialect = Dialect::parse(dialect)
        .ok_or_else(|| PyValueError::new_err(format!("unknown command '{dialect}'")))?;
    let sys = py.import("sys")?;
    let (mut out, mut err) = (Stream::of(&sys, "stdout")?, Stream::of(&sys, "stderr")?);
    let (out_is_terminal, err_is_terminal) = (out.is_terminal, err.is_terminal);
    let mut services = PythonServices;
    let exit = py.detach(|| {
        let mut console = Console {
            out: &mut out,
            err: &mut err,
            out_is_terminal,
            err_is_terminal,
            services: Some(&mut services),
            decided: None,
        };
        stormlog::run(dialect, arguments, &mut console)
    });
    Ok(exit.code())
}

/// Whether a word is the name of a command of the program `stormlog`.
#[pyfunction]
pub(crate) fn is_command(word: &str) -> bool {
    stormlog::is_command(word)
}

/// Python's `sys.stdout` or `sys.stderr` as a Rust writer. Python gets only complete UTF-8
/// characters.
struct Stream {
    object: Py<PyAny>,
    pending: Vec<u8>,
    is_terminal: bool,
}

/// How many bytes of output are collected before Python is called to write them.
const MOST_PENDING: usize = 1 << 16;

impl Stream {
    fn of(sys: &Bound<'_, PyModule>, name: &str) -> PyResult<Self> {
        let object = sys.getattr(name)?;
        let is_terminal = object
            .call_method0("isatty")
            .and_then(|answer| answer.extract());
        let object = object.unbind();
        Ok(Self {
            object,
            pending: Vec::new(),
            is_terminal: is_terminal.unwrap_or(false),
        })
    }

    fn send(&mut self) -> std::io::Result<()> {
        let text = String::from_utf8_lossy(&self.pending);
        let sent = Python::attach(|py| {
            self.object.call_method1(py, "write", (&*text,))?;
            self.object.call_method0(py, "flush")
        });
        drop(text);
        self.pending.clear();
        sent.map(drop).map_err(std::io::Error::from)
    }
}

impl Write for Stream {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.pending.extend_from_slice(bytes);
        let ends_a_character = std::str::from_utf8(&self.pending).is_ok();
        let is_line = self.pending.ends_with(b"\n");
        if ends_a_character && (self.pending.len() >= MOST_PENDING || self.is_terminal && is_line) {
            self.send()?;
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        if self.pending.is_empty() {
            Ok(())
        } else {
            self.send()
        }
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        let _ = self.flush();
    }
}
