//! Damage as JSON, in the same form in every document.

use serde_json::{Value, json};
use stormlog_analysis::Damage;
use stormlog_analysis::pack::shown;

/// Renders one damage, see docs/schemas/damage.schema.json.
pub fn damage_json(damage: &Damage) -> Value {
    json!({
        "file": shown(&damage.file).to_string_lossy(),
        "line": damage.line,
        "byte_range": damage.bytes.as_ref().map(|bytes| [bytes.start, bytes.end]),
        "field": damage.field,
        "reason": damage.reason,
    })
}
