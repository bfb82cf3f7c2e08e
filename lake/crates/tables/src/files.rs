//! Reads a table as the Parquet files that its log lists.
//!
//! The Delta library can make a table available to the SQL engine itself, but it plans a scan that
//! no other process can run. A scan of plain Parquet files can be distributed by every engine, so
//! such a scan is used here, even when one process runs the query.

use std::sync::Arc;

use datafusion::arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use datafusion::catalog::{Session, TableProvider};
use datafusion::common::stats::Precision;
use datafusion::common::{ScalarValue, Statistics};
use datafusion::datasource::TableType;
use datafusion::datasource::listing::PartitionedFile;
use datafusion::datasource::physical_plan::{FileGroup, FileScanConfigBuilder, ParquetSource};
use datafusion::datasource::source::DataSourceExec;
use datafusion::datasource::table_schema::TableSchema;
use datafusion::error::Result;
use datafusion::execution::object_store::ObjectStoreUrl;
use datafusion::logical_expr::Expr;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::empty::EmptyExec;
use deltalake::kernel::engine::arrow_conversion::TryIntoArrow;
use deltalake::{DeltaTable, DeltaTableError};

use crate::error::{LakeError, delta_error};
use crate::schema::Table;
use crate::store;

/// The column by which tables are partitioned, whose value is in the paths of files and not in the
/// files themselves.
pub const PARTITION: &str = "date";

/// The option of a Delta table that says whether its files use other column names than the table.
const COLUMN_MAPPING: &str = "delta.columnMapping.mode";

/// The Parquet files of one version of a table, as a table that the SQL engine can read.
#[derive(Debug)]
pub(crate) struct TableFiles {
    /// The schema of the table, with columns in the order of the table.
    schema: SchemaRef,
    /// The schema with which files are read: the columns in the files, followed by the partition
    /// column.
    scanned: TableSchema,
    /// For each column of the table, its index in `scanned`.
    indices: Vec<usize>,
    files: Vec<PartitionedFile>,
    rows: Precision<usize>,
}

impl TableFiles {
    /// Lists the files of the version of the table that `opened` has loaded.
    pub(crate) fn of(table: Table, opened: &DeltaTable) -> Result<Self, LakeError> {
        let failed = |error| delta_error(table, error);
        let refused = |reason: &str| LakeError::Log {
            table: table.name(),
            reason: reason.to_owned(),
        };
        let snapshot = opened.snapshot().map_err(failed)?;
        let options = snapshot.metadata().configuration();
        if options
            .get(COLUMN_MAPPING)
            .is_some_and(|mode| mode != "none")
        {
            return Err(refused(
                "the columns have other names in its files than in the table",
            ));
        }
        let columns = columns_of(table, opened)?;
        let (partition, in_files): (Vec<_>, Vec<_>) = columns
            .fields()
            .iter()
            .cloned()
            .partition(|field| field.name() == PARTITION);
        let in_files: Vec<_> = in_files.iter().map(|field| as_view(field)).collect();
        let scanned = TableSchema::builder(Arc::new(Schema::new(in_files)))
            .with_table_partition_cols(partition)
            .build();
        let order = scanned.table_schema();
        let names = columns.fields().iter().map(|field| field.name().as_str());
        let indices: Vec<usize> = names.filter_map(|name| order.index_of(name).ok()).collect();
        let schema = Arc::new(order.project(&indices).map_err(|error| LakeError::Log {
            table: table.name(),
            reason: error.to_string(),
        })?);
        let mut files = Vec::new();
        let mut rows = Precision::Exact(0);
        for file in snapshot.log_data().iter() {
            if file.deletion_vector_descriptor().is_some() {
                return Err(refused("it has deletion vectors; rewrite it without them"));
            }
            let values = file.partition_values_map();
            let date = values.get(PARTITION).and_then(Option::as_ref);
            let date = match date {
                Some(text) => ScalarValue::try_from_string(text.clone(), &DataType::Date32)
                    .map_err(|_| refused("a file has a partition that is no date"))?,
                None => ScalarValue::Date32(None),
            };
            let size = u64::try_from(file.size()).unwrap_or_default();
            let path = format!("{}/{}", table.name(), file.object_store_path());
            files.push(PartitionedFile::new(path, size).with_partition_values(vec![date]));
            let counted = file
                .num_records()
                .map_or(Precision::Absent, Precision::Exact);
            rows = rows.add(&counted);
        }
        Ok(Self {
            schema,
            scanned,
            indices,
            files,
            rows,
        })
    }

    /// Each file as a table of its own, in the order of the log.
    fn into_single_files(self) -> impl Iterator<Item = Self> {
        let Self {
            schema,
            scanned,
            indices,
            files,
            ..
        } = self;
        files.into_iter().map(move |file| Self {
            schema: Arc::clone(&schema),
            scanned: scanned.clone(),
            indices: indices.clone(),
            files: vec![file],
            rows: Precision::Absent,
        })
    }
}

/// The files of the table version that is loaded, each as a table of its own that a session made of
/// [`Lake::state`](crate::Lake::state) can read, in the order of the log.
pub fn single_files(
    table: Table,
    opened: &DeltaTable,
) -> Result<Vec<Arc<dyn TableProvider>>, LakeError> {
    let files = TableFiles::of(table, opened)?.into_single_files();
    Ok(files.map(|file| Arc::new(file) as _).collect())
}

/// A text field as an Arrow view type, so that filters and groups copy no text.
fn as_view(field: &Field) -> Arc<Field> {
    let field = field.clone();
    Arc::new(match field.data_type() {
        DataType::Utf8 | DataType::LargeUtf8 => field.with_data_type(DataType::Utf8View),
        _ => field,
    })
}

#[async_trait::async_trait]
impl TableProvider for TableFiles {
    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }

    fn table_type(&self) -> TableType {
        TableType::Base
    }

    /// Filters are not passed here: a rule of the engine adds them to the scan later, which then
    /// skips files, row groups and pages.
    async fn scan(
        &self,
        session: &dyn Session,
        projection: Option<&Vec<usize>>,
        _filters: &[Expr],
        limit: Option<usize>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let indices: Vec<usize> = match projection {
            Some(wanted) => wanted.iter().map(|&index| self.indices[index]).collect(),
            None => self.indices.clone(),
        };
        if self.files.is_empty() {
            let schema = self.scanned.table_schema().project(&indices)?;
            return Ok(Arc::new(EmptyExec::new(Arc::new(schema))));
        }
        let statistics = Statistics {
            num_rows: self.rows,
            ..Statistics::new_unknown(self.scanned.table_schema())
        };
        let parallel = session.config().target_partitions().max(1);
        let groups = FileGroup::new(self.files.clone()).split_files(parallel);
        let options = session.default_table_options().parquet;
        let source = ParquetSource::new(self.scanned.clone()).with_table_parquet_options(options);
        let store = ObjectStoreUrl::parse(store::ADDRESS)?;
        let scan = FileScanConfigBuilder::new(store, Arc::new(source))
            .with_file_groups(groups)
            .with_statistics(statistics)
            .with_projection_indices(Some(indices))?
            .with_limit(limit)
            .build();
        Ok(DataSourceExec::from_data_source(scan))
    }
}

/// The columns of a table according to its log. The log is untrusted: a type that Arrow does not
/// have is an error here, while it would be a panic in `arrow_schema`.
pub(crate) fn columns_of(table: Table, opened: &DeltaTable) -> Result<Schema, LakeError> {
    let failed = |error| delta_error(table, error);
    let found = opened.snapshot().map_err(failed)?.snapshot().schema();
    found
        .as_ref()
        .try_into_arrow()
        .map_err(|error| failed(DeltaTableError::from(error)))
}
