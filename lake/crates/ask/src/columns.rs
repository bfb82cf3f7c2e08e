//! Typed access to the columns of a batch. A table is untrusted, so a column that is missing or of
//! another type is an error, not a panic.

use datafusion::arrow::array::{Array, ArrayRef, AsArray, Int64Array, RecordBatch, StringArray};
use datafusion::arrow::compute::cast;
use datafusion::arrow::datatypes::{DataType, Int64Type};
use datafusion::common::exec_datafusion_err;
use datafusion::error::Result;

/// A text column of a batch, whose cells may be empty (SQL `NULL`).
pub(crate) struct Texts(StringArray);

/// An integer column of a batch, whose cells may be empty (SQL `NULL`).
pub(crate) struct Ints(Int64Array);

impl Texts {
    pub(crate) fn of(batch: &RecordBatch, name: &str) -> Result<Self> {
        let column = column(batch, name, &DataType::Utf8)?;
        Ok(Self(column.as_string::<i32>().clone()))
    }

    pub(crate) fn get(&self, row: usize) -> Option<&str> {
        self.0.is_valid(row).then(|| self.0.value(row))
    }

    /// The text in a row; an empty text if the cell is `NULL`.
    pub(crate) fn text(&self, row: usize) -> &str {
        self.get(row).unwrap_or_default()
    }
}

impl Ints {
    pub(crate) fn of(batch: &RecordBatch, name: &str) -> Result<Self> {
        let column = column(batch, name, &DataType::Int64)?;
        Ok(Self(column.as_primitive::<Int64Type>().clone()))
    }

    pub(crate) fn get(&self, row: usize) -> Option<i64> {
        self.0.is_valid(row).then(|| self.0.value(row))
    }

    /// The number in a row of a column that has a number in every row.
    pub(crate) fn number(&self, row: usize) -> i64 {
        self.get(row).unwrap_or_default()
    }
}

/// A column of a batch, converted to the wanted type. The conversion is needed because the engine
/// may return texts as views or dictionaries.
fn column(batch: &RecordBatch, name: &str, wanted: &DataType) -> Result<ArrayRef> {
    let found = batch
        .column_by_name(name)
        .ok_or_else(|| exec_datafusion_err!("the rows have no column '{name}'"))?;
    let is_text = |data_type: &DataType| match data_type {
        DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View | DataType::Null => true,
        DataType::Dictionary(_, value) => **value == DataType::Utf8,
        _ => false,
    };
    let is_usable = match wanted {
        DataType::Utf8 => is_text(found.data_type()),
        _ => found.data_type().is_integer() || found.data_type().is_null(),
    };
    if !is_usable {
        let found = found.data_type();
        return Err(exec_datafusion_err!(
            "column '{name}' has type {found}, not {wanted}"
        ));
    }
    Ok(cast(found, wanted)?)
}
