//! Computes ids of records and issues, which are hashes of their content.

use std::fmt::Write as _;

use sha2::{Digest as _, Sha256};
use stormlog_format::json::{Layout, NonFinite, Writer};
use stormlog_format::{Map, Text};

/// The id of a record: a hash of its keys and values as they are in the file.
pub fn record_id(record: &Map) -> Text {
    let canonical = Writer::new(Layout::Line)
        .sorted()
        .non_finite(NonFinite::Bare);
    let spelled = canonical.map_to_string(record);
    format!("telemetry-{}", sha256_hex(&spelled, 32)).into()
}

/// The first `digits` hexadecimal digits of the SHA-256 hash of a text.
pub fn sha256_hex(text: &str, digits: usize) -> String {
    let mut hex = String::with_capacity(64);
    for byte in Sha256::digest(text) {
        let _ = write!(hex, "{byte:02x}");
    }
    hex.truncate(digits);
    hex
}

#[cfg(test)]
mod tests {
    use super::*;
    use stormlog_format::json::parse;

    #[test]
    fn the_id_of_a_known_record() {
        let json =
            br#"{"session_id": "s", "timestamp_ns": 1, "event_type": "sample", "metadata": {}}"#;
        let record = parse(json).expect("valid JSON");
        assert_eq!(
            record_id(record.as_map().expect("an object")),
            "telemetry-4fcfa115ef173b6436f6c92695ebb949"
        );
    }
}
