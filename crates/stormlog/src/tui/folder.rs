//! Completes a path that the user is typing: lists the entries of its folder, and expands
//! wildcards.

use std::path::{Path, PathBuf};

use globset::{GlobBuilder, GlobMatcher};

/// The wildcard characters: a typed path that contains one of them is a pattern for several paths.
const WILDCARDS: [char; 4] = ['*', '?', '[', '{'];

/// The largest number of entries of a folder that are listed, and of paths that a pattern finds.
const MOST: usize = 2000;

/// A file or folder that is offered as the completion of a typed path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Entry {
    pub(crate) name: String,
    pub(crate) is_folder: bool,
}

/// Splits a partly typed path into its folder and the beginning of the name inside the folder.
pub(crate) fn split(text: &str) -> (PathBuf, &str) {
    match text.rfind('/') {
        Some(index) => (home(&text[..=index]), &text[index + 1..]),
        None => (PathBuf::from("."), text),
    }
}

/// Replaces `~/` at the start of a typed path by the home folder of the user.
pub(crate) fn home(text: &str) -> PathBuf {
    match (text.strip_prefix("~/"), std::env::var_os("HOME")) {
        (Some(rest), Some(home)) => Path::new(&home).join(rest),
        _ => PathBuf::from(text),
    }
}

/// The entries of a folder that complete a partly typed path, folders first.
pub(crate) fn entries(text: &str) -> Vec<Entry> {
    let (folder, beginning) = split(text);
    let Ok(listing) = folder.read_dir() else {
        return Vec::new();
    };
    let beginning = beginning.to_lowercase();
    let pattern = glob(&beginning);
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
            let matches = pattern
                .as_ref()
                .is_some_and(|pattern| pattern.is_match(&name));
            !hidden && (name.starts_with(&beginning) || matches)
        })
        .collect();
    entries.sort_by(|a, b| (!a.is_folder, &a.name).cmp(&(!b.is_folder, &b.name)));
    entries
}

/// The paths in a text: one path, several separated by spaces, or all paths that match the
/// wildcards in the text.
pub(crate) fn paths(text: &str) -> Vec<PathBuf> {
    // The whole text is tried as one path first, because a name may contain spaces.
    if home(text).exists() {
        return vec![home(text)];
    }
    let mut found = Vec::new();
    for part in text.split_whitespace() {
        found.extend(of_pattern(part));
    }
    found
}

fn of_pattern(pattern: &str) -> Vec<PathBuf> {
    if !pattern.contains(WILDCARDS) {
        return vec![home(pattern)];
    }
    let pattern = home(pattern).to_string_lossy().into_owned();
    let from_root = if pattern.starts_with('/') { "/" } else { "" };
    let mut found = vec![PathBuf::from(from_root)];
    for part in pattern.split('/').filter(|part| !part.is_empty()) {
        found = found
            .iter()
            .flat_map(|folder| of_part(folder, part))
            .take(MOST)
            .collect();
    }
    found
}

/// The paths in a folder whose names match `part`, the text between two slashes of a pattern,
/// sorted.
fn of_part(folder: &Path, part: &str) -> Vec<PathBuf> {
    if !part.contains(WILDCARDS) {
        let path = folder.join(part);
        return path.exists().then_some(path).into_iter().collect();
    }
    let Some(pattern) = glob(part) else {
        return Vec::new();
    };
    let listed = if folder.as_os_str().is_empty() {
        Path::new(".")
    } else {
        folder
    };
    let mut found: Vec<PathBuf> = listed
        .read_dir()
        .into_iter()
        .flatten()
        .flatten()
        .map(|entry| entry.file_name())
        .filter(|name| pattern.is_match(name))
        .map(|name| folder.join(name))
        .collect();
    found.sort();
    found
}

/// Compiles the pattern for one part of a path; `None` when the pattern is invalid.
fn glob(pattern: &str) -> Option<GlobMatcher> {
    let glob = GlobBuilder::new(pattern).literal_separator(true).build();
    glob.ok().map(|glob| glob.compile_matcher())
}

#[cfg(test)]
mod tests {
    use super::*;

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
        let both = format!("{}/run-a.json nowhere", folder.path().display());
        assert_eq!(
            paths(&both),
            [folder.path().join("run-a.json"), "nowhere".into()]
        );
    }

    #[test]
    fn wild_cards_anywhere_in_a_path() {
        let folder = tempfile::tempdir().unwrap();
        for rank in ["rank 1", "rank 0", "other"] {
            std::fs::create_dir(folder.path().join(rank)).unwrap();
            std::fs::write(folder.path().join(rank).join("events.json"), "").unwrap();
        }
        let text = format!("{}/rank*/events.json", folder.path().display());
        let found = paths(&text);
        assert_eq!(
            found,
            [
                folder.path().join("rank 0/events.json"),
                folder.path().join("rank 1/events.json")
            ]
        );
        let either = format!("{}/rank?[01]/events.json", folder.path().display());
        assert_eq!(paths(&either).len(), 2);
        let broken = format!("{}/rank[", folder.path().display());
        assert_eq!(paths(&broken), Vec::<PathBuf>::new());
        let blank = format!("{}/rank 0", folder.path().display());
        assert_eq!(paths(&blank), [folder.path().join("rank 0")]);
    }
}
