//! Checks gzip and zstd files for secrets: decompresses them and checks the content.

use std::fs::{self, File};
use std::io::{self, Read, Write as _};
use std::path::Path;

use stormlog_analysis::regular_file;

use super::{Looked, Search};
use crate::export::{Compressed, Compression};

/// A file may decompress to at most 16 MiB, or to 256 times its compressed size if that is more.
/// The same limits apply when recordings are loaded, so a file that exceeds them is not a
/// recording.
const SMALL_FILE: u64 = 16 << 20;
const LARGEST_RATIO: u64 = 256;

/// Checks a compressed file for secrets. A redacted copy is compressed in the same format as the
/// original file.
pub(super) fn search(search: &Search<'_>, compression: Compression) -> io::Result<Looked> {
    let Some(folder) = search.copy.parent() else {
        return Ok(Looked::Unreadable);
    };
    let plain_folder = folder.join("plain");
    fs::create_dir_all(&plain_folder)?;
    let name = search.file.file_stem().unwrap_or_default();
    let (plain, hidden) = (plain_folder.join(name), folder.join(name));
    let looked = match decompress(search.file, compression, &plain) {
        Ok(true) => Search {
            file: &plain,
            copy: &hidden,
        }
        .run_plain()?,
        Ok(false) => Looked::TooLarge,
        // The compressed file is truncated or damaged. A file that cannot be checked for secrets is
        // not sent.
        Err(_) => Looked::Unreadable,
    };
    if matches!(looked, Looked::Copied) {
        let mut copy = File::create(search.copy)?;
        let mut compressed = Compressed::new(&mut copy, Some(compression))?;
        io::copy(&mut File::open(&hidden)?, &mut compressed)?;
        compressed.finish()?;
        fs::remove_file(&hidden)?;
    }
    fs::remove_dir_all(&plain_folder)?;
    Ok(looked)
}

/// Decompresses `file` into `plain`; returns `false` if the content is larger than allowed, in
/// which case `plain` contains only the beginning.
fn decompress(file: &Path, compression: Compression, plain: &Path) -> io::Result<bool> {
    let source = regular_file::open(file)?;
    let limit = SMALL_FILE.max(source.metadata()?.len().saturating_mul(LARGEST_RATIO));
    let source: Box<dyn Read> = match compression {
        Compression::Gzip => Box::new(flate2::read::MultiGzDecoder::new(source)),
        Compression::Zstd => Box::new(zstd::Decoder::new(source)?),
    };
    let mut out = File::create(plain)?;
    let written = io::copy(&mut source.take(limit + 1), &mut out)?;
    out.flush()?;
    Ok(written <= limit)
}
