//! Converts cells of a query result to values that can be printed.

use datafusion::arrow::array::{Array, AsArray, RecordBatch};
use datafusion::arrow::datatypes::{
    DataType, Float32Type, Float64Type, Int8Type, Int16Type, Int32Type, Int64Type, UInt8Type,
    UInt16Type, UInt32Type, UInt64Type,
};
use datafusion::arrow::util::display::{ArrayFormatter, FormatOptions};
use datafusion::error::Result;
use stormlog_format::{Map, Text, Value};

/// The rows of a batch as objects, with keys in the order of the batch's columns.
pub fn rows_of(batch: &RecordBatch) -> Result<Vec<Map>> {
    let schema = batch.schema();
    let mut rows = vec![Map::new(); batch.num_rows()];
    for (field, column) in schema.fields().iter().zip(batch.columns()) {
        for (index, row) in rows.iter_mut().enumerate() {
            row.insert(field.name().as_str(), value_at(column, index)?);
        }
    }
    Ok(rows)
}

/// The value of one cell; types that [`Value`] does not have (times, decimals, binary) become text.
fn value_at(array: &dyn Array, index: usize) -> Result<Value> {
    if array.is_null(index) {
        return Ok(Value::Null);
    }
    Ok(match array.data_type() {
        DataType::Null => Value::Null,
        DataType::Boolean => Value::Bool(array.as_boolean().value(index)),
        DataType::Int8 => Value::Int(array.as_primitive::<Int8Type>().value(index).into()),
        DataType::Int16 => Value::Int(array.as_primitive::<Int16Type>().value(index).into()),
        DataType::Int32 => Value::Int(array.as_primitive::<Int32Type>().value(index).into()),
        DataType::Int64 => Value::Int(array.as_primitive::<Int64Type>().value(index)),
        DataType::UInt8 => Value::Int(array.as_primitive::<UInt8Type>().value(index).into()),
        DataType::UInt16 => Value::Int(array.as_primitive::<UInt16Type>().value(index).into()),
        DataType::UInt32 => Value::Int(array.as_primitive::<UInt32Type>().value(index).into()),
        DataType::UInt64 => {
            let number = array.as_primitive::<UInt64Type>().value(index);
            i64::try_from(number).map_or_else(
                |_| Value::Big(number.to_string().into_boxed_str()),
                Value::Int,
            )
        }
        DataType::Float32 => Value::Float(array.as_primitive::<Float32Type>().value(index).into()),
        DataType::Float64 => Value::Float(array.as_primitive::<Float64Type>().value(index)),
        DataType::Utf8 => text(array.as_string::<i32>().value(index)),
        DataType::LargeUtf8 => text(array.as_string::<i64>().value(index)),
        DataType::Utf8View => text(array.as_string_view().value(index)),
        DataType::Dictionary(_, _) => {
            let dictionary = array.as_any_dictionary();
            let key = dictionary.normalized_keys()[index];
            value_at(dictionary.values(), key)?
        }
        DataType::List(_) => list(&array.as_list::<i32>().value(index))?,
        DataType::LargeList(_) => list(&array.as_list::<i64>().value(index))?,
        DataType::FixedSizeList(_, _) => list(&array.as_fixed_size_list().value(index))?,
        DataType::Struct(fields) => {
            let mut map = Map::new();
            for (field, column) in fields.iter().zip(array.as_struct().columns()) {
                map.insert(field.name().as_str(), value_at(column, index)?);
            }
            Value::Map(map)
        }
        _ => {
            let formatter = ArrayFormatter::try_new(array, &FormatOptions::default())?;
            text(&formatter.value(index).to_string())
        }
    })
}

fn text(text: &str) -> Value {
    Value::Text(Text::from(text))
}

fn list(items: &dyn Array) -> Result<Value> {
    let items = (0..items.len()).map(|index| value_at(items, index));
    Ok(Value::List(items.collect::<Result<_>>()?))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use datafusion::arrow::array::{
        ArrayRef, DictionaryArray, Int64Array, ListArray, StringArray, TimestampNanosecondArray,
        UInt64Array,
    };
    use datafusion::arrow::datatypes::Int32Type;

    use super::*;

    #[test]
    fn every_cell_has_a_value_and_unknown_is_null() {
        let columns: Vec<(&str, ArrayRef)> = vec![
            ("number", Arc::new(Int64Array::from(vec![Some(1), None]))),
            ("large", Arc::new(UInt64Array::from(vec![u64::MAX, 2]))),
            ("text", Arc::new(StringArray::from(vec![Some("a"), None]))),
            (
                "word",
                Arc::new(DictionaryArray::<Int32Type>::from_iter(["x", "y"])),
            ),
            (
                "list",
                Arc::new(ListArray::from_iter_primitive::<Int64Type, _, _>([
                    Some(vec![Some(1), None]),
                    None,
                ])),
            ),
            ("time", Arc::new(TimestampNanosecondArray::from(vec![0, 1]))),
        ];
        let batch = RecordBatch::try_from_iter(columns).unwrap();
        let rows = rows_of(&batch).unwrap();
        assert_eq!(rows[0].get("number"), Some(&Value::Int(1)));
        assert_eq!(rows[1].get("number"), Some(&Value::Null));
        assert_eq!(
            rows[0].get("large"),
            Some(&Value::Big("18446744073709551615".into()))
        );
        assert_eq!(rows[1].get("text"), Some(&Value::Null));
        assert_eq!(rows[1].get("word"), Some(&Value::text("y")));
        assert_eq!(
            rows[0].get("list"),
            Some(&Value::List(vec![Value::Int(1), Value::Null]))
        );
        assert_eq!(
            rows[0].get("time"),
            Some(&Value::text("1970-01-01T00:00:00"))
        );
    }
}
