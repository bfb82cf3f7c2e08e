use std::io;
use std::path::PathBuf;

/// Why a server cannot start.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
#[expect(missing_docs, reason = "the error message of a variant describes it")]
pub enum ServeError {
    #[error("'{0}' is not an address: give HOST:PORT, such as 127.0.0.1:8321")]
    BadAddress(String),
    #[error("cannot listen on {address}")]
    Listen {
        address: String,
        #[source]
        source: io::Error,
    },
    #[error("cannot start the threads of the server")]
    Threads(#[source] io::Error),
    #[error("cannot read the token from '{}'", path.display())]
    TokenFile {
        path: PathBuf,
        #[source]
        source: io::Error,
    },
    #[error(
        "the first line of '{}' is no token: it needs {least} or more letters, digits, '-', '_' or '.'",
        path.display()
    )]
    WeakToken { path: PathBuf, least: usize },
}
