//! Findings of our own detectors as issues.

use stormlog_format::{Map, Text, Value};

use super::object::EvidenceLink;

/// Something that a detector found, in the shape that issues take.
///
/// The dimensions are what stays the same from run to run: no bytes, no times, no ranks.
#[derive(Clone, Debug)]
pub struct Finding {
    /// What kind of trouble, `allocator_leak` for example.
    pub kind: &'static str,
    /// `critical`, `warning` or `info`.
    pub severity: Text,
    /// The phase in which it showed, where that is known.
    pub phase: Option<Text>,
    /// What collected the numbers.
    pub collector: Text,
    /// What they are about.
    pub backend: Text,
    /// A short name for people.
    pub title: Text,
    /// Where it was seen.
    pub evidence: EvidenceLink,
    /// Everything else worth telling, magnitudes included.
    pub details: Map,
}

impl Finding {
    pub(crate) fn dimensions(&self) -> Map {
        let mut map = Map::new();
        map.insert("severity", self.severity.clone());
        map.insert("phase", Value::from(self.phase.clone()));
        map.insert("collector", self.collector.clone());
        map.insert("backend", self.backend.clone());
        map
    }
}
