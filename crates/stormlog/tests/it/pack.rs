//! `stormlog pack`: what is in the file, that every command opens it, and that a bad one is refused.
#![allow(clippy::unwrap_used, reason = "test helpers may panic")]

use std::fs::{self, File};
use std::io::{Read, Write};
use std::path::{Path, PathBuf};

use crate::support::{folder, out, root, stormlog};

/// A copy of a recording that a test may change.
fn recording(name: &str, into: &Path) -> PathBuf {
    fn copy(from: &Path, to: &Path) {
        fs::create_dir_all(to).unwrap();
        for entry in fs::read_dir(from).unwrap().map(Result::unwrap) {
            let target = to.join(entry.file_name());
            if entry.path().is_dir() {
                copy(&entry.path(), &target);
            } else {
                fs::copy(entry.path(), target).unwrap();
            }
        }
    }
    copy(&root().join("fixtures").join(name), into);
    into.to_path_buf()
}

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

fn pack(run: &Path, output: &Path) -> serde_json::Value {
    let arguments = ["pack", text(run), "-o", text(output), "--json"];
    serde_json::from_str(&out(&arguments)).unwrap()
}

/// Everything in a pack: names and contents.
fn unpacked(pack: &Path) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut archive = tar::Archive::new(zstd::Decoder::new(File::open(pack).unwrap()).unwrap());
    for entry in archive.entries().unwrap() {
        let mut entry = entry.unwrap();
        let path = entry.path().unwrap().into_owned();
        bytes.extend_from_slice(path.to_string_lossy().as_bytes());
        let mut content = Vec::new();
        entry.read_to_end(&mut content).unwrap();
        loop {
            let packed = std::mem::take(&mut content);
            let packed = packed.as_slice();
            match packed {
                [0x28, 0xb5, 0x2f, 0xfd, ..] => {
                    zstd::stream::copy_decode(packed, &mut content).unwrap();
                }
                [0x1f, 0x8b, ..] => {
                    let mut stream = flate2::read::GzDecoder::new(packed);
                    stream.read_to_end(&mut content).unwrap();
                }
                _ => {
                    bytes.extend_from_slice(packed);
                    break;
                }
            }
        }
    }
    bytes
}

fn gzip(content: &[u8]) -> Vec<u8> {
    let mut gz = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    gz.write_all(content).unwrap();
    gz.finish().unwrap()
}

/// A pack of any entries.
fn made(path: &Path, entries: &[(tar::EntryType, &str, &[u8])], declared: (usize, usize)) {
    let file = File::create(path).unwrap();
    let mut tar = tar::Builder::new(zstd::Encoder::new(file, 1).unwrap());
    let header = format!(
        r#"{{"format": "stormlog-pack", "version": 1, "files": {}, "bytes": {}}}"#,
        declared.0, declared.1
    );
    let mut append = |kind: tar::EntryType, name: &str, content: &[u8]| {
        let mut header = tar::Header::new_ustar();
        // Names are written as they are: the library refuses what an attacker would not.
        header.as_mut_bytes()[..name.len()].copy_from_slice(name.as_bytes());
        header.set_entry_type(kind);
        if kind == tar::EntryType::Symlink {
            header.set_link_name("/etc/passwd").unwrap();
        }
        header.set_mode(0o644);
        header.set_size(content.len() as u64);
        header.set_cksum();
        tar.append(&header, content).unwrap();
    };
    append(
        tar::EntryType::Regular,
        "stormlog-pack.json",
        header.as_bytes(),
    );
    for (kind, name, content) in entries {
        append(*kind, name, content);
    }
    tar.into_inner().unwrap().finish().unwrap();
}

/// Lines of `forms.txt` with random text in their places, and that text.
fn forms() -> (Vec<String>, Vec<String>) {
    let file = root().join("fixtures/secrets/forms.txt");
    let file = fs::read_to_string(file).unwrap();
    let mut state = 20_261_116_u64;
    let mut pick = |letters: &str| {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        let index = usize::try_from(state >> 33).unwrap() % letters.len();
        char::from(letters.as_bytes()[index])
    };
    let kinds = [
        ("hex", "0123456789abcdef"),
        (
            "word",
            "abcdefghijkmnopqrstuvwxyzABCDEFGHJKLMNPQRSTUVWXYZ23456789",
        ),
        ("caps", "ABCDEFGHJKLMNPQRSTUVWXYZ23456789"),
        ("low", "abcdefghijkmnopqrstuvwxyz23456789"),
        (
            "base64",
            "abcdefghijkmnopqrstuvwxyzABCDEFGHJKLMNPQRSTUVWXYZ23456789",
        ),
        (
            "pass",
            "abcdefghijkmnopqrstuvwxyz23456789ABCDEFGHJKLMNPQRSTUVWXYZ",
        ),
    ];
    let (mut lines, mut secrets) = (Vec::new(), Vec::new());
    for line in file.lines().filter(|line| !line.starts_with('#')) {
        let (mut filled, mut rest) = (String::new(), line);
        while let Some(at) = rest.find('{') {
            filled.push_str(&rest[..at]);
            rest = &rest[at + 1..];
            let place = kinds.iter().find_map(|(kind, letters)| {
                let (count, after) = rest.strip_prefix(kind)?.split_once('}')?;
                Some((*kind, *letters, count.parse::<usize>().ok()?, after))
            });
            let Some((kind, letters, count, after)) = place else {
                filled.push('{');
                continue;
            };
            // A digit, a small letter and a capital are in it where the kind has them.
            let mut secret: String = (0..count).map(|_| pick(letters)).collect();
            let begin = match kind {
                "hex" => "3f",
                "caps" => "Q7",
                "low" => "q7",
                _ => "q7Q",
            };
            secret.replace_range(..begin.len(), begin);
            if kind == "base64" {
                secret.replace_range(count / 2..=count / 2, "/");
                secret.replace_range(count - 1.., "=");
            }
            filled.push_str(&secret);
            secrets.push(secret);
            rest = after;
        }
        filled.push_str(rest);
        lines.push(filled);
    }
    assert!(lines.len() >= 200, "{} forms", lines.len());
    (lines, secrets)
}

#[test]
fn no_secret_is_in_a_pack() {
    let folder = folder();
    let run = recording("causes/leak_to_oom", &folder.path().join("run"));
    let (lines, mut secrets) = forms();
    let quoted = |line: &String| serde_json::to_string(line).unwrap();
    let documents: Vec<String> = lines
        .iter()
        .map(|line| format!("{{\"metadata\": {{\"note\": {}}}}}", quoted(line)))
        .collect();
    let write = |name: &str, bytes: &[u8]| fs::write(run.join(name), bytes).unwrap();
    write("events.jsonl", documents.join("\n").as_bytes());
    write("more.jsonl.gz", &gzip(documents.join("\n").as_bytes()));
    let zst = zstd::encode_all(documents.join("\n").as_bytes(), 1).unwrap();
    write("again.jsonl.zst", &zst);
    // The content decides what is compressed, not the name.
    write(
        "segment-000077.jsonl",
        &gzip(documents.join("\n").as_bytes()),
    );
    write("zst_events.json", &zst);
    write("gz_notes.txt", &gzip(lines.join("\n").as_bytes()));
    write("plain.jsonl.gz", documents.join("\n").as_bytes());
    write("twice.jsonl.gz", &gzip(&zst));
    write(
        "bundle.json",
        format!("[{}]", documents.join(",")).as_bytes(),
    );
    write("notes.txt", lines.join("\n").as_bytes());
    let cells: Vec<String> = lines
        .iter()
        .map(|line| format!("\"{}\"", line.replace('"', "\"\"")))
        .collect();
    write(
        "table.csv",
        format!("note\n{}", cells.join("\n")).as_bytes(),
    );
    // A source excerpt, as the evidence of a leak has it.
    let token = "hf_AbCdEfGhIjKlMnOpQrStUvWxYz01234567";
    let excerpt = format!("{{\"source\": \"login(token='{token}')\"}}");
    write("excerpt.json", excerpt.as_bytes());
    let named = run.join(format!("rank-{token}"));
    fs::create_dir(&named).unwrap();
    fs::write(named.join(format!("{token}.json")), "{}").unwrap();
    fs::write(run.join(format!("{token}.bin")), [0, 255]).unwrap();
    write(
        "snapshot.pickle",
        &[&[0x80, 4, 0, 0xff], token.as_bytes()].concat(),
    );
    secrets.push(token.to_owned());

    let output = folder.path().join("run.stormlog");
    let report = pack(&run, &output);
    let content = unpacked(&output);
    let content = String::from_utf8_lossy(&content);
    let report = report.to_string();
    let parts = secrets.iter().flat_map(|secret| {
        let length = secret.len().min(8);
        [&secret[..length], &secret[secret.len() - length..]]
    });
    let leaked: Vec<&str> = parts
        .filter(|part| content.contains(part) || report.contains(part))
        .collect();
    assert!(leaked.is_empty(), "{} leak: {leaked:?}", leaked.len());
    assert!(content.contains("rank-[redacted]/[redacted].json"));
    assert!(content.matches("[redacted]").count() > 10 * lines.len());
    let twice = "'twice.jsonl.gz': cannot be checked for secrets";
    assert!(report.contains(twice), "{report}");
    // A binary file of which no copy without the secret can be made stays at home.
    assert!(report.contains("snapshot.pickle"), "{report}");
    // The original is as it was.
    assert!(
        fs::read_to_string(run.join("notes.txt"))
            .unwrap()
            .contains(&secrets[0])
    );
}

#[test]
fn a_packed_run_gives_the_same_answers() {
    let folder = folder();
    for name in ["causes/leak_to_oom", "causes/rank_leak"] {
        let home = folder.path().join(name.replace('/', "-"));
        let run = recording(name, &home.join("run"));
        let packed = home.join("run.stormlog");
        pack(&run, &packed);
        // The same words but for the path.
        let same = |arguments: &[&str]| {
            let of = |path: &Path| {
                let mut arguments = arguments.to_vec();
                arguments.push(text(path));
                let answer = out(&arguments);
                answer
                    .replace(text(&packed), "RUN")
                    .replace(text(&run), "RUN")
            };
            assert_eq!(of(&run), of(&packed), "{arguments:?}");
        };
        same(&["analyze", "--format", "json"]);
        same(&["analyze"]);
        same(&["show", "--json"]);
        same(&["query", "sessions", "--json"]);
        same(&["query", "runs", "--json"]);
        same(&["query", "ooms", "--json"]);
        same(&["query", "events", "--limit", "50", "--json"]);
        same(&[
            "query",
            "summary",
            "--metric",
            "peak_device_used_bytes",
            "--json",
        ]);
        same(&["issues", "list", "--json"]);
        same(&["validate", "--json"]);
        same(&["compare", text(&run)]);
        for picture in ["timeline.svg", "timeline.html"] {
            let drawn = |path: &Path| {
                let file = home.join(picture);
                out(&["plot", text(path), "-o", text(&file)]);
                fs::read(file).unwrap()
            };
            assert!(drawn(&run) == drawn(&packed), "{picture} of {name}");
        }
    }
}

#[test]
fn a_pack_has_what_analyze_reads_however_deep_it_is() {
    let folder = folder();
    let (run, mut deep) = (folder.path().join("run"), folder.path().join("run"));
    for level in 1..64 {
        deep.push((level % 10).to_string());
    }
    fs::create_dir_all(&deep).unwrap();
    recording("runs/two_ranks", &deep.join("a"));
    let below = deep.join("a/extra");
    fs::create_dir_all(&below).unwrap();
    fs::write(below.join("events.json"), "[]").unwrap();
    let packed = folder.path().join("run.stormlog");
    let report = pack(&run, &packed).to_string();
    assert!(report.contains("folders are nested too deep"), "{report}");
    let events = |path: &Path| out(&["convert", text(path), "-", "--to", "jsonl"]);
    assert_eq!(events(&packed), events(&run));
    assert!(!events(&run).is_empty());
}

#[test]
fn a_part_of_a_pack_and_a_pack_of_one_file_are_opened() {
    let folder = folder();
    let run = recording("causes/leak_to_oom", &folder.path().join("run"));
    let packed = folder.path().join("run.stormlog");
    pack(&run, &packed);
    let part = packed.join("host");
    assert!(out(&["show", text(&part)]).contains("1 session"));
    let file = root().join("fixtures/runs/two_ranks/segment-000001.jsonl");
    let single = folder.path().join("single.stormlog");
    pack(&file, &single);
    let events = |path: &Path| out(&["convert", text(path), "-", "--to", "jsonl"]);
    assert_eq!(events(&single), events(&file));
}

#[test]
fn nothing_stays_in_the_temporary_folder() {
    let (folder, temporary) = (folder(), folder());
    let packed = folder.path().join("run.stormlog");
    pack(&root().join("fixtures/runs/two_ranks"), &packed);
    // What a killed process left goes too.
    fs::create_dir(temporary.path().join("stormlog-pack-killed")).unwrap();
    let mut command = stormlog(&["show", text(&packed)]);
    command.env("TMPDIR", temporary.path()).assert().success();
    assert_eq!(fs::read_dir(temporary.path()).unwrap().count(), 0);
}

#[test]
fn decisions_are_not_lost_in_a_pack() {
    let folder = folder();
    let run = recording("causes/leak_to_oom", &folder.path().join("run"));
    let packed = folder.path().join("run.stormlog");
    pack(&run, &packed);
    let output = stormlog(&["issues", "list", text(&packed), "--save"])
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(1));
    let message = String::from_utf8_lossy(&output.stderr);
    assert!(
        message.contains("is in a pack, which cannot be changed"),
        "{message}"
    );
}

#[test]
fn an_output_that_exists_is_kept() {
    let folder = folder();
    let run = root().join("fixtures/runs/two_ranks");
    let output = folder.path().join("run.stormlog");
    fs::write(&output, "old").unwrap();
    let fails = |arguments: &[&str], words: &str| {
        let done = stormlog(arguments).output().unwrap();
        let message = String::from_utf8_lossy(&done.stderr).into_owned();
        assert_eq!(done.status.code(), Some(1), "{message}");
        assert!(message.contains(words), "{message}");
    };
    fails(&["pack", text(&run), "-o", text(&output)], "already exists");
    fails(
        &["pack", text(folder.path()), "-o", text(&output), "--force"],
        "cannot read",
    );
    assert_eq!(fs::read(&output).unwrap(), b"old");
    fails(
        &["pack", text(&run), "-o", "run.zip"],
        "does not end in .stormlog",
    );
    out(&["pack", text(&run), "-o", text(&output), "--force"]);
    fails(
        &["pack", text(&output), "-o", "x.stormlog"],
        "is a pack already",
    );
    assert!(fs::read(&output).unwrap().len() > 100);
    // Nothing but the pack is left beside it.
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
}

#[test]
fn bad_packs_are_refused() {
    let (folder, temporary) = (folder(), folder());
    let path = folder.path().join("bad.stormlog");
    let refused = |words: &str| {
        for command in [
            &["show"][..],
            &["analyze"],
            &["query", "sessions"],
            &["validate"],
        ] {
            let mut arguments = command.to_vec();
            arguments.push(text(&path));
            let mut program = stormlog(&arguments);
            let done = program.env("TMPDIR", temporary.path()).output().unwrap();
            let message = String::from_utf8_lossy(&done.stderr).into_owned()
                + &String::from_utf8_lossy(&done.stdout);
            assert_eq!(done.status.code(), Some(1), "{command:?}: {message}");
            assert!(message.contains(words), "{command:?}: {message}");
        }
        // Nothing was written anywhere.
        assert_eq!(fs::read_dir(temporary.path()).unwrap().count(), 0);
    };
    pack(&root().join("fixtures/runs/two_ranks"), &path);
    let good = fs::read(&path).unwrap();
    for cut in [good.len() - 1, good.len() / 2, 40] {
        fs::write(&path, &good[..cut]).unwrap();
        refused("incomplete or damaged");
    }
    let mut flipped = good.clone();
    let middle = good.len() / 2;
    flipped[middle] ^= 0x55;
    fs::write(&path, flipped).unwrap();
    refused("incomplete or damaged");
    fs::write(&path, "not compressed").unwrap();
    refused("not a file that 'stormlog pack' wrote");
    fs::write(&path, "").unwrap();
    refused("not a file that 'stormlog pack' wrote");
    fs::write(&path, zstd::encode_all(&b"no archive"[..], 1).unwrap()).unwrap();
    refused("incomplete or damaged");

    let file = tar::EntryType::Regular;
    for name in [
        "../outside.json",
        "/tmp/outside.json",
        "a/../../b.json",
        "a//b",
        "./c",
    ] {
        made(&path, &[(file, name, b"{}")], (1, 2));
        refused("is not an allowed path");
    }
    for kind in [
        tar::EntryType::Symlink,
        tar::EntryType::Link,
        tar::EntryType::Fifo,
    ] {
        made(&path, &[(kind, "events.json", b"")], (1, 0));
        refused("is not a regular file");
    }
    made(
        &path,
        &[(tar::EntryType::GNULongName, "long", b"events.json")],
        (1, 11),
    );
    refused("is not a regular file");
    made(
        &path,
        &[(file, "a.json", b"{}"), (file, "a.json", b"{}")],
        (2, 4),
    );
    refused("cannot unpack it");
    made(&path, &[(file, "a.json", b"{}")], (2, 4));
    refused("1 of 2 files");
    made(
        &path,
        &[(file, "a.json", b"{}"), (file, "b.json", b"{}")],
        (1, 2),
    );
    refused("more files or bytes than");

    // 300 MiB of zeros in some kilobytes.
    let bomb = vec![0; 300 << 20];
    made(&path, &[(file, "zeros.json", &bomb)], (1, bomb.len()));
    assert!(fs::metadata(&path).unwrap().len() < 200_000);
    refused("out of proportion to its size");
}

/// The output of `show` on a path, with some variables set, and its exit code.
fn shown(path: &Path, variables: &[(&str, &str)]) -> (Option<i32>, String) {
    let temporary = folder();
    let mut program = stormlog(&["show", text(path)]);
    program.envs(variables.iter().copied());
    let done = program.env("TMPDIR", temporary.path()).output().unwrap();
    assert_eq!(fs::read_dir(temporary.path()).unwrap().count(), 0);
    let output = [done.stderr, done.stdout].concat();
    (
        done.status.code(),
        String::from_utf8_lossy(&output).into_owned(),
    )
}

/// The text of a recording, repeated to a size in MiB.
fn events_of(mib: usize) -> Vec<u8> {
    let events = fs::read(root().join("fixtures/runs/two_ranks/segment-000001.jsonl")).unwrap();
    events.repeat((mib << 20) / events.len())
}

#[test]
fn what_the_files_in_a_pack_expand_to_counts() {
    let folder = folder();
    let path = folder.path().join("bomb.stormlog");
    let file = tar::EntryType::Regular;
    let events = events_of(40);
    let zstd = zstd::encode_all(&*events, 3).unwrap();
    for (name, content) in [("track.jsonl.zst", zstd), ("track.jsonl.gz", gzip(&events))] {
        let compressed = zstd::encode_all(&*content, 3).unwrap();
        if compressed.len() > (40 << 20) / 256 {
            // It expands so little that it is no bomb.
            continue;
        }
        made(&path, &[(file, name, &content)], (1, content.len()));
        let (code, message) = shown(&path, &[]);
        assert_eq!(code, Some(1), "{message}");
        assert!(message.contains("bomb.stormlog"), "{message}");
        assert!(message.contains("out of proportion"), "{message}");
        assert!(message.contains("STORMLOG_UNPACK_RESERVE"), "{message}");
    }
    // The user can allow it.
    made(&path, &[(file, "track.jsonl", &events)], (1, events.len()));
    assert_eq!(shown(&path, &[]).0, Some(1));
    let (code, message) = shown(&path, &[("STORMLOG_UNPACK_RESERVE", "64M")]);
    assert_eq!(code, Some(0), "{message}");
}

#[test]
fn a_pack_in_a_pack_is_not_opened() {
    let folder = folder();
    let (inner, outer) = (
        folder.path().join("inner.stormlog"),
        folder.path().join("outer.stormlog"),
    );
    pack(&root().join("fixtures/runs/two_ranks"), &inner);
    let file = tar::EntryType::Regular;
    let content = fs::read(&inner).unwrap();
    let one = (file, "inner.stormlog", content.as_slice());
    made(&outer, &[one], (1, content.len()));
    let refused = |path: &Path, name: &str| {
        let (code, message) = shown(path, &[]);
        assert_eq!(code, Some(1), "{message}");
        assert!(message.contains(name), "{message}");
        assert!(
            message.contains("packs in packs are not opened"),
            "{message}"
        );
    };
    refused(&outer, "outer.stormlog/inner.stormlog");
    refused(
        &outer.join("inner.stormlog"),
        "outer.stormlog/inner.stormlog",
    );
    // Beside a recording, the inner pack is named and the recording is read.
    let line = events_of(1);
    let two = [one, (file, "track.jsonl", &line)];
    made(&outer, &two, (2, content.len() + line.len()));
    let (code, message) = shown(&outer, &[]);
    assert_eq!(code, Some(0), "{message}");
    assert!(
        message.contains("packs in packs are not opened"),
        "{message}"
    );
}

#[test]
fn packs_in_a_folder_share_what_they_may_expand_to() {
    let folder = folder();
    let events = events_of(20);
    for index in 0..6 {
        let path = folder.path().join(format!("{index}.stormlog"));
        let file = tar::EntryType::Regular;
        made(&path, &[(file, "track.jsonl", &events)], (1, events.len()));
        assert!(fs::metadata(&path).unwrap().len() < 40_000);
    }
    let (code, message) = shown(folder.path(), &[]);
    assert_eq!(code, Some(0), "{message}");
    let refused = message.matches("out of proportion").count();
    assert!(refused >= 4, "{refused}: {message}");
}

#[test]
fn a_pack_that_is_killed_leaves_no_half_file() {
    let folder = folder();
    let (run, temporary) = (folder.path().join("run"), folder.path().join("tmp"));
    fs::create_dir_all(&run).unwrap();
    fs::create_dir(&temporary).unwrap();
    let line = fs::read(root().join("fixtures/runs/two_ranks/segment-000001.jsonl")).unwrap();
    // A secret, so that a copy is made.
    let secret = b"{\"metadata\": {\"password\": \"hunter2hunter2\"}}\n";
    fs::write(run.join("segment-000001.jsonl"), line.repeat(400)).unwrap();
    fs::write(run.join("segment-000002.jsonl"), secret).unwrap();
    let output = folder.path().join("run.stormlog");
    let names = |folder: &Path, prefix: &str| {
        let entries = fs::read_dir(folder).unwrap().map(Result::unwrap);
        let names = entries.map(|entry| entry.file_name().into_string().unwrap());
        names.filter(|name| name.starts_with(prefix)).count()
    };
    let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_stormlog"));
    command.env("TMPDIR", &temporary);
    command.args(["pack", text(&run), "-o", text(&output), "--force"]);
    command.stdout(std::process::Stdio::null());
    let is_killed = (0..20).any(|_| {
        let mut packing = command.spawn().unwrap();
        while names(folder.path(), ".stormlog-pack-") == 0 {
            if packing.try_wait().unwrap().is_some() {
                // It was faster than we looked.
                fs::remove_file(&output).unwrap();
                return false;
            }
        }
        packing.kill().unwrap();
        packing.wait().unwrap();
        !output.exists()
    });
    assert!(is_killed);
    assert_eq!(names(folder.path(), ".stormlog-pack-"), 1);
    assert_eq!(names(&temporary, "stormlog-"), 1);
    assert!(command.status().unwrap().success());
    assert!(output.exists());
    assert_eq!(names(folder.path(), ".stormlog-pack-"), 0);
    assert_eq!(names(&temporary, "stormlog-"), 0);
}

#[test]
fn packs_in_a_folder_are_read_with_it() {
    let folder = folder();
    let run = recording("runs/h200_leak_graph", &folder.path().join("run"));
    let sent = folder.path().join("sent");
    fs::create_dir(&sent).unwrap();
    pack(&run, &sent.join("run.stormlog"));
    let analyzed = |path: &Path, more: &[&str]| {
        let arguments = [&["analyze", text(path)], more].concat();
        let output = stormlog(&arguments).output().unwrap();
        let error = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(matches!(output.status.code(), Some(0 | 2)), "{error}");
        (output.stdout, error)
    };
    let verdict = |path: &Path| {
        let (report, _) = analyzed(path, &["--format", "json"]);
        let report: serde_json::Value = serde_json::from_slice(&report).unwrap();
        (report["verdict"].clone(), report["findings"].clone())
    };
    let alone = verdict(&run);
    assert!(alone.1.as_array().is_some_and(|found| !found.is_empty()));
    assert_eq!(verdict(&sent), alone);
    // Beside its original it counts once, and one that is damaged is named.
    fs::write(sent.join("broken.stormlog"), "no pack").unwrap();
    let (_, error) = analyzed(folder.path(), &[]);
    assert!(error.contains("broken.stormlog"), "{error}");
    assert_eq!(verdict(folder.path()).1, alone.1);
}
