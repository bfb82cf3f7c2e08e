//! Tests loading tables: our own, and those of stormlog 0.3.9 with metadata as Python text.

use stormlog_analysis::LoadError;
use stormlog_format::Value;

use crate::support::{events, fixture, folder, load, load_around_damage, refused, write};

#[test]
fn the_references_csv_equals_its_json() {
    let table = events(&load(&fixture("reference_csv/events.csv")));
    let document = events(&load(&fixture("reference_csv/events.json")));
    assert!(table.len() > 15);
    assert_eq!(table, document);
    assert!(table.iter().all(|event| event.metadata.len() > 5));
}

const HEADER: &str = "schema_version,session_id,timestamp_ns,event_type,collector,\
sampling_interval_ms,pid,host,job_id,rank,local_rank,world_size,device_id,\
allocator_allocated_bytes,allocator_reserved_bytes,allocator_active_bytes,\
allocator_inactive_bytes,allocator_change_bytes,device_used_bytes,device_free_bytes,\
device_total_bytes,context,metadata\n";

fn row(allocated: &str, context: &str, metadata: &str) -> String {
    format!("3,s,5,sample,c,20,1,h,,,,,0,{allocated},2,,,-1,3,7,10,{context},{metadata}\n")
}

#[test]
fn empty_cells_are_unknown() {
    let folder = folder();
    let path = write(&folder, "t.csv", format!("{HEADER}{}", row("1", "", "")));
    let all = events(&load(&path));
    assert_eq!(all[0].context, None);
    assert_eq!(all[0].job_id, None);
    assert_eq!(all[0].world_size, 1);
    assert_eq!(all[0].counters.allocator_active_bytes, None);
    assert!(all[0].metadata.is_empty());
}

#[test]
fn integers_may_have_decimals_and_exponents() {
    let folder = folder();
    for (cell, value) in [
        ("1", 1),
        (" 7 ", 7),
        ("150109880320.0", 150_109_880_320),
        ("2.9", 2),
        ("1.5e3", 1500),
        ("1e5", 100_000),
        ("9223372036854775807", i64::MAX),
        ("9007199254740993.0", 9_007_199_254_740_993),
    ] {
        let path = write(&folder, "t.csv", format!("{HEADER}{}", row(cell, "", "")));
        let all = events(&load(&path));
        assert_eq!(
            all[0].counters.allocator_allocated_bytes,
            Some(value),
            "{cell}"
        );
    }
    for cell in [
        "x",
        "nan",
        "inf",
        "1e30",
        "9223372036854775808",
        "1.x",
        "--1",
    ] {
        let path = write(&folder, "t.csv", format!("{HEADER}{}", row(cell, "", "")));
        assert!(
            matches!(refused(&path), LoadError::Csv { line: 2, .. }),
            "{cell}"
        );
    }
}

#[test]
fn metadata_as_json_or_as_python_text() {
    let folder = folder();
    let cells = [
        r#""{""a"": 1, ""t"": ""x, y""}""#,
        r#""{'a': 1, 't': 'x, y'}""#,
    ];
    for cell in cells {
        let path = write(&folder, "t.csv", format!("{HEADER}{}", row("1", "", cell)));
        let all = events(&load(&path));
        assert_eq!(all[0].metadata.get("a"), Some(&Value::Int(1)), "{cell}");
        assert_eq!(
            all[0].metadata.get("t"),
            Some(&Value::text("x, y")),
            "{cell}"
        );
    }
}

#[test]
fn bad_rows_are_named_by_their_line() {
    let folder = folder();
    let text = format!(
        "{HEADER}{}{}{}{}",
        row("1", "\"two\nlines\"", ""),
        row("x", "", ""),
        row("1", "", "<object>"),
        row("2", "", "")
    );
    let path = write(&folder, "t.csv", text);
    assert_eq!(
        refused(&path).to_string(),
        format!(
            "CSV parse error {}:4: allocator_allocated_bytes is not an integer: 'x'",
            path.display()
        )
    );
    let loaded = load_around_damage(&path);
    assert_eq!(events(&loaded).len(), 2);
    let lines: Vec<_> = loaded.damage.iter().map(|damage| damage.line).collect();
    assert_eq!(lines, [Some(4), Some(5)]);
    assert_eq!(loaded.sessions[0].damage, loaded.damage);
}

#[test]
fn cells_that_are_no_text_spoil_their_row_only() {
    let folder = folder();
    let mut text = format!("{HEADER}{}", row("1", "", "")).into_bytes();
    text.extend(b"3,s,5,sample,c\xff,20\n");
    text.extend(row("2", "", "").bytes());
    let path = write(&folder, "t.csv", text);
    assert!(matches!(refused(&path), LoadError::Csv { line: 3, .. }));
    let loaded = load_around_damage(&path);
    assert_eq!(events(&loaded).len(), 2);
    assert_eq!(loaded.damage.len(), 1);
}
