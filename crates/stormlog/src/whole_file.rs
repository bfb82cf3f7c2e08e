//! Files that are there whole or not at all.

use std::io::{self, Write as _};
use std::path::Path;

/// Writes a file so that it is there whole or not at all; folders on the way are made.
pub fn write_whole(file: &Path, content: &[u8]) -> io::Result<()> {
    let parent = file
        .parent()
        .filter(|parent| !parent.as_os_str().is_empty());
    let parent = parent.unwrap_or(Path::new("."));
    std::fs::create_dir_all(parent)?;
    // Devices and pipes (`--output /dev/stdout`) cannot be replaced, only written to.
    if file.exists() && !file.is_file() {
        return std::fs::write(file, content);
    }
    let mut whole = tempfile::NamedTempFile::new_in(parent)?;
    whole.write_all(content)?;
    make_readable(whole.path());
    whole.persist(file)?;
    Ok(())
}

/// Temporary files are private to their owner; reports are not.
fn make_readable(file: &Path) {
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt as _;
        let _ = std::fs::set_permissions(file, std::fs::Permissions::from_mode(0o644));
    }
}
