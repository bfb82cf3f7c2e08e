//! Reads values of metadata from recordings of an untrusted source: what has another type or is out
//! of range is unknown, and texts are cut.

use stormlog_format::{Map, Value};

/// The text under a key without surrounding white space, cut after `longest` characters; `None` if
/// it is blank.
pub(crate) fn text(map: &Map, key: &str, longest: usize) -> Option<String> {
    cut(map.get(key)?, longest)
}

/// Like [`text`], for a value of a list.
pub(crate) fn cut(value: &Value, longest: usize) -> Option<String> {
    let text = value.as_text()?.to_str_lossy();
    let text: String = text.trim().chars().take(longest).collect();
    (!text.is_empty()).then_some(text)
}

/// The number of bytes, or of something else that cannot be negative, under a key.
pub(crate) fn bytes(map: &Map, key: &str) -> Option<i64> {
    map.int(key).filter(|&bytes| bytes >= 0)
}

/// The first `most` objects of the list under a key, without the values that are no objects.
pub(crate) fn maps<'m>(map: &'m Map, key: &str, most: usize) -> impl Iterator<Item = &'m Map> {
    let items = map.list(key).iter();
    items.take(most).filter_map(Value::as_map)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nonsense_is_unknown() {
        let map = stormlog_format::json::parse(
            br#"{"long": " abcdef", "blank": " ", "number": 7, "negative": -1,
                 "list": [1, {"a": 1}, {"b": 2}]}"#,
        );
        let map = map.unwrap();
        let map = map.as_map().unwrap();
        assert_eq!(text(map, "long", 3).as_deref(), Some("abc"));
        assert_eq!(text(map, "blank", 3), None);
        assert_eq!(text(map, "number", 3), None);
        assert_eq!(
            (bytes(map, "number"), bytes(map, "negative")),
            (Some(7), None)
        );
        assert_eq!(maps(map, "list", 2).count(), 1);
        assert_eq!(maps(map, "long", 2).count(), 0);
    }
}
