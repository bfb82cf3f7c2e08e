//! The SQL views about fleets, which are files of plain SQL, so that DuckDB, Spark and Trino can
//! use them too.

use std::collections::HashSet;

use datafusion::error::Result;
use datafusion::execution::SessionState;

/// The name of each view about fleets, and the SQL statement that creates it.
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

/// The SQL statement that creates the view with this name; `None` if there is no such view.
pub(crate) fn named(name: &str) -> Option<&'static str> {
    let found = VIEWS.into_iter().find(|(view, _)| *view == name);
    found.map(|(_, statement)| statement)
}

/// The names of the tables and views that a statement reads.
pub(crate) fn relations(state: &SessionState, statement: &str) -> Result<HashSet<String>> {
    let dialect = state.config().options().sql_parser.dialect;
    let parsed = state.sql_to_statement(statement, &dialect)?;
    let found = state.resolve_table_references(&parsed)?;
    Ok(found.into_iter().map(|name| name.to_string()).collect())
}

#[cfg(test)]
mod tests {
    use datafusion::prelude::SessionContext;
    use stormlog_lake_tables::Table;

    use super::*;

    #[test]
    fn views_read_tables_of_the_lake() {
        let state = SessionContext::new().state();
        for (view, statement) in VIEWS {
            let mut names = relations(&state, statement).unwrap();
            names.remove(view);
            assert!(!names.is_empty(), "{view}");
            for name in names {
                assert!(Table::named(&name).is_some(), "{view} reads '{name}'");
            }
        }
    }
}
