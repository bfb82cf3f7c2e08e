//! Reads one or more `.jsonl` files, and reports their damage.

use std::borrow::Cow;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use hashbrown::HashMap;
use rayon::prelude::*;
use stormlog_format::{Manifest, RecordDefaults, Segment, Text, stable_legacy_session_id};

use super::jsonl::{self, Chunks, Part, PartOutcome, Problem, ProblemKind};
use super::sessions::{ReadParts, absolute};
use super::{LoadOptions, OnError};
use crate::bytes::{is_cut_off, read_error};
use crate::catalog::Artifact;
use crate::columns::{Chunk, ChunkBuilder, EventRef, Events};
use crate::compression::without_suffix;
use crate::damage::{Damage, DamageList, TORN};
use crate::load_error::LONGEST_LINE;
use crate::load_error::LoadError;
use crate::pack;

/// The maximum number of listed damaged places is divided among the parts of the files, but each
/// part may list at least this many.
const LEAST_PER_PART: usize = 100;

/// The `.jsonl` files of a sink, or a single file, with the default values for their records.
pub(crate) struct LineFiles<'a> {
    manifest: Option<&'a Manifest>,
    files: Vec<&'a Path>,
    /// For each file, the session that records without a session id belong to.
    sessions: Vec<Text>,
    parts: Vec<Part>,
    defaults: Vec<RecordDefaults>,
    /// Damage of the sink that was found before reading its files.
    damage: Vec<Damage>,
    /// Segments that are listed in the manifest but missing, each with its session.
    lost: Vec<(PathBuf, Text)>,
}

impl<'a> LineFiles<'a> {
    /// Prepares the files of an artifact without reading their lines.
    pub(crate) fn of(
        path: &Path,
        artifact: &'a Artifact,
        options: &LoadOptions<'_>,
    ) -> Result<Self, LoadError> {
        let mut files = Self::without_parts(path, artifact, options);
        for (index, file) in files.files.iter().enumerate() {
            files.parts.extend(jsonl::parts(index, file)?);
        }
        // Parts are read in parallel, so the maximum number of listed problems is divided among
        // them.
        let most_problems = (options.most_damage / files.parts.len().max(1)).max(LEAST_PER_PART);
        for part in &mut files.parts {
            part.most_problems = most_problems;
        }
        Ok(files)
    }

    /// Prepares to read a part of the artifact's first file: the lines that begin between two
    /// offsets.
    pub(crate) fn between(
        path: &Path,
        artifact: &'a Artifact,
        options: &LoadOptions<'_>,
        places: Range<u64>,
    ) -> Self {
        let files = Self::without_parts(path, artifact, options);
        Self {
            parts: vec![Part::between(places.start, places.end)],
            ..files
        }
    }

    fn without_parts(path: &Path, artifact: &'a Artifact, options: &LoadOptions<'_>) -> Self {
        let (manifest, files, damage): (_, Vec<&Path>, _) = match artifact {
            Artifact::Sink {
                manifest,
                segments,
                damage,
            } => {
                let files = segments.iter().map(PathBuf::as_path).collect();
                (manifest.as_ref(), files, damage.clone())
            }
            Artifact::Lines { manifest, file } => (manifest.as_ref(), vec![file], Vec::new()),
            _ => (None, Vec::new(), Vec::new()),
        };
        let fallback = stable_legacy_session_id(&[absolute(path).into(), "sink".into()]);
        let hints = Hints::of(manifest);
        let sessions: Vec<Text> = files
            .iter()
            .map(|file| hints.session(file).unwrap_or(&fallback).clone())
            .collect();
        let defaults = sessions
            .iter()
            .map(|session| options.defaults(session.clone()))
            .collect();
        Self {
            lost: hints.lost(&damage),
            manifest,
            files,
            sessions,
            parts: Vec::new(),
            defaults,
            damage,
        }
    }

    /// Reads all `.jsonl` files of the artifact in parallel.
    pub(crate) fn read(self, options: &LoadOptions<'_>) -> Result<ReadParts, LoadError> {
        let parsed: Vec<Option<&[Arc<Chunk>]>> = self
            .files
            .iter()
            .map(|file| options.parsed?.of(file, file.metadata().ok()?.len()))
            .collect();
        let outcomes: Vec<(Vec<Arc<Chunk>>, PartOutcome)> = self
            .parts
            .par_iter()
            .map(|part| {
                if let Some(parsed) = parsed[part.file] {
                    let chunks = if part.is_first() { parsed } else { &[] };
                    return Ok((chunks.to_vec(), PartOutcome::default()));
                }
                let mut chunks = Vec::new();
                let mut take = |chunk| chunks.push(Arc::new(chunk));
                let outcome = self.read_part(*part, options, Chunks::Full, &mut take)?;
                Ok((chunks, outcome))
            })
            .collect::<Result<_, LoadError>>()?;
        let (mut chunks, mut parts) = (Vec::new(), Vec::new());
        for (part, (part_chunks, outcome)) in self.parts.iter().zip(outcomes) {
            chunks.extend(part_chunks.into_iter().map(|chunk| (chunk, part.file)));
            parts.push(outcome);
        }
        self.finish(chunks, parts, options)
    }

    /// Reads all `.jsonl` files of the artifact in parallel and keeps the events that `keep`
    /// accepts. In addition to the accepted events, each worker has only one part of a file in
    /// memory.
    pub(crate) fn read_matching(
        self,
        options: &LoadOptions<'_>,
        keep: &(dyn Fn(EventRef<'_>) -> bool + Sync),
    ) -> Result<(Vec<Events>, Vec<Damage>), LoadError> {
        let outcomes: Vec<(Events, PartOutcome)> = self
            .parts
            .par_iter()
            .map(|part| {
                let mut kept = ChunkBuilder::with_capacity(0);
                let outcome = self.read_part(*part, options, Chunks::Full, &mut |chunk| {
                    for event in Events::of_chunk(chunk).iter() {
                        if keep(event) {
                            kept.push_row(event);
                        }
                    }
                })?;
                Ok((Events::of_chunk(kept.finish()), outcome))
            })
            .collect::<Result<_, LoadError>>()?;
        let (kept, outcomes): (Vec<Events>, Vec<PartOutcome>) = outcomes.into_iter().unzip();
        let damage = self.finish(Vec::new(), outcomes, options)?.damage;
        Ok((kept, damage))
    }

    /// Reads the files one after the other and passes on their events block by block, until `take`
    /// returns false.
    pub(crate) fn read_in_order(
        self,
        options: &LoadOptions<'_>,
        take: &mut dyn FnMut(Chunk) -> bool,
    ) -> Result<ReadParts, LoadError> {
        let mut outcomes = Vec::new();
        let mut goes_on = true;
        for part in &self.parts {
            let mut take = |chunk| goes_on = goes_on && take(chunk);
            outcomes.push(self.read_part(*part, options, Chunks::PerBlock, &mut take)?);
            if !goes_on {
                break;
            }
        }
        self.finish(Vec::new(), outcomes, options)
    }

    fn read_part(
        &self,
        part: Part,
        options: &LoadOptions<'_>,
        chunks: Chunks,
        take: &mut dyn FnMut(Chunk),
    ) -> Result<PartOutcome, LoadError> {
        let (file, defaults) = (self.files[part.file], &self.defaults[part.file]);
        jsonl::read_part(file, part, defaults, options, chunks, take)
    }

    fn finish(
        self,
        chunks: Vec<(Arc<Chunk>, usize)>,
        outcomes: Vec<PartOutcome>,
        options: &LoadOptions<'_>,
    ) -> Result<ReadParts, LoadError> {
        let mut damage = DamageList::with_most(options.most_damage);
        for one in self.damage {
            damage.push(|| one);
        }
        let are_complete = outcomes.iter().all(PartOutcome::is_complete);
        let mut first_line = vec![0; self.files.len()];
        let mut problems: Vec<(usize, u64, Problem)> = Vec::new();
        for (part, outcome) in self.parts.iter().zip(outcomes) {
            let base = first_line[part.file];
            first_line[part.file] += outcome.lines;
            damage.count(outcome.more);
            problems.extend(
                outcome
                    .problems
                    .into_iter()
                    .map(|problem| (part.file, base, problem)),
            );
        }
        if options.on_error == OnError::Raise
            && let Some(first) = first_error(&problems)
        {
            let (file, base, problem) = problems.swap_remove(first);
            // Reading stopped at the first problem, but invalid UTF-8 later in the file takes
            // precedence over it.
            if let Some(kind) = jsonl::first_that_is_no_text(self.files[file])? {
                return Err(error_of(
                    self.files[file],
                    base,
                    Problem { kind, ..problem },
                ));
            }
            return Err(error_of(self.files[file], base, problem));
        }
        for (file, base, problem) in &problems {
            damage.push(|| damage_of(self.files[*file], *base, problem));
        }
        let last = problems
            .last()
            .map_or(Path::new(""), |(file, ..)| self.files[*file]);
        let damage = damage.finish(last);
        let known = self.manifest.map(|manifest| manifest.sessions.clone());
        let name = |file: &&Path| pack::shown(file).to_string_lossy().into_owned();
        let sessions = self.sessions.into_iter().map(Some);
        let files = self.files.iter().map(name).zip(sessions).collect();
        Ok(ReadParts {
            chunks,
            files,
            known: known.unwrap_or_default(),
            damage,
            lost: self.lost,
            are_complete,
        })
    }
}

/// The session of each segment, according to the manifest. If the manifest lists a segment twice,
/// the last entry counts.
pub(crate) struct Hints<'a>(HashMap<Cow<'a, str>, Option<&'a Text>>);

impl<'a> Hints<'a> {
    pub(crate) fn of(manifest: Option<&'a Manifest>) -> Self {
        let segments = manifest.into_iter().flat_map(|manifest| &manifest.segments);
        let hint = |segment: &'a Segment| {
            (
                segment.filename.to_str_lossy(),
                segment
                    .session_id
                    .as_ref()
                    .filter(|id| !id.as_bytes().is_empty()),
            )
        };
        Self(segments.map(hint).collect())
    }

    /// The session of a segment, which may be compressed: a manifest lists a segment by its name
    /// without the suffix of a compressed file.
    pub(crate) fn session(&self, file: &Path) -> Option<&'a Text> {
        let name = file.file_name()?.to_string_lossy();
        let plain = without_suffix(&name);
        *self.0.get(&*name).or_else(|| self.0.get(plain?))?
    }

    /// The missing segments among damaged files, each with its session.
    pub(super) fn lost(&self, damage: &[Damage]) -> Vec<(PathBuf, Text)> {
        let lost = damage.iter().filter_map(|damage| {
            let session = self.session(&damage.file)?;
            Some((damage.file.clone(), session.clone()))
        });
        lost.collect()
    }
}

/// The problem to report as an error: the first problem of the first file with problems. Invalid
/// UTF-8 takes precedence over other problems, because a file with invalid UTF-8 cannot be read as
/// text at all.
fn first_error(problems: &[(usize, u64, Problem)]) -> Option<usize> {
    let fatal = problems.iter().enumerate();
    let fatal = fatal.filter(|(_, (.., problem))| !problem.is_tear());
    let first = fatal.min_by_key(|(_, (file, base, problem))| {
        let is_text = !matches!(problem.kind, ProblemKind::NotUtf8 { .. });
        (*file, is_text, base + problem.line)
    });
    first.map(|(index, _)| index)
}

fn error_of(file: &Path, base: u64, problem: Problem) -> LoadError {
    let line = base + problem.line + 1;
    match problem.kind {
        ProblemKind::NotUtf8 { offset, byte } => LoadError::NotUtf8 {
            file: file.into(),
            offset,
            byte,
        },
        ProblemKind::Malformed(_) | ProblemKind::TooLong => LoadError::MalformedLine {
            file: file.into(),
            line,
        },
        ProblemKind::NotAnObject => LoadError::LineNotAnObject {
            file: file.into(),
            line,
        },
        ProblemKind::BadRecord(source) => LoadError::BadRecord {
            file: file.into(),
            line: Some(line),
            index: None,
            source,
        },
        ProblemKind::Broken(source) => read_error(file, source),
    }
}

pub(super) fn damage_of(file: &Path, base: u64, problem: &Problem) -> Damage {
    let reason = match &problem.kind {
        ProblemKind::NotUtf8 { .. } | ProblemKind::Malformed(_) if problem.torn => TORN.to_owned(),
        ProblemKind::NotUtf8 { offset, .. } => format!("not UTF-8 at byte {offset}"),
        ProblemKind::Malformed(reason) => format!("not JSON: {reason}"),
        ProblemKind::TooLong => format!("the line is longer than {LONGEST_LINE} bytes"),
        ProblemKind::NotAnObject => "not an object".to_owned(),
        ProblemKind::BadRecord(error) => error.to_string(),
        ProblemKind::Broken(error) => format!("the file ends too early: {error}"),
    };
    let field = match &problem.kind {
        ProblemKind::BadRecord(error) => error.field().map(str::to_owned),
        _ => None,
    };
    let bytes = (problem.start < problem.end).then_some(problem.start..problem.end);
    Damage {
        line: Some(base + problem.line + 1),
        bytes,
        field,
        ..Damage::of_file(file, reason)
    }
}

impl Problem {
    /// Whether the problem is an incomplete last line, as left by a crash during a write. A last
    /// line that is torn inside a UTF-8 character makes loading fail unless damage is skipped, as
    /// in stormlog 0.3.9. Segments written by Stormlog are ASCII, so their lines cannot be torn
    /// inside a character.
    fn is_tear(&self) -> bool {
        self.torn
            && match &self.kind {
                ProblemKind::Malformed(_) => true,
                ProblemKind::Broken(error) => is_cut_off(error),
                _ => false,
            }
    }
}
