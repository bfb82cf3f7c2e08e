//! Tests malicious inputs: they are rejected or loaded, and the cost is proportional to their size.

use std::io::Write;

use stormlog_analysis::{LoadError, load_sessions};

use crate::support::{
    events, folder, line, lines, load, load_around_damage, raise, refused, skip, write,
};

/// A small file that expands to 26 MiB: a beginning, then one repeated text.
fn bomb(beginning: &str, repeated: &str) -> Vec<u8> {
    let size = 26 << 20;
    let text = format!("{beginning}{}", repeated.repeat(size / repeated.len()));
    zstd::bulk::compress(text.as_bytes(), 3).expect("memory")
}

#[test]
fn bombs_are_refused_before_they_fill_the_memory() {
    let folder = folder();
    let row = format!("1,{}\n", "x".repeat(1000));
    let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::best());
    gzip.write_all(&vec![b' '; 17 << 20]).expect("memory");
    for (name, bytes) in [
        ("space.json.gz", gzip.finish().expect("memory")),
        ("space.json.zst", bomb("", " ")),
        ("lists.json.zst", bomb("", "[")),
        (
            "items.json.zst",
            bomb("{\"events\": [", "{\"timestamp\": 1},"),
        ),
        ("list.json.zst", bomb("[", &line("{}").replace('\n', ",\n"))),
        ("line.jsonl.zst", bomb("", "x")),
        ("lines.jsonl.zst", bomb("", &line("{}"))),
        ("rows.csv.zst", bomb("timestamp,context\n", &row)),
    ] {
        assert!(bytes.len() < 64 << 10, "{name}: {}", bytes.len());
        let path = write(&folder, name, bytes);
        let error = refused(&path);
        assert!(
            matches!(error, LoadError::ExpandsTooFar { .. }),
            "{name}: {error:?}"
        );
    }
}

#[test]
fn sparse_files_are_refused() {
    let folder = folder();
    for (name, start) in [
        ("zeros.json", ""),
        ("list.json", "["),
        ("object.json", "{\"events\": ["),
        ("zeros.jsonl", ""),
        ("zeros.csv", ""),
        ("rows.csv", "timestamp,context\n1,a\n"),
    ] {
        let path = write(&folder, name, start);
        let file = std::fs::File::options().write(true).open(&path);
        file.and_then(|file| file.set_len(10 << 30))
            .expect("a file");
        let message = refused(&path).to_string();
        assert!(message.contains(name), "{message}");
        assert!(message.contains("it is a sparse file"), "{message}");
    }
}

#[test]
fn tables_with_monstrous_rows_are_refused() {
    let folder = folder();
    let long = "x\n".repeat(17 << 19);
    for (name, text, reason) in [
        ("cell.csv", format!("\"{long}"), "a row is longer"),
        (
            "row.csv",
            format!("timestamp,context\n1,\"{long}"),
            "a row is longer",
        ),
        (
            "columns.csv",
            format!("timestamp{}\n1\n", ",".repeat(5000)),
            "more than 4096 columns",
        ),
    ] {
        let path = write(&folder, name, text);
        let message = refused(&path).to_string();
        assert!(message.contains(name), "{message}");
        assert!(message.contains(reason), "{message}");
    }
    // The rows before are read.
    let rows = "timestamp,event_type,memory_allocated\n1,sample,5\n2,sample,6\n3,\"";
    let path = write(&folder, "torn.csv", format!("{rows}{long}"));
    let loaded = load_around_damage(&path);
    assert_eq!((events(&loaded).len(), loaded.damage.len()), (2, 1));
}

#[test]
fn records_with_millions_of_values_are_refused() {
    let folder = folder();
    let values = format!("[{}0]", "0,".repeat(1 << 18));
    // A record that the fast scanner does not accept, which keeps the text of metadata unparsed.
    let record = format!("{{\"timestamp\": 1, \"metadata\": {{\"a\": {values}}}}}");
    for (name, text) in [
        ("x.jsonl", format!("{record}\n")),
        ("list.json", format!("[{record}]")),
        ("key.json", format!("{{\"events\": [{record}]}}")),
    ] {
        refused(&write(&folder, name, text));
    }
}

#[test]
fn lines_of_monstrous_length_are_skipped() {
    let folder = folder();
    let mut text = lines(1).into_bytes();
    text.extend(vec![b'x'; 65 << 20]);
    text.push(b'\n');
    text.extend(lines(1).bytes());
    let path = write(&folder, "long.jsonl", &text);
    assert!(refused(&path).to_string().ends_with("at line 2"));
    let loaded = load_around_damage(&path);
    assert_eq!(events(&loaded).len(), 2);
    let [damage] = loaded.damage.as_slice() else {
        panic!("one place: {:?}", loaded.damage);
    };
    assert_eq!(damage.line, Some(2));
    let start = lines(1).len() as u64;
    assert_eq!(damage.bytes, Some(start..start + (65 << 20) + 1));
}

#[test]
fn deep_nesting_is_refused() {
    let folder = folder();
    for depth in [1000, 200_000] {
        let nested = format!("{}{}", "[".repeat(depth), "]".repeat(depth));
        let open = format!("{}1{}", "{\"a\":".repeat(depth), "}".repeat(depth));
        for value in [&nested, &open, &"[".repeat(depth), &"{\"a\":".repeat(depth)] {
            let deep = format!("{{\"timestamp\": 1, \"metadata\": {{\"x\": {value}}}}}");
            for (name, text) in [
                ("x.json", deep.clone()),
                ("list.json", format!("[{deep}]")),
                ("key.json", format!("{{\"events\": [{deep}]}}")),
                ("x.jsonl", format!("{deep}\n{}", lines(1))),
                ("bare.json", value.clone()),
                (
                    "x.csv",
                    format!("timestamp,metadata\n1,\"{}\"\n", value.replace('"', "\"\"")),
                ),
                ("sink/manifest.json", value.clone()),
            ] {
                let path = write(&folder, name, text);
                refused(&path);
            }
        }
        std::fs::remove_dir_all(folder.path().join("sink")).expect("made above");
    }
}

#[test]
fn one_field_at_a_time_of_the_wrong_kind() {
    let folder = folder();
    let values = [
        "null",
        "true",
        "-1",
        "1.5",
        "1e400",
        "NaN",
        "9223372036854775807",
        "-9223372036854775808",
        "18446744073709551616",
        "\"\"",
        "\" \"",
        "\"\\ud800\"",
        "[]",
        "{}",
    ];
    for field in stormlog_format::FIELDS {
        for value in values {
            let text = line(&format!("{{\"{field}\": {value}}}"));
            let path = write(&folder, "x.jsonl", &text);
            let lines = load_sessions(&path, &raise());
            let path = write(&folder, "x.json", format!("[{text}]"));
            let list = load_sessions(&path, &raise());
            match (lines, list) {
                (Ok(lines), Ok(list)) => assert_eq!(events(&lines).len(), events(&list).len()),
                (Err(lines), Err(list)) => {
                    assert_eq!(lines.to_string(), list.to_string(), "{text}");
                }
                (lines, list) => panic!("{text}: {lines:?} {list:?}"),
            }
            load_sessions(&path, &skip()).expect("skipping never fails here");
        }
    }
}

#[test]
fn manifests_of_every_shape() {
    let folder = folder();
    write(&folder, "segment-000001.jsonl", lines(2));
    for manifest in [
        "",
        "null",
        "[]",
        "5",
        "{",
        "{}",
        "\u{feff}{}",
        r#"{"segments": 5, "sessions": {}}"#,
        r#"{"segments": [null, 5, "x", [], {}]}"#,
        r#"{"segments": [{"filename": ""}, {"filename": "\u0000"}, {"filename": "\ud800"}]}"#,
        r#"{"segments": [{"filename": "."}, {"filename": ".."}, {"filename": "/"}]}"#,
        r#"{"schema_version": 1e400, "format": 5, "segments": null}"#,
        r#"{"schema_version": 2, "sessions": [{"session_id": " "}, {"status": 5}]}"#,
        r#"{"segments": [{"filename": "segment-000001.jsonl", "session_id": 5}]}"#,
        r#"{"segments": [{"filename": "segment-000001.jsonl"}, {"filename": "segment-000001.jsonl"}]}"#,
    ] {
        write(&folder, "manifest.json", manifest);
        assert_eq!(events(&load(folder.path())).len(), 2, "{manifest}");
    }
}

/// Quadratic work would take minutes for this input.
#[test]
fn very_many_of_everything_takes_no_longer_than_it_is_large() {
    use std::fmt::Write as _;

    let folder = folder();
    let mut record = r#"{"timestamp": 1"#.to_owned();
    for n in 0..50_000 {
        write!(record, ", \"metadata_k{n}\": {n}").expect("memory");
    }
    let path = write(&folder, "keys.jsonl", format!("{record}}}\n"));
    assert_eq!(events(&load(&path))[0].metadata.len(), 50_000);

    let many = 20_000;
    let sessions: Vec<String> = (0..many)
        .map(|n| {
            format!(
                r#"{{"session_id": "s{n}", "status": "running", "started_at_ns": 1, "host": "h",
                    "source": "x"}}"#
            )
        })
        .collect();
    let segments: Vec<String> = (0..many)
        .map(|n| format!(r#"{{"filename": "segment-{n:06}.jsonl", "session_id": "s{n}"}}"#))
        .collect();
    let manifest = format!(
        r#"{{"schema_version": 2, "sessions": [{}], "segments": [{}]}}"#,
        sessions.join(", "),
        segments.join(", ")
    );
    write(&folder, "sink/manifest.json", manifest);
    let loaded = load(&folder.path().join("sink"));
    assert_eq!(loaded.sessions.len(), many);
    assert_eq!(loaded.damage.len(), many);
    assert!(
        loaded
            .sessions
            .iter()
            .all(|session| session.damage.len() == 1)
    );

    // Every second line is damaged, and each of the other lines is a separate session.
    let mut text = String::new();
    for n in 0..many {
        writeln!(text, r#"{{"timestamp": 1, "session_id": "s{n}"}}"#).expect("memory");
        text.push_str("x\n");
    }
    let path = write(&folder, "sessions.jsonl", text);
    let loaded = load_around_damage(&path);
    assert_eq!(loaded.damage.len(), many);
    let first = &loaded.sessions[0].damage;
    assert_eq!(first.len(), 51);
    assert_eq!(first[50].reason, "and 19950 more damaged places");
}
