//! No secret of `fixtures/secrets` reaches a file.

use std::fs;
use std::path::Path;

use stormlog_capture::oom::{Dump, write};
use stormlog_capture::store::{Sink, SinkConfig};
use stormlog_format::json::{Layout, Writer, parse};
use stormlog_format::{Map, SessionStatus, Value};

#[expect(dead_code, reason = "this test needs the secrets only")]
#[path = "../../../redact/tests/it/forms.rs"]
mod corpus;

/// All text below a folder.
fn all_text(folder: &Path) -> String {
    let mut text = String::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            text.push_str(&all_text(&path));
        } else {
            text.push_str(&String::from_utf8_lossy(&fs::read(&path).unwrap()));
        }
    }
    text
}

#[test]
fn neither_a_sink_nor_a_bundle_holds_a_secret() {
    let root = tempfile::tempdir().unwrap();
    let sink = Sink::open(SinkConfig::new(root.path().join("sink"))).unwrap();
    let mut events = Vec::new();
    let forms = corpus::forms("forms.txt");
    for form in &forms {
        let mut metadata = Map::new();
        metadata.insert("note", &*form.text);
        let mut event = Map::new();
        event.insert("context", &*format!("failed\n{}", form.text));
        event.insert("metadata", Value::Map(metadata));
        sink.append_line(
            None,
            &Writer::new(Layout::Line).to_string(&Value::Map(event.clone())),
            None,
        )
        .unwrap();
        events.push(event);
    }
    sink.close(SessionStatus::Completed).unwrap();
    let message: Vec<&str> = forms.iter().map(|form| &*form.text).collect();
    let dump = Dump {
        reason: "r".into(),
        exception: ["E".into(), "m".into(), message.join("\n").into()],
        context: Some(message.join("\n").into()),
        backend: "cuda".into(),
        events: events.clone(),
        custom_metadata: events.swap_remove(0),
        session: None,
        system: Map::new(),
        pid: 7,
        cwd: "/".into(),
    };
    let bundle = write(root.path(), dump, "S", "C", 1).unwrap();
    let text = all_text(root.path());
    let leaked = forms.iter().filter_map(|form| form.leaks_into(&text));
    assert_eq!(leaked.collect::<Vec<_>>(), Vec::<&str>::new());
    // Every record is still there and still valid.
    let segment = fs::read(root.path().join("sink/segment-000001.jsonl")).unwrap();
    let records: Vec<&[u8]> = segment.split(|byte| *byte == b'\n').collect();
    assert_eq!(records.len(), forms.len() + 1);
    for record in &records[..forms.len()] {
        assert!(matches!(parse(record), Ok(Value::Map(_))));
    }
    assert!(bundle.join("manifest.json").exists());
}
