//! Makes the Python interpreters of a program load Stormlog's hook: a `sitecustomize` module in the
//! first directory of `PYTHONPATH`.
//!
//! Processes that outlive the run keep this `PYTHONPATH`. If another user could create or replace
//! the directory of the hook, that user's code would run in these processes. The hook is therefore
//! in the directory of the installed package, or in a directory that only the user can write to.

use std::ffi::OsString;
use std::fs::{self, DirBuilder};
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};

use anyhow::Context;

/// The source of the hook, which the Python interpreter of the recorded program runs before the
/// program itself.
const HOOK: &str = include_str!("../../../../python/stormlog/_inject/sitecustomize.py");

/// The environment variable in which the Python package passes its installation directory.
const PACKAGE: &str = "STORMLOG_RUN_PACKAGE";

/// The value of `PYTHONPATH` for the recorded program: the directory of Stormlog's hook, followed
/// by the current value.
pub(super) fn python_path() -> anyhow::Result<OsString> {
    let mut path = hook_directory()?.into_os_string();
    if let Some(before) = std::env::var_os("PYTHONPATH").filter(|path| !path.is_empty()) {
        path.push(":");
        path.push(before);
    }
    Ok(path)
}

fn hook_directory() -> anyhow::Result<PathBuf> {
    if let Some(package) = std::env::var_os(PACKAGE) {
        let installed = Path::new(&package).join("stormlog/_inject");
        if installed.join("sitecustomize.py").is_file() {
            return Ok(installed);
        }
    }
    let cache = std::env::var_os("XDG_CACHE_HOME").filter(|path| !path.is_empty());
    let cache = cache.map(PathBuf::from).or_else(|| {
        let home = std::env::var_os("HOME").filter(|home| !home.is_empty());
        home.map(|home| Path::new(&home).join(".cache"))
    });
    let cache = cache.context("neither XDG_CACHE_HOME nor HOME is set")?;
    hook_in(&cache).context("set XDG_CACHE_HOME to a directory that only you can write to")
}

/// Writes the hook to a subdirectory of the user's cache directory, unless it is already there.
fn hook_in(cache: &Path) -> anyhow::Result<PathBuf> {
    create(cache)?;
    // A user who can write to the parent directory could replace Stormlog's directory by another
    // one.
    let metadata =
        fs::metadata(cache).with_context(|| format!("cannot read '{}'", cache.display()))?;
    let (owner, mode) = (metadata.uid(), metadata.mode());
    let is_trusted = owner == 0 || owner == rustix::process::getuid().as_raw();
    let is_sticky = mode & 0o1000 != 0;
    // On many systems each user has a group of their own, whose id is equal to the user's id. Only
    // the user is in this group, so write permission for the group is accepted.
    let may_group_write = metadata.gid() == owner;
    let others = if may_group_write { 0o002 } else { 0o022 };
    anyhow::ensure!(
        is_trusted && (is_sticky || mode & others == 0),
        "'{}' can be written to by other users",
        cache.display()
    );
    let ours = cache.join("stormlog");
    own_directory(&ours)?;
    let directory = ours.join(concat!("inject-", env!("CARGO_PKG_VERSION")));
    own_directory(&directory)?;
    let file = directory.join("sitecustomize.py");
    if fs::read(&file).ok().as_deref() != Some(HOOK.as_bytes()) {
        crate::write_whole(&file, HOOK.as_bytes())?;
    }
    Ok(directory)
}

fn create(path: &Path) -> anyhow::Result<()> {
    DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(path)
        .with_context(|| format!("cannot create '{}'", path.display()))
}

/// Creates a directory that only this user can write to; if the directory exists, checks that only
/// this user can write to it.
pub(super) fn own_directory(path: &Path) -> anyhow::Result<()> {
    create(path)?;
    let metadata =
        fs::symlink_metadata(path).with_context(|| format!("cannot read '{}'", path.display()))?;
    let is_own = metadata.is_dir() && metadata.uid() == rustix::process::getuid().as_raw();
    anyhow::ensure!(
        is_own && metadata.mode() & 0o022 == 0,
        "'{}' is not a directory that only this user can write to",
        path.display()
    );
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn a_directory_in_which_others_can_replace_ours_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let cache = folder.path().join("cache");
        let open_to = |path: &Path, mode| {
            fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
        };
        let hook = hook_in(&cache).unwrap();
        assert_eq!(
            fs::read(hook.join("sitecustomize.py")).unwrap(),
            HOOK.as_bytes()
        );
        open_to(&cache, 0o777);
        assert!(hook_in(&cache).is_err());
        // In a directory with the sticky bit, other users cannot rename Stormlog's directory.
        open_to(&cache, 0o1777);
        assert_eq!(hook_in(&cache).unwrap(), hook);
        open_to(&cache.join("stormlog"), 0o777);
        assert!(hook_in(&cache).is_err());
    }

    #[test]
    fn a_directory_that_others_can_write_to_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let directory = folder.path().join("a/b");
        own_directory(&directory).unwrap();
        assert_eq!(fs::metadata(&directory).unwrap().mode() & 0o777, 0o700);
        fs::set_permissions(&directory, fs::Permissions::from_mode(0o777)).unwrap();
        assert!(own_directory(&directory).is_err());
        let link = folder.path().join("link");
        std::os::unix::fs::symlink("/tmp", &link).unwrap();
        assert!(own_directory(&link).is_err());
    }
}
