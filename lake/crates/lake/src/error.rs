//! Converts failures to error text and an exit code. Nothing else in the program prints an error.

use std::io::Write;
use std::process::ExitCode;

use deltalake::DeltaTableError;
use stormlog_lake_ask::AskError;
use stormlog_lake_tables::LakeError;
use stormlog_report::escape::for_terminal;

/// The exit code for a failure, which includes wrong usage.
pub(crate) const FAILURE: u8 = 1;
/// The exit code of a command, such as `doctor`, that ran without error and found a problem.
pub(crate) const FAILED_GATE: u8 = 2;

/// Prints a mistake in the arguments, or the help that the user asked for.
pub(crate) fn usage(error: &clap::Error) -> ExitCode {
    let _ = error.print();
    if error.use_stderr() {
        ExitCode::from(FAILURE)
    } else {
        ExitCode::SUCCESS
    }
}

/// Prints an error with its causes, and a hint if there is one for it.
pub(crate) fn failed(error: &anyhow::Error) -> ExitCode {
    let mut text = String::from("error: ");
    let mut before = String::new();
    for cause in error.chain() {
        // Paths and values in an error message are untrusted, so control characters are escaped.
        let cause = for_terminal(&without_secrets(&cause.to_string())).into_owned();
        // Messages of libraries often contain the message of their cause, so a cause that the
        // message before it contains is left out.
        if before.contains(&cause) {
            continue;
        }
        if !before.is_empty() {
            text.push_str(": ");
        }
        text.push_str(&cause);
        before = cause;
    }
    text.push('\n');
    if let Some(hint) = hint(error) {
        text.push_str("hint: ");
        text.push_str(hint);
        text.push('\n');
    }
    let _ = std::io::stderr().lock().write_all(text.as_bytes());
    ExitCode::from(FAILURE)
}

/// Prints a warning on standard error, without secrets and control characters.
pub(crate) fn warn(text: &str) {
    let text = for_terminal(&without_secrets(text)).into_owned();
    let _ = writeln!(std::io::stderr().lock(), "warning: {text}");
}

/// Converts the payload of a panic that was caught to an error; libraries panic on damaged tables.
pub(crate) fn of_panic(panic: &(dyn std::any::Any + Send)) -> anyhow::Error {
    let text = panic
        .downcast_ref::<String>()
        .map(String::as_str)
        .or_else(|| panic.downcast_ref::<&str>().copied())
        .unwrap_or("no reason given");
    anyhow::anyhow!("a table of the lake is damaged, or this is a bug: {text}")
}

fn hint(error: &anyhow::Error) -> Option<&'static str> {
    let lake = match error.downcast_ref() {
        Some(AskError::Cluster(_)) => {
            return Some("'stormlog lake cluster --at URL' starts workers on this machine");
        }
        Some(AskError::NotAQuestion(_)) => {
            return Some(
                "\"SHOW TABLES\" lists tables and views, \"SHOW COLUMNS FROM samples\" the columns of one",
            );
        }
        Some(AskError::Lake(error)) => Some(error),
        _ => error.downcast_ref::<LakeError>(),
    };
    Some(match lake? {
        LakeError::NotFound(_) => {
            "check the address; 'stormlog lake ingest PATH --to URL' creates a lake"
        }
        LakeError::Address { .. } => "a lake is a directory or 's3://bucket/prefix'",
        LakeError::Columns { .. } => {
            "the tables were written by another version; ingest into a new lake"
        }
        LakeError::Log { .. } => {
            "run 'stormlog lake doctor'; a damaged log can be restored from a copy of its file"
        }
        LakeError::Table { source, .. } if is_storage(source) => {
            "check the address and the AWS_* environment variables, then run the command again"
        }
        _ => return None,
    })
}

fn is_storage(error: &DeltaTableError) -> bool {
    matches!(error, DeltaTableError::ObjectStore { .. })
}

/// Environment variables whose values are secret and may appear in messages of libraries.
const SECRET_VARIABLES: [&str; 3] = [
    "AWS_SECRET_ACCESS_KEY",
    "AWS_SESSION_TOKEN",
    "AWS_ACCESS_KEY_ID",
];

/// Removes the values of credentials and the query strings of URLs, which contain signatures, from
/// a text.
pub(crate) fn without_secrets(text: &str) -> String {
    let mut text = text.to_owned();
    for variable in SECRET_VARIABLES {
        if let Ok(secret) = std::env::var(variable)
            && secret.len() >= 4
        {
            text = text.replace(&secret, "[hidden]");
        }
    }
    without_queries(&text)
}

fn without_queries(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    for (index, word) in text.split(' ').enumerate() {
        if index > 0 {
            shown.push(' ');
        }
        match word.split_once('?') {
            Some((address, query)) if address.contains("://") => {
                shown.push_str(address);
                let end = query.find(['"', '\'', ')', ',']).unwrap_or(query.len());
                shown.push_str(&query[end..]);
            }
            _ => shown.push_str(word),
        }
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn signatures_are_not_shown() {
        let text = "error sending request for url (http://h:1/b/k?X-Amz-Signature=abc): timed out";
        assert_eq!(
            without_secrets(text),
            "error sending request for url (http://h:1/b/k): timed out"
        );
    }
}
