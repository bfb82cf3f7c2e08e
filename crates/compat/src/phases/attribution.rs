//! Determines the phase of an event from the phase spans that contain its time.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Serialize, Serializer};
use stormlog_format::{Map, Text, Value};

use super::ScopeSpan;

/// Whether an event belongs to exactly one phase.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Resolution {
    /// The event belongs to exactly one phase.
    Unique,
    /// The event may belong to several phases, or to one phase that several threads are in.
    Ambiguous,
    /// Another value of the key `phase_resolution`.
    Other(Text),
}

impl Resolution {
    /// The value of the key `phase_resolution` in JSON output.
    pub fn as_text(&self) -> Text {
        match self {
            Self::Unique => "unique".into(),
            Self::Ambiguous => "ambiguous".into(),
            Self::Other(word) => word.clone(),
        }
    }

    /// Parses the value of the key `phase_resolution`; an unknown value is kept as
    /// [`Other`](Self::Other).
    pub fn of_word(word: Text) -> Self {
        match word.as_str() {
            Some("unique") => Self::Unique,
            Some("ambiguous") => Self::Ambiguous,
            _ => Self::Other(word),
        }
    }
}

/// What an attribution is based on: `exact`, `thread_local` or `heuristic`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PhaseSource {
    /// The event's metadata names the scope of its phase: one pass of a thread through the phase.
    Exact,
    /// The event's metadata names its thread.
    ThreadLocal,
    /// The event names neither scope nor thread, and only one phase was possible.
    Heuristic,
}

stormlog_format::names!(PhaseSource {
    Exact => "exact",
    ThreadLocal => "thread_local",
    Heuristic => "heuristic",
});

/// The phase of an event, or the phases it may belong to.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(
    missing_docs,
    reason = "each field has the name of its key in JSON output"
)]
pub struct PhaseAttribution {
    pub resolution: Resolution,
    pub source: Option<Text>,
    pub path: Option<Text>,
    pub paths: Vec<Text>,
    pub scope_id: Option<Text>,
    pub thread_id: Option<i64>,
    pub thread_name: Option<Text>,
    /// When several phases are possible, the most likely one and the basis for that choice.
    pub summary: Option<(Text, Text)>,
}

impl Serialize for PhaseAttribution {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.to_payload().serialize(serializer)
    }
}

/// The scope and thread that an event records about its phase.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[expect(
    missing_docs,
    reason = "each field is named like its key in the metadata, without `origin_` or `origin_phase_`"
)]
pub struct PhaseOrigin {
    pub thread_id: Option<i64>,
    pub scope_id: Option<Text>,
}

impl PhaseOrigin {
    /// Reads the phase's scope and thread from an event's metadata.
    pub fn of_metadata(metadata: &Map) -> Self {
        let scope_id = metadata.text("origin_phase_scope_id");
        Self {
            thread_id: metadata.int("origin_thread_id"),
            scope_id: scope_id.cloned(),
        }
    }
}

/// Joins the names in a phase's path to one text.
pub fn path_text(path: &[Text]) -> Text {
    let named: Vec<&[u8]> = path
        .iter()
        .map(Text::as_bytes)
        .filter(|part| !part.is_empty())
        .collect();
    Text::from_bytes(&named.join(&b" / "[..]))
}

/// The phase of an event whose time lies in the given phase spans.
pub fn attribute(active: &[&ScopeSpan], origin: &PhaseOrigin) -> Option<PhaseAttribution> {
    if active.is_empty() {
        return None;
    }
    if let Some(scope_id) = &origin.scope_id {
        let mut named = active.iter().filter(|span| span.scope_id == *scope_id);
        if let (Some(span), None) = (named.next(), named.next()) {
            return Some(unique(span, PhaseSource::Exact));
        }
    }
    if let Some(thread_id) = origin.thread_id {
        let of_thread = active.iter().filter(|span| span.thread_id == thread_id);
        if let Some(span) = latest(of_thread.copied()) {
            return Some(unique(span, PhaseSource::ThreadLocal));
        }
    }
    let mut threads: BTreeMap<i64, Vec<&ScopeSpan>> = BTreeMap::new();
    for span in active {
        threads.entry(span.thread_id).or_default().push(span);
    }
    let mut labels: BTreeSet<Text> = BTreeSet::new();
    let mut contributions = Vec::new();
    let mut conflict = false;
    for spans in threads.into_values() {
        let depth = spans.iter().map(|span| span.path.len()).max();
        let deepest: Vec<&ScopeSpan> = spans
            .into_iter()
            .filter(|span| Some(span.path.len()) == depth)
            .collect();
        let own: BTreeSet<Text> = deepest.iter().map(|span| path_text(&span.path)).collect();
        if own.len() == 1 {
            contributions.extend(latest(deepest.into_iter()));
        } else {
            conflict = true;
        }
        labels.extend(own);
    }
    if let ([span], false) = (contributions.as_slice(), conflict) {
        return Some(unique(span, PhaseSource::Heuristic));
    }
    let likeliest = (labels.len() > 1)
        .then(|| latest(active.iter().copied()))
        .flatten();
    Some(PhaseAttribution {
        summary: likeliest.map(|span| {
            let source = Text::from(PhaseSource::Heuristic.as_str());
            (path_text(&span.path), source)
        }),
        ..ambiguous(labels)
    })
}

/// The phase span that was entered last. Of spans with equal sequence numbers, the first counts.
fn latest<'a>(spans: impl Iterator<Item = &'a ScopeSpan>) -> Option<&'a ScopeSpan> {
    spans.reduce(|best, span| {
        if span.sequence > best.sequence {
            span
        } else {
            best
        }
    })
}

fn unique(span: &ScopeSpan, source: PhaseSource) -> PhaseAttribution {
    let path = path_text(&span.path);
    PhaseAttribution {
        resolution: Resolution::Unique,
        source: Some(source.as_str().into()),
        path: Some(path.clone()),
        paths: vec![path],
        scope_id: Some(span.scope_id.clone()),
        thread_id: Some(span.thread_id),
        thread_name: Some(span.thread_name.clone()),
        summary: None,
    }
}

fn ambiguous(labels: BTreeSet<Text>) -> PhaseAttribution {
    PhaseAttribution {
        resolution: Resolution::Ambiguous,
        source: None,
        path: None,
        paths: labels.into_iter().collect(),
        scope_id: None,
        thread_id: None,
        thread_name: None,
        summary: None,
    }
}

/// Merges the phase attributions of two events.
pub fn merge(
    first: Option<PhaseAttribution>,
    second: Option<PhaseAttribution>,
) -> Option<PhaseAttribution> {
    let (first, second) = match (first, second) {
        (None, other) | (other, None) => return other,
        (Some(first), Some(second)) => (first, second),
    };
    let (ours, theirs): (BTreeSet<Text>, BTreeSet<Text>) =
        (first.labels().collect(), second.labels().collect());
    if ours.is_empty() {
        return Some(second);
    }
    let same = first.resolution == Resolution::Unique
        && second.resolution == Resolution::Unique
        && ours == theirs
        && first.scope_id == second.scope_id
        && first.thread_id == second.thread_id;
    if same || theirs.is_empty() {
        return Some(first);
    }
    let labels = ours.into_iter().chain(theirs).collect();
    Some(ambiguous(labels))
}

impl PhaseAttribution {
    /// The phase attribution of an event outside of all phases.
    pub fn nowhere() -> Self {
        ambiguous(BTreeSet::new())
    }

    /// All phases that the attribution names.
    fn labels(&self) -> impl Iterator<Item = Text> {
        let path = self.path.iter().filter(|_| self.paths.is_empty());
        let named = self.paths.iter().chain(path);
        named.filter(|label| !label.as_bytes().is_empty()).cloned()
    }

    /// The phases of the attribution as one line for users.
    pub fn label(&self) -> Option<Text> {
        if let Some((path, source)) = &self.summary {
            let likely = if *source == "heuristic" {
                "(likely) "
            } else {
                ""
            };
            return Some(prefixed(likely, path.as_bytes()));
        }
        resolution_label(&self.resolution, self.path.as_ref(), &self.paths)
    }

    /// The attribution as an object for reports.
    pub fn to_payload(&self) -> Map {
        let named = self.paths.iter().filter(|path| !path.as_bytes().is_empty());
        let paths = named.cloned().map(Value::Text).collect();
        let mut payload = Map::new();
        payload.insert("phase_resolution", Value::Text(self.resolution.as_text()));
        payload.insert("phase_paths", Value::List(paths));
        let mut put = |key: &str, value: Option<Value>| {
            if let Some(value) = value {
                payload.insert(key, value);
            }
        };
        let text = |text: &Option<Text>| text.clone().map(Value::Text);
        put("phase_source", text(&self.source));
        put("phase_path", text(&self.path));
        put("scope_id", text(&self.scope_id));
        put("thread_id", self.thread_id.map(Value::Int));
        put("thread_name", text(&self.thread_name));
        put(
            "phase_summary",
            self.summary.as_ref().map(|(path, source)| {
                let mut summary = Map::new();
                summary.insert("phase_path", path.clone());
                summary.insert("source", source.clone());
                Value::Map(summary)
            }),
        );
        payload
    }
}

/// The resolution of an attribution and its phases as one line for users.
pub fn resolution_label(
    resolution: &Resolution,
    path: Option<&Text>,
    paths: &[Text],
) -> Option<Text> {
    let named: Vec<&[u8]> = paths
        .iter()
        .map(Text::as_bytes)
        .filter(|path| !path.is_empty())
        .collect();
    match resolution {
        Resolution::Unique => {
            let path = path.filter(|path| !path.as_bytes().is_empty()).cloned();
            path.or_else(|| match named.as_slice() {
                [only] => Some(Text::from_bytes(only)),
                _ => None,
            })
        }
        Resolution::Ambiguous if !named.is_empty() => {
            Some(prefixed("(ambiguous) ", &named.join(&b" | "[..])))
        }
        _ => None,
    }
}

fn prefixed(prefix: &str, text: &[u8]) -> Text {
    Text::from_bytes(&[prefix.as_bytes(), text].concat())
}
