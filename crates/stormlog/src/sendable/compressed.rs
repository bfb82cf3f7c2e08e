//! Checks gzip and zstd files for secrets: decompresses them and checks the content.

use std::fs::{self, File};
use std::io;

use stormlog_analysis::compression::{Compression, decompressed, expands_too_far};
use stormlog_analysis::regular_file;

use super::search::{Looked, Search};
use crate::export::Compressed;

/// Checks a compressed file for secrets. A redacted copy is compressed in the same format as the
/// original file.
pub(super) fn search(search: &Search<'_>, compression: Compression) -> io::Result<Looked> {
    let Some(folder) = search.copy.parent() else {
        return Ok(Looked::Unreadable);
    };
    let plain_folder = folder.join("plain");
    fs::create_dir_all(&plain_folder)?;
    let (plain, hidden) = (plain_folder.join("content"), plain_folder.join("redacted"));
    let mut content = File::options()
        .read(true)
        .write(true)
        .create(true)
        .truncate(true)
        .open(&plain)?;
    let source = regular_file::open(search.file).and_then(decompressed);
    let copied = source.and_then(|(mut reader, _)| io::copy(&mut reader, &mut content));
    let looked = match copied {
        // What is compressed twice is not a recording.
        Ok(_) if Compression::of(&mut content)?.is_some() => Looked::Unreadable,
        Ok(_) => Search {
            file: &plain,
            copy: &hidden,
            format: search.format,
        }
        .run_plain()?,
        Err(error) if expands_too_far(&error).is_some() => Looked::TooLarge,
        // The compressed file is truncated or damaged. A file that cannot be checked for secrets is
        // not sent.
        Err(_) => Looked::Unreadable,
    };
    if matches!(looked, Looked::Copied) {
        let mut copy = File::create(search.copy)?;
        let mut compressed = Compressed::new(&mut copy, Some(compression))?;
        io::copy(&mut File::open(&hidden)?, &mut compressed)?;
        compressed.finish()?;
    }
    fs::remove_dir_all(&plain_folder)?;
    Ok(looked)
}
