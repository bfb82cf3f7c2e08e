//! Finds the files of a sink, the directory into which a recorder writes events: its manifest and
//! its segments (files of events).

use std::collections::BTreeMap;
use std::fs;
use std::io::Read as _;
use std::path::{Component, Path, PathBuf};

use stormlog_format::{
    LONGEST_RECORDER_MARK, Manifest, Map, RECORDER_MARK, Segment, SessionStatus, SessionSummary,
    SinkNames, Text, apply_recorder_mark,
};

use super::names::{directory_of, names_of_manifest, plain_name, plain_or_compressed, tidy};
use super::shape::Shape;
use crate::bytes::{read_error, read_object_beside};
use crate::catalog::Artifact;
use crate::compression::{Compression, with_suffixes, without_suffix};
use crate::damage::Damage;
use crate::load_error::LoadError;
use crate::regular_file::{self, Refused, folder_of};
use crate::segment_times::last_time;

/// Which file names the sink in a directory uses (those of an ordinary sink or of a host sink);
/// `None` when the directory is not a sink. A bundle's directory does not count as a sink, although
/// the bundle may contain one.
pub fn sink_names(directory: &Path) -> Option<SinkNames> {
    let mut kinds = SinkNames::ALL.into_iter();
    let by_manifest = kinds.find(|names| {
        let document = manifest_document(&directory.join(names.manifest()));
        document.is_some_and(|document| Shape::of(&document) == Shape::Sink)
    });
    by_manifest.or_else(|| {
        let entries = fs::read_dir(directory).ok()?.flatten();
        let files = entries.filter(|entry| entry.path().is_file());
        let kinds = files.filter_map(|entry| SinkNames::of_segment(&plain_name(&entry.path())));
        // A directory whose segments have names of both kinds is a host sink whose files are being
        // renamed to ordinary names: an ordinary sink has only ordinary names.
        kinds.max_by_key(|names| *names == SinkNames::Host)
    })
}

/// The manifest of a sink that uses the given file names. While the segments of a host sink are
/// being renamed, the manifest is returned with the current name of each segment.
pub(crate) fn sink_manifest(directory: &Path, names: SinkNames) -> Option<Manifest> {
    let document = manifest_document(&directory.join(names.manifest()))?;
    if Shape::of(&document) != Shape::Sink {
        return None;
    }
    Some(settled(directory, names, Manifest::from_map(&document)))
}

/// The manifest, corrected to describe the files that exist now: while segments are renamed or
/// rewritten, the files change a moment before the manifest. If the manifest does not identify the
/// recording process of a running session, the process is read from the recorder mark, an extended
/// attribute of the directory.
pub(crate) fn settled(directory: &Path, names: SinkNames, mut manifest: Manifest) -> Manifest {
    if names == SinkNames::Host {
        follow_renamed_segments(directory, &mut manifest);
    }
    let replaced = manifest.settle_rewrite(|name| {
        let path = match locate(directory, name) {
            Located::Here(name) => directory.join(name),
            Located::Missing | Located::Refused(_) => return None,
        };
        path.metadata().ok().map(|facts| facts.len())
    });
    manifest.replaced.extend(replaced);
    identify_recorder(directory, &mut manifest);
    manifest
}

/// Adds the recording process of a running session from the recorder mark of the directory, if the
/// manifest does not identify the process and there is a mark.
fn identify_recorder(directory: &Path, manifest: &mut Manifest) {
    let is_unknown = |session: &SessionSummary| {
        session.status == SessionStatus::Running && session.recorder.is_none()
    };
    if !manifest.sessions.iter().any(is_unknown) {
        return;
    }
    let mut mark = [0; LONGEST_RECORDER_MARK];
    // `getxattr` fails when the directory has no mark or the mark is longer than the buffer; the
    // process then remains unknown.
    if let Ok(length) = rustix::fs::getxattr(directory, RECORDER_MARK, &mut mark) {
        apply_recorder_mark(&mut manifest.sessions, &mark[..length]);
    }
}

fn follow_renamed_segments(directory: &Path, manifest: &mut Manifest) {
    let (host, ordinary) = (SinkNames::Host, SinkNames::Ordinary);
    for segment in &mut manifest.segments {
        let name = segment.filename.as_str();
        let renamed = name.and_then(|name| host.renamed_segment(name, ordinary));
        if let (Some(name), Some(renamed)) = (name, renamed)
            && plain_or_compressed(directory, name).is_none()
            && plain_or_compressed(directory, &renamed).is_some()
        {
            segment.filename = Text::from(&*renamed);
        }
    }
}

pub(crate) fn manifest_document(path: &Path) -> Option<Map> {
    read_object_beside(folder_of(path), path)
}

/// Reads the manifest at a path, corrected to describe the files that exist now. `None` if it
/// cannot be read.
pub fn read_manifest(path: &Path) -> Option<Manifest> {
    let manifest = Manifest::from_map(&manifest_document(path)?);
    let names = names_of_manifest(path).unwrap_or_default();
    Some(settled(folder_of(path), names, manifest))
}

/// The time of the last event of a session in a sink, in nanoseconds since 1970, by which readers
/// decide whether the session is still recorded; `None` if the sink has no event of the session.
pub fn last_event_ns(directory: &Path, manifest: &Manifest, session_id: &Text) -> Option<i64> {
    last_time_in(&newest_segments(directory, manifest, session_id))
}

/// The newest segments of a session, the newest first: two, because a segment that was just begun
/// has no event yet.
pub(crate) fn newest_segments(
    directory: &Path,
    manifest: &Manifest,
    session_id: &Text,
) -> Vec<PathBuf> {
    let segments = manifest.segments.iter().rev();
    let own = segments.filter(|segment| {
        let owner = segment.session_id.as_ref();
        owner.is_none_or(|owner| owner == session_id)
    });
    let found = own.filter_map(|segment| match locate(directory, &segment.filename) {
        Located::Here(name) => Some(directory.join(name)),
        Located::Missing | Located::Refused(_) => None,
    });
    found.take(2).collect()
}

/// The time of the last event in the given segments, of which the newest comes first.
pub(crate) fn last_time_in(segments: &[PathBuf]) -> Option<i64> {
    segments.iter().find_map(|segment| last_time(segment))
}

/// The path of a sink's manifest. The given path may be the sink's directory or a file in it.
pub fn manifest_path(path: &Path) -> Option<PathBuf> {
    let path = &tidy(path);
    let directory = directory_of(path).or_else(|| path.parent())?;
    let ordinary = directory.join(SinkNames::Ordinary.manifest());
    if ordinary.is_file() {
        return Some(ordinary);
    }
    sink_manifest(directory, SinkNames::Host)?;
    Some(directory.join(SinkNames::Host.manifest()))
}

/// The segments (files of events) of the sink at a path; the file itself if the path is a file with
/// one event per line.
pub fn segment_paths(path: &Path) -> Vec<PathBuf> {
    match Artifact::at(path) {
        Ok(Artifact::Sink { segments, .. }) => segments,
        Ok(Artifact::Lines { file, .. }) if file.is_file() => vec![file],
        _ => Vec::new(),
    }
}

/// The segments that a manifest lists and those that are in the directory, sorted by name. The
/// manifest decides which kind of file names a segment may have; without a manifest either kind is
/// accepted.
pub(crate) fn segments_in(
    directory: &Path,
    manifest: Option<&Manifest>,
    names: Option<SinkNames>,
) -> Result<(Vec<PathBuf>, Vec<Damage>), LoadError> {
    let mut found: Vec<String> = Vec::new();
    let mut damage = Vec::new();
    let mut note = |name: &str, reason: String| {
        damage.push(Damage::of_file(directory.join(name), reason));
    };
    let manifest_name = names.unwrap_or_default().manifest();
    for ignored in manifest.iter().flat_map(|manifest| &manifest.ignored) {
        note(manifest_name, format!("ignored: {ignored}"));
    }
    for segment in manifest.iter().flat_map(|manifest| &manifest.segments) {
        let name = segment.filename.to_str_lossy();
        match locate(directory, &segment.filename) {
            Located::Here(name) => found.push(name),
            Located::Missing => note(
                &name,
                format!(
                    "segment is missing; {events} events of it are lost",
                    events = segment.event_count
                ),
            ),
            Located::Refused(Refused::Outside) => {
                note(
                    manifest_name,
                    format!("refused segment '{name}': it is outside the sink"),
                );
            }
            Located::Refused(reason) => note(&name, reason.to_string()),
        }
    }
    for (name, lines, events) in manifest.map_or_else(Vec::new, |one| cut_segments(directory, one))
    {
        note(
            &name,
            format!("segment is cut off: it has {lines} of {events} events"),
        );
    }
    let is_listed = |name: &str| {
        let mut listed = manifest.iter().flat_map(|manifest| &manifest.segments);
        listed.any(|segment| segment.filename.to_str_lossy() == name)
    };
    let entries = fs::read_dir(directory).map_err(|source| read_error(directory, source))?;
    for entry in entries.flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        let plain = without_suffix(&name);
        let uncompressed_name = plain.unwrap_or(&name);
        // While the files of a host sink are renamed to ordinary names, its segments have names of
        // both kinds.
        let is_segment = match SinkNames::of_segment(uncompressed_name) {
            Some(SinkNames::Ordinary) => true,
            Some(SinkNames::Host) => names != Some(SinkNames::Ordinary),
            None => false,
        };
        let is_second_copy = plain.is_some_and(|plain| {
            let mut earlier = with_suffixes(plain).take_while(|copy| *copy != name);
            earlier.any(|copy| directory.join(copy).exists())
        });
        let is_replaced = manifest.is_some_and(|manifest| {
            let replaced = &manifest.replaced;
            replaced
                .iter()
                .any(|replaced| *replaced == uncompressed_name)
        });
        if !is_segment || is_second_copy || is_replaced {
            continue;
        }
        match locate(directory, &Text::from(&*name)) {
            Located::Here(name) => found.push(name),
            Located::Refused(Refused::Outside) => {
                note(
                    &name,
                    "refused: a link that leads outside the sink".to_owned(),
                );
            }
            Located::Refused(reason) if !is_listed(&name) => note(&name, reason.to_string()),
            Located::Missing | Located::Refused(_) => {}
        }
    }
    found.sort();
    found.dedup();
    Ok((
        found.into_iter().map(|name| directory.join(name)).collect(),
        damage,
    ))
}

/// The segments that have fewer lines than the manifest lists events for them. This happens when
/// data are lost that were not yet on the disk. Returns the name of each such segment, its number
/// of lines, and the listed number of events. Compressed segments are not checked.
fn cut_segments(directory: &Path, listed: &Manifest) -> Vec<(String, i64, i64)> {
    let is_cut = |segment: &Segment| {
        let name = segment.filename.as_str()?;
        let path = directory.join(name);
        // Counting lines takes time, so lines are counted only in segments with fewer bytes than
        // the manifest lists. Such a segment need not have lost lines: packs and uploads contain
        // segments from which secrets were removed.
        let bytes = i64::try_from(path.metadata().ok()?.len()).ok()?;
        if bytes >= segment.size_bytes {
            return None;
        }
        let mut file = regular_file::open_inside(directory, &path).ok()?;
        if Compression::of(&mut file).ok()?.is_some() {
            return None;
        }
        let lines = count_lines(file)?;
        (lines < segment.event_count).then(|| (name.to_owned(), lines, segment.event_count))
    };
    let cut = |manifest: &Manifest| {
        // If a name is listed twice, the last entry counts.
        let by_name = manifest.segments.iter().map(|one| (&one.filename, one));
        let by_name: BTreeMap<&Text, &Segment> = by_name.collect();
        let cut: Vec<_> = by_name.into_values().filter_map(is_cut).collect();
        cut
    };
    let found = cut(listed);
    if found.is_empty() {
        return found;
    }
    // Thinning first replaces a segment by a smaller one, and then the manifest. The segments found
    // may only have been thinned, so they are checked again with the manifest of this moment.
    let mut names = SinkNames::ALL.into_iter();
    let now = names.find_map(|names| sink_manifest(directory, names));
    now.map_or(found, |now| cut(&now))
}

/// The number of lines in a file, including one without a newline at the end.
fn count_lines(mut file: fs::File) -> Option<i64> {
    let mut block = vec![0; 1 << 16];
    let (mut lines, mut is_open) = (0, false);
    loop {
        let read = file.read(&mut block).ok()?;
        let Some(last) = read.checked_sub(1) else {
            return Some(lines + i64::from(is_open));
        };
        lines += i64::try_from(memchr::memchr_iter(b'\n', &block[..read]).count()).ok()?;
        is_open = block[last] != b'\n';
    }
}

/// Where a segment that a manifest lists was found.
enum Located {
    /// The segment is in the sink, with this file name, which may have the suffix of a compressed
    /// file.
    Here(String),
    /// The segment does not exist.
    Missing,
    /// The entry with the segment's name must not be read, for example because it is a FIFO.
    Refused(Refused),
}

fn locate(directory: &Path, filename: &Text) -> Located {
    let Some(name) = filename.as_str().filter(|name| !name.contains('\0')) else {
        return Located::Missing;
    };
    let stays_inside = Path::new(name)
        .components()
        .all(|part| matches!(part, Component::Normal(_)));
    if !stays_inside {
        return Located::Refused(Refused::Outside);
    }
    for candidate in with_suffixes(name) {
        match regular_file::check_inside(directory, &directory.join(&candidate)) {
            Ok(()) => return Located::Here(candidate),
            Err(error) => {
                if let Some(refused) = Refused::of(&error) {
                    return Located::Refused(refused);
                }
            }
        }
    }
    Located::Missing
}
