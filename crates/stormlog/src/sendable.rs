//! Prepares the files of an artifact for sending to another machine: only files inside the
//! artifact, no symbolic links, and nothing that looks like a secret.
//!
//! A file without secrets is sent unchanged; of a file with secrets, a redacted copy is sent. A
//! file that cannot be checked for secrets is not sent. A binary file, such as a pickled snapshot
//! or a picture, is not sent either if it contains a text that looks like a secret. Files that are
//! not sent are listed in [`Sendable::left_out`].

mod compressed;
mod search;

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use stormlog_analysis::catalog::DEEPEST;
use stormlog_analysis::regular_file;
use stormlog_format::Value;
use stormlog_format::json::parse;
use stormlog_redact::{HIDDEN, redacted, redacted_path};
use stormlog_report::escape::for_terminal;

use search::{Format, Looked, Search};

/// The largest size in bytes of a document, a text file, a line or a table that is checked for
/// secrets.
const LARGEST: u64 = 64 << 20;
/// The largest number of files of an artifact that are sent; further files are left out. A sink or
/// a bundle has about ten files, and each rank of a run may have a sink and a bundle.
const MOST_FILES: usize = 10_000;

/// The files of a recording or bundle, after the check for secrets: those that may be sent to
/// another machine, and those that may not.
#[derive(Debug, Default)]
pub struct Sendable {
    /// The files to send, each with its name inside the artifact, in which `/` separates folders.
    pub files: Vec<(String, PathBuf)>,
    /// Files that are not sent, each as text with the reason, such as `'.env': hidden file`.
    pub left_out: Vec<String>,
}

/// Finds the files of an artifact that may be sent. Redacted copies are written to the directory
/// `copies`, which must exist. `progress` is called with the size of each file that was checked.
pub fn sendable(artifact: &Path, copies: &Path, progress: &dyn Fn(u64)) -> io::Result<Sendable> {
    let mut found = Sendable::default();
    let copies = Copies {
        folder: copies,
        progress,
    };
    // The path of the artifact itself may be a symbolic link; files inside the artifact may not.
    if fs::metadata(artifact)?.is_dir() {
        found.look_into(artifact, "", &copies, 0)?;
    } else {
        let name = artifact.file_name().and_then(|name| name.to_str());
        let name = name.unwrap_or("file");
        if fs::metadata(artifact)?.is_file() {
            found.look_at(artifact, name, &copies)?;
        } else {
            // Devices and pipes are not read, because reading them may block or have side effects.
            found.leave_out(name, "not a regular file");
        }
    }
    Ok(found)
}

/// Reads a JSON document and redacts its secrets; `None` when the document cannot be read.
pub fn read_document(file: &Path) -> Option<Value> {
    let is_plain = fs::symlink_metadata(file).is_ok_and(|facts| facts.is_file());
    let bytes = is_plain.then(|| regular_file::read(file, LARGEST).ok())??;
    value_in(&bytes).map(redacted)
}

/// Parses JSON; `None` when the bytes are not valid JSON or not UTF-8.
fn value_in(json: &[u8]) -> Option<Value> {
    std::str::from_utf8(json).ok()?;
    parse(json).ok()
}

/// The folder to which redacted copies are written, and a callback that is called with the size of
/// each checked file.
struct Copies<'a> {
    folder: &'a Path,
    progress: &'a dyn Fn(u64),
}

impl Sendable {
    fn look_into(
        &mut self,
        folder: &Path,
        prefix: &str,
        copies: &Copies<'_>,
        depth: usize,
    ) -> io::Result<()> {
        let mut entries = fs::read_dir(folder)?.collect::<io::Result<Vec<_>>>()?;
        entries.sort_by_key(fs::DirEntry::file_name);
        for entry in entries {
            let name = entry.file_name();
            let plain = name
                .to_str()
                .filter(|name| !name.contains(char::is_control));
            let Some(plain) = plain else {
                self.leave_out(&name.to_string_lossy(), "its name is not valid text");
                continue;
            };
            let name = format!("{prefix}{plain}");
            let kind = entry.file_type()?;
            if plain.starts_with('.') {
                self.leave_out(&name, "hidden file");
            } else if self.files.len() >= MOST_FILES {
                self.leave_out(&name, "too many files");
                return Ok(());
            } else if kind.is_dir() && depth < DEEPEST {
                self.look_into(&entry.path(), &format!("{name}/"), copies, depth + 1)?;
            } else if kind.is_dir() {
                self.leave_out(&name, "folders are nested too deep");
            } else if kind.is_file() {
                self.look_at(&entry.path(), &name, copies)?;
            } else {
                self.leave_out(&name, "not a regular file");
            }
        }
        Ok(())
    }

    fn look_at(&mut self, file: &Path, name: &str, copies: &Copies<'_>) -> io::Result<()> {
        // Experiment trackers name a file by the last part of its path, so a redacted copy has the
        // same file name as the original and is written to a folder of its own.
        let folder = copies.folder.join(self.files.len().to_string());
        let name = self.free_name(redacted_path(name));
        let copy = folder.join(name.rsplit('/').next().unwrap_or(&name));
        let search = Search {
            file,
            copy: &copy,
            format: Format::of_name(file),
        };
        match search.run()? {
            Looked::Clean => self.files.push((name, file.to_path_buf())),
            Looked::Copied => self.files.push((name, copy.clone())),
            Looked::TooLarge => self.leave_out(&name, "too large to check for secrets"),
            Looked::Unreadable => self.leave_out(&name, "cannot be checked for secrets"),
            Looked::Secret => self.leave_out(&name, "a binary file with what looks like a secret"),
        }
        (copies.progress)(fs::metadata(file).map_or(0, |facts| facts.len()));
        Ok(())
    }

    /// Adds a number to a file name if another file has the same name, because redacting secrets
    /// may have made two names equal.
    fn free_name(&self, name: String) -> String {
        let has = |name: &str| self.files.iter().any(|(known, _)| known == name);
        let numbered = (2..).map(|number| match name.rsplit_once('.') {
            Some((stem, ending)) => format!("{stem}-{number}.{ending}"),
            None => format!("{name}-{number}"),
        });
        let mut names = std::iter::once(name.clone()).chain(numbered);
        let free = names.find(|name| !name.contains(HIDDEN) || !has(name));
        free.unwrap_or(name)
    }

    fn leave_out(&mut self, name: &str, why: &str) {
        let name = redacted_path(name);
        self.left_out
            .push(format!("'{}': {why}", for_terminal(&name)));
    }
}

#[cfg(test)]
mod tests {
    use std::fs::File;

    use super::*;

    const TOKEN: &str = "hf_abcdefghijklmnopqrstuvw";

    fn sent(folder: &Path) -> (Vec<(String, String)>, Vec<String>) {
        let copies = tempfile::tempdir().unwrap();
        let found = sendable(folder, copies.path(), &|_| {}).unwrap();
        let files = found.files.into_iter().map(|(name, path)| {
            let bytes = fs::read(path).unwrap();
            (name, String::from_utf8_lossy(&bytes).into_owned())
        });
        (files.collect(), found.left_out)
    }

    #[test]
    fn secrets_stay_here_whatever_the_file() {
        let folder = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &str| fs::write(folder.path().join(name), text).unwrap();
        write("a.json", r#"{"api_key": "hush", "n": 1}"#);
        write(
            "b.jsonl",
            &format!(
                "{{\"n\": 1}}\n{{\"context\": \"{TOKEN}\"}}\n{{\"n\": 2}}\n{{\"context\": \"{TOKEN}"
            ),
        );
        write(
            "c.csv",
            "per_token,password,metadata\n0.1,hush,\"{\"\"db_password\"\": \"\"hush\"\"}\"\n",
        );
        write("d.txt", "https://me:hush@host/ and password=hush");
        write("e.json", &format!("{{\"torn\": \"{TOKEN}"));
        let broken = b"{\"x\": \"\xff\", \"api_key\": \"hush\"}";
        fs::write(folder.path().join("f.json"), broken).unwrap();
        fs::write(folder.path().join("g.jsonl"), broken).unwrap();
        let latin = b"caf\xe9: password=hush\n";
        fs::write(folder.path().join("h.log"), latin).unwrap();
        let (files, left_out) = sent(folder.path());
        let text = format!("{files:?}");
        assert!(!text.contains("hush") && !text.contains(TOKEN), "{text}");
        let names: Vec<&str> = files.iter().map(|(name, _)| &**name).collect();
        assert_eq!(
            names.concat(),
            "a.jsonb.jsonlc.csvd.txte.jsonf.jsong.jsonlh.log"
        );
        assert!(
            files[1]
                .1
                .starts_with("{\"n\": 1}\n{\"context\": \"[redacted]\"}\n{\"n\": 2}\n")
        );
        assert!(
            files[2]
                .1
                .starts_with("per_token,password,metadata\n0.1,[redacted],"),
            "{text}"
        );
        assert_eq!(left_out, Vec::<String>::new());
    }

    #[test]
    fn what_has_no_secret_is_sent_as_it_is() {
        let folder = tempfile::tempdir().unwrap();
        let copies = tempfile::tempdir().unwrap();
        for name in ["a.json", "b.jsonl", "c.csv", "d.pickle"] {
            fs::write(folder.path().join(name), b"{\"n\":  1}\n\xff").unwrap();
        }
        for name in ["e.json", "f.jsonl"] {
            fs::write(folder.path().join(name), "{\"n\":  NaN}\n").unwrap();
        }
        let found = sendable(folder.path(), copies.path(), &|_| {}).unwrap();
        assert_eq!(found.files.len(), 6);
        for (name, path) in found.files {
            assert_eq!(path, folder.path().join(name));
        }
    }

    #[test]
    fn a_file_that_may_hide_its_content_is_left_out() {
        let folder = tempfile::tempdir().unwrap();
        let write = |name: &str, bytes: &[u8]| fs::write(folder.path().join(name), bytes).unwrap();
        let packed = zstd::encode_all(format!("{{\"context\": \"{TOKEN}\"}}\n").as_bytes(), 1);
        let packed = packed.unwrap();
        // `pzstd` begins a file with a skippable frame.
        let skippable = [&[0x50, 0x2a, 0x4d, 0x18, 4, 0, 0, 0, 9, 9, 9, 9], &*packed].concat();
        write("a.jsonl.zst", &skippable);
        write("b.jsonl.zst", &[b"\xff\xff", &*packed].concat());
        write("c.jsonl.gz", b"{\"n\": 1}\n");
        let (files, left_out) = sent(folder.path());
        let names: Vec<&str> = files.iter().map(|(name, _)| &**name).collect();
        assert_eq!(names, ["a.jsonl.zst", "c.jsonl.gz"]);
        assert_eq!(left_out, ["'b.jsonl.zst': cannot be checked for secrets"]);
        let copies = tempfile::tempdir().unwrap();
        let found = sendable(&folder.path().join("a.jsonl.zst"), copies.path(), &|_| {}).unwrap();
        let copy = zstd::decode_all(File::open(&found.files[0].1).unwrap()).unwrap();
        assert_eq!(copy, b"{\"context\": \"[redacted]\"}\n");
    }

    #[test]
    fn a_file_that_cannot_be_opened_is_left_out() {
        let folder = tempfile::tempdir().unwrap();
        for name in ["a.jsonl.gz", "b.jsonl"] {
            let file = folder.path().join(name);
            let search = Search {
                file: &file,
                copy: Path::new("unused"),
                format: Format::of_name(&file),
            };
            assert!(matches!(search.run(), Ok(Looked::Unreadable)), "{name}");
        }
    }

    #[cfg(unix)]
    #[test]
    fn nothing_is_sent_through_a_link() {
        let folder = tempfile::tempdir().unwrap();
        let elsewhere = tempfile::tempdir().unwrap();
        fs::write(elsewhere.path().join("id"), "private").unwrap();
        std::os::unix::fs::symlink(elsewhere.path(), folder.path().join("a")).unwrap();
        let secret = elsewhere.path().join("id");
        std::os::unix::fs::symlink(&secret, folder.path().join("b.json")).unwrap();
        fs::write(folder.path().join(".env"), "x").unwrap();
        fs::write(folder.path().join("\u{1b}[2J"), "x").unwrap();
        fs::create_dir(folder.path().join("telemetry")).unwrap();
        fs::write(folder.path().join("telemetry/manifest.json"), "{}").unwrap();
        let (files, left_out) = sent(folder.path());
        assert_eq!(
            files,
            [("telemetry/manifest.json".to_owned(), "{}".to_owned())]
        );
        assert_eq!(
            left_out,
            [
                "'\\u{1b}[2J': its name is not valid text",
                "'.env': hidden file",
                "'a': not a regular file",
                "'b.json': not a regular file",
            ]
        );
        assert!(read_document(&folder.path().join("b.json")).is_none());
        let (files, left_out) = sent(Path::new("/dev/null"));
        assert_eq!((files.len(), left_out.len()), (0, 1));
    }
}
