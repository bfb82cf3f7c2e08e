//! The SQL function `is_alert(event_type, metadata)` returns whether an event is an alert.

use std::sync::Arc;

use datafusion::arrow::array::{BooleanArray, RecordBatch};
use datafusion::arrow::datatypes::DataType;
use datafusion::error::Result;
use datafusion::logical_expr::{
    ColumnarValue, ScalarFunctionArgs, ScalarUDFImpl, Signature, Volatility,
};
use stormlog_format::json::parse;
use stormlog_format::{Map, Text, Value, classify};

use crate::columns::Texts;

/// The SQL function. It decides like `classify::is_alert` of the format crate, by the event type
/// and by the severity in the metadata.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(super) struct IsAlert {
    signature: Signature,
}

impl Default for IsAlert {
    fn default() -> Self {
        Self {
            signature: Signature::any(2, Volatility::Immutable),
        }
    }
}

impl ScalarUDFImpl for IsAlert {
    fn name(&self) -> &'static str {
        "is_alert"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(DataType::Boolean)
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let values = ColumnarValue::values_to_arrays(&args.args)?;
        let names = ["event_type", "metadata"];
        let batch = RecordBatch::try_from_iter(names.into_iter().zip(values))?;
        let (kinds, texts) = (Texts::of(&batch, names[0])?, Texts::of(&batch, names[1])?);
        let is_alert = |row: usize| {
            let metadata = match parse(texts.text(row).as_bytes()) {
                Ok(Value::Map(map)) => map,
                _ => Map::new(),
            };
            classify::is_alert(&Text::from(kinds.text(row)), &metadata)
        };
        let alerts: BooleanArray = (0..batch.num_rows())
            .map(|row| Some(is_alert(row)))
            .collect();
        Ok(ColumnarValue::Array(Arc::new(alerts)))
    }
}
