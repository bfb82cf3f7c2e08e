//! Keeps the phases that a program enters and leaves, in one stack per session, rank and thread.

use std::collections::HashMap;

use stormlog_format::{EventType, Map, Text, Value, signed};

/// Why a phase of the program could not begin or end.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
#[expect(missing_docs, reason = "the error message of a variant describes it")]
pub enum PhaseError {
    #[error("phase name must be a non-empty string")]
    BlankName,
    #[error("No active phase stack exists for this thread.")]
    NoStack,
    #[error("Phase handle was closed from a different thread than it was opened.")]
    OtherThread,
    #[error("Unknown phase scope_id '{0}' for active tracker state.")]
    UnknownScope(String),
    #[error("Phase handles must be closed in strict LIFO order per thread.")]
    OutOfOrder,
}

/// The thread on which a phase begins or ends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PhaseThread {
    /// The number by which the caller identifies the thread, in Python that of
    /// `threading.get_ident`.
    pub id: i64,
    /// The name of the thread.
    pub name: Text,
}

/// The session and rank that a stack of nested phases belongs to.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct PhaseOwner {
    /// The session's id.
    pub session_id: Text,
    /// The rank as text, because a program may give any value as its rank; each value has its own
    /// stack of phases.
    pub rank: Text,
}

/// The beginning or the end of a phase, with the parts of the event that records it.
#[derive(Clone, Debug, PartialEq)]
pub struct Boundary {
    /// `phase_enter` or `phase_exit`.
    pub event_type: &'static str,
    /// A message for people, which says that the phase was entered or exited.
    pub context: String,
    /// The value of `phase_scope` in the event's metadata, before the caller's attributes are
    /// added.
    pub scope: Map,
    /// The id of the phase, with which the caller ends it: the id of the session, a colon and a
    /// number.
    pub scope_id: Text,
    /// The name of the phase.
    pub name: Text,
    /// The names of the open phases, from the outermost phase to the one that begins or ends.
    pub path: Vec<Text>,
}

#[derive(Clone, Debug)]
struct Active {
    scope_id: Text,
    parent: Option<Text>,
    name: Text,
    path: Vec<Text>,
    thread_name: Text,
}

/// The phases that have begun and not ended, by session, rank and thread.
#[derive(Debug, Default)]
pub struct PhaseStacks {
    sequence: i64,
    stacks: HashMap<(PhaseOwner, i64), Vec<Active>>,
}

impl PhaseStacks {
    /// Forgets all open phases, and numbers the beginnings and ends of phases from one again.
    pub fn reset(&mut self) {
        *self = Self::default();
    }

    /// Begins a phase on a thread, inside the innermost open phase of the thread. White space
    /// around the name is removed.
    pub fn enter(
        &mut self,
        owner: &PhaseOwner,
        name: &Text,
        thread: &PhaseThread,
    ) -> Result<Boundary, PhaseError> {
        let name = name.stripped();
        if name.is_blank() {
            return Err(PhaseError::BlankName);
        }
        self.sequence += 1;
        let stack = self.stacks.entry((owner.clone(), thread.id)).or_default();
        let parent = stack.last();
        let mut path = parent.map_or_else(Vec::new, |parent| parent.path.clone());
        path.push(name.clone());
        let mut scope_id = owner.session_id.as_bytes().to_vec();
        scope_id.extend_from_slice(format!(":{}", self.sequence).as_bytes());
        let active = Active {
            scope_id: Text::from_bytes(&scope_id),
            parent: parent.map(|parent| parent.scope_id.clone()),
            name,
            path,
            thread_name: thread.name.clone(),
        };
        stack.push(active.clone());
        Ok(boundary(&active, Side::Enter, thread.id, self.sequence))
    }

    /// Ends a phase; it must be the innermost open phase of the thread that began it.
    pub fn exit(
        &mut self,
        owner: &PhaseOwner,
        scope_id: &Text,
        thread_id: i64,
    ) -> Result<Boundary, PhaseError> {
        let key = (owner.clone(), thread_id);
        let is_it = |active: &Active| active.scope_id == *scope_id;
        let here = self.stacks.get(&key);
        if !here.is_some_and(|stack| stack.iter().any(is_it)) {
            let elsewhere = self
                .stacks
                .iter()
                .any(|((other, _), stack)| other == owner && stack.iter().any(is_it));
            return Err(match here {
                _ if elsewhere => PhaseError::OtherThread,
                None => PhaseError::NoStack,
                Some(_) => PhaseError::UnknownScope(scope_id.to_str_lossy().into_owned()),
            });
        }
        let stack = self.stacks.get_mut(&key).ok_or(PhaseError::NoStack)?;
        let Some(active) = stack.pop_if(|active| active.scope_id == *scope_id) else {
            return Err(PhaseError::OutOfOrder);
        };
        if stack.is_empty() {
            self.stacks.remove(&key);
        }
        self.sequence += 1;
        Ok(boundary(&active, Side::Exit, thread_id, self.sequence))
    }
}

#[derive(Clone, Copy)]
enum Side {
    Enter,
    Exit,
}

fn boundary(active: &Active, side: Side, thread_id: i64, sequence: i64) -> Boundary {
    let (event_type, action, word) = match side {
        Side::Enter => (EventType::PhaseEnter.as_str(), "enter", "entered"),
        Side::Exit => (EventType::PhaseExit.as_str(), "exit", "exited"),
    };
    let names: Vec<_> = active.path.iter().map(Text::to_str_lossy).collect();
    let mut scope = Map::new();
    scope.insert("action", action);
    scope.insert("name", active.name.clone());
    let path = active.path.iter().cloned().map(Value::Text).collect();
    scope.insert("path", Value::List(path));
    scope.insert("depth", signed(active.path.len()));
    scope.insert("scope_id", active.scope_id.clone());
    scope.insert("parent_scope_id", active.parent.clone());
    scope.insert("thread_id", thread_id);
    scope.insert("thread_name", active.thread_name.clone());
    scope.insert("sequence", sequence);
    Boundary {
        event_type,
        context: format!("Phase {word}: {}", names.join(" / ")),
        scope,
        scope_id: active.scope_id.clone(),
        name: active.name.clone(),
        path: active.path.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn owner() -> PhaseOwner {
        PhaseOwner {
            session_id: "s".into(),
            rank: "0".into(),
        }
    }

    fn thread(id: i64) -> PhaseThread {
        PhaseThread {
            id,
            name: "main".into(),
        }
    }

    #[test]
    fn phases_nest_and_end_in_order() {
        let mut stacks = PhaseStacks::default();
        let outer = stacks
            .enter(&owner(), &" train ".into(), &thread(1))
            .unwrap();
        let inner = stacks.enter(&owner(), &"fwd".into(), &thread(1)).unwrap();
        assert_eq!(inner.context, "Phase entered: train / fwd");
        assert_eq!(
            inner.scope.get("parent_scope_id"),
            Some(&Value::text("s:1"))
        );
        assert_eq!(
            stacks.exit(&owner(), &outer.scope_id, 1),
            Err(PhaseError::OutOfOrder)
        );
        assert_eq!(
            stacks.exit(&owner(), &inner.scope_id, 2),
            Err(PhaseError::OtherThread)
        );
        let left = stacks.exit(&owner(), &inner.scope_id, 1).unwrap();
        assert_eq!(left.scope.get("sequence"), Some(&Value::Int(3)));
        assert!(stacks.exit(&owner(), &outer.scope_id, 1).is_ok());
        assert_eq!(
            stacks.exit(&owner(), &outer.scope_id, 1),
            Err(PhaseError::NoStack)
        );
    }

    #[test]
    fn threads_have_stacks_of_their_own() {
        let mut stacks = PhaseStacks::default();
        stacks.enter(&owner(), &"a".into(), &thread(1)).unwrap();
        let other = stacks.enter(&owner(), &"b".into(), &thread(2)).unwrap();
        assert_eq!(other.path, [Text::from("b")]);
        assert_eq!(
            stacks.enter(&owner(), &"  ".into(), &thread(1)),
            Err(PhaseError::BlankName)
        );
    }
}
