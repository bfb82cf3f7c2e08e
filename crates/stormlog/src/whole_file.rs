//! Writes files atomically, whole or piece by piece: a reader finds either the complete new file, or
//! what was there before.

use std::fs::{File, Permissions};
use std::io::{self, BufWriter, Write as _};
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use anyhow::Context as _;
use stormlog_capture::files::{self, directory_of, mode_of, remove_leftovers, replaceable};
use stormlog_report::escape::path_for_terminal;

/// Writes a file atomically, so that it never contains only a part of its content.
pub(crate) fn write_whole(file: &Path, content: &[u8]) -> anyhow::Result<()> {
    files::write_whole(file, content)
        .with_context(|| format!("cannot write '{}'", path_for_terminal(file)))
}

/// Writes a file like [`write_whole`], but passes its content on while it is
/// created: `write` writes it to the given file.
pub(crate) fn write_in_pieces(
    file: &Path,
    write: impl FnOnce(&mut BufWriter<&mut File>) -> anyhow::Result<()>,
) -> anyhow::Result<()> {
    let context = || format!("cannot write '{}'", path_for_terminal(file));
    let buffered = |file: &mut File| {
        let mut out = BufWriter::with_capacity(1 << 16, file);
        write(&mut out)?;
        anyhow::Ok(out.flush()?)
    };
    std::fs::create_dir_all(directory_of(file)).with_context(context)?;
    if replaceable(file).is_none() {
        let mut direct = File::create(file).with_context(context)?;
        return buffered(&mut direct).with_context(context);
    }
    let mut new = unfinished(file, ".stormlog-output").with_context(context)?;
    if let Some(mode) = mode_of(file) {
        let rights = Permissions::from_mode(mode);
        new.as_file()
            .set_permissions(rights)
            .with_context(context)?;
    }
    buffered(new.as_file_mut()).with_context(context)?;
    new.persist(file).with_context(context)?;
    Ok(())
}

/// Creates a hidden temporary file beside an output file, to which the content is written step by
/// step; `persist` then renames the temporary file to the output file. If the program is killed,
/// the temporary file remains under its hidden name, and the next call with the same prefix deletes
/// it.
pub(crate) fn unfinished(output: &Path, prefix: &str) -> io::Result<tempfile::NamedTempFile> {
    let parent = directory_of(output);
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
    fn a_file_in_pieces_is_complete_or_not_there() {
        let folder = tempfile::tempdir().unwrap();
        let output = folder.path().join("new/rows.csv");
        let fails = write_in_pieces(&output, |out| {
            out.write_all(b"half")?;
            anyhow::bail!("the disk is full")
        });
        assert!(fails.unwrap_err().to_string().starts_with("cannot write"));
        assert_eq!(
            std::fs::read_dir(output.parent().unwrap()).unwrap().count(),
            0
        );
        for text in ["first", "second"] {
            write_in_pieces(&output, |out| Ok(out.write_all(text.as_bytes())?)).unwrap();
            assert_eq!(std::fs::read_to_string(&output).unwrap(), text);
            let rights = std::fs::Permissions::from_mode(0o640);
            std::fs::set_permissions(&output, rights).unwrap();
        }
        assert_eq!(mode_of(&output), Some(0o640));
        write_in_pieces(Path::new("/dev/null"), |out| Ok(out.write_all(b"x")?)).unwrap();
    }

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
