//! `stormlog demo`: runs a small Python service with a memory leak under `stormlog run`, then
//! analyzes the recording and draws it, with the commands that a user would type.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::Context as _;
use stormlog_report::escape::for_terminal;

use super::script::shell_word;
use crate::console::Console;
use crate::failure::hinted;
use crate::recording::positive_seconds;
use crate::whole_file::write_whole;
use crate::{Dialect, Exit, watched};

/// The service, and the name of its file in the directory of the demo.
const SERVICE: &str = include_str!("demo/service.py");
const SERVICE_NAME: &str = "service.py";

/// The environment variable in which the Python package passes the interpreter that it runs in.
const PYTHON: &str = "STORMLOG_PYTHON";

/// Record a small Python service with a leak, find its line and draw the timeline
#[derive(Debug, clap::Args)]
#[command(
    after_help = "The demo prints and runs the commands 'stormlog run', 'stormlog analyze' and
'stormlog plot'. It needs Python 3.

Examples:
  stormlog demo
  stormlog demo --seconds 60 --dir demo"
)]
pub(crate) struct Arguments {
    /// Write the service, its recording and its timeline to this directory
    #[arg(long, value_name = "DIR", default_value = "stormlog-demo")]
    dir: PathBuf,
    /// Run the service for this many seconds; a sure verdict needs about 25
    #[arg(long, value_name = "SECONDS", default_value = "30", value_parser = positive_seconds)]
    seconds: Duration,
}

pub(crate) fn run(arguments: &Arguments, console: &mut Console<'_>) -> anyhow::Result<Exit> {
    if watched::is_disabled() {
        let error = anyhow::anyhow!("STORMLOG_DISABLE=1 is set, so nothing is recorded");
        return Err(hinted(error, "unset STORMLOG_DISABLE"));
    }
    let python = Interpreter::find()?;
    let folder = &arguments.dir;
    fs::create_dir_all(folder).with_context(|| format!("cannot create '{}'", folder.display()))?;
    let service = folder.join(SERVICE_NAME);
    write_whole(&service, SERVICE.as_bytes())?;
    let seconds = arguments.seconds.as_secs_f64();
    let file = for_terminal(&shell_word(&service)).into_owned();
    writeln!(
        console.err,
        "{file} is a small service with a memory leak; it runs for {seconds} s."
    )?;
    if !python.has_package {
        writeln!(
            console.err,
            "stormlog: the Python package stormlog is not installed for this interpreter, so the \
             report cannot name the line that leaks (pip install stormlog)"
        )?;
    }
    let recording = free_folder(folder);
    let recorded = call(
        &[
            "run".into(),
            "--dir".into(),
            recording.clone().into(),
            "--".into(),
            python.program,
            service.into(),
            seconds.to_string().into(),
        ],
        console,
    )?;
    if !matches!(recorded, Exit::Fine | Exit::Child(0)) {
        return Ok(recorded);
    }
    let analyzed = call(&["analyze".into(), recording.clone().into()], console)?;
    if analyzed != Exit::Fine {
        return Ok(analyzed);
    }
    let page = folder.join("timeline.html");
    let plot = ["plot", "-o"].map(OsString::from);
    let [plot, output] = plot;
    call(&[plot, recording.into(), output, page.into()], console)
}

/// Prints a command line of `stormlog` and runs it.
fn call(words: &[OsString], console: &mut Console<'_>) -> anyhow::Result<Exit> {
    let typed: Vec<String> = words
        .iter()
        .map(|word| shell_word(Path::new(word)))
        .collect();
    let typed = typed.join(" ");
    // Standard output is flushed, so that both outputs appear in order.
    console.out.flush()?;
    writeln!(console.err, "\n$ stormlog {}", for_terminal(&typed))?;
    Ok(crate::run(Dialect::Stormlog, words.to_vec(), console))
}

/// A new folder for the recording. Recordings of earlier demos are kept.
fn free_folder(folder: &Path) -> PathBuf {
    let others = (2..).map(|number| format!("run-{number}"));
    let mut names = std::iter::once("run".to_owned()).chain(others);
    let free = names.find(|name| fs::symlink_metadata(folder.join(name)).is_err());
    folder.join(free.unwrap_or_default())
}

/// The Python interpreter that runs the service.
struct Interpreter {
    program: OsString,
    /// Whether the recorder can look inside: this program comes from the Python package, or the
    /// package is installed for the interpreter.
    has_package: bool,
}

impl Interpreter {
    /// The interpreter of the Python package that this program comes from, or else the first of the
    /// usual names.
    fn find() -> anyhow::Result<Self> {
        let own = std::env::var_os(PYTHON).filter(|path| !path.is_empty());
        if let Some(program) = own {
            return Ok(Self {
                program,
                has_package: true,
            });
        }
        let mut names = ["python3", "python"].into_iter().map(OsString::from);
        let Some(program) = names.find(|name| runs(name, "")) else {
            let error =
                anyhow::anyhow!("the demo needs Python 3, and neither python3 nor python runs");
            let hint = "install Python, or record a program of your own: stormlog run -- COMMAND";
            return Err(hinted(error, hint));
        };
        Ok(Self {
            has_package: runs(&program, "import stormlog"),
            program,
        })
    }
}

/// Whether an interpreter of Python 3 runs a line of code without an error.
fn runs(interpreter: &OsString, code: &str) -> bool {
    let code = format!("import sys; assert sys.version_info >= (3, 8)\n{code}");
    let mut command = Command::new(interpreter);
    let command = command.args(["-c", &code]);
    let command = command.stdin(Stdio::null()).stdout(Stdio::null());
    let status = command.stderr(Stdio::null()).status();
    status.is_ok_and(|status| status.success())
}
