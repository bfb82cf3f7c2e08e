//! What `stormlog issues --json` and `stormlog show --json` print is what docs/schemas promises.

use serde_json::Value;

use crate::artifacts::{call, repository};

/// The part of JSON Schema that our schemas use; gives the first place that breaks it.
fn check(schema: &Value, root: &Value, value: &Value, place: &str) -> Result<(), String> {
    if let Some(reference) = schema["$ref"].as_str() {
        let path = reference.strip_prefix('#').expect("a reference inside");
        let target = root.pointer(path).expect("a definition");
        return check(target, root, value, place);
    }
    let is = |kind: &str| match kind {
        "object" => value.is_object(),
        "array" => value.is_array(),
        "string" => value.is_string(),
        "integer" => value.is_i64() || value.is_u64(),
        "null" => value.is_null(),
        other => panic!("unknown type {other}"),
    };
    let fits = match &schema["type"] {
        Value::String(kind) => is(kind),
        Value::Array(kinds) => kinds.iter().any(|kind| is(kind.as_str().expect("a name"))),
        _ => true,
    };
    if !fits {
        return Err(format!("{place}: {value} is no {}", schema["type"]));
    }
    if let Some(allowed) = schema["enum"].as_array()
        && !allowed.contains(value)
    {
        return Err(format!("{place}: {value} is none of {allowed:?}"));
    }
    if let Some(object) = value.as_object() {
        for key in schema["required"].as_array().into_iter().flatten() {
            let key = key.as_str().expect("a name");
            if !object.contains_key(key) {
                return Err(format!("{place}: '{key}' is missing"));
            }
        }
        for (key, item) in object {
            let known = &schema["properties"][key];
            if known.is_null() && schema["additionalProperties"] == false {
                return Err(format!("{place}: '{key}' is not promised"));
            }
            check(known, root, item, &format!("{place}.{key}"))?;
        }
    }
    for (index, item) in value.as_array().into_iter().flatten().enumerate() {
        check(&schema["items"], root, item, &format!("{place}[{index}]"))?;
    }
    Ok(())
}

#[test]
fn issues_are_what_the_schema_promises() {
    let text = std::fs::read_to_string(repository("docs/schemas/issue.schema.json"));
    let schema: Value = serde_json::from_str(&text.expect("the schema")).expect("JSON");
    let folder = tempfile::tempdir().expect("a folder");
    let story = repository("tests/conformance/artifacts/b_issues");
    let story = story.to_str().expect("a path");
    let sidecar = folder.path().join("issues.json");
    let sidecar = sidecar.to_str().expect("a path");
    let resolved = call(
        folder.path(),
        &["issues", "resolve", "876c", story, "--sidecar", sidecar],
    );
    assert_eq!(resolved.code, Some(0), "{}", resolved.err);
    let listed = call(
        folder.path(),
        &["issues", "list", story, "--json", "--sidecar", sidecar],
    );
    let issues = listed.json();
    let issues = issues.as_array().expect("a list");
    assert!(issues.len() > 5);
    let states: Vec<&Value> = issues.iter().map(|issue| &issue["state"]).collect();
    assert!(states.contains(&&Value::from("resolved")));
    for issue in issues {
        check(&schema, &schema, issue, "issue").expect("as promised");
    }
    let mut broken = issues[0].clone();
    broken["surprise"] = Value::Bool(true);
    assert!(check(&schema, &schema, &broken, "issue").is_err());
}

#[test]
fn snapshots_of_an_allocator_are_what_the_schema_promises() {
    let path = repository("docs/schemas/show-allocator-snapshot.schema.json");
    let text = std::fs::read_to_string(path).expect("the schema");
    let schema: Value = serde_json::from_str(&text).expect("JSON");
    let folder = tempfile::tempdir().expect("a folder");
    let real = repository("fixtures/snapshots/h200_train/cuda_allocator_snapshot.pickle");
    // Older versions of PyTorch give a list: here one segment, with a block that says nothing.
    let bare = folder.path().join("bare.pickle");
    std::fs::write(&bare, b"\x80\x04]}\x8c\x06blocks]}asa.").expect("a snapshot");
    for path in [&real, &bare] {
        let path = path.to_str().expect("a path");
        let mut shown = call(folder.path(), &["show", "--json", path]).json();
        check(&schema, &schema, &shown, "snapshot").expect("as promised");
        shown["devices"][0]["surprise"] = Value::Bool(true);
        assert!(check(&schema, &schema, &shown, "snapshot").is_err());
    }
}
