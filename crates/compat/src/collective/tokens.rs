//! Finds words in events that indicate collective communication, such as `nccl` or `all_reduce`.

use hashbrown::HashMap;
use stormlog_analysis::EventRef;
use stormlog_format::{Map, Value};

/// The words that indicate collective communication, without the underscores that some programs use
/// in them.
const TOKENS: [&str; 8] = [
    "nccl",
    "collective",
    "communication",
    "allreduce",
    "allgather",
    "reducescatter",
    "broadcast",
    "barrier",
];

/// Searches texts for words that indicate collective communication, and caches the result for each
/// text, because many events have the same texts.
#[derive(Default)]
pub(super) struct TokenSearch {
    seen: HashMap<(*const u8, usize), bool>,
    plain: Vec<u8>,
}

impl TokenSearch {
    /// Whether the type, the context or any text in the metadata of an event contains a word that
    /// indicates collective communication.
    pub(super) fn speaks_of_collective(&mut self, event: EventRef<'_>) -> bool {
        let in_text =
            |search: &mut Self, text: &[u8]| search.remembered(text, |search| search.in_text(text));
        if in_text(self, event.event_type()) {
            return true;
        }
        if event.context().is_some_and(|text| in_text(self, text)) {
            return true;
        }
        let json = event.metadata_words();
        json.len() > 2
            && self.remembered(json, |search| {
                // Metadata is parsed only if its JSON text contains one of the words, or a
                // backslash, because a word may be written with escape sequences (`\u006eccl`).
                (json.contains(&b'\\') || search.in_text(json)) && search.in_map(&event.metadata())
            })
    }

    /// Returns the cached result for a text, or calls `look` and caches its result. The key of the
    /// cache is the address of the text: events with equal texts usually share one copy, and texts
    /// are not moved while the events exist.
    fn remembered(&mut self, text: &[u8], look: impl FnOnce(&mut Self) -> bool) -> bool {
        let key = (text.as_ptr(), text.len());
        if let Some(found) = self.seen.get(&key) {
            return *found;
        }
        let found = look(self);
        self.seen.insert(key, found);
        found
    }

    fn in_text(&mut self, text: &[u8]) -> bool {
        self.plain.clear();
        let kept_bytes = text.iter().filter(|byte| !matches!(byte, b'-' | b'_'));
        self.plain.extend(kept_bytes.map(u8::to_ascii_lowercase));
        let plain = &self.plain;
        let holds = |token: &str| memchr::memmem::find(plain, token.as_bytes()).is_some();
        TOKENS.iter().any(|token| holds(token))
    }

    fn in_map(&mut self, map: &Map) -> bool {
        map.iter().any(|(_, value)| self.in_value(value))
    }

    fn in_value(&mut self, value: &Value) -> bool {
        match value {
            Value::Text(text) => self.in_text(text.as_bytes()),
            Value::List(items) => items.iter().any(|item| self.in_value(item)),
            Value::Map(map) => self.in_map(map),
            _ => false,
        }
    }
}
