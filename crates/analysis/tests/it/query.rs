//! Tests catalogs of hostile directories: nothing outside the given paths is opened or followed.

use std::os::unix::fs::symlink;
use std::path::Path;

use flate2::Compression;
use stormlog_analysis::query::{
    AttachmentFilter, EventFilter, RunAttachmentFilter, SessionFilter, Store,
};

use crate::support::{folder, gzip, line, write};

fn manifest(segment: &str) -> String {
    format!(
        r#"{{"schema_version": 2, "format": "stormlog.append_only_telemetry_sink",
            "sessions": [{{"session_id": "s", "status": "completed", "started_at_ns": 1,
              "host": "h", "source": "x"}}],
            "segments": [{{"filename": "{segment}", "event_count": 1, "size_bytes": 1,
              "closed": true, "session_id": "s"}}]}}"#
    )
}

fn messages(store: &Store) -> Vec<String> {
    let warnings = store.warnings().into_iter();
    warnings.map(|warning| warning.message).collect()
}

fn count_events(store: &Store) -> usize {
    store.events(&EventFilter::default()).len()
}

#[test]
fn a_manifest_leads_nowhere_else() {
    let folder = folder();
    write(&folder, "secret.jsonl", line("{}"));
    write(&folder, "sink/manifest.json", manifest("../secret.jsonl"));
    let store = Store::open(&[folder.path().join("sink")]);
    assert_eq!(count_events(&store), 0);
    let said = messages(&store);
    assert!(
        said.iter().any(|text| text.contains("outside the sink")),
        "{said:?}"
    );
    assert_eq!(store.sessions(&SessionFilter::default(), None).len(), 1);
}

#[test]
fn links_out_of_the_given_paths_are_refused() {
    let (inside, outside) = (folder(), folder());
    let secret = write(&outside, "secret_events.jsonl", line("{}"));
    let elsewhere = outside.path().join("more");
    std::fs::create_dir(&elsewhere).expect("a folder");
    std::fs::write(elsewhere.join("events.jsonl"), line("{}")).expect("a file");
    symlink(&secret, inside.path().join("events.jsonl")).expect("a link");
    symlink(&elsewhere, inside.path().join("linked")).expect("a link");
    symlink(inside.path(), inside.path().join("round")).expect("a link");
    write(&inside, "own.jsonl", line("{}"));
    symlink(
        inside.path().join("own.jsonl"),
        inside.path().join("again.jsonl"),
    )
    .expect("a link");
    let store = Store::open(&[inside.path()]);
    // A link inside the directory leads to a file that was already counted.
    assert_eq!(count_events(&store), 1);
    let said = messages(&store);
    assert_eq!(said.len(), 1, "{said:?}");
    assert!(said[0].contains("outside the given paths"), "{said:?}");
}

#[test]
fn what_describes_a_directory_is_no_link_out_of_it() {
    let (inside, outside) = (folder(), folder());
    write(&outside, "segment-000001.jsonl", line("{}"));
    let names = [
        ("manifest.json", manifest("segment-000001.jsonl")),
        ("stormlog_run.json", envelope("own.html")),
        ("stormlog_attachments.json", attachments("own.html")),
    ];
    for (name, text) in &names {
        let file = write(&outside, name, text);
        symlink(&file, inside.path().join(name)).expect("a link");
    }
    let store = Store::open(&[inside.path()]);
    assert!(store.catalog().is_empty(), "{:?}", store.catalog());
    let said = messages(&store);
    assert_eq!(said.len(), names.len(), "{said:?}");
    assert!(said.iter().all(|text| text.contains("refused")), "{said:?}");
    // A link from one given path to another does not leave the given paths.
    let store = Store::open(&[inside.path(), outside.path()]);
    let said = messages(&store);
    assert!(
        !said.iter().any(|text| text.contains("refused")),
        "{said:?}"
    );
    assert_eq!(store.catalog().run_envelopes.len(), 1);
}

#[test]
fn nobody_waits_for_a_pipe() {
    let folder = folder();
    for name in [
        "manifest.json",
        "stormlog_run.json",
        "events.jsonl",
        "issues.json",
    ] {
        let pipe = folder.path().join(name);
        let made = std::process::Command::new("mkfifo").arg(&pipe).status();
        assert!(made.expect("mkfifo runs").success());
    }
    let store = Store::open(&[folder.path()]);
    assert!(store.catalog().is_empty());
    let states = stormlog_analysis::issue::read_states(&folder.path().join("issues.json"));
    let error = states.expect_err("a pipe is no file").to_string();
    assert!(error.contains("issues.json"), "{error}");
}

#[test]
fn a_segment_elsewhere_is_no_attachment_either() {
    let folder = folder();
    write(&folder, "sink/manifest.json", manifest("../secret.jsonl"));
    write(&folder, "secret.jsonl", line("{}"));
    let store = Store::open(&[folder.path().join("sink")]);
    let rows = store.run_attachments(&RunAttachmentFilter::default());
    let kinds: Vec<&str> = rows.iter().filter_map(|row| row.kind.as_str()).collect();
    assert_eq!(kinds, ["telemetry_sink"]);
}

fn envelope(path: &str) -> String {
    format!(
        r#"{{"schema_version": 1, "format": "stormlog.run_envelope", "run_id": "r", "metadata": {{}},
            "attachments": [
              {{"title": "own", "kind": "k", "storage": "copy", "metadata": {{}}, "path": "own.html"}},
              {{"title": "t", "kind": "k", "storage": "copy", "metadata": {{}}, "path": "{path}"}}]}}"#
    )
}

#[test]
fn an_envelope_leads_nowhere_else() {
    let folder = folder();
    write(
        &folder,
        "set/stormlog_run.json",
        envelope("../../etc/passwd"),
    );
    let store = Store::open(&[folder.path().join("set")]);
    let titles: Vec<String> = store
        .run_attachments(&RunAttachmentFilter::default())
        .iter()
        .map(|row| row.title.to_string())
        .collect();
    assert_eq!(titles, ["own"]);
    assert!(messages(&store)[0].contains("attachment 1 is refused"));
}

fn attachments(path: &str) -> String {
    format!(
        r#"{{"schema_version": 1, "format": "stormlog.attachments", "attachments": [
            {{"title": "t", "kind": "k", "path": "{path}"}}]}}"#
    )
}

#[test]
fn an_attachment_leads_nowhere_else() {
    let folder = folder();
    let listed = |given: &Path| {
        let store = Store::open(&[given]);
        let rows = store.attachments(&AttachmentFilter::default());
        (rows.len(), messages(&store))
    };
    write(
        &folder,
        "set/deep/stormlog_attachments.json",
        attachments("../../../etc/passwd"),
    );
    let (count, said) = listed(&folder.path().join("set"));
    assert_eq!(count, 0);
    assert!(said[0].contains("refused"), "{said:?}");
    write(
        &folder,
        "set/deep/stormlog_attachments.json",
        attachments("../report.html"),
    );
    assert_eq!(listed(&folder.path().join("set")), (1, Vec::new()));
}

#[test]
fn a_relative_path_lists_what_its_absolute_form_does() {
    let folder = folder();
    write(
        &folder,
        "sink/manifest.json",
        manifest("segment-000001.jsonl"),
    );
    write(&folder, "sink/segment-000001.jsonl", line("{}"));
    write(
        &folder,
        "oom/manifest.json",
        r#"{"bundle_name": 1, "reason": 1, "backend": 1, "event_count": 1}"#,
    );
    write(&folder, "oom/events.json", "[]");
    let here = std::env::current_dir().expect("a directory");
    let up: std::path::PathBuf = here.components().skip(1).map(|_| "..").collect();
    let relative = up.join(folder.path().strip_prefix("/").expect("absolute"));
    let kinds = |store: &Store| -> Vec<&str> {
        let sources = store.catalog().sources.iter();
        sources.map(|source| source.kind.as_str()).collect()
    };
    let (one, other) = (Store::open(&[folder.path()]), Store::open(&[relative]));
    assert_eq!(kinds(&one), ["sink"]);
    assert_eq!(kinds(&one), kinds(&other));
    assert_eq!(
        one.catalog().oom_bundles.len(),
        other.catalog().oom_bundles.len()
    );
}

#[test]
fn a_large_sink_is_read_only_where_it_matters() {
    let plain = |name: &str, text: String| (name.to_owned(), text.into_bytes());
    reads_only_the_segments_that_matter(plain);
}

#[test]
fn a_large_sink_with_compressed_segments_is_read_only_where_it_matters() {
    let packed = |name: &str, text: String| {
        (
            format!("{name}.gz"),
            gzip(text.as_bytes(), Compression::none()),
        )
    };
    reads_only_the_segments_that_matter(packed);
}

/// `stored` is given the name and the lines of a segment, and returns the name and the content of
/// its file.
fn reads_only_the_segments_that_matter(stored: impl Fn(&str, String) -> (String, Vec<u8>)) {
    let folder = folder();
    let write_segment = |name: &str, text: String| {
        let (name, content) = stored(name, text);
        write(&folder, &name, content);
    };
    let long = "x".repeat(2000);
    let records = |session: &str, first: i64| -> String {
        let one = |n: i64| {
            let time = first + n;
            line(&format!(
                r#"{{"session_id": "{session}", "timestamp_ns": {time}, "context": "{long}"}}"#
            ))
        };
        (0..2500).map(one).collect()
    };
    write_segment("segment-000001.jsonl", records("a", 0));
    write_segment("segment-000002.jsonl", records("b", 10_000));
    // These files contain only damage, so a query that opens them reports it.
    write_segment("segment-000003.jsonl", "broken\n".to_owned());
    let session = |id: &str| {
        format!(
            r#"{{"session_id": "{id}", "status": "completed", "started_at_ns": 1, "host": "h",
                "source": "x"}}"#
        )
    };
    let segment = |name: &str, id: &str| {
        format!(r#"{{"filename": "segment-00000{name}.jsonl", "session_id": "{id}"}}"#)
    };
    let manifest = format!(
        r#"{{"schema_version": 2, "sessions": [{}, {}, {}], "segments": [{}, {}, {}]}}"#,
        session("a"),
        session("b"),
        session("c"),
        segment("1", "a"),
        segment("2", "b"),
        segment("3", "c"),
    );
    write(&folder, "manifest.json", manifest);
    let of_b = EventFilter {
        session_id: Some("b".into()),
        ..EventFilter::default()
    };
    let store = Store::open(&[folder.path()]);
    let rows = store.events(&of_b);
    assert_eq!(rows.len(), 2500);
    assert_eq!(messages(&store), Vec::<String>::new());
    let path = rows.get(0).expect("a row").source_path.to_string();
    let (name, _) = stored("segment-000002.jsonl", String::new());
    assert!(path.ends_with(&name), "{path}");
    // The second query loads the sink and finds all events.
    assert_eq!(store.events(&of_b).len(), 2500);
    assert_eq!(messages(&store).len(), 1);
    let first = EventFilter {
        limit: Some(3),
        has_alert: Some(false),
        ..EventFilter::default()
    };
    let rows = Store::open(&[folder.path()]).events(&first);
    let times: Vec<i64> = rows.iter().map(|row| row.event.timestamp_ns()).collect();
    assert_eq!(times, [0, 1, 2]);
}
