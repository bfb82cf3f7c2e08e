//! The formats in which `compare` and `issues` print their lists of changes.

use clap::ValueEnum;

/// The output format of `compare` and `issues`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum ListFormat {
    /// For people
    #[value(alias = "txt")]
    Text,
    /// For programs
    Json,
    /// For pull requests
    Md,
    /// Annotations of a GitHub workflow
    Github,
}
