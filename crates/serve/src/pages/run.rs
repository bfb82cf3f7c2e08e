//! The page of one run: the drawing with live updates, findings, ranks, processes, bundles and
//! snapshots.

use std::path::{Path as FilePath, PathBuf};
use std::sync::Arc;

use askama::Template;
use axum::extract::{Path, State};
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use stormlog_analysis::allocator_snapshot::{Account, Owners, Snapshot, is_pickle, read};
use stormlog_analysis::query::{Catalog, OomBundle};
use stormlog_analysis::timeline::{RankCoverage, TimeZero};
use stormlog_format::human_duration;
use stormlog_report::analyze::{Detail, cause_lines, finding_lines};
use stormlog_report::{
    Badge, Canvas, Measure, PictureKind, Story, Theme, UNKNOWN, allocator_page, bytes, draw,
    drawing_json, held_section, steps_section, time, to_svg,
};

use super::words::{self, size};
use crate::app::App;
use crate::replies::{found, message, rendered};
use crate::runs::Entry;
use crate::view::View;

/// The largest numbers of ranks, processes, damaged files and snapshots that a page lists; those
/// beyond the limit are only counted.
const MOST_RANKS: usize = 128;
const MOST_PROCESSES: usize = 64;
const MOST_DAMAGE: usize = 20;
const MOST_SNAPSHOTS: usize = 64;

#[derive(Template)]
#[template(path = "run.html")]
struct Page {
    id: String,
    name: String,
}

/// Serves the page of a run without its data, which the script of the page requests.
pub(crate) async fn page(
    State(app): State<Arc<App>>,
    Path(id): Path<String>,
) -> Result<Response, Response> {
    let entry = found(move || app.entry(&id)).await?;
    Ok(rendered(&Page {
        id: entry.id,
        name: entry.name,
    }))
}

/// Serves the content of the page of a run as JSON: the data of the chart, and the sections around
/// it as HTML.
pub(crate) async fn data(
    State(app): State<Arc<App>>,
    Path(id): Path<String>,
) -> Result<Response, Response> {
    let made = found(move || {
        let entry = app.entry(&id)?;
        let state = entry.stamp.value.wrapping_add(u64::from(entry.is_running));
        Some(app.kept_or(&format!("run {id}"), state, || {
            let view = app.load(&entry)?;
            document(&entry, &view)
        }))
    });
    Ok(json(made.await?))
}

/// A response with the JSON data of a page, or with an object that contains only the error.
pub(super) fn json(data: Result<Arc<str>, String>) -> Response {
    let text = match data {
        Ok(text) => text.as_ref().to_owned(),
        Err(error) => serde_json::json!({ "error": error }).to_string(),
    };
    ([(header::CONTENT_TYPE, "application/json")], text).into_response()
}

#[derive(Template)]
#[template(path = "run_head.html")]
struct Head {
    end: String,
    end_class: &'static str,
    facts: Vec<(&'static str, String)>,
    damage: Vec<String>,
    more_damage: usize,
}

#[derive(Template)]
#[template(path = "run_sections.html")]
struct Sections {
    id: String,
    findings: Vec<Finding>,
    ranks: Vec<Rank>,
    /// What the ranks are compared by, and their order.
    ranks_by: String,
    more_ranks: usize,
    processes: Vec<Process>,
    more_processes: usize,
    bundles: Vec<Bundle>,
    snapshots: Vec<String>,
    /// Flame graphs as HTML from the report crate, in which every text is already escaped.
    held: String,
    steps: String,
}

struct Finding {
    badge: Badge,
    /// The line of the finding without its level.
    line: String,
    cause: Vec<String>,
    advice: String,
    /// All evidence, which the page hides until a reader opens it.
    evidence: Vec<String>,
}

struct Rank {
    number: i64,
    host: String,
    peak: String,
    last: String,
    deviation: String,
    /// The distance of this rank's peak from the median of all ranks' peaks, in percent of the
    /// largest such distance of any rank.
    share: i64,
    samples: usize,
    gaps: String,
}

struct Process {
    pid: i64,
    rank: u32,
    name: String,
    role: &'static str,
    peak: String,
    last: String,
    exited: String,
}

struct Bundle {
    name: String,
    facts: Vec<(&'static str, String)>,
}

fn document(entry: &Entry, view: &View) -> Result<String, String> {
    let text = |error: &dyn std::fmt::Display| format!("cannot draw the run: {error}");
    let kind = if view.story.ranks().len() > 1 {
        PictureKind::Dashboard
    } else {
        PictureKind::Timeline
    };
    let drawing = match drawing_json(&view.story, kind) {
        Ok(drawing) => drawing,
        Err(stormlog_report::DrawError::NoSamples) => "null".to_owned(),
        Err(error) => return Err(text(&error)),
    };
    let head = head(view).render().map_err(|error| text(&error))?;
    let sections = sections(entry, view)?
        .render()
        .map_err(|error| text(&error))?;
    let parts =
        serde_json::json!({ "head": head, "sections": sections, "running": view.is_running });
    Ok(format!("{{\"drawing\":{drawing},\"parts\":{parts}}}"))
}

fn head(view: &View) -> Head {
    let (end, end_class) = words::end(&view.run.end(), view.is_running);
    let program = &view.run.program;
    let mut facts = Vec::new();
    if !program.command.is_empty() {
        facts.push(("command", program.command.join(" ")));
    }
    facts.extend(program.commit.clone().map(|commit| ("commit", commit)));
    if let Some((from, to)) = view.run.span_ns() {
        facts.push(("started", time::moment(from)));
        facts.push(("duration", human_duration(to.saturating_sub(from))));
    }
    let damage = view.damage.iter().take(MOST_DAMAGE);
    Head {
        end,
        end_class,
        facts,
        damage: damage.map(ToString::to_string).collect(),
        more_damage: view.damage.len().saturating_sub(MOST_DAMAGE),
    }
}

fn sections(entry: &Entry, view: &View) -> Result<Sections, String> {
    let zero = TimeZero::of(&view.run);
    let since_start =
        |rank: Option<u32>, at: Option<i64>| Some(human_duration(zero.since_ns(rank, at?)));
    let findings = view.diagnosis.findings().into_iter().map(|finding| {
        let mut evidence = finding_lines(finding, &view.run, Detail::All);
        let cause = cause_lines(finding);
        // What the page shows anyway is not repeated.
        evidence.retain(|line| !cause.iter().any(|one| without_markup(one) == *line));
        evidence.pop();
        Finding {
            badge: Badge::of_level(finding.level()),
            line: finding.line_without_label().to_owned(),
            cause: cause.iter().map(|line| without_markup(line)).collect(),
            advice: without_markup(&finding.advice),
            evidence,
        }
    });
    let coverage = view.run.by_rank();
    let processes = view.run.processes.iter();
    let mut processes: Vec<_> = processes
        .map(|one| {
            let total = |at: usize| {
                let part = |column: &[i64]| column.get(at).copied().unwrap_or(0);
                part(&one.anonymous).saturating_add(part(&one.shared))
            };
            let peak = (0..one.t_ns.len()).map(total).max();
            let row = Process {
                pid: one.pid,
                rank: one.rank,
                name: one.name.clone(),
                role: one.role.as_str(),
                peak: size(peak),
                last: size(one.t_ns.len().checked_sub(1).map(total)),
                exited: match since_start(Some(one.rank), one.exited_ns) {
                    Some(offset) => format!("after {offset}"),
                    None if view.is_running => "no".to_owned(),
                    None => "at the end".to_owned(),
                },
            };
            (peak, row)
        })
        .collect();
    processes.sort_by_key(|(peak, _)| std::cmp::Reverse(*peak));
    let more_processes = processes.len().saturating_sub(MOST_PROCESSES);
    let steps = steps_section(&view.story).map_err(|error| error.to_string())?;
    Ok(Sections {
        id: entry.id.clone(),
        findings: findings.collect(),
        ranks: ranks(&view.story, &coverage),
        ranks_by: ranks_by(&view.story),
        more_ranks: coverage.len().saturating_sub(MOST_RANKS),
        processes: processes
            .into_iter()
            .take(MOST_PROCESSES)
            .map(|(_, row)| row)
            .collect(),
        more_processes,
        bundles: bundles(entry),
        snapshots: snapshots(view)
            .iter()
            .map(|file| {
                file.file_name()
                    .unwrap_or_default()
                    .to_string_lossy()
                    .into_owned()
            })
            .collect(),
        held: held_section(&view.story),
        steps: steps.unwrap_or_default(),
    })
}

fn without_markup(text: &str) -> String {
    text.replace('`', "")
}

/// The ranks, each with the deviation of its peak from the median of all ranks' peaks: the rank of
/// the leading finding first, then the largest deviation first. Empty if the run has only one rank.
fn ranks(story: &Story, coverage: &[RankCoverage]) -> Vec<Rank> {
    if coverage.len() < 2 {
        return Vec::new();
    }
    let leading = story.leading();
    // A leak of host memory is compared by host memory, which has no measure but the allocated.
    let is_of_host =
        leading.is_some_and(|(track, ..)| track.device_id < 0) && !story.hosts().is_empty();
    let measure = if is_of_host {
        Measure::Allocated
    } else {
        story.compared_measure()
    };
    let leader = leading.map(|(track, ..)| track.rank);
    let known = |rank: i64| {
        let tracks = if is_of_host {
            story.hosts()
        } else {
            story.tracks()
        };
        let tracks = tracks.iter().filter(move |track| track.rank == rank);
        tracks.map(move |track| {
            track
                .values(measure)
                .iter()
                .copied()
                .filter(|value| *value != UNKNOWN)
        })
    };
    let peak = |rank: i64| known(rank).flatten().max();
    let last = |rank: i64| known(rank).filter_map(Iterator::last).max();
    let median = median(coverage.iter().filter_map(|one| peak(one.rank)).collect());
    let mut order: Vec<(Option<i64>, &RankCoverage)> = coverage
        .iter()
        .map(|one| {
            (
                peak(one.rank)
                    .zip(median)
                    .map(|(peak, median)| peak.saturating_sub(median)),
                one,
            )
        })
        .collect();
    order.sort_by_key(|(deviation, one)| {
        let size = std::cmp::Reverse(deviation.map(i64::saturating_abs));
        (Some(one.rank) != leader, size)
    });
    let deviations = order.iter().filter_map(|(deviation, _)| *deviation);
    let largest = deviations
        .map(i64::saturating_abs)
        .max()
        .unwrap_or(1)
        .max(1);
    let row = |(deviation, rank): &(Option<i64>, &RankCoverage)| Rank {
        number: rank.rank,
        host: rank.host.clone(),
        peak: size(peak(rank.rank)),
        last: size(last(rank.rank)),
        deviation: deviation.map_or_else(
            || "unknown".to_owned(),
            |bytes| {
                let sign = if bytes < 0 { "−" } else { "+" };
                format!("{sign}{}", bytes::human(bytes.saturating_abs()))
            },
        ),
        share: deviation.map_or(0, |deviation| {
            deviation.saturating_abs().saturating_mul(100) / largest
        }),
        samples: rank.samples,
        gaps: if rank.gaps == 0 {
            "none".to_owned()
        } else {
            format!(
                "{}, longest {}",
                rank.gaps,
                human_duration(rank.longest_gap_ns)
            )
        },
    };
    order.iter().take(MOST_RANKS).map(row).collect()
}

/// What the table of ranks compares, and its order.
fn ranks_by(story: &Story) -> String {
    let what = match story.leading() {
        Some((track, ..)) if track.device_id < 0 => "host memory",
        _ => story.compared_measure().as_str(),
    };
    match story.leading() {
        Some((track, ..)) => format!("{what}: rank {} of the finding first", track.rank),
        None => format!("{what}: the largest deviation from the median peak first"),
    }
}

/// The median of the values; for an even number of values, the lower of the two in the middle, so
/// that of two ranks only the one that uses more deviates.
fn median(mut values: Vec<i64>) -> Option<i64> {
    values.sort_unstable();
    values.get(values.len().checked_sub(1)? / 2).copied()
}

/// Lists the OOM bundles of a run, the folders that were written when memory ran out.
fn bundles(entry: &Entry) -> Vec<Bundle> {
    let found = Catalog::open(&entry.oom_bundles).oom_bundles;
    let bundle = |bundle: &OomBundle| {
        let folder = bundle.bundle_path.file_name().unwrap_or_default();
        let facts = [
            ("reason", &bundle.reason),
            ("backend", &bundle.backend),
            ("written", &bundle.created_at_utc),
        ];
        let facts = facts.into_iter();
        Bundle {
            name: folder.to_string_lossy().into_owned(),
            facts: facts
                .filter_map(|(name, value)| Some((name, value.as_ref()?.to_string())))
                .collect(),
        }
    };
    found.iter().map(bundle).collect()
}

/// Lists the snapshots of PyTorch's allocator beside the recordings of a run, ordered by name.
fn snapshots(view: &View) -> Vec<PathBuf> {
    let mut found: Vec<PathBuf> = Vec::new();
    for folder in &view.folders {
        let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
        let files = entries.map(|entry| entry.path());
        found.extend(files.filter(|file| is_snapshot(file)).take(MOST_SNAPSHOTS));
    }
    found.sort();
    found.truncate(MOST_SNAPSHOTS);
    found
}

/// Whether a file is a snapshot. Symbolic links are rejected, because they may lead out of the
/// served folders.
fn is_snapshot(file: &FilePath) -> bool {
    let is_file = file.symlink_metadata().is_ok_and(|facts| facts.is_file());
    let ending = file.extension().unwrap_or_default();
    is_file && (ending == "pickle" || ending == "pkl") && is_pickle(file)
}

/// Serves the timeline of a run as an SVG picture, for browsers that run no scripts.
pub(crate) async fn picture(
    State(app): State<Arc<App>>,
    Path(id): Path<String>,
) -> Result<Response, Response> {
    let made = found(move || {
        let entry = app.entry(&id)?;
        Some(
            app.kept_or(&format!("picture {id}"), entry.stamp.value, || {
                let view = app.load(&entry)?;
                let canvas = Canvas {
                    theme: Theme::Light,
                    ..Canvas::default()
                };
                let scene = draw(&view.story, PictureKind::Timeline, canvas);
                scene
                    .map(|scene| to_svg(&scene))
                    .map_err(|error| error.to_string())
            }),
        )
    });
    let svg = made.await?;
    let svg = svg.map_err(|error| message(StatusCode::NOT_FOUND, "No picture", &error))?;
    let kind = [(header::CONTENT_TYPE, "image/svg+xml")];
    Ok((kind, svg.as_ref().to_owned()).into_response())
}

/// Serves a page that shows one of the run's snapshots of PyTorch's allocator; `number` is its
/// index in the list of snapshots.
pub(crate) async fn snapshot(
    State(app): State<Arc<App>>,
    Path((id, number)): Path<(String, usize)>,
) -> Result<Response, Response> {
    let made = found(move || {
        let entry = app.entry(&id)?;
        let view = app.load(&entry).ok()?;
        let file = snapshots(&view).into_iter().nth(number)?;
        Some(snapshot_page(&file))
    });
    let page = made.await?;
    let page =
        page.map_err(|error| message(StatusCode::UNPROCESSABLE_ENTITY, "Snapshot", &error))?;
    // The page is made for files (`stormlog plot`) and has an inline script and an inline style,
    // which the server's content security policy would forbid. The page contains a policy of its
    // own, which allows its script and style by their hashes; this policy is sent as a header.
    let policy = policy_in(&page).unwrap_or("default-src 'none'".to_owned());
    let headers = [
        (header::CONTENT_TYPE, "text/html; charset=utf-8".to_owned()),
        (
            header::CONTENT_SECURITY_POLICY,
            policy + "; frame-ancestors 'none'",
        ),
    ];
    Ok((headers, page).into_response())
}

fn snapshot_page(file: &FilePath) -> Result<String, String> {
    let name = file.file_name().unwrap_or_default().to_string_lossy();
    let failure = |error: &dyn std::fmt::Display| format!("cannot draw '{name}': {error}");
    let bytes = read(file).map_err(|error| failure(&error))?;
    let snapshot = Snapshot::parse(&bytes).map_err(|error| failure(&error))?;
    let device = snapshot.devices().into_iter().next();
    let device = device.ok_or_else(|| failure(&"no device memory was allocated"))?;
    let account = Account::of(&snapshot, &Owners::default(), device);
    allocator_page(&account, Theme::System).map_err(|error| failure(&error))
}

/// The content security policy in the `<meta>` element of an HTML page.
fn policy_in(page: &str) -> Option<String> {
    let (_, rest) = page.split_once("http-equiv=\"Content-Security-Policy\" content=\"")?;
    let (policy, _) = rest.split_once('"')?;
    Some(policy.replace("&#39;", "'"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_two_ranks_the_one_that_uses_more_deviates() {
        assert_eq!(median(vec![4, 2]), Some(2));
        assert_eq!(median(vec![9, 1, 2]), Some(2));
        assert_eq!(median(Vec::new()), None);
    }

    #[test]
    fn the_policy_of_a_page_for_files_becomes_a_header() {
        let page =
            "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src &#39;none&#39;\">";
        assert_eq!(policy_in(page).as_deref(), Some("default-src 'none'"));
    }
}
