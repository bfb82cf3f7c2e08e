//! `stormlog convert`: writes events of any artifact as JSON, JSONL or CSV.

use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};

use anyhow::{Context, anyhow};
use clap::ValueEnum;
use stormlog_analysis::compression::{Compression, without_suffix};
use stormlog_analysis::{Damage, LoadOptions, OnError, find_artifacts, stream_events};
use stormlog_capture::files::{directory_of, replaceable};
use stormlog_format::counted;

use stormlog_report::escape::path_for_terminal;

use super::artifact::{load_failure, warn_of_damage};
use super::run_files::note_skipped;
use crate::Exit;
use crate::console::Console;
use crate::export::{Compressed, EventFormat, EventWriter};
use crate::failure::hinted;
use crate::progress::Progress;
use crate::whole_file::unfinished;

/// Convert the events of an artifact to JSON, JSONL or CSV
#[derive(Debug, clap::Args)]
#[command(
    after_help = "The name of OUT selects the format: .json, .jsonl or .csv, and the compression:
.gz or .zst after it. OUT appears when it is complete.

Examples:
  stormlog convert run/sink events.json
  stormlog convert events.csv events.jsonl.zst
  stormlog convert run/sink - --to csv | head"
)]
pub(crate) struct Arguments {
    /// Sink, segment, JSON, JSONL or CSV file (also .gz and .zst), bundle, or folder of these
    #[arg(value_name = "IN")]
    input: PathBuf,
    /// File to write, or - for standard output
    #[arg(value_name = "OUT")]
    output: PathBuf,
    /// Output format, when the name of OUT does not determine it
    #[arg(long, value_name = "FORMAT")]
    to: Option<EventFormat>,
    /// Replace OUT if it exists
    #[arg(long)]
    force: bool,
    /// Skip records that cannot be read, and list them on standard error
    #[arg(long)]
    skip_damaged: bool,
}

pub(crate) fn run(arguments: &Arguments, console: &mut Console<'_>) -> anyhow::Result<Exit> {
    let format = format_of(arguments)?;
    let progress = Progress::through([&*arguments.input], console.err_is_terminal);
    let converted = if arguments.output.as_os_str() == "-" {
        convert(arguments, format, &mut *console.out, &progress)?
    } else {
        convert_to_file(arguments, format, &progress)?
    };
    drop(progress);
    warn_of_damage(&converted.damage, console)?;
    note_skipped(&converted.skipped, console)?;
    if arguments.output.as_os_str() != "-" {
        let events = counted(converted.events, "event");
        let output = path_for_terminal(&arguments.output);
        writeln!(console.err, "wrote {events} to '{output}'")?;
    }
    Ok(Exit::Fine)
}

/// The result of a conversion: the number of events written, the records that were skipped because
/// they could not be read, and the files that were skipped because they are no recordings.
struct Converted {
    events: usize,
    damage: Vec<Damage>,
    skipped: Vec<PathBuf>,
}

fn format_of(arguments: &Arguments) -> anyhow::Result<EventFormat> {
    if let Some(format) = arguments.to {
        return Ok(format);
    }
    let name = arguments.output.to_string_lossy().to_lowercase();
    let plain = without_suffix(&name).unwrap_or(&name);
    let ending = plain.rsplit_once('.').map_or("", |(_, ending)| ending);
    EventFormat::from_str(ending, false).map_err(|_| {
        hinted(
            anyhow!("unknown output format for '{}'", arguments.output.display()),
            "use a name that ends in .json, .jsonl or .csv, or give '--to'",
        )
    })
}

fn convert_to_file(
    arguments: &Arguments,
    format: EventFormat,
    progress: &Progress,
) -> anyhow::Result<Converted> {
    let output = &arguments.output;
    if output.exists() && !arguments.force {
        let error = anyhow!("'{}' already exists", output.display());
        return Err(hinted(error, "give '--force' to replace it"));
    }
    let directory = directory_of(output);
    if !directory.is_dir() {
        let error = anyhow!("'{}' is not a folder", directory.display());
        let error = error.context(format!("cannot write '{}'", output.display()));
        return Err(hinted(error, "create the folder first"));
    }
    let cannot_write = || format!("cannot write '{}'", output.display());
    let write_to = |file: &mut File| {
        let mut writer = Compressed::new(file, Compression::of_name(output))?;
        let converted = convert(arguments, format, &mut writer, progress)?;
        writer.finish().with_context(cannot_write)?;
        anyhow::Ok(converted)
    };
    if replaceable(output).is_none() {
        // A device or a pipe is written to: a file in its place would break other programs.
        let mut file = File::options()
            .write(true)
            .open(output)
            .with_context(cannot_write)?;
        return write_to(&mut file);
    }
    let mut file = unfinished(output, ".stormlog-convert").with_context(cannot_write)?;
    let converted = write_to(file.as_file_mut())?;
    file.as_file().sync_all().with_context(cannot_write)?;
    // The output file is renamed to its final name last, so that an output file that exists is
    // complete.
    file.persist(output).with_context(cannot_write)?;
    Ok(converted)
}

fn convert(
    arguments: &Arguments,
    format: EventFormat,
    out: &mut dyn Write,
    progress: &Progress,
) -> anyhow::Result<Converted> {
    let advance = |bytes| progress.advance(bytes);
    let options = LoadOptions {
        on_error: OnError::skip_if(arguments.skip_damaged),
        progress: &advance,
        ..LoadOptions::default()
    };
    let mut writer = EventWriter::new(format, out);
    let mut failed = None;
    let input = &arguments.input;
    let fails = |error, file: &Path| load_failure(&error, file, arguments.skip_damaged);
    let found = find_artifacts(input).map_err(|error| fails(error, input))?;
    let is_named = found.paths == [&**input];
    let (mut damage, mut skipped) = (found.refused, found.foreign);
    for file in found.paths {
        let read = stream_events(&file, &options, &mut |events| {
            if failed.is_none() {
                failed = writer.write(events).err();
            }
        });
        if let Some(error) = failed {
            return Err(anyhow::Error::from(error).context("cannot write the output"));
        }
        match read {
            // Files in a folder that contain no telemetry are skipped, because a folder of
            // artifacts may contain other files.
            Err(error) if !is_named && error.is_no_telemetry() => skipped.push(file),
            read => damage.extend(read.map_err(|error| fails(error, &file))?),
        }
    }
    let events = writer.finish().context("cannot write the output")?;
    Ok(Converted {
        events,
        damage,
        skipped,
    })
}
