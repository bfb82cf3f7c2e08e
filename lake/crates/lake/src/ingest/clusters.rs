//! Decides which units (ingested recordings) are analyzed together: those that may contain sessions
//! of one run.

use std::path::Path;

use hashbrown::{HashMap, HashSet};
use stormlog_analysis::query::Catalog;
use stormlog_analysis::timeline::run_id_of_start;
use stormlog_format::Text;

use super::plan::{How, Unit};

/// The indices of the units in each cluster; clusters are in the order of their first unit.
pub(super) fn clusters(units: &[Unit], catalog: &Catalog) -> Vec<Vec<usize>> {
    // An OOM bundle (a report about an out-of-memory error) is analyzed together with the session
    // whose id it contains.
    let bundles = catalog.oom_bundles.iter();
    let with_bundle: HashSet<&Text> = bundles.filter_map(|one| one.session_id.as_ref()).collect();
    let mut parents: Vec<usize> = (0..units.len()).collect();
    let mut by_key: HashMap<String, usize> = HashMap::new();
    for (index, unit) in units.iter().enumerate() {
        let bundle = unit.bundle.map(|bundle| &catalog.oom_bundles[bundle]);
        let session = bundle.and_then(|bundle| bundle.session_id.as_ref());
        let of_bundle = session.map(|session| format!("session {session}"));
        for key in keys(unit, &with_bundle).into_iter().chain(of_bundle) {
            let first = *by_key.entry(key).or_insert(index);
            join(&mut parents, first, index);
        }
    }
    let by_path: HashMap<&Path, usize> = units
        .iter()
        .enumerate()
        .map(|(index, unit)| (unit.path.as_path(), index))
        .collect();
    for (index, unit) in units.iter().enumerate() {
        // Sinks and bundles inside the folder of a sink belong to the same recording as that sink.
        let mut above = unit.path.ancestors().skip(1).take(4);
        if let Some(holder) = above.find_map(|folder| by_path.get(folder)) {
            join(&mut parents, *holder, index);
        }
    }
    let mut found: Vec<Vec<usize>> = Vec::new();
    let mut group_of: HashMap<usize, usize> = HashMap::new();
    for index in 0..units.len() {
        let root = root(&mut parents, index);
        let group = *group_of.entry(root).or_insert_with(|| {
            found.push(Vec::new());
            found.len() - 1
        });
        found[group].push(index);
    }
    found
}

fn root(parents: &mut [usize], mut index: usize) -> usize {
    while parents[index] != index {
        parents[index] = parents[parents[index]];
        index = parents[index];
    }
    index
}

fn join(parents: &mut [usize], a: usize, b: usize) {
    let (a, b) = (root(parents, a), root(parents, b));
    parents[b.max(a)] = a.min(b);
}

/// Keys that are equal for units of one run: run id, job id, session id or folder.
fn keys(unit: &Unit, with_bundle: &HashSet<&Text>) -> Vec<String> {
    let mut keys = Vec::new();
    for first in unit
        .pieces
        .iter()
        .filter_map(|piece| piece.first.as_deref())
    {
        keys.extend(run_id_of_start(&first.metadata).map(|id| format!("run {id}")));
        keys.extend(first.job_id.as_ref().map(|job| format!("job {job}")));
    }
    let sessions = unit.manifest.iter().flat_map(|manifest| &manifest.sessions);
    for session in sessions {
        let has_bundle = with_bundle.contains(&session.session_id);
        keys.extend(has_bundle.then(|| format!("session {}", session.session_id)));
        keys.extend(session.job_id.as_ref().map(|job| format!("job {job}")));
    }
    // The run of a file without a manifest may not be known before the file is read. All such files
    // in one folder are analyzed together, because the ranks of a job are usually in one folder.
    let is_file = unit.manifest.is_none() && unit.path.is_file();
    let is_read_later = unit
        .pieces
        .iter()
        .any(|piece| piece.read == How::Whole || piece.first.is_none());
    if is_file && is_read_later {
        let folder = unit.path.parent();
        keys.extend(folder.map(|folder| format!("folder {}", folder.display())));
    }
    keys
}
