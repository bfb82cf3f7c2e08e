//! Phases of a run: spans with a name, replayed from the events that enter and leave them.

use std::collections::BTreeMap;

use stormlog_analysis::LoadedSession;
use stormlog_format::{Map, Value};

use crate::label::clean;

/// A stretch of time with a name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Phase {
    /// When it begins.
    pub start_ns: i64,
    /// When it ends.
    pub end_ns: i64,
    /// The rank it was in.
    pub rank: i64,
    /// How deep it is nested, the outermost at 0.
    pub depth: usize,
    /// Its own name.
    pub name: String,
    /// Names from the outermost to this one.
    pub path: String,
}

struct Open {
    scope: String,
    phase: Phase,
}

/// The phases that some sessions were in, by start and depth.
///
/// A scope that was never left ends with the last event of its session and rank; an exit
/// that does not match the innermost open scope of its thread is passed over.
pub fn phases_of(sessions: &[&LoadedSession]) -> Vec<Phase> {
    let mut phases = Vec::new();
    for session in sessions {
        let mut stacks: BTreeMap<(i64, i64), Vec<Open>> = BTreeMap::new();
        let mut last_of_rank: BTreeMap<i64, i64> = BTreeMap::new();
        for event in session.events.iter() {
            let rank = event.origin().rank;
            let last = last_of_rank.entry(rank).or_insert(i64::MIN);
            *last = (*last).max(event.timestamp_ns());
            let enters = match event.event_type() {
                b"phase_enter" => true,
                b"phase_exit" => false,
                _ => continue,
            };
            let metadata = event.metadata();
            let Some(scope) = metadata.get("phase_scope").and_then(Value::as_map) else {
                continue;
            };
            let (Some(id), Some(thread)) = (
                text(scope, "scope_id"),
                scope.get("thread_id").and_then(Value::as_int),
            ) else {
                continue;
            };
            let stack = stacks.entry((rank, thread)).or_default();
            if enters {
                let Some(name) = text(scope, "name") else {
                    continue;
                };
                stack.push(Open {
                    scope: id,
                    phase: Phase {
                        start_ns: event.timestamp_ns(),
                        end_ns: event.timestamp_ns(),
                        rank,
                        depth: stack.len(),
                        path: path_text(scope).unwrap_or_else(|| name.clone()),
                        name,
                    },
                });
            } else if stack.last().is_some_and(|open| open.scope == id)
                && let Some(open) = stack.pop()
            {
                phases.push(Phase {
                    end_ns: event.timestamp_ns().max(open.phase.start_ns),
                    ..open.phase
                });
            }
        }
        for ((rank, _), stack) in stacks {
            let end = last_of_rank.get(&rank).copied().unwrap_or(0);
            phases.extend(stack.into_iter().map(|open| Phase {
                end_ns: end.max(open.phase.start_ns),
                ..open.phase
            }));
        }
    }
    phases.sort_by_key(|phase| (phase.start_ns, phase.depth));
    phases
}

fn text(scope: &Map, key: &str) -> Option<String> {
    let text = scope.get(key).and_then(Value::as_text)?;
    (!text.is_blank()).then(|| clean(&text.to_str_lossy()))
}

fn path_text(scope: &Map) -> Option<String> {
    let Some(Value::List(names)) = scope.get("path") else {
        return None;
    };
    let names: Option<Vec<String>> = names
        .iter()
        .map(|name| name.as_text().map(|name| clean(&name.to_str_lossy())))
        .collect();
    Some(clean(&names?.join(" / ")))
}
