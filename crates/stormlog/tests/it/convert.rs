//! `stormlog convert`: formats, compression, refusals, and bounded memory.

use std::io::{BufWriter, Write};
use std::path::Path;

use crate::support::{folder, out, root, stormlog, transcript};

#[test]
fn every_format() {
    for format in ["json", "jsonl", "csv"] {
        let path = "fixtures/runs/two_ranks/segment-000002.jsonl";
        let text = out(&["convert", path, "-", "--to", format]);
        let start: String = text
            .lines()
            .take(3)
            .fold(String::new(), |all, line| all + line + "\n");
        insta::assert_snapshot!(format!("convert_{format}"), start);
    }
}

#[test]
fn lines_are_those_of_the_sink() {
    let path = "fixtures/runs/two_ranks/segment-000001.jsonl";
    let original = std::fs::read_to_string(root().join(path)).expect("readable");
    assert_eq!(out(&["convert", path, "-", "--to", "jsonl"]), original);
}

#[test]
fn compressed_by_suffix() {
    let folder = folder();
    let plain = out(&["convert", "fixtures/runs/two_ranks", "-", "--to", "jsonl"]);
    for name in [
        "x.jsonl",
        "x.jsonl.gz",
        "x.jsonl.zst",
        "x.csv.gz",
        "x.json.zst",
        "X.JSON",
    ] {
        let path = folder.path().join(name);
        let path = path.to_str().expect("text");
        assert_eq!(out(&["convert", "fixtures/runs/two_ranks", path]), "");
        assert_eq!(
            out(&["convert", path, "-", "--to", "jsonl"]),
            plain,
            "{name}"
        );
    }
    let magic =
        |name: &str| std::fs::read(folder.path().join(name)).expect("readable")[..2].to_vec();
    assert_eq!(magic("x.csv.gz"), [0x1f, 0x8b]);
    assert_eq!(magic("x.json.zst"), [0x28, 0xb5]);
}

#[test]
fn what_is_not_finite_becomes_text() {
    let text = out(&[
        "convert",
        "fixtures/runs/odd_values/odd.jsonl",
        "-",
        "--to",
        "jsonl",
    ]);
    let first = text.lines().next().expect("a line");
    assert!(first.contains(r#""loss": "NaN""#) && first.contains(r#""low": "-Infinity""#));
    for line in text.lines() {
        let strict: Result<serde_json::Value, _> = serde_json::from_str(line);
        // The third line has lone surrogates, which Python's JSON and ours keep.
        assert!(strict.is_ok() || line.contains("\\ud800"), "{line}");
    }
}

#[test]
fn version_4_stays_version_4() {
    let text = out(&[
        "convert",
        "fixtures/runs/versions/v4.json",
        "-",
        "--to",
        "jsonl",
    ]);
    assert!(text.contains(r#""schema_version": 4"#));
    assert!(text.contains(r#""device_used_bytes": null"#));
}

#[test]
fn refusals_leave_nothing_behind() {
    let folder = folder();
    let existing = folder.path().join("there.json");
    std::fs::write(&existing, "mine").expect("writable");
    let existing = existing.to_str().expect("text");
    let nameless = folder.path().join("x");
    let broken = folder.path().join("broken.json");
    let nowhere = folder.path().join("no/such/folder.json");
    let tidy = |text: String| text.replace(folder.path().to_str().expect("text"), "[folder]");
    let cases = [
        ("exists", "two_ranks", existing),
        ("nameless", "two_ranks", nameless.to_str().expect("text")),
        (
            "broken",
            "broken_middle_line",
            broken.to_str().expect("text"),
        ),
        ("nowhere", "two_ranks", nowhere.to_str().expect("text")),
    ];
    for (name, story, output) in cases {
        let said = transcript(&["convert", &format!("fixtures/runs/{story}"), output]);
        insta::assert_snapshot!(format!("convert_refused_{name}"), tidy(said));
    }
    assert_eq!(std::fs::read_to_string(existing).expect("readable"), "mine");
    assert_eq!(
        std::fs::read_dir(folder.path()).expect("readable").count(),
        1
    );

    let skipped = transcript(&[
        "convert",
        "--skip-damaged",
        "--force",
        "fixtures/runs/broken_middle_line",
        existing,
    ]);
    insta::assert_snapshot!("convert_skipped", tidy(skipped));
}

/// A device such as /dev/null stays one, also where the user may replace it.
#[test]
fn a_pipe_is_written_to_and_not_replaced() {
    use std::os::unix::fs::FileTypeExt as _;

    let folder = folder();
    let pipe = folder.path().join("pipe");
    let made = std::process::Command::new("mkfifo").arg(&pipe).status();
    assert!(made.expect("mkfifo").success());
    let reader = std::thread::spawn({
        let pipe = pipe.clone();
        move || std::fs::read_to_string(pipe).expect("text")
    });
    let name = pipe.to_str().expect("text");
    let said = transcript(&[
        "convert",
        "--force",
        "--to",
        "jsonl",
        "fixtures/runs/two_ranks",
        name,
    ]);
    let kind = pipe.metadata().expect("it is there").file_type();
    assert!(kind.is_fifo(), "{said}");
    assert!(reader.join().expect("a reader").starts_with('{'), "{said}");
}

/// Converting needs memory for a few blocks, whatever the size of the file.
#[test]
fn memory_stays_bounded() {
    let folder = folder();
    let line = out(&[
        "convert",
        "fixtures/runs/versions/v3.json",
        "-",
        "--to",
        "jsonl",
    ]);
    let size = 32 << 20;
    let count = size / line.len();
    let lines = folder.path().join("large.jsonl");
    let list = folder.path().join("large.json");
    let fill = |path: &Path, start: &str, between: &str, end: &str| {
        let file = std::fs::File::create(path).expect("writable");
        let mut file = BufWriter::with_capacity(1 << 20, file);
        file.write_all(start.as_bytes()).expect("room");
        for number in 0..count {
            let gap = if number == 0 { "" } else { between };
            // No two records are the same, so that nothing is shared.
            let record = line
                .trim_end()
                .replace("\"step\": 1", &format!("\"step\": {number}"));
            write!(file, "{gap}{record}").expect("room");
        }
        file.write_all(end.as_bytes()).expect("room");
        file.flush().expect("room");
    };
    fill(&lines, "", "\n", "\n");
    fill(&list, "[", ",\n ", "]\n");
    for path in [&lines, &list] {
        let peak = peak_of_converting(path);

        assert!(peak < 40 << 10, "{}: {peak} KiB", path.display());
    }
}

/// The largest resident size of a conversion, in KiB, as the kernel counts it.
fn peak_of_converting(path: &Path) -> u64 {
    let script = format!(
        "'{}' convert '{}' - --to jsonl > /dev/null & pid=$!; peak=0; \
         while now=$(grep VmHWM /proc/$pid/status 2>/dev/null | tr -dc 0-9) && [ -n \"$now\" ]; \
         do peak=$now; sleep 0.02; done; wait $pid && echo $peak",
        assert_cmd::cargo::cargo_bin("stormlog").display(),
        path.display()
    );
    // Every thread has its own blocks, so the number of threads is fixed.
    let output = std::process::Command::new("sh")
        .args(["-c", &script])
        .env("RAYON_NUM_THREADS", "2")
        .output()
        .expect("a shell");
    assert!(output.status.success());
    let peak = String::from_utf8(output.stdout).expect("text");
    peak.trim().parse().expect("a number")
}

#[test]
fn converting_a_table_and_back() {
    let folder = folder();
    let table = folder.path().join("x.csv");
    let table = table.to_str().expect("text");
    out(&["convert", "fixtures/runs/reference_csv/events.csv", table]);
    let from_table = out(&["convert", table, "-", "--to", "jsonl"]);
    let from_json = out(&[
        "convert",
        "fixtures/runs/reference_csv/events.json",
        "-",
        "--to",
        "jsonl",
    ]);
    assert_eq!(from_table, from_json);
    let output = stormlog(&["convert", table, table])
        .output()
        .expect("it starts");
    assert_eq!(output.status.code(), Some(1));
}
