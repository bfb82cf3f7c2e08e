//! What a half-typed path could become: the entries of its folder, and names with wild cards.

use std::path::{Path, PathBuf};

/// Folders larger than this are not listed to the end.
const MOST: usize = 2000;

/// An entry of a folder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Entry {
    pub(crate) name: String,
    pub(crate) is_folder: bool,
}

/// The folder that a half-typed path is in, and the beginning of the name in it.
pub(crate) fn split(text: &str) -> (PathBuf, &str) {
    match text.rfind('/') {
        Some(place) => (home(&text[..=place]), &text[place + 1..]),
        None => (PathBuf::from("."), text),
    }
}

/// A path with `~` for the home folder.
pub(crate) fn home(text: &str) -> PathBuf {
    match (text.strip_prefix("~/"), std::env::var_os("HOME")) {
        (Some(rest), Some(home)) => Path::new(&home).join(rest),
        _ => PathBuf::from(text),
    }
}

/// The entries that a half-typed path could become, folders first.
pub(crate) fn entries(text: &str) -> Vec<Entry> {
    let (folder, beginning) = split(text);
    let Ok(listing) = folder.read_dir() else {
        return Vec::new();
    };
    let beginning = beginning.to_lowercase();
    let mut entries: Vec<Entry> = listing
        .flatten()
        .take(MOST)
        .map(|entry| Entry {
            name: entry.file_name().to_string_lossy().into_owned(),
            is_folder: entry.path().is_dir(),
        })
        .filter(|entry| {
            let hidden = entry.name.starts_with('.') && !beginning.starts_with('.');
            let name = entry.name.to_lowercase();
            !hidden && (name.starts_with(&beginning) || matches(&beginning, &name))
        })
        .collect();
    entries.sort_by(|a, b| (!a.is_folder, &a.name).cmp(&(!b.is_folder, &b.name)));
    entries
}

/// The paths that a text means: one, or all that its wild cards match.
pub(crate) fn paths(text: &str) -> Vec<PathBuf> {
    let (folder, name) = split(text);
    if !name.contains(['*', '?']) {
        return vec![home(text)];
    }
    let mut found: Vec<PathBuf> = folder
        .read_dir()
        .into_iter()
        .flatten()
        .flatten()
        .filter(|entry| matches(name, &entry.file_name().to_string_lossy()))
        .map(|entry| entry.path())
        .collect();
    found.sort();
    found
}

/// Whether a name matches a pattern with `*` and `?`.
fn matches(pattern: &str, name: &str) -> bool {
    let (pattern, name): (Vec<char>, Vec<char>) =
        (pattern.chars().collect(), name.chars().collect());
    // Greedy, going back to the last star on a mismatch: no more than length times length steps.
    let (mut p, mut n) = (0, 0);
    let mut star: Option<(usize, usize)> = None;
    while n < name.len() {
        match pattern.get(p) {
            Some('*') => {
                star = Some((p, n));
                p += 1;
            }
            Some(c) if *c == '?' || *c == name[n] => {
                p += 1;
                n += 1;
            }
            _ => match star {
                Some((place, from)) => {
                    star = Some((place, from + 1));
                    p = place + 1;
                    n = from + 1;
                }
                None => return false,
            },
        }
    }
    pattern[p..].iter().all(|c| *c == '*')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wild_cards() {
        assert!(matches("events_rank*.json", "events_rank12.json"));
        assert!(matches("*", ""));
        assert!(matches("a?c*", "abcd"));
        assert!(!matches("a?c", "ac"));
        assert!(!matches("", "a"));
    }

    #[test]
    fn a_half_typed_path_lists_its_folder() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::create_dir(folder.path().join("run-b")).unwrap();
        std::fs::write(folder.path().join("run-a.json"), "").unwrap();
        std::fs::write(folder.path().join("other"), "").unwrap();
        let text = format!("{}/RU", folder.path().display());
        let names: Vec<String> = entries(&text).into_iter().map(|entry| entry.name).collect();
        assert_eq!(names, ["run-b", "run-a.json"]);
        let text = format!("{}/*.json", folder.path().display());
        assert_eq!(paths(&text), [folder.path().join("run-a.json")]);
    }
}
