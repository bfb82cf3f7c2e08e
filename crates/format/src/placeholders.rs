//! Which counters of a record are unknown although the record has numbers for them: version 3 of
//! the format requires numbers, and the metadata name those that are only placeholders.

use crate::event::{Counters, Event};
use crate::metadata_keys::COLLECTOR_PARTIAL_FIELDS;
use crate::value::{Map, Value};

/// The counters of a record that are only placeholders, one bit for each counter in the order of
/// [`Counters::NAMES`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Placeholders(u8);

impl Placeholders {
    /// The placeholders that the metadata of a record name.
    pub fn of(metadata: &Map) -> Self {
        let named = metadata.get(COLLECTOR_PARTIAL_FIELDS);
        named.map_or(Self::default(), Self::of_value)
    }

    /// The placeholders that a value of the metadata key `collector_partial_fields` names.
    pub fn of_value(named: &Value) -> Self {
        let Value::List(named) = named else {
            return Self::default();
        };
        let index = |name: &Value| {
            let name = name.as_text()?;
            let mut counters = Counters::NAMES.iter();
            counters.position(|counter| *name == **counter)
        };
        let indices = named.iter().filter_map(index);
        Self(indices.fold(0, |bits, index| bits | (1 << index)))
    }
}

impl Counters {
    /// The counters without those that are only placeholders.
    #[must_use]
    pub fn known(mut self, placeholders: Placeholders) -> Self {
        if placeholders == Placeholders::default() {
            return self;
        }
        let counters = [
            &mut self.allocator_allocated_bytes,
            &mut self.allocator_reserved_bytes,
            &mut self.allocator_active_bytes,
            &mut self.allocator_inactive_bytes,
            &mut self.allocator_change_bytes,
            &mut self.device_used_bytes,
            &mut self.device_free_bytes,
            &mut self.device_total_bytes,
        ];
        for (index, counter) in counters.into_iter().enumerate() {
            if placeholders.0 & (1 << index) != 0 {
                *counter = None;
            }
        }
        self
    }
}

impl Event {
    /// The counters that were read. The other counters, which are `None`, are unknown, even if the
    /// record has a number for them.
    pub fn known_counters(&self) -> Counters {
        self.counters.known(Placeholders::of(&self.metadata))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_placeholder_is_unknown() {
        let counters = Counters {
            allocator_allocated_bytes: Some(1),
            allocator_reserved_bytes: Some(2),
            allocator_active_bytes: Some(3),
            allocator_inactive_bytes: Some(4),
            allocator_change_bytes: Some(5),
            device_used_bytes: Some(6),
            device_free_bytes: Some(7),
            device_total_bytes: Some(8),
        };
        for (name, _) in counters.named() {
            let mut metadata = Map::new();
            let named = Value::List(vec![Value::from(name), Value::from("other")]);
            metadata.insert(COLLECTOR_PARTIAL_FIELDS, named);
            let known = counters.known(Placeholders::of(&metadata)).named();
            let unknown = known.iter().filter(|(_, value)| value.is_none());
            let unknown: Vec<&str> = unknown.map(|(name, _)| *name).collect();
            assert_eq!(unknown, [name]);
        }
        for nothing in [Value::List(Vec::new()), Value::Null] {
            assert_eq!(counters.known(Placeholders::of_value(&nothing)), counters);
        }
    }
}
