//! Tests that the schemas in docs/schemas describe the types that are printed as JSON.

mod kinds;

use std::path::{Path, PathBuf};

use schemars::generate::SchemaSettings;
use schemars::transform::{RecursiveTransform, Transform as _};
use schemars::{JsonSchema, Schema};
use stormlog_analysis::Damage;
use stormlog_analysis::compare::Baseline;
use stormlog_analysis::issue::Issue;
use stormlog_export::AlertDocument;
use stormlog_report::document::pretty;
use stormlog_report::{analyze, compare};

use super::{allocator_snapshot, diagnose, evidence, pack, serve, show, track, validate};
use crate::diagnose::{BundleManifest, Summary, Timeline};

/// If this environment variable is set, the files are written instead of compared.
const WRITE: &str = "STORMLOG_WRITE_SCHEMAS";

fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Asserts that a file of the repository has this text, or writes it (see [`WRITE`]).
fn is_current(file: &str, text: &str) {
    let path = repository().join(file);
    if std::env::var_os(WRITE).is_some() {
        std::fs::write(&path, text).unwrap();
        return;
    }
    let known = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(
        known == text,
        "{file} is not up to date; write it with '{WRITE}=1 cargo test -p stormlog --lib schema'"
    );
}

fn schema<T: JsonSchema>(name: &str, title: &str) -> (String, Schema) {
    let settings = SchemaSettings::draft2020_12().for_serialize();
    let mut schema = settings.into_generator().into_root_schema_for::<T>();
    let name = format!("{name}.schema.json");
    schema.insert("$id".into(), name.clone().into());
    schema.insert("title".into(), title.into());
    RecursiveTransform(describe).transform(&mut schema);
    (name, schema)
}

/// Turns a doc comment into a schema description: without line breaks, and with `null` instead of
/// Rust's `None`.
fn describe(schema: &mut Schema) {
    if let Some(serde_json::Value::String(text)) = schema.get_mut("description") {
        *text = text.replace('\n', " ").replace("`None`", "null");
    }
}

/// Makes a schema that forbids all keys that it does not list (`additionalProperties: false`).
fn closed<T: JsonSchema>(name: &str, title: &str) -> (String, Schema) {
    let (name, mut schema) = schema::<T>(name, title);
    let close = |schema: &mut Schema| {
        if schema.get("properties").is_some() && schema.get("additionalProperties").is_none() {
            schema.insert("additionalProperties".into(), false.into());
        }
    };
    RecursiveTransform(close).transform(&mut schema);
    (name, schema)
}

#[test]
fn schemas_are_those_of_the_types() {
    let schemas = [
        closed::<AlertDocument<'_>>("alert", "An alert that is sent to a webhook"),
        closed::<analyze::Document<'_>>("analyze", "The report of stormlog analyze --format json"),
        schema::<Baseline<'_>>(
            "baseline",
            "A baseline saved by stormlog compare --save-baseline",
        ),
        closed::<compare::Document<'_>>(
            "compare",
            "The comparison of stormlog compare --format json",
        ),
        closed::<Damage>("damage", "Damage"),
        closed::<diagnose::Document<'_>>("diagnose", "What stormlog diagnose --json prints"),
        closed::<BundleManifest<'_>>("diagnose-manifest", "manifest.json of a diagnose bundle"),
        closed::<Timeline>(
            "diagnose-timeline",
            "telemetry_timeline.json of a diagnose bundle",
        ),
        closed::<Summary>(
            "diagnostic-summary",
            "diagnostic_summary.json of a diagnose bundle",
        ),
        closed::<evidence::Document<'_>>("evidence", "What stormlog evidence --json prints"),
        closed::<Issue>("issue", "Stormlog issue"),
        closed::<pack::Document<'_>>("pack", "What stormlog pack --json prints"),
        closed::<serve::Document>("serve", "The line that stormlog serve --json prints"),
        closed::<show::Document<'_>>("show", "What stormlog show --json prints"),
        closed::<allocator_snapshot::Document<'_>>(
            "show-allocator-snapshot",
            "What stormlog show --json prints of a snapshot of PyTorch's allocator",
        ),
        closed::<track::Document<'_>>("track", "What stormlog track --json prints"),
        closed::<validate::Document>("validate", "What stormlog validate --json prints"),
    ];
    for (name, schema) in schemas {
        is_current(&format!("docs/schemas/{name}"), &pretty(&schema));
    }
}
