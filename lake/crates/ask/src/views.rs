//! The SQL views about fleets, which are files of plain SQL, so that DuckDB, Spark and Trino can
//! use them too.

use datafusion::prelude::SessionContext;

use crate::error::AskError;

/// The name and the SQL statement of each view.
pub const VIEWS: [(&str, &str); 5] = [
    (
        "fleet_leaks",
        include_str!("../../../views/fleet_leaks.sql"),
    ),
    (
        "fleet_waste",
        include_str!("../../../views/fleet_waste.sql"),
    ),
    ("fleet_ooms", include_str!("../../../views/fleet_ooms.sql")),
    (
        "fleet_headroom",
        include_str!("../../../views/fleet_headroom.sql"),
    ),
    (
        "fleet_regressions",
        include_str!("../../../views/fleet_regressions.sql"),
    ),
];

/// Creates the views about fleets in a session.
pub(crate) async fn register(session: &SessionContext) -> Result<(), AskError> {
    for (_, statement) in VIEWS {
        session.sql(statement).await?;
    }
    Ok(())
}
