//! Determines which sessions are affected by a damaged place.

use std::collections::BTreeSet;
use std::path::Path;

use hashbrown::HashMap;
use stormlog_format::Text;

use super::sessions::{ReadParts, absolute};
use crate::damage::{Damage, MOST_LISTED};

/// Maximum number of entries in the damage lists of all sessions together. A damaged place that
/// affects several sessions is copied into the list of each, so many sessions could fill the
/// memory.
const MOST_COPIES: usize = 10 * MOST_LISTED;

/// The damaged places of an artifact, grouped by the sessions they affect. Each place is stored as
/// its index in `damage`.
pub(crate) struct Ownership<'a> {
    damage: &'a [Damage],
    /// Damaged places in files that contain events of known sessions, by the index of the file.
    of_file: HashMap<usize, Vec<usize>>,
    /// Damaged places in missing files whose session the manifest names, by session.
    of_session: HashMap<&'a Text, Vec<usize>>,
    /// Damaged places whose session is unknown; they count for all sessions.
    of_everyone: Vec<usize>,
    sessions: usize,
}

#[derive(Clone, Copy)]
enum Owner<'a> {
    File(usize),
    Session(&'a Text),
    Everyone,
}

impl<'a> Ownership<'a> {
    /// Groups the damage of an artifact by the sessions it affects. The argument `used` contains
    /// the indices of the files with events of any session.
    pub(crate) fn of(parts: &'a ReadParts, used: &BTreeSet<usize>, sessions: usize) -> Self {
        let mut sorted = Self {
            damage: &parts.damage,
            of_file: HashMap::new(),
            of_session: HashMap::new(),
            of_everyone: Vec::new(),
            sessions,
        };
        let files = parts.files.iter().enumerate();
        let files: HashMap<&Path, usize> = files
            .map(|(index, (source, _))| (Path::new(source.as_str()), index))
            .collect();
        let lost = parts.lost.iter().map(|(file, id)| (file.as_path(), id));
        let lost: HashMap<&Path, &Text> = lost.collect();
        let owner = |file: &Path| {
            let by_name = files.get(file).copied();
            let index = by_name.or_else(|| files.get(Path::new(&absolute(file))).copied());
            match (index.filter(|index| used.contains(index)), lost.get(file)) {
                (Some(index), _) => Owner::File(index),
                (None, Some(id)) => Owner::Session(id),
                (None, None) => Owner::Everyone,
            }
        };
        let mut known: HashMap<&Path, Owner<'a>> = HashMap::new();
        for (index, damage) in parts.damage.iter().enumerate() {
            let file = damage.file.as_path();
            match *known.entry(file).or_insert_with(|| owner(file)) {
                Owner::File(file) => sorted.of_file.entry(file).or_default().push(index),
                Owner::Session(id) => sorted.of_session.entry(id).or_default().push(index),
                Owner::Everyone => sorted.of_everyone.push(index),
            }
        }
        sorted
    }

    /// The damage that affects a session. A long list of damage is truncated and ends with the
    /// number of further places.
    pub(crate) fn concerning(&self, session: &Text, files: &BTreeSet<usize>) -> Vec<Damage> {
        let of_files = files.iter().filter_map(|file| self.of_file.get(file));
        let of_session = self.of_session.get(session);
        let of_everyone = [&self.of_everyone];
        let lists: Vec<&Vec<usize>> = of_files.chain(of_session).chain(of_everyone).collect();
        let count: usize = lists.iter().map(|list| list.len()).sum();
        let most = (MOST_COPIES / self.sessions.max(1)).max(1);
        let mut places: Vec<usize> = lists.into_iter().flatten().copied().take(most).collect();
        places.sort_unstable();
        let mut damage: Vec<Damage> = places
            .into_iter()
            .map(|index| self.damage[index].clone())
            .collect();
        if let Some(last) = damage.last().filter(|_| count > most) {
            let reason = format!("and {} more damaged places", count - most);
            damage.push(Damage::of_file(last.file.clone(), reason));
        }
        damage
    }
}
