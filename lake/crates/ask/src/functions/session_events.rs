//! The SQL function `session_events(…)` returns the events of one session, by time, as one value.
//! This is the first of the two aggregates of a diagnosis; one session is the recording of one
//! resource and thus one track.

use datafusion::arrow::array::ArrayRef;
use datafusion::arrow::datatypes::{DataType, FieldRef};
use datafusion::common::ScalarValue;
use datafusion::error::Result;
use datafusion::logical_expr::function::{AccumulatorArgs, StateFieldsArgs};
use datafusion::logical_expr::utils::AggregateOrderSensitivity;
use datafusion::logical_expr::{Accumulator, AggregateUDFImpl, Signature, Volatility};

use super::packed::{PackedRows, pack, state_field};
use crate::event_rows::{event_columns, in_time_order};

/// The aggregate function, whose arguments are the columns of events in the order of
/// `event_columns`.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(super) struct SessionEvents {
    signature: Signature,
}

impl Default for SessionEvents {
    fn default() -> Self {
        Self {
            signature: Signature::any(event_columns().len(), Volatility::Immutable),
        }
    }
}

impl AggregateUDFImpl for SessionEvents {
    fn name(&self) -> &'static str {
        "session_events"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(DataType::LargeBinary)
    }

    fn accumulator(&self, _: AccumulatorArgs<'_>) -> Result<Box<dyn Accumulator>> {
        let columns: Vec<(&str, DataType)> = event_columns()
            .into_iter()
            .map(|(name, is_text)| {
                let data_type = if is_text {
                    DataType::Utf8
                } else {
                    DataType::Int64
                };
                (name, data_type)
            })
            .collect();
        Ok(Box::new(Gathering(PackedRows::new(&columns))))
    }

    fn state_fields(&self, args: StateFieldsArgs<'_>) -> Result<Vec<FieldRef>> {
        Ok(state_field(args.name))
    }

    fn order_sensitivity(&self) -> AggregateOrderSensitivity {
        AggregateOrderSensitivity::Insensitive
    }
}

#[derive(Debug)]
struct Gathering(PackedRows);

impl Accumulator for Gathering {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        self.0.push(values)
    }

    /// The rows come from several files and worker processes in any order, so they are sorted by
    /// time.
    fn evaluate(&mut self) -> Result<ScalarValue> {
        let rows = in_time_order(&self.0.joined()?)?;
        pack(&rows.schema(), &[rows])
    }

    fn size(&self) -> usize {
        self.0.size()
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        Ok(vec![self.0.pack()?])
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        self.0.merge(&states[0])
    }
}
