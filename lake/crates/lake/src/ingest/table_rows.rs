//! Converts rows that are JSON objects to Arrow batches, for the tables about sessions and runs,
//! which are small.

use std::sync::Arc;

use anyhow::{Result, bail};
use datafusion::arrow::array::{
    ArrayRef, BooleanBuilder, Date32Builder, Float64Builder, Int64Builder, RecordBatch,
    StringBuilder,
};
use datafusion::arrow::datatypes::{DataType, Field};
use serde_json::{Map, Value};
use stormlog_lake_tables::Table;

/// One row of a table: a JSON object with the column names as keys. A column without a key is
/// `NULL`.
pub(super) type Row = Map<String, Value>;

/// Converts rows to an Arrow batch with the columns of a table; keys without a column are ignored.
pub(super) fn batch(table: Table, rows: &[Row]) -> Result<RecordBatch> {
    let schema = table.schema();
    let columns = schema
        .fields()
        .iter()
        .map(|field| column(table, field, rows));
    let columns: Vec<ArrayRef> = columns.collect::<Result<_>>()?;
    Ok(RecordBatch::try_new(schema, columns)?)
}

fn column(table: Table, field: &Field, rows: &[Row]) -> Result<ArrayRef> {
    let values = rows
        .iter()
        .map(|row| row.get(field.name()).unwrap_or(&Value::Null));
    Ok(match field.data_type() {
        DataType::Int64 => {
            let mut column = Int64Builder::new();
            values.for_each(|value| column.append_option(value.as_i64()));
            Arc::new(column.finish())
        }
        DataType::Date32 => {
            let mut column = Date32Builder::new();
            let day = |value: &Value| i32::try_from(value.as_i64()?).ok();
            values.for_each(|value| column.append_option(day(value)));
            Arc::new(column.finish())
        }
        DataType::Float64 => {
            let mut column = Float64Builder::new();
            values.for_each(|value| column.append_option(value.as_f64()));
            Arc::new(column.finish())
        }
        DataType::Boolean => {
            let mut column = BooleanBuilder::new();
            values.for_each(|value| column.append_option(value.as_bool()));
            Arc::new(column.finish())
        }
        DataType::Utf8 => {
            let mut column = StringBuilder::new();
            for value in values {
                match value {
                    Value::Null => column.append_null(),
                    Value::String(text) => column.append_value(text),
                    // Lists and objects are stored as JSON text.
                    other => column.append_value(other.to_string()),
                }
            }
            Arc::new(column.finish())
        }
        other => bail!(
            "column '{}' of table '{}' has type {other}, which cannot be stored",
            field.name(),
            table.name()
        ),
    })
}
