//! Functions that all commands which read artifacts share: warnings about damage, and error
//! messages.

use std::path::Path;

use stormlog_analysis::allocator_snapshot::is_pickle;
use stormlog_analysis::pack::{PackError, shown};
use stormlog_analysis::regular_file::Refused;
use stormlog_analysis::{Damage, LoadError};
use stormlog_report::escape::{for_terminal, path_for_terminal};

use crate::console::Console;
use crate::failure::hinted;

/// The largest number of warnings of one kind that are printed; of further warnings only the number
/// is printed.
const LISTED: usize = 10;

/// Prints the first of some warnings. `what` names the warnings in the line that counts the others.
pub(crate) fn warn_of_first(
    warnings: impl ExactSizeIterator<Item = String>,
    what: &str,
    console: &mut Console<'_>,
) -> std::io::Result<()> {
    let more = warnings.len().saturating_sub(LISTED);
    for warning in warnings.take(LISTED) {
        writeln!(console.err, "warning: {}", for_terminal(&warning))?;
    }
    if more > 0 {
        writeln!(console.err, "warning: {more} more {what} are not listed")?;
    }
    Ok(())
}

/// Prints a warning about each part of an artifact (a file of a recording) that could not be read.
pub(crate) fn warn_of_damage(damage: &[Damage], console: &mut Console<'_>) -> std::io::Result<()> {
    let places = damage.iter().map(ToString::to_string);
    warn_of_first(places, "damaged places", console)
}

/// The first three of some names, and how many more there are.
pub(crate) fn listed<'a>(names: impl ExactSizeIterator<Item = &'a String>) -> String {
    let more = names.len().saturating_sub(3);
    let shown: Vec<_> = names.take(3).map(|name| for_terminal(name)).collect();
    match more {
        0 => shown.join(", "),
        _ => format!("{} and {more} more", shown.join(", ")),
    }
}

/// Describes why an artifact cannot be loaded, in which file and at which line or event, and what
/// the user can do. Unless `skips` is true, `--skip-damaged` is suggested for damaged records.
pub(crate) fn load_failure(error: &LoadError, path: &Path, skips: bool) -> anyhow::Error {
    let hint = match error {
        LoadError::NotFound(_) => {
            "check the path; a sink is the folder that contains manifest.json"
        }
        LoadError::NotAnArtifact(_) => {
            "give the sink folder itself, the one that contains manifest.json, or a file; in a folder, \
             .json and .csv files are read only when their name contains event, track, telemetry or \
             rank"
        }
        LoadError::MalformedLine { .. }
        | LoadError::LineNotAnObject { .. }
        | LoadError::BadRecord { .. }
        | LoadError::Csv { .. }
            if !skips =>
        {
            "give '--skip-damaged' to skip damaged records, or run 'stormlog validate' to list all \
             problems"
        }
        LoadError::Pack(error) => pack_hint(&error.source),
        LoadError::ExpandsTooFar { .. } => {
            "if you trust the file, decompress it first with 'gunzip' or 'zstd -d'"
        }
        LoadError::Io { source, .. } if Refused::of(source).is_some_and(is_too_large) => {
            "telemetry of this size is read from .jsonl files, one record per line"
        }
        LoadError::NoEvents { .. } | LoadError::Scalar { .. } => {
            "a JSON file with telemetry contains a list of records, or an object with a list in \
             'events'"
        }
        _ if is_pickle(error.file().unwrap_or(path)) => {
            "a snapshot of PyTorch's allocator has no telemetry; use 'stormlog show' or \
             'stormlog plot' with one snapshot at a time"
        }
        _ => "run 'stormlog validate' on the file to list all problems",
    };
    let place = error
        .place()
        .map(|place| format!(", {place}"))
        .unwrap_or_default();
    let file = path_for_terminal(&shown(error.file().unwrap_or(path)));
    // The error message quotes text from the artifact, which may contain control characters, so it
    // is escaped.
    let reason = error.reason();
    let reason = for_terminal(&reason);
    hinted(
        anyhow::anyhow!("cannot read '{file}'{place}: {reason}"),
        hint,
    )
}

fn is_too_large(refused: Refused) -> bool {
    matches!(refused, Refused::TooLarge(_))
}

fn pack_hint(error: &PackError) -> &'static str {
    match error {
        PackError::Write { .. } => {
            "make room in the folder for temporary files, or set TMPDIR to another folder"
        }
        PackError::NoRoom { .. } => "make room, or set TMPDIR to another folder",
        PackError::ExpandsTooFar { .. } => {
            "if you trust the pack, set STORMLOG_UNPACK_RESERVE to the bytes that it may expand to, \
             such as 4G"
        }
        PackError::Nested => "unpack the outer one with 'tar --zstd -xf', and give the inner one",
        PackError::Newer(_) => "update stormlog to open this pack",
        PackError::NotAPack => "if the file is not a pack, rename it: only packs end in .stormlog",
        _ => "pack the run again: stormlog pack RUN -o run.stormlog",
    }
}
