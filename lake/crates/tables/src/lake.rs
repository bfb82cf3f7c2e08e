//! The location of a lake's tables, and how they are opened.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use datafusion::arrow::datatypes::DataType;
use datafusion::execution::SessionStateBuilder;
use datafusion::execution::runtime_env::{RuntimeEnv, RuntimeEnvBuilder};
use datafusion::prelude::{SessionConfig, SessionContext};
use deltalake::kernel::engine::arrow_conversion::TryIntoKernel;
use deltalake::kernel::{StructField, StructType};
use deltalake::protocol::SaveMode;
use deltalake::{DeltaTable, DeltaTableBuilder, DeltaTableError, TableProperty};
use futures::future::try_join_all;
use url::Url;

use crate::error::{LakeError, delta_error};
use crate::files::{PARTITION, TableFiles, columns_of};
use crate::schema::Table;
use crate::store::OnlyLake;

/// A checkpoint of a table's log is written after this many commits. Whoever opens the table reads
/// the commits since the last checkpoint one by one, and an ingest opens ten tables.
const COMMITS_A_CHECKPOINT: &str = "10";

/// A lake is a directory, or a prefix of an object store, with one directory per table.
#[derive(Clone, Debug)]
pub struct Lake {
    root: Url,
}

impl Lake {
    /// The lake at an address: a path, `file://…` or `s3://bucket/prefix`. This opens nothing yet.
    pub fn at(address: &str) -> Result<Self, LakeError> {
        let root = match Url::parse(address) {
            Ok(url) if url.scheme().len() > 1 => url,
            _ => directory_url(Path::new(address)).ok_or_else(|| LakeError::Address {
                address: address.to_owned(),
                reason: "it is neither a path nor a URL".to_owned(),
            })?,
        };
        let known = ["file", "s3", "s3a", "memory"];
        if !known.contains(&root.scheme()) {
            return Err(LakeError::Address {
                address: shown(&root),
                reason: format!("'{}' is neither 'file' nor 's3'", root.scheme()),
            });
        }
        if !root.username().is_empty() || root.password().is_some() {
            return Err(LakeError::Address {
                address: shown(&root),
                reason: "credentials belong in the environment, not in the address".to_owned(),
            });
        }
        Ok(Self { root })
    }

    /// The address of the lake for messages, without user name, password, query and fragment.
    pub fn address(&self) -> String {
        shown(&self.root)
    }

    /// The directory of the lake; `None` for a lake in an object store.
    pub fn directory(&self) -> Option<PathBuf> {
        self.root.to_file_path().ok()
    }

    /// The URL of a table's directory, which is inside the lake.
    pub fn table_url(&self, table: Table) -> Url {
        let mut url = self.root.clone();
        if let Ok(mut path) = url.path_segments_mut() {
            path.pop_if_empty().push(table.name()).push("");
        }
        url
    }

    /// Opens a table and checks its columns; `None` when the table does not exist.
    pub async fn table(&self, table: Table) -> Result<Option<DeltaTable>, LakeError> {
        let failed = |error| delta_error(table, error);
        let url = self.table_url(table);
        if let Ok(directory) = url.to_file_path()
            && !directory.is_dir()
        {
            return Ok(None);
        }
        let mut opened = DeltaTableBuilder::from_url(url)
            .and_then(DeltaTableBuilder::build)
            .map_err(failed)?;
        match opened.load().await {
            Ok(()) => {}
            Err(DeltaTableError::NotATable(_)) => return Ok(None),
            Err(error) => return Err(failed(error)),
        }
        check_columns(table, &opened)?;
        Ok(Some(opened))
    }

    /// Opens a table; an error if it does not exist.
    pub async fn existing(&self, table: Table) -> Result<DeltaTable, LakeError> {
        let found = self.table(table).await?;
        found.ok_or_else(|| LakeError::NotFound(self.address()))
    }

    /// Opens a table, and creates it when it does not exist.
    pub async fn open_or_create(&self, table: Table) -> Result<DeltaTable, LakeError> {
        if let Some(found) = self.table(table).await? {
            return Ok(found);
        }
        let failed = |error| delta_error(table, error);
        let url = self.table_url(table);
        if let Ok(directory) = url.to_file_path() {
            std::fs::create_dir_all(&directory).map_err(|error| LakeError::Address {
                address: directory.display().to_string(),
                reason: error.to_string(),
            })?;
        }
        let columns: StructType = table
            .schema()
            .as_ref()
            .try_into_kernel()
            .map_err(|error| failed(DeltaTableError::from(error)))?;
        let columns: Vec<StructField> = columns.fields().cloned().collect();
        let empty = DeltaTableBuilder::from_url(url)
            .and_then(DeltaTableBuilder::build)
            .map_err(failed)?;
        let created = empty
            .create()
            .with_columns(columns)
            .with_partition_columns([PARTITION])
            .with_table_name(table.name())
            .with_configuration_property(
                TableProperty::CheckpointInterval,
                Some(COMMITS_A_CHECKPOINT),
            )
            .with_save_mode(SaveMode::Ignore)
            .await;
        match created {
            Ok(created) => Ok(created),
            // Creating the table fails when another process has created it a moment ago; then that
            // table is opened.
            Err(error) => match self.table(table).await? {
                Some(found) => Ok(found),
                None => Err(failed(error)),
            },
        }
    }

    /// A session in which queries can use every table of the lake under its name.
    pub async fn session(&self) -> Result<SessionContext, LakeError> {
        let session = SessionContext::from(self.state()?.build());
        self.register(&session, Table::ALL).await?;
        Ok(session)
    }

    /// The state of a session that can read the files of the lake and nothing else; its tables are
    /// not registered yet.
    pub fn state(&self) -> Result<SessionStateBuilder, LakeError> {
        let config = SessionConfig::new().with_information_schema(true);
        Ok(SessionStateBuilder::new()
            .with_config(config)
            .with_runtime_env(self.runtime()?)
            .with_default_features())
    }

    /// The runtime environment in which the SQL engine runs plans; it gives them access to the
    /// files of the lake, and to nothing else.
    pub fn runtime(&self) -> Result<Arc<RuntimeEnv>, LakeError> {
        let files = DeltaTableBuilder::from_url(self.root.clone())
            .and_then(|builder| builder.build_storage())
            .map_err(|error| LakeError::Address {
                address: self.address(),
                reason: error.to_string(),
            })?;
        let registry = OnlyLake::new(files.object_store(None));
        let runtime = RuntimeEnvBuilder::new().with_object_store_registry(Arc::new(registry));
        Ok(runtime.build_arc()?)
    }

    /// Makes tables of the lake available by their names in a SQL session made of [`Lake::state`].
    pub async fn register(
        &self,
        session: &SessionContext,
        tables: impl IntoIterator<Item = Table>,
    ) -> Result<(), LakeError> {
        let tables: Vec<Table> = tables.into_iter().collect();
        // The logs are read at the same time: each read waits for storage most of the time.
        let opened = try_join_all(tables.iter().map(|table| self.existing(*table))).await?;
        for (table, opened) in tables.into_iter().zip(opened) {
            register_table(session, table, &opened)?;
        }
        Ok(())
    }
}

/// Registers one table, as of the version that is loaded, in a session made of [`Lake::state`].
pub fn register_table(
    session: &SessionContext,
    table: Table,
    opened: &DeltaTable,
) -> Result<(), LakeError> {
    let files = TableFiles::of(table, opened)?;
    session.register_table(table.name(), Arc::new(files))?;
    Ok(())
}

fn directory_url(path: &Path) -> Option<Url> {
    let path = std::path::absolute(path).ok()?;
    Url::from_directory_path(path).ok()
}

/// The text of an address for messages, without user name, password, query and fragment.
fn shown(url: &Url) -> String {
    if let Ok(path) = url.to_file_path() {
        return path.display().to_string();
    }
    let host = url.host_str().unwrap_or_default();
    format!("{}://{host}{}", url.scheme(), url.path())
}

/// Checks that a table has every column that this version of Stormlog uses, with the right type.
fn check_columns(table: Table, opened: &DeltaTable) -> Result<(), LakeError> {
    let found = columns_of(table, opened)?;
    for wanted in table.schema().fields() {
        let is_there = found.field_with_name(wanted.name()).is_ok_and(|field| {
            let is_text = |data_type: &DataType| {
                matches!(
                    data_type,
                    DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View
                )
            };
            field.data_type() == wanted.data_type()
                || is_text(field.data_type()) && is_text(wanted.data_type())
        });
        if !is_there {
            return Err(LakeError::Columns {
                table: table.name(),
                column: wanted.name().clone(),
                wanted: wanted.data_type().to_string(),
            });
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_a_path_or_a_url() {
        let shown = |address: &str| Lake::at(address).map(|lake| lake.address());
        assert_eq!(shown("s3://bucket/fleet").unwrap(), "s3://bucket/fleet");
        assert_eq!(shown("/lake").unwrap(), "/lake/");
        assert!(shown("gs://bucket/fleet").is_err());
        let lake = Lake::at("s3://bucket/fleet").unwrap();
        assert_eq!(
            lake.table_url(Table::Runs).as_str(),
            "s3://bucket/fleet/runs/"
        );
    }

    #[test]
    fn credentials_in_an_address_are_refused_and_not_shown() {
        let error = Lake::at("s3://key:secret@bucket/fleet?token=t0p").unwrap_err();
        let text = error.to_string();
        assert!(!text.contains("secret") && !text.contains("t0p"), "{text}");
    }
}
