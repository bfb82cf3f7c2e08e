//! Writes files atomically: a reader finds either the complete new file, or what was there before.

use std::fs::Permissions;
use std::io;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use stormlog_capture::files::{remove_leftovers, replace_output};

/// Writes a file atomically, so that it never contains only a part of its content. Missing folders
/// are created.
pub fn write_whole(file: &Path, content: &[u8]) -> io::Result<()> {
    let parent = file
        .parent()
        .filter(|parent| !parent.as_os_str().is_empty());
    let parent = parent.unwrap_or(Path::new("."));
    std::fs::create_dir_all(parent)?;
    // Devices and pipes (such as `--output /dev/stdout`) cannot be replaced by another file, so
    // they are written directly.
    let name = file.file_name().and_then(|name| name.to_str());
    let Some(name) = name.filter(|_| !file.exists() || file.is_file()) else {
        return std::fs::write(file, content);
    };
    remove_leftovers(parent, name);
    replace_output(parent, name, content)
}

/// Creates a hidden temporary file beside an output file, to which the content is written step by
/// step; `persist` then renames the temporary file to the output file. If the program is killed,
/// the temporary file remains under its hidden name, and the next call with the same prefix deletes
/// it.
pub(crate) fn unfinished(output: &Path, prefix: &str) -> io::Result<tempfile::NamedTempFile> {
    let parent = output
        .parent()
        .filter(|parent| !parent.as_os_str().is_empty());
    let parent = parent.unwrap_or(Path::new("."));
    remove_leftovers(parent, prefix);
    let (pid, now) = (std::process::id(), crate::machine::now_ns());
    tempfile::Builder::new()
        .permissions(Permissions::from_mode(0o666))
        // The name of the temporary file contains the pid and the time; the pid shows whether the
        // process that wrote the file still runs.
        .prefix(&format!("{prefix}-{pid}-{now}"))
        .rand_bytes(0)
        .suffix(".tmp")
        .tempfile_in(parent)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_killed_program_left_is_deleted_by_the_next() {
        let folder = tempfile::tempdir().unwrap();
        let output = folder.path().join("run.stormlog");
        // The name of this file contains a pid that no process has, so the file was left by a
        // killed program.
        let left = folder.path().join(".part-4194999-17.tmp");
        std::fs::write(&left, "half").unwrap();
        let ours = unfinished(&output, ".part").unwrap();
        assert!(!left.exists() && ours.path().exists());
        // A temporary file of a process that still runs is not deleted.
        let second = unfinished(&output, ".part").unwrap();
        assert!(ours.path().exists());
        second.persist(&output).unwrap();
        drop(ours);
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1);
    }

    #[test]
    fn a_file_has_the_rights_of_any_new_file_or_of_the_one_it_replaces() {
        let folder = tempfile::tempdir().unwrap();
        let mode = |name: &str| {
            let metadata = std::fs::metadata(folder.path().join(name)).unwrap();
            metadata.permissions().mode()
        };
        // The expected file mode is read from a newly created file, because setting the umask would
        // affect all tests in this process.
        std::fs::write(folder.path().join("any"), "").unwrap();
        write_whole(&folder.path().join("ours"), b"x").unwrap();
        assert_eq!(mode("ours"), mode("any"));
        for kept in [0o600, 0o640] {
            let rights = std::fs::Permissions::from_mode(kept);
            std::fs::set_permissions(folder.path().join("ours"), rights).unwrap();
            write_whole(&folder.path().join("ours"), b"y").unwrap();
            assert_eq!(mode("ours") & 0o777, kept);
        }
    }
}
