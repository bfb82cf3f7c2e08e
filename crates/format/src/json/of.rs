//! Converts data of any type that implements serde's `Serialize` to a [`Value`], without loss.

use std::fmt;

use serde::ser::{self, Impossible, SerializeMap, SerializeSeq, SerializeStruct, SerializeTuple};
use serde::{Serialize, Serializer};

use crate::python_text::python_str;
use crate::text::Text;
use crate::value::{BIG, Map, OPAQUE, Value};

/// Converts a document to a value; the keys are in the order of the fields. Texts, numbers and
/// [`Value`]s inside the document stay as they are. If any part of the document has a type that
/// cannot be converted, such as a tuple struct, the whole result is null; Stormlog's own types have
/// no such parts.
pub fn value_of(document: &(impl Serialize + ?Sized)) -> Value {
    document.serialize(ToValue).unwrap_or(Value::Null)
}

/// Converts a document with fields to an object; the keys are in the order of the fields.
pub fn map_of(document: &(impl Serialize + ?Sized)) -> Map {
    match value_of(document) {
        Value::Map(map) => map,
        _ => Map::new(),
    }
}

/// Serializes pairs of names and values as one object, for `#[serde(serialize_with)]`.
pub fn by_name<K, V, S>(pairs: &[(K, V)], serializer: S) -> Result<S::Ok, S::Error>
where
    K: Serialize,
    V: Serialize,
    S: Serializer,
{
    serializer.collect_map(pairs.iter().map(|(name, value)| (name, value)))
}

/// The error for a type that cannot be converted, with the name of the type.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
struct Unsupported(String);

impl ser::Error for Unsupported {
    fn custom<T: fmt::Display>(message: T) -> Self {
        Self(message.to_string())
    }
}

/// A serializer for which `is_human_readable` is false, so that a [`Text`] serializes as its bytes,
/// which may contain lone surrogates.
struct ToValue;

impl Serializer for ToValue {
    type Ok = Value;
    type Error = Unsupported;
    type SerializeSeq = Items;
    type SerializeTuple = Items;
    type SerializeTupleStruct = Impossible<Value, Unsupported>;
    type SerializeTupleVariant = Impossible<Value, Unsupported>;
    type SerializeMap = Entries;
    type SerializeStruct = Entries;
    type SerializeStructVariant = Impossible<Value, Unsupported>;

    fn is_human_readable(&self) -> bool {
        false
    }

    fn serialize_bool(self, value: bool) -> Result<Value, Unsupported> {
        Ok(Value::Bool(value))
    }

    fn serialize_i8(self, value: i8) -> Result<Value, Unsupported> {
        Ok(Value::Int(value.into()))
    }

    fn serialize_i16(self, value: i16) -> Result<Value, Unsupported> {
        Ok(Value::Int(value.into()))
    }

    fn serialize_i32(self, value: i32) -> Result<Value, Unsupported> {
        Ok(Value::Int(value.into()))
    }

    fn serialize_i64(self, value: i64) -> Result<Value, Unsupported> {
        Ok(Value::Int(value))
    }

    fn serialize_u8(self, value: u8) -> Result<Value, Unsupported> {
        Ok(Value::Int(value.into()))
    }

    fn serialize_u16(self, value: u16) -> Result<Value, Unsupported> {
        Ok(Value::Int(value.into()))
    }

    fn serialize_u32(self, value: u32) -> Result<Value, Unsupported> {
        Ok(Value::Int(value.into()))
    }

    fn serialize_u64(self, value: u64) -> Result<Value, Unsupported> {
        Ok(match i64::try_from(value) {
            Ok(value) => Value::Int(value),
            Err(_) => Value::Big(value.to_string().into()),
        })
    }

    fn serialize_f32(self, value: f32) -> Result<Value, Unsupported> {
        Ok(Value::Float(value.into()))
    }

    fn serialize_f64(self, value: f64) -> Result<Value, Unsupported> {
        Ok(Value::Float(value))
    }

    fn serialize_char(self, value: char) -> Result<Value, Unsupported> {
        Ok(Value::text(value.to_string()))
    }

    fn serialize_str(self, value: &str) -> Result<Value, Unsupported> {
        Ok(Value::text(value))
    }

    fn serialize_bytes(self, value: &[u8]) -> Result<Value, Unsupported> {
        Ok(Value::Text(Text::from_wtf8(value.to_vec())))
    }

    fn serialize_none(self) -> Result<Value, Unsupported> {
        Ok(Value::Null)
    }

    fn serialize_some<T: Serialize + ?Sized>(self, value: &T) -> Result<Value, Unsupported> {
        value.serialize(self)
    }

    fn serialize_unit(self) -> Result<Value, Unsupported> {
        Ok(Value::Null)
    }

    fn serialize_unit_struct(self, _: &'static str) -> Result<Value, Unsupported> {
        Ok(Value::Null)
    }

    fn serialize_unit_variant(
        self,
        _: &'static str,
        _: u32,
        variant: &'static str,
    ) -> Result<Value, Unsupported> {
        Ok(Value::text(variant))
    }

    fn serialize_newtype_struct<T: Serialize + ?Sized>(
        self,
        name: &'static str,
        value: &T,
    ) -> Result<Value, Unsupported> {
        Ok(match (name, value.serialize(self)?) {
            (BIG, Value::Text(digits)) => Value::Big(digits.to_str_lossy().into()),
            (OPAQUE, Value::Int(handle)) => {
                Value::Opaque(u32::try_from(handle).unwrap_or_default())
            }
            (_, value) => value,
        })
    }

    fn serialize_newtype_variant<T: Serialize + ?Sized>(
        self,
        _: &'static str,
        _: u32,
        variant: &'static str,
        value: &T,
    ) -> Result<Value, Unsupported> {
        let mut map = Map::new();
        map.insert(variant, value.serialize(self)?);
        Ok(Value::Map(map))
    }

    fn serialize_seq(self, length: Option<usize>) -> Result<Items, Unsupported> {
        Ok(Items(Vec::with_capacity(length.unwrap_or_default())))
    }

    fn serialize_tuple(self, length: usize) -> Result<Items, Unsupported> {
        self.serialize_seq(Some(length))
    }

    fn serialize_tuple_struct(
        self,
        name: &'static str,
        _: usize,
    ) -> Result<Self::SerializeTupleStruct, Unsupported> {
        Err(Unsupported(name.into()))
    }

    fn serialize_tuple_variant(
        self,
        name: &'static str,
        _: u32,
        _: &'static str,
        _: usize,
    ) -> Result<Self::SerializeTupleVariant, Unsupported> {
        Err(Unsupported(name.into()))
    }

    fn serialize_map(self, length: Option<usize>) -> Result<Entries, Unsupported> {
        Ok(Entries {
            entries: Vec::with_capacity(length.unwrap_or_default()),
            key: Text::default(),
        })
    }

    fn serialize_struct(self, _: &'static str, length: usize) -> Result<Entries, Unsupported> {
        self.serialize_map(Some(length))
    }

    fn serialize_struct_variant(
        self,
        name: &'static str,
        _: u32,
        _: &'static str,
        _: usize,
    ) -> Result<Self::SerializeStructVariant, Unsupported> {
        Err(Unsupported(name.into()))
    }
}

struct Items(Vec<Value>);

impl SerializeSeq for Items {
    type Ok = Value;
    type Error = Unsupported;

    fn serialize_element<T: Serialize + ?Sized>(&mut self, item: &T) -> Result<(), Unsupported> {
        self.0.push(item.serialize(ToValue)?);
        Ok(())
    }

    fn end(self) -> Result<Value, Unsupported> {
        Ok(Value::List(self.0))
    }
}

impl SerializeTuple for Items {
    type Ok = Value;
    type Error = Unsupported;

    fn serialize_element<T: Serialize + ?Sized>(&mut self, item: &T) -> Result<(), Unsupported> {
        SerializeSeq::serialize_element(self, item)
    }

    fn end(self) -> Result<Value, Unsupported> {
        SerializeSeq::end(self)
    }
}

struct Entries {
    entries: Vec<(Text, Value)>,
    key: Text,
}

impl SerializeMap for Entries {
    type Ok = Value;
    type Error = Unsupported;

    fn serialize_key<T: Serialize + ?Sized>(&mut self, key: &T) -> Result<(), Unsupported> {
        self.key = match key.serialize(ToValue)? {
            Value::Text(key) => key,
            key => python_str(&key),
        };
        Ok(())
    }

    fn serialize_value<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), Unsupported> {
        let value = value.serialize(ToValue)?;
        self.entries.push((std::mem::take(&mut self.key), value));
        Ok(())
    }

    fn end(self) -> Result<Value, Unsupported> {
        Ok(Value::Map(Map::from_entries(self.entries)))
    }
}

impl SerializeStruct for Entries {
    type Ok = Value;
    type Error = Unsupported;

    fn serialize_field<T: Serialize + ?Sized>(
        &mut self,
        key: &'static str,
        value: &T,
    ) -> Result<(), Unsupported> {
        self.serialize_entry(key, value)
    }

    fn end(self) -> Result<Value, Unsupported> {
        SerializeMap::end(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::json::parse;

    /// Tests values that would be lost if `serde_json` wrote the document and read it again: lone
    /// surrogates, large integers, infinities.
    #[test]
    fn values_inside_a_document_stay_as_they_are() {
        #[derive(Serialize)]
        struct Document {
            name: Text,
            share: f64,
            count: u64,
            missing: Option<i64>,
            #[serde(flatten)]
            rest: Map,
        }
        let text = br#"{"rest": {"\ud800": [1e999, 123456789012345678901234567890, true]}}"#;
        let Ok(Value::Map(mut rest)) = parse(text) else {
            panic!("an object");
        };
        rest.insert("handle", Value::Opaque(7));
        let document = Document {
            name: Text::from_code_points([0xdc00]),
            share: 0.5,
            count: u64::MAX,
            missing: None,
            rest: rest.clone(),
        };
        let mut expected = Map::new();
        expected.insert("name", Text::from_code_points([0xdc00]));
        expected.insert("share", Value::Float(0.5));
        expected.insert("count", Value::Big(u64::MAX.to_string().into()));
        expected.insert("missing", Value::Null);
        expected.extend(rest);
        assert_eq!(map_of(&document), expected);
    }
}
