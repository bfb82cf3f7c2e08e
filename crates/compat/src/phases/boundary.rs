//! Parses the boundary of a phase from an event's metadata.

use stormlog_analysis::EventRef;
use stormlog_format::{EventType, Map, Text, Value, metadata_keys};

/// Whether a boundary begins or ends a phase.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// The phase begins.
    Enter,
    /// The phase ends.
    Exit,
}

stormlog_format::names!(Action {
    Enter => "enter",
    Exit => "exit",
});

/// The scope that a boundary opens or closes: one pass of a thread through a phase.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(
    missing_docs,
    reason = "each field has the name of its key in the metadata"
)]
pub struct ScopeRecord {
    pub name: Text,
    pub path: Vec<Text>,
    pub scope_id: Text,
    pub parent_scope_id: Option<Text>,
    pub thread_id: i64,
    pub thread_name: Text,
    pub sequence: i64,
}

/// An event at which a phase is entered or left.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Boundary {
    /// Whether the phase is entered or left.
    pub action: Action,
    /// The scope that the boundary opens or closes.
    pub scope: ScopeRecord,
}

impl Boundary {
    /// Whether events of a given type are boundaries of phases.
    pub(super) fn is_one(event_type: &[u8]) -> bool {
        action(event_type).is_some()
    }

    /// Parses the boundary of a phase from an event; `None` when the event is not a boundary.
    pub fn of_event(event: EventRef<'_>) -> Option<Self> {
        let action = action(event.event_type())?;
        Self::of_metadata(action, &event.metadata())
    }

    /// Parses the boundary of a phase from the type and the metadata of an event.
    pub fn of(event_type: &Text, metadata: &Map) -> Option<Self> {
        Self::of_metadata(action(event_type.as_bytes())?, metadata)
    }

    fn of_metadata(action: Action, metadata: &Map) -> Option<Self> {
        let scope = metadata.object(metadata_keys::PHASE_SCOPE)?;
        if *scope.text("action")? != action.as_str() {
            return None;
        }
        // Parts of a phase's path that are empty or not a text are left out.
        let path: Vec<Text> = scope
            .list("path")
            .iter()
            .filter_map(Value::as_text)
            .filter(|part| !part.as_bytes().is_empty())
            .cloned()
            .collect();
        let name = scope.text("name")?.stripped();
        if path.is_empty() || name.is_blank() {
            return None;
        }
        let parent_scope_id = match scope.get("parent_scope_id") {
            None | Some(Value::Null) => None,
            Some(Value::Text(id)) => Some(id.clone()),
            Some(_) => return None,
        };
        Some(Self {
            action,
            scope: ScopeRecord {
                name,
                path,
                scope_id: scope.text("scope_id")?.clone(),
                parent_scope_id,
                thread_id: integer(scope.get("thread_id")?)?,
                thread_name: scope.text("thread_name")?.clone(),
                sequence: integer(scope.get("sequence")?)?,
            },
        })
    }
}

fn action(event_type: &[u8]) -> Option<Action> {
    match EventType::of(event_type)? {
        EventType::PhaseEnter => Some(Action::Enter),
        EventType::PhaseExit => Some(Action::Exit),
        _ => None,
    }
}

/// Converts a JSON value to an integer. As in Python, a boolean counts as the integer 0 or 1.
fn integer(value: &Value) -> Option<i64> {
    match value {
        Value::Int(value) => Some(*value),
        Value::Bool(value) => Some(i64::from(*value)),
        _ => None,
    }
}
