//! Writes files atomically.

use std::io;
use std::path::Path;

use stormlog_capture::files::{remove_leftovers, replace_output};

/// Writes a file atomically: it is either complete or not there. Missing folders are created.
pub fn write_whole(file: &Path, content: &[u8]) -> io::Result<()> {
    let parent = file
        .parent()
        .filter(|parent| !parent.as_os_str().is_empty());
    let parent = parent.unwrap_or(Path::new("."));
    std::fs::create_dir_all(parent)?;
    // Devices and pipes (`--output /dev/stdout`) cannot be replaced, only written to.
    let name = file.file_name().and_then(|name| name.to_str());
    let Some(name) = name.filter(|_| !file.exists() || file.is_file()) else {
        return std::fs::write(file, content);
    };
    remove_leftovers(parent, name);
    replace_output(parent, name, content)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn a_file_has_the_rights_of_any_new_file_or_of_the_one_it_replaces() {
        let folder = tempfile::tempdir().unwrap();
        let mode = |name: &str| {
            let metadata = std::fs::metadata(folder.path().join(name)).unwrap();
            metadata.permissions().mode()
        };
        // The umask belongs to the whole process, so the test reads it from a file and does not set
        // it.
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
