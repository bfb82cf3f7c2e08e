//! Writes packs: a pack contains a run in one compressed file, with everything redacted that looks
//! like a secret. The code that reads packs is `stormlog_analysis::pack`.

use std::fs::{self, File};
use std::io::{self, BufWriter, Read, Write};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, anyhow};
use stormlog_analysis::compression::without_suffix;
use stormlog_analysis::pack::{self, Content, HEADER, PackError, TemporaryFolder};
use stormlog_analysis::regular_file;
use stormlog_format::SinkNames;

use crate::failure::hinted;
use crate::sendable::sendable;
use crate::whole_file::unfinished;

/// File name endings that recordings have. Files with other endings may be private and are not
/// packed.
const ENDINGS: [&str; 12] = [
    "json", "jsonl", "ndjson", "csv", "pickle", "prof", "txt", "log", "md", "html", "svg", "png",
];

/// The zstd compression level. A pack of level 9 is half as large as one of level 3, but
/// compressing it is ten times slower. Even so, compressing is faster than the search for secrets.
const LEVEL: i32 = 9;

/// The result of writing a pack (a run in one compressed file): what it contains, and which files
/// were left out.
#[derive(Debug, Default)]
pub(crate) struct Packed {
    pub(crate) content: Content,
    /// The size of the pack file in bytes.
    pub(crate) pack_bytes: u64,
    /// Files of which the pack contains a redacted copy.
    pub(crate) redacted: Vec<String>,
    /// Files that are not in the pack, each with the reason.
    pub(crate) left_out: Vec<String>,
}

/// A file that is added to the pack: its name inside the pack, its path, its size, and its
/// modification time in seconds since the Unix epoch.
struct Member {
    name: String,
    file: PathBuf,
    bytes: u64,
    modified: u64,
    /// The content of the file if it is the manifest of a sink; otherwise `None`. The manifest is
    /// read before the sizes of its segments, so that the manifest of a run in progress lists no
    /// event that the packed segments lack.
    manifest: Option<Vec<u8>>,
}

/// Packs a run into a file, which gets its final name only when it is complete and was read back
/// successfully. `progress` is called with the size of each file, in bytes: once when the file was
/// checked for secrets, and once more when it was written to the pack.
pub(crate) fn write(run: &Path, output: &Path, progress: &dyn Fn(u64)) -> anyhow::Result<Packed> {
    let copies = TemporaryFolder::create().context("cannot make a temporary folder")?;
    let cannot_read = || format!("cannot read '{}'", run.display());
    let found = sendable(run, copies.path(), progress).with_context(cannot_read)?;
    let mut packed = Packed {
        left_out: found.left_out,
        ..Packed::default()
    };
    let mut members = Vec::new();
    for (name, file) in found.files {
        if !is_of_recording(&name) {
            packed
                .left_out
                .push(format!("'{name}': not a file of a recording"));
            continue;
        }
        if file.starts_with(copies.path()) {
            packed.redacted.push(name.clone());
        }
        let cannot_read = || format!("cannot read '{name}'");
        let facts = fs::metadata(&file).with_context(cannot_read)?;
        let mut bytes = facts.len();
        let mut manifest = None;
        if file_name(&name).and_then(SinkNames::of_manifest).is_some() {
            let content = fs::read(&file).with_context(cannot_read)?;
            bytes = content.len() as u64;
            manifest = Some(content);
        }
        members.push(Member {
            name,
            file,
            bytes,
            modified: u64::try_from(facts.mtime()).unwrap_or(0),
            manifest,
        });
    }
    packed.content = Content {
        files: members.len() as u64,
        bytes: members.iter().map(|member| member.bytes).sum(),
    };
    if members.is_empty() {
        anyhow::bail!("'{}' has no file that can be packed", run.display());
    }
    let cannot_write = || format!("cannot write '{}'", output.display());
    // The pack is written to a hidden file first: if the program is killed, an older pack remains
    // unchanged, and the unfinished file does not have the name of a pack.
    let mut file = unfinished(output, ".stormlog-pack").with_context(cannot_write)?;
    write_archive(file.as_file_mut(), packed.content, &members, progress)
        .with_context(cannot_write)?;
    file.as_file().sync_all().with_context(cannot_write)?;
    // The new pack is read back as a check, because a pack that exceeds the size limits of the
    // reader or cannot be opened is worse than no pack.
    let content = pack::check(file.path())
        .map_err(|error| match error {
            PackError::ExpandsTooFar { .. } => hinted(
                anyhow::Error::from(error),
                "set STORMLOG_UNPACK_RESERVE to the bytes that it may expand to, such as 4G, to pack \
                 it and wherever it is opened",
            ),
            error => error.into(),
        })
        .with_context(cannot_write)?;
    packed.pack_bytes = file.as_file().metadata().with_context(cannot_write)?.len();
    if content != packed.content {
        return Err(anyhow!(
            "the new pack does not hold exactly the packed files"
        ))
        .with_context(cannot_write);
    }
    file.persist(output).with_context(cannot_write)?;
    Ok(packed)
}

fn file_name(name: &str) -> Option<&str> {
    Path::new(name).file_name()?.to_str()
}

fn is_of_recording(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    let plain = without_suffix(&name).unwrap_or(&name);
    let ending = plain.rsplit_once('.');
    ending.is_some_and(|(_, ending)| ENDINGS.contains(&ending))
}

fn write_archive(
    file: &mut File,
    content: Content,
    members: &[Member],
    progress: &dyn Fn(u64),
) -> anyhow::Result<()> {
    let mut encoder = zstd::Encoder::new(BufWriter::with_capacity(1 << 18, file), LEVEL)?;
    // The checksum lets the reader detect a pack that was damaged in transit.
    encoder.include_checksum(true)?;
    let mut archive = tar::Builder::new(encoder);
    let header = pack::header(content, env!("CARGO_PKG_VERSION"));
    archive.append(
        &described(HEADER, header.len() as u64, 0)?,
        header.as_bytes(),
    )?;
    for member in members {
        let name = &member.name;
        let header = described(name, member.bytes, member.modified).map_err(|error| {
            hinted(
                anyhow!("'{name}' cannot be packed: {error}"),
                "give the file or the folder a shorter name",
            )
        })?;
        if let Some(manifest) = &member.manifest {
            archive.append(&header, manifest.as_slice())?;
            progress(member.bytes);
            continue;
        }
        let opened = regular_file::open(&member.file).with_context(|| format!("'{name}'"))?;
        // A run that is still being recorded grows, so only as many bytes of a file are packed as
        // it had when its size was read.
        let exact = Exact {
            inner: opened.take(member.bytes),
            left: member.bytes,
        };
        archive
            .append(&header, exact)
            .with_context(|| format!("'{name}'"))?;
        progress(member.bytes);
    }
    archive.into_inner()?.finish()?.flush()?;
    Ok(())
}

/// The tar header of an entry, which contains nothing about the user or the machine.
fn described(name: &str, bytes: u64, modified: u64) -> io::Result<tar::Header> {
    let mut header = tar::Header::new_ustar();
    header.set_path(name)?;
    header.set_entry_type(tar::EntryType::Regular);
    header.set_mode(0o644);
    header.set_uid(0);
    header.set_gid(0);
    header.set_mtime(modified);
    header.set_size(bytes);
    header.set_cksum();
    Ok(header)
}

/// A reader that fails if a file became shorter during packing. The tar header in front of the
/// file's content already states the old size, so with fewer bytes the headers of all later files
/// would be looked for at wrong places.
struct Exact<R> {
    inner: R,
    left: u64,
}

impl<R: Read> Read for Exact<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.inner.read(buffer)?;
        self.left = self.left.saturating_sub(count as u64);
        if count == 0 && self.left > 0 && !buffer.is_empty() {
            let what = "the file was rewritten while it was packed; pack the run again";
            return Err(io::Error::other(what));
        }
        Ok(count)
    }
}
