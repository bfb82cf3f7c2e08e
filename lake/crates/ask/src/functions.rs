//! Functions of our own in SQL. Workers of a cluster register the same ones.

mod diagnose_run;
mod is_alert;
mod packed;
mod session_events;

use datafusion::logical_expr::{AggregateUDF, ScalarUDF};
use datafusion::prelude::SessionContext;

pub(crate) use diagnose_run::ARGUMENTS as DIAGNOSED;

/// The functions of one row.
pub(crate) fn scalar_functions() -> Vec<ScalarUDF> {
    vec![is_alert::IsAlert::default().into()]
}

/// The functions of many rows.
pub(crate) fn aggregate_functions() -> Vec<AggregateUDF> {
    vec![
        session_events::SessionEvents::default().into(),
        diagnose_run::DiagnoseRun::default().into(),
    ]
}

/// Adds the functions to a session.
pub(crate) fn register(session: &SessionContext) {
    for function in scalar_functions() {
        session.register_udf(function);
    }
    for function in aggregate_functions() {
        session.register_udaf(function);
    }
}
