//! Answers queries on a catalog. Each source is loaded at most once, when a query needs its events.

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use hashbrown::HashMap;
use stormlog_format::rollup::RollupFile;

use super::catalog::{Catalog, CatalogWarning, Source, SourceKind};
use super::payload::path_text;
use super::sessions::{SessionRow, joined};
use super::warnings::Warnings;
use crate::catalog::{FileKind, resolved_manifest, tidy};
use crate::damage::Damage;
use crate::load::{LoadOptions, Loaded, load_file, load_sessions};
use crate::load_error::LoadError;
use crate::pack::{shown, unpacked};
use crate::rollups::{read_totals, read_windows};

/// The contents of the given paths, ready for queries.
///
/// Manifests are read when the store is opened, and events when a query first needs them.
pub struct Store {
    catalog: Catalog,
    loaded: Vec<OnceLock<Arc<Loaded>>>,
    rollups: Vec<OnceLock<Option<Arc<RollupFile>>>>,
    /// The sessions with their recorded status, computed on first use.
    sessions: OnceLock<Vec<SessionRow>>,
    /// For each source, whether a query with a filter has read parts of it. After that, the next
    /// query with a filter loads the source completely.
    scanned: Vec<AtomicBool>,
    /// Whether the store was made by [`of_parts`](Self::of_parts) and reads no files.
    is_of_parts: bool,
    /// Warnings that were added after the catalog was created.
    found: Mutex<Warnings>,
    /// The warnings about sources with telemetry that could not be loaded. Query results lack the
    /// events of these sources.
    unread: Mutex<Vec<CatalogWarning>>,
}

/// What [`Store::of_parts`] needs to answer queries without reading files, such as data from tables
/// of a lake.
#[derive(Debug, Default)]
pub struct StoreParts {
    /// The catalog: sources, bundles, runs and attachments.
    pub catalog: Catalog,
    /// The sessions of all sources as recorded in their files, in the order of the sources.
    pub sessions: Vec<SessionRow>,
    /// The sessions of each source with their events, in the order of the sources in the catalog.
    pub loaded: Vec<Loaded>,
    /// The rollups with their windows, for each source whose rollups are up to date.
    pub rollups: Vec<Option<RollupFile>>,
}

impl Store {
    /// Creates a store for the recordings and bundles at the given paths.
    pub fn open<P: AsRef<Path>>(paths: &[P]) -> Self {
        Self::new(Catalog::open(paths))
    }

    /// Creates a store for the sources of a catalog. Their events are read when a query needs them.
    pub fn new(catalog: Catalog) -> Self {
        Self {
            loaded: catalog.sources.iter().map(|_| OnceLock::new()).collect(),
            rollups: catalog.sources.iter().map(|_| OnceLock::new()).collect(),
            sessions: OnceLock::new(),
            scanned: catalog.sources.iter().map(|_| false.into()).collect(),
            is_of_parts: false,
            catalog,
            found: Mutex::default(),
            unread: Mutex::default(),
        }
    }

    /// Creates a store from data that is kept elsewhere, such as in tables of a lake. A store made
    /// from parts opens no file; its paths are only names. Sources without an element in `loaded`
    /// have no sessions.
    #[must_use]
    pub fn of_parts(parts: StoreParts) -> Self {
        let StoreParts {
            catalog,
            sessions,
            loaded,
            rollups,
        } = parts;
        let sessions = joined(sessions, &catalog.oom_bundles);
        let mut loaded = loaded.into_iter();
        let mut rollups = rollups.into_iter();
        let sources = catalog.sources.iter();
        let (loaded, rollups) = sources
            .map(|_| {
                let loaded = Arc::new(loaded.next().unwrap_or_default());
                let rollup = rollups.next().flatten().map(Arc::new);
                (OnceLock::from(loaded), OnceLock::from(rollup))
            })
            .unzip();
        Self {
            loaded,
            rollups,
            sessions: OnceLock::from(sessions),
            is_of_parts: true,
            ..Self::new(catalog)
        }
    }

    /// The sources, bundles, runs and attachments that the store answers queries about.
    pub fn catalog(&self) -> &Catalog {
        &self.catalog
    }

    /// All warnings so far: those of the catalog, then those that were added while answering
    /// queries.
    pub fn warnings(&self) -> Vec<CatalogWarning> {
        let found = self.found.lock().unwrap_or_else(PoisonError::into_inner);
        self.catalog
            .warnings
            .iter()
            .chain(&found.list)
            .cloned()
            .collect()
    }

    /// The warnings so far about files and folders that could not be read. Results do not include
    /// the contents of these files and folders.
    pub fn unread(&self) -> Vec<CatalogWarning> {
        let unread = self.unread.lock().unwrap_or_else(PoisonError::into_inner);
        self.catalog
            .unread
            .iter()
            .chain(&*unread)
            .cloned()
            .collect()
    }

    /// Whether a path contains anything that issues can come from: events, an OOM bundle or a
    /// diagnose bundle.
    pub fn has_evidence(&self, path: &Path) -> bool {
        let Ok(path) = unpacked(path) else {
            return false;
        };
        let path = &resolved_manifest(tidy(&path));
        let is_at = |found: &Path| found.starts_with(path) || path.starts_with(found);
        let mut bundles = self.catalog.oom_bundles.iter();
        let mut sources = self.catalog.sources.iter().enumerate();
        bundles.any(|bundle| is_at(&bundle.bundle_path))
            || sources.any(|(index, source)| {
                let has_events = || {
                    let loaded = self.loaded(index);
                    let mut sessions = loaded.sessions.iter();
                    sessions.any(|session| !session.events.is_empty())
                };
                is_at(&source.path) && (source.diagnosed.is_some() || has_events())
            })
    }

    /// Adds a warning for the user, unless it was added before.
    pub(crate) fn warn(&self, warning: CatalogWarning) {
        let mut found = self.found.lock().unwrap_or_else(PoisonError::into_inner);
        found.add(warning);
    }

    /// The sessions with their recorded status, the latest first.
    pub(crate) fn sessions_as_written(&self) -> &[SessionRow] {
        self.sessions.get_or_init(|| self.all_sessions(None))
    }

    /// The sessions given to [`of_parts`](Self::of_parts), the newest first; `None` for a store
    /// that reads files.
    pub(crate) fn given_sessions(&self) -> Option<&[SessionRow]> {
        let sessions = self.sessions.get().filter(|_| self.is_of_parts);
        sessions.map(Vec::as_slice)
    }

    /// The sessions of a source with their events. When the source cannot be loaded, the result is
    /// empty and a warning is added.
    pub fn loaded(&self, place: usize) -> Arc<Loaded> {
        let load = || {
            let source = &self.catalog.sources[place];
            let outcome = load(source).unwrap_or_else(|error| {
                let warning = CatalogWarning {
                    path: path_text(&source.path),
                    message: format!("load failed: {error}"),
                };
                if !error.is_no_telemetry() {
                    let unread = self.unread.lock();
                    let mut unread = unread.unwrap_or_else(PoisonError::into_inner);
                    unread.push(warning.clone());
                }
                self.warn(warning);
                Loaded::default()
            });
            self.note_damage(source, &outcome.damage);
            Arc::new(outcome)
        };
        Arc::clone(self.loaded[place].get_or_init(load))
    }

    /// What was loaded from each source. Sources that were not loaded before are loaded.
    pub fn artifacts(&self) -> impl Iterator<Item = Arc<Loaded>> {
        (0..self.loaded.len()).map(|place| self.loaded(place))
    }

    /// Keeps the events of sinks and `.jsonl` files that the caller has already loaded (with damage
    /// skipped), so that queries do not read them again. Other paths are ignored.
    pub fn supply<'l>(&self, loaded: impl IntoIterator<Item = (&'l Path, &'l Loaded)>) {
        let sources = self.catalog.sources.iter().enumerate();
        let lines = sources.filter(|(_, source)| {
            matches!(source.kind, SourceKind::Sink | SourceKind::TelemetryJsonl)
        });
        // The sources are indexed by path, because a run may have thousands of them. They are added
        // in reversed order, so that of several sources at one path the first one counts.
        let lines = lines
            .rev()
            .map(|(index, source)| (source.path.as_path(), index));
        let by_path: HashMap<&Path, usize> = lines.collect();
        for (path, loaded) in loaded {
            if let Some(&index) = by_path.get(path)
                && self.loaded[index].set(Arc::new(loaded.clone())).is_ok()
            {
                self.note_damage(&self.catalog.sources[index], &loaded.damage);
            }
        }
    }

    /// Whether the events of the source at index `place` have been loaded.
    pub(crate) fn is_loaded(&self, place: usize) -> bool {
        self.loaded[place].get().is_some()
    }

    /// Whether a query with a filter scans a source instead of loading it completely. The second
    /// query with a filter loads the source, because more queries are likely to follow.
    pub(crate) fn scans_rather_than_loads(&self, place: usize) -> bool {
        self.loaded[place].get().is_none() && !self.scanned[place].swap(true, Ordering::Relaxed)
    }

    /// The rollups of a source with the totals of each session, but without the windows (totals per
    /// minute). `None` when the rollups do not match the manifest.
    pub(crate) fn rollups(&self, place: usize) -> Option<Arc<RollupFile>> {
        let source = &self.catalog.sources[place];
        let read = || read_totals(&source.path, source.manifest.as_ref()?).map(Arc::new);
        self.rollups[place].get_or_init(read).clone()
    }

    /// The rollups of a source with their windows. `None` when the rollups do not match the
    /// manifest.
    pub fn rollup_windows(&self, place: usize) -> Option<Arc<RollupFile>> {
        if self.is_of_parts {
            return self.rollups(place);
        }
        let source = &self.catalog.sources[place];
        read_windows(&source.path, source.manifest.as_ref()?).map(Arc::new)
    }

    pub(crate) fn note_damage(&self, source: &Source, damage: &[Damage]) {
        for damage in damage {
            // Damage without a line is skipped, because the catalog has already reported damage of
            // the sink as a whole.
            let Some(line) = damage.line else { continue };
            let message = match source.kind {
                SourceKind::TelemetryCsv => format!(
                    "CSV parse error {}:{line}: {}",
                    shown(&damage.file).display(),
                    damage.reason
                ),
                _ if damage.is_tear() => continue,
                _ => format!("line {line}: {}", damage.reason),
            };
            self.warn(CatalogWarning {
                path: path_text(&damage.file),
                message,
            });
        }
    }
}

/// Loads a source of events. In files with one record per line, damaged lines are skipped. A JSON
/// document is loaded completely or not at all.
fn load(source: &Source) -> Result<Loaded, LoadError> {
    let skipping = LoadOptions::skipping();
    match source.kind {
        SourceKind::DiagnoseBundle => Ok(Loaded::default()),
        SourceKind::TelemetryJson => {
            load_file(&source.path, FileKind::Document, &LoadOptions::default())
        }
        SourceKind::TelemetryCsv => load_file(&source.path, FileKind::Table, &skipping),
        _ => load_sessions(&source.path, &skipping),
    }
}
