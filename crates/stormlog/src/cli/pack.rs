//! `stormlog pack`: packs a run into one file that can be sent to a colleague.

use std::borrow::Cow;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

use anyhow::anyhow;
use schemars::JsonSchema;
use serde::Serialize;
use stormlog_analysis::find_artifacts;
use stormlog_analysis::pack::{ENDING, MOST_FILES, is_pack};
use stormlog_format::counted;
use stormlog_report::bytes;
use stormlog_report::escape::{for_terminal, path_for_terminal};

use super::artifact::{listed, load_failure};
use crate::Exit;
use crate::console::Console;
use crate::failure::hinted;
use crate::pack::{Packed, write};
use crate::progress::Progress;

/// The largest number of file names that are printed; `--json` prints all of them.
const LISTED: usize = 10;

/// Pack a run into one compressed file without secrets, to send it to a colleague
///
/// Every command opens the file as it opens the run. What looks like a secret is replaced by
/// [redacted] in everything that is packed, names of files included.
#[derive(Debug, clap::Args)]
#[command(after_help = "OUT appears when it is complete. The run is not changed.

Examples:
  stormlog pack run -o run.stormlog
  stormlog analyze run.stormlog
  stormlog plot run.stormlog -o timeline.html
  stormlog pack run -o run.stormlog --force --json | jq .left_out")]
pub(crate) struct Arguments {
    /// Run to pack: its folder, a sink, a bundle or an event file
    #[arg(value_name = "RUN")]
    run: PathBuf,
    /// File to write; its name ends in .stormlog [default: the name of RUN]
    #[arg(short, long, value_name = "OUT")]
    output: Option<PathBuf>,
    /// Replace OUT if it exists
    #[arg(long)]
    force: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// The pack file that was written.
#[derive(Serialize, JsonSchema)]
pub(crate) struct Document<'a> {
    /// The path of the pack file.
    pack: Cow<'a, str>,
    /// The size of the pack file in bytes.
    pack_bytes: u64,
    /// The number of files in the pack.
    files: u64,
    /// The size of all packed files in bytes before compression.
    bytes: u64,
    /// Files from which secrets were removed.
    redacted: &'a [String],
    /// Files that were not packed, each with the reason.
    left_out: &'a [String],
}

pub(crate) fn run(arguments: &Arguments, console: &mut Console<'_>) -> anyhow::Result<Exit> {
    let run = &arguments.run;
    if is_pack(run) {
        let error = anyhow!("'{}' is a pack already", run.display());
        return Err(hinted(
            error,
            "a pack needs no packing: send the file itself",
        ));
    }
    let found = find_artifacts(run).map_err(|error| load_failure(&error, run, true))?;
    let output = output_of(arguments)?;
    // The total for the progress bar is twice the size of the run, because the files are read once
    // and then written.
    let total = if console.err_is_terminal {
        size_of(run).saturating_mul(2)
    } else {
        0
    };
    let progress = Progress::of_bytes(total, console.err_is_terminal);
    let packed = write(run, &output, &|bytes| progress.advance(bytes));
    drop(progress);
    let packed = packed?;
    for refused in &found.refused {
        writeln!(
            console.err,
            "warning: {}",
            for_terminal(&refused.to_string())
        )?;
    }
    if arguments.json {
        console.print_json(&Document {
            pack: output.to_string_lossy(),
            pack_bytes: packed.pack_bytes,
            files: packed.content.files,
            bytes: packed.content.bytes,
            redacted: &packed.redacted,
            left_out: &packed.left_out,
        })?;
    } else {
        print(&output, &packed, console)?;
    }
    Ok(Exit::Fine)
}

fn output_of(arguments: &Arguments) -> anyhow::Result<PathBuf> {
    let default = || {
        let run = arguments.run.canonicalize().ok()?;
        let mut name = OsString::from(run.file_name()?);
        name.push(".");
        name.push(ENDING);
        Some(PathBuf::from(name))
    };
    let output = arguments.output.clone().or_else(default);
    let output = output.ok_or_else(|| {
        hinted(
            anyhow!("cannot derive the name of the pack from RUN"),
            "give '-o OUT'",
        )
    })?;
    let ending = output.extension().unwrap_or_default();
    if !ending.eq_ignore_ascii_case(ENDING) {
        let error = anyhow!("'{}' does not end in .{ENDING}", output.display());
        return Err(hinted(
            error,
            "packs are recognized by the ending .stormlog",
        ));
    }
    if output.exists() && !arguments.force {
        let error = anyhow!("'{}' already exists", output.display());
        return Err(hinted(error, "give '--force' to replace it"));
    }
    let folder = output.parent().filter(|it| !it.as_os_str().is_empty());
    if let Some(folder) = folder.filter(|folder| !folder.is_dir()) {
        let error = anyhow!("'{}' is not a folder", folder.display());
        return Err(hinted(error, "create the folder first"));
    }
    Ok(output)
}

/// The total size in bytes of the files below a path; used only for the progress bar.
fn size_of(path: &Path) -> u64 {
    let mut total = 0;
    let mut pending = vec![path.to_path_buf()];
    let mut seen = 0;
    while let Some(path) = pending.pop().filter(|_| seen < MOST_FILES) {
        seen += 1;
        match path.symlink_metadata() {
            Ok(facts) if facts.is_dir() => {
                let entries = path.read_dir().into_iter().flatten().flatten();
                pending.extend(entries.map(|entry| entry.path()));
            }
            Ok(facts) if facts.is_file() => total += facts.len(),
            _ => {}
        }
    }
    total
}

fn print(output: &Path, packed: &Packed, console: &mut Console<'_>) -> anyhow::Result<()> {
    let size = |count: u64| bytes::human(i64::try_from(count).unwrap_or(i64::MAX));
    writeln!(
        console.out,
        "{pack}: {files}, {unpacked} packed into {packed}",
        pack = path_for_terminal(output),
        files = counted(packed.content.files, "file"),
        unpacked = size(packed.content.bytes),
        packed = size(packed.pack_bytes),
    )?;
    if !packed.redacted.is_empty() {
        let names = listed(packed.redacted.iter());
        writeln!(console.out, "  secrets removed from {names}")?;
    }
    for line in packed.left_out.iter().take(LISTED) {
        writeln!(console.err, "warning: not packed: {}", for_terminal(line))?;
    }
    if packed.left_out.len() > LISTED {
        let more = counted(packed.left_out.len() - LISTED, "more file");
        writeln!(console.err, "warning: not packed: {more}")?;
    }
    Ok(())
}
