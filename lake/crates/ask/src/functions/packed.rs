//! Packs the rows of one group for the transfer between the stages of an aggregate: Arrow's stream
//! format in one binary value.

use std::io::Cursor;
use std::sync::Arc;

use datafusion::arrow::array::{Array, ArrayRef, AsArray, RecordBatch};
use datafusion::arrow::compute::{cast, concat_batches};
use datafusion::arrow::datatypes::{DataType, Field, FieldRef, Schema, SchemaRef};
use datafusion::arrow::ipc::reader::StreamReader;
use datafusion::arrow::ipc::writer::StreamWriter;
use datafusion::common::ScalarValue;
use datafusion::error::Result;

/// The rows of one group that an aggregate function has received so far.
#[derive(Debug)]
pub(super) struct PackedRows {
    schema: SchemaRef,
    batches: Vec<RecordBatch>,
    bytes: usize,
}

impl PackedRows {
    /// Makes an empty list of rows with these columns; texts are stored as dictionaries, because
    /// most of them repeat.
    pub(super) fn new(columns: &[(&str, DataType)]) -> Self {
        let fields = columns.iter().map(|(name, data_type)| {
            let data_type = match data_type {
                DataType::Utf8 => {
                    DataType::Dictionary(Box::new(DataType::Int32), Box::new(DataType::Utf8))
                }
                other => other.clone(),
            };
            Field::new(*name, data_type, true)
        });
        Self {
            schema: Arc::new(Schema::new(fields.collect::<Vec<_>>())),
            batches: Vec::new(),
            bytes: 0,
        }
    }

    /// Adds rows, which are given as their columns. A text column may have any text type of Arrow,
    /// because it is converted.
    pub(super) fn push(&mut self, values: &[ArrayRef]) -> Result<()> {
        let fields = self.schema.fields().iter();
        let columns = fields
            .zip(values)
            .map(|(field, value)| match field.data_type() {
                // A list is not converted. Its type can differ from the wanted type in one way
                // only: Arrow's field for the items of the list may have another name.
                DataType::List(_) => Ok(ArrayRef::clone(value)),
                wanted => Ok(cast(value, wanted)?),
            });
        let mut columns = columns.collect::<Result<Vec<_>>>()?;
        // A new dictionary reserves space for 1,024 texts, but most sessions have far fewer. A run
        // can have thousands of sessions, so the unused space is freed.
        columns.iter_mut().for_each(ArrayRef::shrink_to_fit);
        let schema = self.schema_of(&columns);
        self.keep(RecordBatch::try_new(schema, columns)?);
        Ok(())
    }

    /// The schema for the given columns. It is the schema of this object if the types are equal. If
    /// they differ, because the item field of a list has another name, the schema has the types of
    /// the columns.
    fn schema_of(&self, columns: &[ArrayRef]) -> SchemaRef {
        let fields = || self.schema.fields().iter().zip(columns);
        if fields().all(|(field, column)| field.data_type() == column.data_type()) {
            return SchemaRef::clone(&self.schema);
        }
        let fields = fields()
            .map(|(field, column)| Field::new(field.name(), column.data_type().clone(), true));
        Arc::new(Schema::new(fields.collect::<Vec<_>>()))
    }

    fn keep(&mut self, batch: RecordBatch) {
        let sizes = batch.columns().iter().map(|column| {
            let data = column.to_data();
            data.get_slice_memory_size().unwrap_or(0)
        });
        self.bytes += sizes.sum::<usize>();
        self.batches.push(batch);
    }

    /// Adds the rows that other accumulators of the same group have packed with
    /// [`pack`](Self::pack).
    pub(super) fn merge(&mut self, states: &ArrayRef) -> Result<()> {
        for packed in states.as_binary::<i64>().iter().flatten() {
            for batch in StreamReader::try_new(Cursor::new(packed), None)? {
                self.keep(batch?);
            }
        }
        Ok(())
    }

    /// Joins all rows into one batch.
    pub(super) fn joined(&self) -> Result<RecordBatch> {
        match self.batches.as_slice() {
            [] => Ok(RecordBatch::new_empty(SchemaRef::clone(&self.schema))),
            [only] => Ok(only.clone()),
            [first, ..] => Ok(concat_batches(&first.schema(), &self.batches)?),
        }
    }

    /// All rows packed into one binary value, in Arrow's stream format.
    pub(super) fn pack(&self) -> Result<ScalarValue> {
        let schema = self
            .batches
            .first()
            .map_or_else(|| SchemaRef::clone(&self.schema), RecordBatch::schema);
        pack(&schema, &self.batches)
    }

    /// How many bytes of memory the rows use; the SQL engine asks every accumulator for this
    /// number.
    pub(super) fn size(&self) -> usize {
        size_of::<Self>() + self.bytes
    }
}

/// Packs batches with the given schema into one binary value, in Arrow's stream format.
pub(super) fn pack(schema: &Schema, batches: &[RecordBatch]) -> Result<ScalarValue> {
    let mut writer = StreamWriter::try_new(Vec::new(), schema)?;
    for batch in batches {
        writer.write(batch)?;
    }
    Ok(ScalarValue::LargeBinary(Some(writer.into_inner()?)))
}

/// Unpacks the batches in a binary value, whose bytes may come from another process.
pub(super) fn unpack(packed: &[u8]) -> Result<Vec<RecordBatch>> {
    let batches = StreamReader::try_new(Cursor::new(packed), None)?;
    Ok(batches.collect::<Result<_, _>>()?)
}

/// The fields of the intermediate state of the aggregate function `name`: a single one, for the
/// packed rows.
pub(super) fn state_field(name: &str) -> Vec<FieldRef> {
    let name = format!("{name}[packed]");
    vec![Arc::new(Field::new(name, DataType::LargeBinary, true))]
}
