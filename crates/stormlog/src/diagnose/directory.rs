//! Chooses the directory of a bundle: the given path, or a new directory inside an existing one.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use anyhow::Context;

/// The largest number of bundles that can be created in one directory within one second.
const MOST_OF_ONE_SECOND: u32 = 10_000;

/// Creates the directory of a diagnose bundle and returns its absolute path. If `output` is an
/// existing directory, a new directory `PREFIX-STAMP` is created inside it. `stamp` is the time as
/// `20260101-000000`.
pub(crate) fn make(output: Option<&Path>, prefix: &str, stamp: &str) -> anyhow::Result<PathBuf> {
    let wanted = output.unwrap_or(Path::new("."));
    let failure = || format!("cannot create the output directory '{}'", wanted.display());
    let directory = if wanted.is_dir() {
        inside(wanted, prefix, stamp).with_context(failure)?
    } else {
        fs::create_dir_all(wanted).with_context(failure)?;
        wanted.to_path_buf()
    };
    fs::canonicalize(&directory).with_context(failure)
}

fn inside(parent: &Path, prefix: &str, stamp: &str) -> io::Result<PathBuf> {
    let mut number = 0;
    loop {
        let suffix = if number == 0 {
            String::new()
        } else {
            format!("-{number}")
        };
        let directory = parent.join(format!("{prefix}-{stamp}{suffix}"));
        // Creating the directory fails if its name is already used, so two processes that start in
        // the same second never share a directory.
        match fs::create_dir(&directory) {
            Err(error)
                if error.kind() == io::ErrorKind::AlreadyExists && number < MOST_OF_ONE_SECOND =>
            {
                number += 1;
            }
            done => return done.map(|()| directory),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn new_paths_are_taken_as_they_are_and_existing_ones_get_a_directory_inside() {
        let folder = tempfile::tempdir().unwrap();
        let name = |path: PathBuf| path.file_name().unwrap().to_string_lossy().into_owned();
        let new = folder.path().join("a/b");
        assert_eq!(name(make(Some(&new), "p", "t").unwrap()), "b");
        assert_eq!(name(make(Some(&new), "p", "t").unwrap()), "p-t");
        assert_eq!(name(make(Some(&new), "p", "t").unwrap()), "p-t-1");
        let file = folder.path().join("file");
        fs::write(&file, "").unwrap();
        assert!(make(Some(&file), "p", "t").is_err());
    }
}
