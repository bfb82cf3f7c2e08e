//! Phrases that the text report and the Markdown report of `stormlog analyze` share.

use stormlog_analysis::analyze::{Report, RunReport};
use stormlog_analysis::detect::{Cause, Diagnosis, Failure, Finding, Kind, Level, Site, SiteRole};
use stormlog_analysis::timeline::{RankCoverage, Run};
use stormlog_format::{counted, human_duration};

use super::json::Coverage;
use super::text::Detail;
use crate::{bytes, time};

/// The verdict of the whole report in one line: the verdict on the run with the most severe
/// finding.
pub(super) fn headline(report: &Report) -> String {
    let Some(gravest) = gravest(report) else {
        return "No events found".to_owned();
    };
    let line = gravest.diagnosis.headline();
    match &gravest.job_id {
        Some(job) if report.runs.len() > 1 => format!("{job}: {line}"),
        _ => line,
    }
}

/// The name of a run for the headline: its own, that of its program or its job, if one is known.
pub(super) fn name(run: &RunReport) -> String {
    match (run.timeline.program.shown_name(), &run.job_id) {
        (Some(name), _) => name.to_owned(),
        (None, Some(job)) => format!("job {}", job.to_str_lossy()),
        (None, None) => "run without a job id".to_owned(),
    }
}

/// Describes what was analyzed and how the run ended: `Analyzed: train.py, 3 processes, GPU 0, 12
/// min 4 s; ended with exit code 0`. Returns `None` when the headline of the report already
/// describes what was analyzed.
pub(super) fn looked_at(run: &RunReport) -> Option<String> {
    if run.diagnosis.findings().is_empty() && !run.diagnosis.is_too_short() {
        return None;
    }
    let end = match run.diagnosis.end.clause() {
        clause if clause.is_empty() => "end not recorded".to_owned(),
        clause => clause,
    };
    let name = run.timeline.program.shown_name();
    let name = name.map_or_else(String::new, |name| format!("{name}, "));
    Some(format!("Analyzed: {name}{}; {end}", run.diagnosis.scope))
}

/// The largest number of callers that are listed below the line of code that allocates: of those in
/// the user's files, and of those in libraries, of which the innermost ones are listed.
const USERS_CALLS: usize = 12;
const LIBRARY_CALLS: usize = 2;

/// The callers to list, the innermost first. When the user's own calls are too many, as in a
/// recursion, the outermost ones are listed last, because they are where the user's script begins.
fn shown_calls(calls: &[Site]) -> impl Iterator<Item = &Site> {
    let users = calls.iter().filter(|site| site.is_users()).count();
    let innermost = USERS_CALLS - USERS_CALLS / 3;
    let (mut seen, mut of_libraries) = (0, 0);
    calls.iter().filter(move |site| {
        if site.is_users() {
            seen += 1;
            users <= USERS_CALLS || seen <= innermost || users - seen < USERS_CALLS - innermost
        } else {
            of_libraries += 1;
            of_libraries <= LIBRARY_CALLS
        }
    })
}

/// Renders the notes on a run, facts that are no problem by themselves, each in one line.
pub fn note_lines(diagnosis: &Diagnosis) -> Vec<String> {
    let notes = diagnosis.notes.iter();
    let lines = notes.map(|note| format!("Note: {}: {}", note.explanation, note.advice));
    let left_out = diagnosis.notes_left_out;
    let more = (left_out > 0).then(|| {
        let phases = counted(left_out, "more phase");
        format!("Note: {phases} with much more memory than training steps")
    });
    lines.chain(more).collect()
}

/// The cause of a finding: the line with its source text, the calls that led to it, what holds the
/// memory, and how much of the memory growth this line explains.
pub fn cause_lines(finding: &Finding) -> Vec<String> {
    let Some(cause) = &finding.cause else {
        return Vec::new();
    };
    let mut lines = Vec::new();
    if let Some(site) = &cause.site {
        let role = match cause.site_role {
            SiteRole::Allocates => "Allocated",
            SiteRole::AddsItems => "Items added",
            SiteRole::Assigns => "Assigned",
            SiteRole::Registers => "Registered",
            SiteRole::CreatesHolder => "Its owner created",
            SiteRole::Sums => "Summed up",
            SiteRole::DisablesCollector => "Garbage collector turned off",
            SiteRole::Fails => "Failed",
        };
        lines.push(format!("{role} at {}", place(site)));
    }
    if let Some(site) = &cause.allocated_at {
        let role = if cause.failure.is_some() {
            "Failed"
        } else {
            "Allocated"
        };
        // The same line may allocate the memory and keep it.
        if cause.site.as_ref() != Some(site) {
            lines.push(format!("{role} at {}", place(site)));
        }
    }
    let calls = shown_calls(&cause.call_path);
    lines.extend(calls.map(|site| format!("called from {}", place(site))));
    if let Some(failure) = &cause.failure {
        lines.extend(failure_lines(failure, cause));
        return lines;
    }
    if let Some(holder) = &cause.holder {
        lines.push(format!("Held by {holder}"));
    }
    let of_what = if finding.kind == Kind::HostLeak {
        "growth while the process was inspected"
    } else {
        "bytes that were inspected"
    };
    lines.push(format!(
        "This cause explains {inspected}, {share:.0} % of the {of_what}",
        share = cause.share * 100.0,
        inspected = bytes::human(cause.attributed_bytes),
    ));
    lines
}

/// A finding below its line: the line of code with its source text, what holds the memory, when the
/// growth began, and what to do. With all detail also the sentence that explains it, and the calls.
pub fn finding_lines(finding: &Finding, run: &Run, detail: Detail) -> Vec<String> {
    let mut lines = Vec::new();
    let phase = finding.phase.as_ref();
    let phase = phase.map_or(String::new(), |phase| format!(", in phase {phase}"));
    if detail == Detail::All || finding.cause.is_none() {
        lines.push(finding.explanation.clone());
    }
    lines.extend(cause_lines(finding));
    let since = since(finding, run).map_or(String::new(), |since| format!(", {since}"));
    let kinds = [finding.kind]
        .into_iter()
        .chain(finding.also.iter().copied());
    let kinds: Vec<&str> = kinds.map(Kind::as_str).collect();
    lines.push(format!(
        "{kinds}, {whose}{since}{phase}, confidence {confidence:.0} %",
        kinds = kinds.join(" and "),
        whose = whose(finding, run),
        confidence = finding.confidence * 100.0,
    ));
    if detail == Detail::All {
        let numbers = finding.evidence.iter();
        let numbers = numbers.map(|(name, value)| format!("{name} {value:.4}"));
        let numbers: Vec<String> = numbers.collect();
        if !numbers.is_empty() {
            lines.push(format!("Numbers: {}", numbers.join(", ")));
        }
    }
    lines.push(format!("What to do: {}", finding.advice));
    // Backticks are markup; a terminal shows them as they are.
    lines.iter().map(|line| line.replace('`', "")).collect()
}

/// Whether a finding is about all memory of a device, so that the list of its users explains it.
pub(super) fn is_about_device(run: &RunReport) -> bool {
    let findings = run.diagnosis.findings();
    let is_about = |finding: &&Finding| {
        finding.level() > Level::Note
            && finding.device_id >= 0
            && matches!(finding.kind, Kind::HiddenDrift | Kind::OomRisk)
    };
    findings.iter().any(is_about)
}

/// The largest number of holders (what keeps memory in use, such as a variable of the program) that
/// are listed for a failed allocation.
const HOLDERS: usize = 6;

/// Describes what held the memory when an allocation failed, one line per holder: `8.00 GiB of
/// parameters held by model`.
fn failure_lines(failure: &Failure, cause: &Cause) -> Vec<String> {
    let holders = failure.holders.iter().take(HOLDERS);
    let mut lines: Vec<String> = holders
        .map(|one| {
            let category = one.category_words();
            let size = bytes::human(one.bytes);
            format!("{size} of {category} held by {holder}", holder = one.holder)
        })
        .collect();
    if !failure.categories.is_empty() {
        lines.push(format!(
            "The holders of {share:.0} % of the allocated bytes were found",
            share = cause.share * 100.0
        ));
    }
    if let Some(reason) = &failure.cut_short {
        lines.push(format!(
            "The search for what holds the memory ended early: {reason}"
        ));
    }
    lines
}

/// A line of code with its function and its source text: `train.py:8 in step: kept.append(out)`.
fn place(site: &Site) -> String {
    let function = match site.function.as_str() {
        "" | "<module>" => String::new(),
        name => format!(" in {name}"),
    };
    let text = site.source_text.as_ref();
    let text = text.map_or_else(String::new, |text| format!(": {text}"));
    format!("{}{function}{text}", site.place())
}

/// The run with the most severe finding; of several equally severe runs, the first.
pub(super) fn gravest(report: &Report) -> Option<&RunReport> {
    let severity = |run: &RunReport| run.diagnosis.findings().iter().map(|f| f.severity).max();
    report.runs.iter().reduce(|best, run| {
        if severity(run) > severity(best) {
            run
        } else {
            best
        }
    })
}

/// The rank that a finding concerns, as text: `rank 3` or `all ranks`, or `this run` if the run has
/// only one rank.
pub(super) fn whose(finding: &Finding, run: &Run) -> String {
    match finding.rank {
        None if run.has_several_ranks() => "all ranks".to_owned(),
        None => "this run".to_owned(),
        Some(rank) => format!("rank {rank}"),
    }
}

/// When a finding began, as text: `since 17.9 s (2026-11-16 12:00:05 UTC)`, counted from the start
/// of the run; `None` if it is unknown.
pub(super) fn since(finding: &Finding, run: &Run) -> Option<String> {
    let at = time::moment(finding.onset_ns?);
    let since = human_duration(finding.onset_since_start_ns(run)?);
    Some(format!("since {since} ({at})"))
}

/// Describes in one line how much was recorded: ranks, samples and sampling gaps.
pub(super) fn coverage(report: &Report) -> String {
    let coverage = Coverage::of(report);
    // Several runs in one folder usually have the same ranks, so the largest number of ranks of a
    // run is printed and not the sum over all runs.
    let most_ranks = report.runs.iter().map(|run| run.ranks.len()).max();
    let most_ranks = most_ranks.unwrap_or(0);
    let missing: usize = report.runs.iter().map(|run| run.missing_ranks.len()).sum();
    let gaps = match coverage.gaps {
        0 => "no gaps".to_owned(),
        count => format!(
            "{gaps} (longest {longest})",
            gaps = counted(count, "gap"),
            longest = human_duration(coverage.longest_gap_ns)
        ),
    };
    let damage = match report.damage.len() {
        0 => "no damage".to_owned(),
        count => counted(count, "damaged place"),
    };
    let missing = match missing {
        0 => String::new(),
        count => format!(", {} without records", counted(count, "rank")),
    };
    format!(
        "{samples} of {ranks} in {runs}, {late} late, {gaps}, {damage}{missing}",
        samples = counted(coverage.samples, "sample"),
        late = coverage.late_samples,
        ranks = counted(most_ranks, "rank"),
        runs = counted(report.runs.len(), "run"),
    )
}

/// The titles of the columns of the table that a report of several ranks contains.
pub(super) const RANK_COLUMNS: [&str; 8] = [
    "rank",
    "host",
    "samples",
    "interval",
    "peak used",
    "at the end",
    "of device",
    "findings",
];

/// The cells of a rank's row in the table of ranks, in the order of [`RANK_COLUMNS`].
fn rank_row(coverage: &RankCoverage, findings: &[&Finding]) -> [String; 8] {
    let known = |value: Option<i64>| value.map_or("unknown".to_owned(), bytes::human);
    let share = match (coverage.last_used_bytes, coverage.device_total_bytes) {
        (Some(used), Some(total)) if total > 0 => {
            format!("{} %", i128::from(used) * 100 / i128::from(total))
        }
        _ => "unknown".to_owned(),
    };
    let mut kinds: Vec<&str> = findings
        .iter()
        .filter(|finding| {
            finding
                .rank
                .is_some_and(|rank| i64::from(rank) == coverage.rank)
        })
        .map(|finding| finding.kind.as_str())
        .collect();
    kinds.dedup();
    [
        coverage.rank.to_string(),
        coverage.host.clone(),
        coverage.samples.to_string(),
        coverage
            .interval_ns
            .map_or("unknown".to_owned(), human_duration),
        known(coverage.peaks.used),
        known(coverage.last_used_bytes),
        share,
        kinds.join(", "),
    ]
}

/// The largest number of ranks in a table. If the run has more ranks than the table has rows, the
/// ranks with findings are listed first.
const ROWS: usize = 32;

/// The rows of the table of ranks, one per rank, and the number of ranks that were left out.
pub(super) fn rank_rows(run: &RunReport) -> (Vec<[String; 8]>, usize) {
    let findings = run.diagnosis.findings();
    let has_finding = |rank: i64| {
        let mut ranks = findings.iter().filter_map(|finding| finding.rank);
        ranks.any(|found| i64::from(found) == rank)
    };
    let mut ranks: Vec<&RankCoverage> = run.ranks.iter().collect();
    if ranks.len() > ROWS {
        ranks.sort_by_key(|coverage| (!has_finding(coverage.rank), coverage.rank));
        ranks.truncate(ROWS);
    }
    let left_out = run.ranks.len() - ranks.len();
    (
        ranks.iter().map(|one| rank_row(one, &findings)).collect(),
        left_out,
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn site(file: &str, line: u32) -> Site {
        Site {
            file: file.to_owned(),
            line,
            function: "f".to_owned(),
            source_text: None,
        }
    }

    #[test]
    fn all_calls_of_the_user_are_listed_and_few_of_libraries() {
        let library = "/v/lib/python3.12/site-packages/torch/nn/modules/module.py";
        let mut calls: Vec<Site> = (1..=20).map(|line| site(library, line)).collect();
        calls.insert(10, site("/home/u/net.py", 46));
        calls.push(site("/home/u/train.py", 10));
        let shown: Vec<String> = shown_calls(&calls).map(Site::place).collect();
        assert_eq!(
            shown,
            ["module.py:1", "module.py:2", "net.py:46", "train.py:10"]
        );
        let deep: Vec<Site> = (1..=50).map(|line| site("/home/u/tree.py", line)).collect();
        let lines: Vec<u32> = shown_calls(&deep).map(|call| call.line).collect();
        assert_eq!(lines, [1, 2, 3, 4, 5, 6, 7, 8, 47, 48, 49, 50]);
        assert_eq!(shown_calls(&deep[..12]).count(), 12);
    }
}
