//! A JSON value as Python's `json` module reads it, used for records and metadata.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Serialize, Serializer};

use crate::text::Text;

/// [`Value`] serializes integers beyond 64 bits and opaque objects as newtype structs with these
/// names, because serde has no types for them. [`value_of`](crate::json::value_of) recognizes the names.
pub(crate) const BIG: &str = "stormlog::Value::Big";
pub(crate) const OPAQUE: &str = "stormlog::Value::Opaque";

/// A value in a record: JSON with the extensions of Python's `json` module.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// `null`
    Null,
    /// `true` or `false`, never an integer
    Bool(bool),
    /// An integer that fits signed 64 bits
    Int(i64),
    /// An integer outside signed 64 bits, as canonical decimal digits
    Big(Box<str>),
    /// A floating-point number, possibly NaN or infinite
    Float(f64),
    /// A string
    Text(Text),
    /// An array
    List(Vec<Value>),
    /// An object
    Map(Map),
    /// An object of the caller that has no JSON form, such as an arbitrary Python object. The
    /// caller keeps the object and finds it by this number, which the format crate never changes
    Opaque(u32),
}

impl Value {
    /// Creates a string value.
    pub fn text(text: impl Into<Text>) -> Self {
        Self::Text(text.into())
    }

    /// The text, if this value is a string.
    pub fn as_text(&self) -> Option<&Text> {
        match self {
            Self::Text(text) => Some(text),
            _ => None,
        }
    }

    /// The object, if this value is an object.
    pub fn as_map(&self) -> Option<&Map> {
        match self {
            Self::Map(map) => Some(map),
            _ => None,
        }
    }

    /// The integer, if this value is an integer that fits into 64 bits.
    pub fn as_int(&self) -> Option<i64> {
        match self {
            Self::Int(value) => Some(*value),
            _ => None,
        }
    }

    /// Whether this is `null`.
    pub fn is_null(&self) -> bool {
        matches!(self, Self::Null)
    }

    /// The number as floating point, if this value is an integer or a float.
    pub fn as_number(&self) -> Option<f64> {
        match self {
            Self::Int(value) => Some(*value as f64),
            Self::Big(digits) => digits.parse().ok(),
            Self::Float(value) => Some(*value),
            _ => None,
        }
    }
}

/// Serializes a value for any JSON library: lone surrogates are replaced by U+FFFD, integers beyond
/// 64 bits become text, and numbers that are not finite become null. The function
/// [`value_of`](crate::json::value_of), which serializes to a [`Value`], keeps these surrogates,
/// integers and numbers unchanged.
impl Serialize for Value {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Opaque(handle) if !serializer.is_human_readable() => {
                serializer.serialize_newtype_struct(OPAQUE, handle)
            }
            Self::Null | Self::Opaque(_) => serializer.serialize_unit(),
            Self::Bool(value) => serializer.serialize_bool(*value),
            Self::Int(value) => serializer.serialize_i64(*value),
            Self::Big(digits) => serializer.serialize_newtype_struct(BIG, digits),
            Self::Float(value) => serializer.serialize_f64(*value),
            Self::Text(text) => text.serialize(serializer),
            Self::List(items) => items.serialize(serializer),
            Self::Map(map) => map.serialize(serializer),
        }
    }
}

impl Serialize for Map {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.iter())
    }
}

impl From<i64> for Value {
    fn from(value: i64) -> Self {
        Self::Int(value)
    }
}

impl From<Text> for Value {
    fn from(value: Text) -> Self {
        Self::Text(value)
    }
}

impl From<&str> for Value {
    fn from(value: &str) -> Self {
        Self::text(value)
    }
}

impl<T: Into<Self>> From<Option<T>> for Value {
    fn from(value: Option<T>) -> Self {
        value.map_or(Self::Null, Into::into)
    }
}

/// A JSON object; its entries are in the order of their first occurrence, and each key occurs once.
#[derive(Clone, Debug, Default, PartialEq, JsonSchema)]
#[schemars(with = "BTreeMap<String, serde_json::Value>", inline, description = "")]
pub struct Map(Vec<(Text, Value)>);

/// The number of entries of an object above which duplicate keys are found with a hash table and
/// not by comparing all pairs.
const LOOK_BACK_LIMIT: usize = 24;

impl Map {
    /// An empty object.
    pub fn new() -> Self {
        Self::default()
    }

    /// Makes an object from parsed entries. For a repeated key, the last value is kept, at the
    /// position of the key's first occurrence.
    pub fn from_entries(entries: Vec<(Text, Value)>) -> Self {
        if !has_repeated_key(&entries) {
            return Self(entries);
        }
        let mut indices = std::collections::HashMap::with_capacity(entries.len());
        let mut unique: Vec<(Text, Value)> = Vec::with_capacity(entries.len());
        for (key, value) in entries {
            if let Some(&index) = indices.get(&key) {
                let slot: &mut (Text, Value) = &mut unique[index];
                slot.1 = value;
            } else {
                indices.insert(key.clone(), unique.len());
                unique.push((key, value));
            }
        }
        Self(unique)
    }

    /// The value of a key; `None` when the key is not present.
    pub fn get(&self, key: &str) -> Option<&Value> {
        self.0
            .iter()
            .find(|(name, _)| *name == key)
            .map(|(_, value)| value)
    }

    /// The text under a key, if the value is a string.
    pub fn text(&self, key: &str) -> Option<&Text> {
        self.get(key)?.as_text()
    }

    /// The integer under a key, if the value is an integer that fits into 64 bits.
    pub fn int(&self, key: &str) -> Option<i64> {
        self.get(key)?.as_int()
    }

    /// The object under a key, if the value is an object.
    pub fn object(&self, key: &str) -> Option<&Map> {
        self.get(key)?.as_map()
    }

    /// The items of the list under a key; empty when the value is not a list.
    pub fn list(&self, key: &str) -> &[Value] {
        match self.get(key) {
            Some(Value::List(items)) => items,
            _ => &[],
        }
    }

    /// Whether the key is present.
    pub fn contains(&self, key: &str) -> bool {
        self.get(key).is_some()
    }

    /// Sets the value of a key; an existing key keeps its position.
    pub fn insert(&mut self, key: impl Into<Text>, value: impl Into<Value>) {
        let (key, value) = (key.into(), value.into());
        match self.0.iter_mut().find(|(name, _)| *name == key) {
            Some(slot) => slot.1 = value,
            None => self.0.push((key, value)),
        }
    }

    /// Removes a key and returns its value.
    pub fn remove(&mut self, key: &str) -> Option<Value> {
        let index = self.0.iter().position(|(name, _)| *name == key)?;
        Some(self.0.remove(index).1)
    }

    /// The keys and values of the object, in their order.
    pub fn iter(&self) -> impl Iterator<Item = (&Text, &Value)> {
        self.0.iter().map(|(key, value)| (key, value))
    }

    /// The number of keys in the object.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether the object has no entries.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl IntoIterator for Map {
    type Item = (Text, Value);
    type IntoIter = std::vec::IntoIter<(Text, Value)>;

    fn into_iter(self) -> Self::IntoIter {
        self.0.into_iter()
    }
}

impl FromIterator<(Text, Value)> for Map {
    fn from_iter<I: IntoIterator<Item = (Text, Value)>>(entries: I) -> Self {
        Self::from_entries(entries.into_iter().collect())
    }
}

/// Sets the values of several keys; existing keys keep their position.
impl Extend<(Text, Value)> for Map {
    fn extend<I: IntoIterator<Item = (Text, Value)>>(&mut self, entries: I) {
        for (key, value) in entries {
            self.insert(key, value);
        }
    }
}

fn has_repeated_key(entries: &[(Text, Value)]) -> bool {
    if entries.len() <= LOOK_BACK_LIMIT {
        return entries
            .iter()
            .enumerate()
            .any(|(index, (key, _))| entries[..index].iter().any(|(earlier, _)| earlier == key));
    }
    let mut seen = std::collections::HashSet::with_capacity(entries.len());
    entries.iter().any(|(key, _)| !seen.insert(key))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn last_value_wins_in_first_place() {
        let entries = |count: i64| {
            let mut all: Vec<_> = (0..count)
                .map(|n| (Text::from(n.to_string()), Value::Int(n)))
                .collect();
            all.push((Text::from("0"), Value::Bool(true)));
            Map::from_entries(all)
        };
        for count in [2, 100] {
            let map = entries(count);
            assert_eq!(
                map.iter().next().map(|(_, v)| v.clone()),
                Some(Value::Bool(true))
            );
            assert_eq!(i64::try_from(map.len()).ok(), Some(count));
        }
    }
}
