//! The SQL functions that Stormlog adds to the engine; workers of a cluster register the same
//! functions.

mod diagnose_run;
mod is_alert;
mod packed;
mod session_events;

use std::sync::Arc;

use datafusion::error::Result;
use datafusion::execution::FunctionRegistry;

pub(crate) use diagnose_run::ARGUMENTS as DIAGNOSED;

/// Adds the SQL functions to a session of this process or of a worker.
pub(crate) fn register(session: &mut impl FunctionRegistry) -> Result<()> {
    session.register_udf(Arc::new(is_alert::IsAlert::default().into()))?;
    session.register_udaf(Arc::new(session_events::SessionEvents::default().into()))?;
    session.register_udaf(Arc::new(diagnose_run::DiagnoseRun::default().into()))?;
    Ok(())
}
