//! Renders issues as text, as Markdown for a pull request, and as annotations for GitHub.

use std::fmt::Write as _;

use stormlog_analysis::issue::{Change, ChangedIssue, Issue};
use stormlog_format::{Value, counted};

use crate::escape::for_terminal;
use crate::markdown::{code, escaped};
use crate::{annotation, bytes, level_word, time};

/// Renders issues (problems that were recognized across runs) as text, two lines each.
pub fn text(issues: &[Issue]) -> String {
    if issues.is_empty() {
        return "no issues\n".into();
    }
    let mut out = String::new();
    for issue in issues {
        let _ = writeln!(
            out,
            "{:<8}  {:<9}  {}",
            level(issue),
            issue.state,
            plain(&issue.title)
        );
        let _ = writeln!(out, "          {}", facts(issue));
    }
    out
}

/// Renders changed issues as text, two lines each, with the kind of change first.
pub fn changes_text(changes: &[ChangedIssue]) -> String {
    if changes.is_empty() {
        return "no issues in either set of runs\n".into();
    }
    let mut out = String::new();
    for changed in listed(changes) {
        let issue = &changed.issue;
        let _ = writeln!(
            out,
            "{:<13}  {:<8}  {}",
            changed.change.as_str().replace('_', " "),
            level(issue),
            plain(&issue.title)
        );
        let before = match changed.hits_before {
            Some(hits) if changed.change.as_str() == "more_frequent" => {
                format!(", {hits} before")
            }
            _ => String::new(),
        };
        let _ = writeln!(out, "               {}{before}", facts(issue));
    }
    let same = changes.len() - listed(changes).count();
    if same > 0 {
        let _ = writeln!(out, "{same} unchanged");
    }
    out
}

/// The issues that changed between two sets of runs, without those that stayed the same.
fn listed(changes: &[ChangedIssue]) -> impl Iterator<Item = &ChangedIssue> {
    changes.iter().filter(|one| one.change != Change::Same)
}

/// Renders issues as a Markdown table, one row each.
pub fn markdown(issues: &[Issue]) -> String {
    let mut out = String::from("| level | state | issue | hits | last seen | id |\n");
    out.push_str("|---|---|---|---|---|---|\n");
    for issue in issues {
        let _ = writeln!(
            out,
            "| {} | {} | {} | {} | {} | {} |",
            escaped(&level(issue)),
            issue.state,
            escaped(&issue.title.to_str_lossy()),
            issue.hit_count(),
            issue.last_seen_ns.map_or("-".into(), time::moment),
            code(&issue.fingerprint_id),
        );
    }
    out
}

/// Renders the issues that changed between two sets of runs as a Markdown table, one row each.
pub fn changes_markdown(changes: &[ChangedIssue]) -> String {
    let mut out = String::from("| change | level | issue | hits | hits before | id |\n");
    out.push_str("|---|---|---|---|---|---|\n");
    for changed in listed(changes) {
        let issue = &changed.issue;
        let _ = writeln!(
            out,
            "| {} | {} | {} | {} | {} | {} |",
            changed.change.as_str().replace('_', " "),
            escaped(&level(issue)),
            escaped(&issue.title.to_str_lossy()),
            issue.hit_count(),
            changed
                .hits_before
                .map_or("-".into(), |hits| hits.to_string()),
            code(&issue.fingerprint_id),
        );
    }
    out
}

/// Renders one GitHub annotation per issue. Each issue comes with a word, such as its state, which
/// is printed before its title.
pub fn github<'a>(issues: impl Iterator<Item = (&'a str, &'a Issue)>) -> String {
    issues
        .map(|(word, issue)| annotated(command(issue), word, issue))
        .collect()
}

/// Renders one annotation per changed issue. An issue that no longer occurs becomes a notice and
/// not an error.
pub fn changes_github(changes: &[ChangedIssue]) -> String {
    listed(changes)
        .map(|changed| {
            let command = match changed.change {
                Change::Gone => "notice",
                _ => command(&changed.issue),
            };
            let word = changed.change.as_str().replace('_', " ");
            annotated(command, &word, &changed.issue)
        })
        .collect()
}

fn command(issue: &Issue) -> &'static str {
    match issue.severity.as_str() {
        Some("critical" | "error") => "error",
        Some("warning") => "warning",
        _ => "notice",
    }
}

fn annotated(command: &str, word: &str, issue: &Issue) -> String {
    let title = annotation::property(&format!("{word}: {}", issue.title));
    let message = annotation::message(&facts(issue));
    format!("::{command} title={title}::{message}\n")
}

/// Describes an issue in one line: how often it occurred, in how many sessions, and when.
fn facts(issue: &Issue) -> String {
    let hits = counted(issue.hit_count(), "hit");
    let sessions = counted(issue.affected_sessions.len(), "session");
    let size = issue.details.get("magnitude_bytes").and_then(Value::as_int);
    let size = size.map_or_else(String::new, |size| format!(", {}", bytes::human(size)));
    let program = issue.dimensions.get("program").and_then(Value::as_text);
    let program = program.map_or_else(String::new, |name| format!("  {}", plain(name)));
    let seen = match (issue.first_seen_ns, issue.last_seen_ns) {
        (Some(first), Some(last)) if first != last => {
            format!(", {} to {}", time::moment(first), time::moment(last))
        }
        (_, Some(last)) => format!(", {}", time::moment(last)),
        _ => String::new(),
    };
    format!(
        "{id}{program}  {hits} in {sessions}{size}{seen}",
        id = plain(&issue.fingerprint_id),
    )
}

fn level(issue: &Issue) -> String {
    for_terminal(level_word(&issue.severity.to_str_lossy())).into_owned()
}

fn plain(text: &stormlog_format::Text) -> String {
    for_terminal(&text.to_str_lossy()).into_owned()
}

#[cfg(test)]
mod tests {
    use stormlog_analysis::issue::{EvidenceLink, compare};
    use stormlog_format::Map;

    use super::*;

    fn issue(title: &str, severity: &str, hits: usize) -> Issue {
        Issue {
            fingerprint_id: format!("issue:{severity}").into(),
            kind: "alert".into(),
            dimensions: Map::new(),
            state: "open",
            severity: severity.into(),
            title: title.into(),
            first_seen_ns: Some(1_762_000_000_000_000_000),
            last_seen_ns: Some(1_762_000_060_000_000_000),
            affected_sessions: vec!["s1".into()],
            evidence: vec![EvidenceLink::default(); hits],
            details: Map::new(),
            state_info: None,
            former_ids: Vec::new(),
        }
    }

    #[test]
    fn issues_read_well() {
        let issues = [
            issue("Alert: high fragmentation", "critical", 3),
            issue("Alert: \u{1b}[31m|x|", "warning", 1),
        ];
        assert_eq!(
            text(&issues),
            "problem   open       Alert: high fragmentation\n          \
             issue:critical  3 hits in 1 session, 2025-11-01 12:26:40 UTC to 2025-11-01 12:27:40 UTC\n\
             likely    open       Alert: \\u{1b}[31m|x|\n          \
             issue:warning  1 hit in 1 session, 2025-11-01 12:26:40 UTC to 2025-11-01 12:27:40 UTC\n"
        );
        let table = markdown(&issues[1..]);
        assert!(table.contains("Alert: \\\\u{1b}\\[31m\\|x\\|"), "{table}");
    }

    #[test]
    fn annotations_stay_inside_their_line() {
        let issues = [issue("Alert: a, 50%\n::error::x", "critical", 1)];
        let line = github(issues.iter().map(|issue| ("new", issue)));
        assert_eq!(line.lines().count(), 1);
        assert!(
            line.starts_with(
                "::error title=new%3A Alert%3A a%2C 50%25%0A%3A%3Aerror%3A%3Ax::issue:critical"
            ),
            "{line}"
        );
    }

    #[test]
    fn what_stayed_the_same_is_counted_and_what_is_gone_is_no_error() {
        let old = [issue("one", "critical", 1), issue("two", "warning", 1)];
        let changes = compare(&old, &old[..1]);
        assert!(changes_text(&changes).ends_with("\n1 unchanged\n"));
        assert!(!changes_markdown(&changes).contains("| same |"));
        let annotations = changes_github(&changes);
        assert!(
            annotations.starts_with("::notice title=gone%3A two"),
            "{annotations}"
        );
        assert_eq!(annotations.lines().count(), 1);
    }

    #[test]
    fn changes_read_well() {
        let old = [issue("one", "critical", 1)];
        let new = [issue("one", "critical", 3), issue("two", "warning", 1)];
        let shown = changes_text(&compare(&old, &new));
        let heads: Vec<&str> = shown.lines().step_by(2).collect();
        assert_eq!(
            heads,
            [
                "new            likely    two",
                "more frequent  problem   one"
            ]
        );
        assert!(shown.contains("3 hits"), "{shown}");
        assert!(shown.ends_with("UTC, 1 before\n"), "{shown}");
    }
}
