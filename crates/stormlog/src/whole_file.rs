//! Files that are there whole or not at all.

use std::fs::Permissions;
use std::io::{self, Write as _};
use std::os::unix::fs::PermissionsExt as _;
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
    // Temporary files are private to their owner. An output may be read by whom the umask allows,
    // or by those who could read the one that it replaces.
    let mut builder = tempfile::Builder::new();
    builder.permissions(Permissions::from_mode(0o666));
    let mut whole = builder.tempfile_in(parent)?;
    if let Ok(before) = file.metadata() {
        whole.as_file().set_permissions(before.permissions())?;
    }
    whole.write_all(content)?;
    whole.persist(file)?;
    Ok(())
}
