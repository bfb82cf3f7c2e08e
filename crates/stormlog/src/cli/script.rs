//! Explains why `stormlog run train.py` fails: a script is no program that can be started by itself.

use std::ffi::OsString;
use std::io::{BufRead as _, BufReader, Read as _};
use std::path::Path;

use stormlog_analysis::regular_file;

use crate::child::CannotRun;
use crate::failure::{Hinted, hinted};

/// At most this many bytes of a script are read to find its first line.
const LONGEST_FIRST_LINE: u64 = 512;

/// Adds the command that the user probably meant to the error of a command that could not be
/// started because its first word is a script.
pub(super) fn explained(error: anyhow::Error, command: &[OsString]) -> anyhow::Error {
    let reason = error.downcast_ref::<Hinted>().map(|hinted| &hinted.error);
    let Some((first, rest)) = command.split_first() else {
        return error;
    };
    let script = Path::new(first);
    let is_python = script.extension().is_some_and(|ending| ending == "py");
    let exists = script.is_file();
    if !reason.is_some_and(anyhow::Error::is::<CannotRun>) || !(is_python || exists) {
        return error;
    }
    let interpreter = interpreter_of(script);
    let words = std::iter::once(interpreter.into()).chain(std::iter::once(first.clone()));
    let words: Vec<String> = words
        .chain(rest.iter().cloned())
        .map(|word| shell_word(Path::new(&word)))
        .collect();
    let meant = format!("stormlog run -- {}", words.join(" "));
    let name = script.display();
    if exists {
        let reason = "the file is not executable, or needs a program that runs it";
        let error = anyhow::anyhow!("cannot run '{name}': {reason}");
        hinted(error, format!("did you mean: {meant}"))
    } else {
        let error = anyhow::anyhow!("cannot run '{name}': there is no such file");
        hinted(
            error,
            format!("check the path; a Python program is run by: {meant}"),
        )
    }
}

/// The program that runs a script: the one in its first line, or else a shell or Python.
fn interpreter_of(script: &Path) -> String {
    let line = regular_file::open(script).ok().and_then(|file| {
        let mut line = String::new();
        let mut start = BufReader::new(file.take(LONGEST_FIRST_LINE));
        start.read_line(&mut line).ok()?;
        Some(line)
    });
    let named = line.as_deref().and_then(|line| {
        let words = line.strip_prefix("#!")?.split_whitespace();
        let mut names = words.filter_map(|word| Path::new(word).file_name()?.to_str());
        names.find(|name| *name != "env" && !name.starts_with('-'))
    });
    match named {
        Some(name) => name.to_owned(),
        None if script.extension().is_some_and(|ending| ending == "sh") => "sh".to_owned(),
        None => python().to_owned(),
    }
}

/// The usual name of Python's interpreter on this machine.
fn python() -> &'static str {
    let folders = std::env::var_os("PATH").unwrap_or_default();
    let mut folders = std::env::split_paths(&folders);
    if folders.any(|folder| folder.join("python").is_file()) {
        "python"
    } else {
        "python3"
    }
}

/// A path as a shell argument, relative to the current directory if it is below that directory.
pub(super) fn shell_word(path: &Path) -> String {
    let here = std::env::current_dir().unwrap_or_default();
    let path = path.strip_prefix(&here).unwrap_or(path);
    let text = path.display().to_string();
    let is_plain = |c: char| c.is_alphanumeric() || "/._-+=:@%,".contains(c);
    if !text.is_empty() && text.chars().all(is_plain) {
        text
    } else {
        format!("'{}'", text.replace('\'', "'\\''"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_line_of_a_script_names_its_program() {
        let folder = tempfile::tempdir().unwrap();
        let cases = [
            ("a.py", "import time\n", python()),
            ("b.py", "#!/usr/bin/env -S python3.12\n", "python3.12"),
            ("c", "#!/bin/bash\n", "bash"),
            ("d.sh", "", "sh"),
            ("e", "\u{0}", python()),
        ];
        for (name, text, interpreter) in cases {
            let script = folder.path().join(name);
            std::fs::write(&script, text).unwrap();
            assert_eq!(interpreter_of(&script), interpreter, "{name}");
        }
        assert_eq!(interpreter_of(&folder.path().join("none.py")), python());
    }
}
