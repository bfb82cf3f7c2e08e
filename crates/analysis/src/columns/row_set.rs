//! A set of events that a query may have to read, selected by event types and by words in the
//! metadata.
//!
//! The metadata texts of a chunk are contiguous in memory, so a word is searched in all of them at
//! once instead of in the text of each row.

use std::sync::Arc;

use memchr::memmem::Finder;
use rayon::prelude::*;

use super::interner::TextPool;
use super::{Chunk, Events, RowId, Table, UNASKED};

/// A set of rows (events) of one [`Table`].
pub(crate) struct RowSet {
    table: Arc<Table>,
    /// For each chunk one flag per row, set when the row is in the set; empty when no row of the
    /// chunk is in the set.
    chunks: Vec<Vec<bool>>,
}

impl RowSet {
    /// The rows whose type is accepted or whose metadata may contain one of the words, out of all
    /// rows of the table that `events` refers to. Metadata with escape sequences are treated as if
    /// they contained a word, because escape sequences are not decoded for the search.
    pub(crate) fn of_table_of(
        events: &Events,
        accepts: impl Fn(&[u8]) -> bool + Sync,
        words: &[&Finder<'_>],
    ) -> Self {
        let table = Arc::clone(&events.table);
        let chunks = table.chunks.par_iter();
        let chunks = chunks.map(|chunk| rows_of(chunk, &accepts, words));
        Self {
            chunks: chunks.collect(),
            table,
        }
    }

    /// Whether `events` refers to the table whose rows are in this set. Only then may the row ids
    /// of `events` be passed to [`contains`](Self::contains).
    pub(crate) fn is_of(&self, events: &Events) -> bool {
        Arc::ptr_eq(&self.table, &events.table)
    }

    /// Whether the event at a memory position is in the set.
    pub(crate) fn contains(&self, id: RowId) -> bool {
        let rows = &self.chunks[id.chunk as usize];
        rows.get(id.row as usize).copied().unwrap_or(false)
    }
}

fn rows_of(chunk: &Chunk, accepts: impl Fn(&[u8]) -> bool, words: &[&Finder<'_>]) -> Vec<bool> {
    let pool = &chunk.metadata_pool;
    let has_word = texts_with(&pool.texts, words);
    let skeletons = pool.skeletons().iter();
    let in_skeleton: Vec<bool> = skeletons
        .map(|skeleton| may_have(skeleton.constants(), words))
        .collect();
    let mut types: Vec<u8> = vec![UNASKED; chunk.strings.len()];
    for &id in &chunk.event_type {
        if types[id as usize] == UNASKED {
            types[id as usize] = u8::from(accepts(chunk.strings.get(id)));
        }
    }
    if has_word.is_empty() && !in_skeleton.contains(&true) && !types.contains(&1) {
        return Vec::new();
    }
    let is_in = |(kind, metadata): (&u32, &u32)| {
        types[*kind as usize] == 1 || pool.answer(*metadata, &has_word, &in_skeleton)
    };
    let rows = chunk.event_type.iter().zip(&chunk.metadata);
    rows.map(is_in).collect()
}

/// Whether a metadata text may contain one of the words. The text may contain words in escape
/// sequences, so the result is true for any text with a backslash.
pub(crate) fn may_have(text: &[u8], words: &[&Finder<'_>]) -> bool {
    words.iter().any(|word| word.find(text).is_some()) || memchr::memchr(b'\\', text).is_some()
}

/// For each text, whether it may contain one of the words; empty when no text does.
fn texts_with(texts: &TextPool, words: &[&Finder<'_>]) -> Vec<bool> {
    let mut found = Vec::new();
    let all = texts.all();
    for word in words {
        mark(texts, &mut found, |from| word.find(&all[from..]));
    }
    mark(texts, &mut found, |from| {
        memchr::memchr(b'\\', &all[from..])
    });
    found
}

/// Marks the texts in which `next` finds a match. A match that crosses the end of a text marks the
/// first of the two texts, which is harmless because a mark means "may contain".
fn mark(texts: &TextPool, found: &mut Vec<bool>, next: impl Fn(usize) -> Option<usize>) {
    let mut from = 0;
    while let Some(at) = next(from) {
        let text = texts.at(from + at);
        if found.is_empty() {
            found.resize(texts.len(), false);
        }
        let Some(flag) = found.get_mut(text) else {
            return;
        };
        *flag = true;
        from = texts.end(text);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use stormlog_format::json::parse;
    use stormlog_format::{Event, RecordDefaults, event_from_record};

    fn event(kind: &str, metadata: &str) -> Event {
        let record = format!(
            r#"{{"schema_version": 3, "session_id": "s", "timestamp_ns": 1, "event_type": "{kind}",
                "collector": "c", "sampling_interval_ms": 100, "pid": 1, "host": "h",
                "device_id": 0, "allocator_allocated_bytes": 1, "allocator_reserved_bytes": 1,
                "allocator_active_bytes": null, "allocator_inactive_bytes": null,
                "allocator_change_bytes": 0, "device_used_bytes": 1, "device_free_bytes": null,
                "device_total_bytes": null, "context": null, "job_id": null, "rank": 0,
                "local_rank": 0, "world_size": 1, "metadata": {metadata}}}"#
        );
        let record = parse(record.as_bytes()).unwrap();
        event_from_record(record.as_map().unwrap(), &RecordDefaults::default()).unwrap()
    }

    fn found(events: &[Event]) -> Vec<usize> {
        let events = Events::from_events(events);
        let (one, other) = (Finder::new("severity"), Finder::new("status"));
        let rows = RowSet::of_table_of(&events, |kind| kind == b"error", &[&one, &other]);
        assert!(rows.is_of(&events));
        let rows = events.rows.iter().map(|id| rows.contains(*id));
        let rows = rows.enumerate().filter(|(_, is_in)| *is_in);
        rows.map(|(index, _)| index).collect()
    }

    #[test]
    fn rows_are_found_by_type_word_and_escape() {
        let plain = r#"{"step": 1}"#;
        assert_eq!(found(&[]), [] as [usize; 0]);
        assert_eq!(found(&[event("sample", plain)]), [] as [usize; 0]);
        let rows = [
            event("sample", r#"{"severity": 1, "severity2": 2}"#),
            event("sample", plain),
            event("error", plain),
            event("sample", r#"{"x": "status"}"#),
            event("sample", r#"{"line": "a\nb"}"#),
            event("sample", r#"{"step": 2}"#),
            event("sample", r#"{"severity": 1, "severity2": 2}"#),
        ];
        assert_eq!(found(&rows), [0, 2, 3, 4, 6]);
    }
}
