//! The object store through which every process that runs queries reads the files of a lake. It has
//! one address, cannot write, and gives access to no other files.
//!
//! A worker of a cluster runs query plans that other processes send. A worker can open only the
//! files that this store contains.

use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;
use datafusion::common::exec_datafusion_err;
use datafusion::error::Result as EngineResult;
use datafusion::execution::object_store::ObjectStoreRegistry;
use datafusion::object_store::path::Path;
use datafusion::object_store::{
    CopyOptions, Error, GetOptions, GetResult, ListResult, MultipartUpload, ObjectMeta,
    ObjectStore, PutMultipartOptions, PutOptions, PutPayload, PutResult, Result,
};
use futures::stream::{self, BoxStream, StreamExt};
use url::Url;

/// The address under which query plans name the files of a lake. Each process knows the real
/// location of the lake, so plans contain neither a location nor credentials.
pub(crate) const ADDRESS: &str = "lake://files";

/// An object store registry through which the SQL engine can read the files of one lake and nothing
/// else.
#[derive(Debug)]
pub(crate) struct OnlyLake(Arc<dyn ObjectStore>);

impl OnlyLake {
    pub(crate) fn new(files: Arc<dyn ObjectStore>) -> Self {
        Self(Arc::new(ReadOnly(files)))
    }
}

impl ObjectStoreRegistry for OnlyLake {
    /// Ignores the given store, so that plans can read nothing outside the lake.
    fn register_store(&self, _: &Url, _: Arc<dyn ObjectStore>) -> Option<Arc<dyn ObjectStore>> {
        None
    }

    fn get_store(&self, url: &Url) -> EngineResult<Arc<dyn ObjectStore>> {
        if url.as_str().trim_end_matches('/') == ADDRESS {
            return Ok(Arc::clone(&self.0));
        }
        let scheme = url.scheme();
        Err(exec_datafusion_err!(
            "a query can read only the files of the lake, not '{scheme}:'"
        ))
    }
}

#[derive(Debug)]
struct ReadOnly(Arc<dyn ObjectStore>);

impl fmt::Display for ReadOnly {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("files of the lake")
    }
}

fn refused(path: &Path) -> Error {
    Error::PermissionDenied {
        path: path.to_string(),
        source: "questions only read".into(),
    }
}

#[async_trait::async_trait]
impl ObjectStore for ReadOnly {
    async fn put_opts(&self, path: &Path, _: PutPayload, _: PutOptions) -> Result<PutResult> {
        Err(refused(path))
    }

    async fn put_multipart_opts(
        &self,
        path: &Path,
        _: PutMultipartOptions,
    ) -> Result<Box<dyn MultipartUpload>> {
        Err(refused(path))
    }

    async fn get_opts(&self, path: &Path, options: GetOptions) -> Result<GetResult> {
        self.0.get_opts(path, options).await
    }

    async fn get_ranges(&self, path: &Path, ranges: &[Range<u64>]) -> Result<Vec<Bytes>> {
        self.0.get_ranges(path, ranges).await
    }

    fn delete_stream(
        &self,
        paths: BoxStream<'static, Result<Path>>,
    ) -> BoxStream<'static, Result<Path>> {
        paths
            .flat_map(|path| stream::once(async move { Err(refused(&path?)) }))
            .boxed()
    }

    fn list(&self, prefix: Option<&Path>) -> BoxStream<'static, Result<ObjectMeta>> {
        self.0.list(prefix)
    }

    async fn list_with_delimiter(&self, prefix: Option<&Path>) -> Result<ListResult> {
        self.0.list_with_delimiter(prefix).await
    }

    async fn copy_opts(&self, _: &Path, to: &Path, _: CopyOptions) -> Result<()> {
        Err(refused(to))
    }
}

#[cfg(test)]
mod tests {
    use datafusion::object_store::ObjectStoreExt;
    use datafusion::object_store::memory::InMemory;

    use super::*;

    #[tokio::test]
    async fn files_are_read_and_never_written() {
        let files = Arc::new(InMemory::new());
        let path = Path::from("samples/a.parquet");
        files.put(&path, "rows".into()).await.unwrap();
        let lake = OnlyLake::new(files);
        let store = lake.get_store(&Url::parse(ADDRESS).unwrap()).unwrap();
        assert_eq!(
            store.get(&path).await.unwrap().bytes().await.unwrap(),
            "rows"
        );
        assert!(store.put(&path, "other".into()).await.is_err());
        assert!(store.delete(&path).await.is_err());
        assert!(store.rename(&path, &Path::from("b")).await.is_err());
        assert!(store.get(&path).await.is_ok());
    }

    #[test]
    fn nothing_else_can_be_opened() {
        let lake = OnlyLake::new(Arc::new(InMemory::new()));
        for url in ["file:///etc", "s3://bucket", "lake://other"] {
            let url = Url::parse(url).unwrap();
            lake.register_store(&url, Arc::new(InMemory::new()));
            assert!(lake.get_store(&url).is_err(), "{url}");
        }
    }
}
