//! `stormlog show`: prints what an artifact contains on one screen.

use std::borrow::Cow;
use std::path::{Path, PathBuf};

use schemars::JsonSchema;
use serde::Serialize;
use stormlog_analysis::allocator_snapshot::is_pickle;
use stormlog_analysis::timeline::{
    self, End, Member, ResourceCoverage, Run, newest_first, read_oom_bundles, run_of,
};
use stormlog_analysis::{Damage, Gathered, Loaded, LoadedSession, Overview, Peak, Removed};
use stormlog_format::{SessionStatus, Text, counted, human_duration};
use stormlog_report::analyze::ledger_text;
use stormlog_report::escape::{for_terminal, path_for_terminal};
use stormlog_report::{
    LedgerKeys, bytes, ledger_lines, ledgers, limits_of_recording, removed_lines, time, wrap,
};

use super::allocator_snapshot;
use super::artifact::{listed, warn_of_damage};
use super::newest_run::given_or_newest;
use super::run_files::{load, note_skipped};
use crate::Exit;
use crate::console::Console;
use crate::machine::settle_statuses;

/// Show the content of an artifact: sessions, time span, ranks, peaks, damage
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  stormlog show
  stormlog show run/sink
  stormlog show events.json.gz
  stormlog show --json run/sink | jq '.sessions[].peak_allocated_bytes'
  stormlog show cuda_allocator_snapshot.pickle")]
pub(crate) struct Arguments {
    /// Sink, segment, JSON, JSONL or CSV file (also .gz and .zst), bundle, folder of these, or
    /// snapshot of PyTorch's allocator [default: the newest run in stormlog-runs]
    path: Option<PathBuf>,
    /// Skip and list records that cannot be read
    #[arg(long)]
    skip_damaged: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// The largest number of sessions that the text output lists; `--json` lists all of them.
const ROWS: usize = 20;
/// The largest number of devices for which the text lists what uses their memory; `--json` prints
/// these lists for all devices.
const LEDGERS: usize = 8;

pub(crate) fn run(arguments: &Arguments, console: &mut Console<'_>) -> anyhow::Result<Exit> {
    if let Some(path) = arguments.path.as_deref().filter(|path| is_pickle(path)) {
        allocator_snapshot::show(path, arguments.json, console)?;
        return Ok(Exit::Fine);
    }
    let paths = given_or_newest(arguments.path.as_slice(), console)?;
    let mut gathered = load(&paths, arguments.skip_damaged, console)?;
    note_skipped(&gathered.skipped, console)?;
    let sessions = gathered.loaded.iter_mut().flat_map(|one| &mut one.sessions);
    settle_statuses(sessions);
    let runs = runs_of(&gathered);
    let loaded = gathered.joined();
    if arguments.json {
        let path = paths[0].to_string_lossy();
        let runs = runs.into_iter().map(RunKeys::of).collect();
        console.print_json(&Document::of(path, &loaded, runs))?;
    } else {
        let limits = limits_of_recording(runs.iter().map(|(run, _)| run));
        print(&paths[0], &loaded, limits, console)?;
        if let Some((run, _)) = runs.first() {
            let ledgers = ledger_texts(run, console.width());
            write!(console.out, "{ledgers}")?;
        }
        warn_of_damage(&loaded.damage, console)?;
    }
    Ok(Exit::Fine)
}

fn print(
    path: &Path,
    loaded: &Loaded,
    limits: Vec<(&'static str, String)>,
    console: &mut Console<'_>,
) -> anyhow::Result<()> {
    let all = Overview::of(&loaded.sessions);
    writeln!(
        console.out,
        "{path}: {events} in {sessions}",
        path = path_for_terminal(path),
        events = counted(all.events, "event"),
        sessions = counted(loaded.sessions.len(), "session")
    )?;
    let mut fact =
        |name: &str, text: String| writeln!(console.out, "  {name:<10} {}", for_terminal(&text));
    if let Some((first, last)) = all.first_timestamp_ns.zip(all.last_timestamp_ns) {
        let length = human_duration(last.saturating_sub(first));
        fact(
            "recorded",
            format!(
                "{} to {} ({length})",
                time::moment(first),
                time::moment(last)
            ),
        )?;
    }
    if !all.jobs.is_empty() {
        fact("job", listed(all.jobs.iter()))?;
    }
    fact("host", listed(all.hosts.iter()))?;
    fact(
        "ranks",
        format!(
            "{ranks} of {world_size}",
            ranks = ranges(all.ranks.iter().copied()),
            world_size = all.world_size.max(1)
        ),
    )?;
    fact("peak", peaks(&all))?;
    let damage = match loaded.damage.len() {
        0 => "none".to_owned(),
        count => count.to_string(),
    };
    fact("damage", damage)?;
    for (label, text) in limits.into_iter().chain(removed_lines(&loaded.removed)) {
        fact(label, text)?;
    }
    writeln!(console.out)?;
    table(&loaded.sessions, console)
}

/// The columns of the table of sessions with their widths; the first two columns are aligned left.
const COLUMNS: [(&str, usize); 7] = [
    ("session", 36),
    ("status", 11),
    ("rank", 5),
    ("events", 9),
    ("length", 12),
    ("allocated", 10),
    ("used", 10),
];
/// Columns of the table of sessions that can be left out on a narrow terminal, least important
/// first.
const OPTIONAL: [&str; 4] = ["length", "events", "rank", "allocated"];

/// The columns to leave out so that the table of sessions fits into `width` characters.
fn dropped(width: usize) -> &'static [&'static str] {
    let fits = |dropped: &&[&str]| {
        let kept = COLUMNS.iter().filter(|(name, _)| !dropped.contains(name));
        // In the table of sessions, one space separates each column from the previous one, and the
        // table is indented by one space.
        kept.map(|(_, width)| width + 1).sum::<usize>() < width
    };
    let shorter = (0..OPTIONAL.len()).map(|count| &OPTIONAL[..count]);
    shorter.into_iter().find(fits).unwrap_or(&OPTIONAL)
}

fn table(sessions: &[LoadedSession], console: &mut Console<'_>) -> anyhow::Result<()> {
    let width = console.out_is_terminal.then(|| console.width());
    let dropped = width.map_or(&[][..], dropped);
    let mut line = |cells: [String; COLUMNS.len()]| {
        write!(console.out, " ")?;
        for (index, ((name, width), cell)) in COLUMNS.iter().zip(cells).enumerate() {
            match index {
                _ if dropped.contains(name) => {}
                0 | 1 => write!(console.out, " {cell:<width$}")?,
                _ => write!(console.out, " {cell:>width$}")?,
            }
        }
        writeln!(console.out)
    };
    line(COLUMNS.map(|(name, _)| name.to_owned()))?;
    for session in sessions.iter().take(ROWS) {
        let overview = Overview::of([session]);
        let times = overview.first_timestamp_ns.zip(overview.last_timestamp_ns);
        let length = times.map_or("-".into(), |(first, last)| human_duration(last - first));
        let peak =
            |peak: Option<Peak>| peak.map_or("unknown".into(), |peak| bytes::human(peak.bytes));
        line([
            for_terminal(&session.summary.session_id.to_string()).into_owned(),
            session.summary.status.as_str().to_owned(),
            session.summary.rank.to_string(),
            overview.events.to_string(),
            length,
            peak(overview.allocated),
            peak(overview.used),
        ])?;
    }
    if sessions.len() > ROWS {
        writeln!(
            console.out,
            "  and {more}; --json lists all",
            more = counted(sessions.len() - ROWS, "more session")
        )?;
    }
    if !dropped.is_empty() {
        let note = format!(
            "Columns not shown: {} (use a wider terminal or --json)",
            dropped.join(", ")
        );
        writeln!(console.out, "\n{}", wrap(&note, "", width.unwrap_or(80)))?;
    }
    Ok(())
}

fn peaks(overview: &Overview) -> String {
    let one = |name: &str, peak: Option<Peak>| match peak {
        None => format!("{name} unknown"),
        Some(peak) => format!("{name} {} (rank {})", bytes::human(peak.bytes), peak.rank),
    };
    let total = overview
        .total_bytes
        .map_or("a device of unknown size".into(), bytes::human);
    format!(
        "{allocated}, {reserved}, {used} of {total}",
        allocated = one("allocated", overview.allocated),
        reserved = one("reserved", overview.reserved),
        used = one("used", overview.used),
    )
}

/// Formats sorted numbers as a list of ranges, such as `0-3,5,8-9`.
fn ranges(numbers: impl IntoIterator<Item = i64>) -> String {
    let mut runs: Vec<(i64, i64)> = Vec::new();
    for number in numbers {
        match runs.last_mut() {
            Some((_, last)) if *last + 1 == number => *last = number,
            _ => runs.push((number, number)),
        }
    }
    let run = |(first, last): (i64, i64)| {
        if first == last {
            first.to_string()
        } else {
            format!("{first}-{last}")
        }
    };
    runs.into_iter().map(run).collect::<Vec<_>>().join(",")
}

/// What an artifact contains. Peaks that were never known are null. For a snapshot of PyTorch's
/// allocator, the document is described by show-allocator-snapshot.schema.json instead.
#[derive(Serialize, JsonSchema)]
pub(crate) struct Document<'a> {
    path: Cow<'a, str>,
    #[serde(flatten)]
    all: Overview,
    sessions: Vec<SessionKeys<'a>>,
    /// The runs, the newest first, with the same numbers as in `stormlog analyze`.
    runs: Vec<RunKeys>,
    damage: &'a [Damage],
    #[serde(flatten)]
    removed: Removed,
}

impl<'a> Document<'a> {
    fn of(path: Cow<'a, str>, loaded: &'a Loaded, runs: Vec<RunKeys>) -> Self {
        Self {
            path,
            all: Overview::of(&loaded.sessions),
            sessions: loaded.sessions.iter().map(SessionKeys::of).collect(),
            runs,
            damage: &loaded.damage,
            removed: loaded.removed,
        }
    }
}

#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Session")]
struct SessionKeys<'a> {
    #[serde(flatten)]
    overview: Overview,
    session_id: &'a Text,
    status: SessionStatus,
    started_at_ns: i64,
    ended_at_ns: Option<i64>,
    host: &'a Text,
    pid: i64,
    job_id: Option<&'a Text>,
    rank: i64,
    local_rank: i64,
    /// What recorded the session; artifact:<file name> if no manifest lists the session.
    source: &'a Text,
    /// The files from which the events of the session were loaded.
    sources_loaded: &'a [String],
}

impl<'a> SessionKeys<'a> {
    fn of(session: &'a LoadedSession) -> Self {
        let summary = &session.summary;
        Self {
            overview: Overview::of([session]),
            session_id: &summary.session_id,
            status: summary.status,
            started_at_ns: summary.started_at_ns,
            ended_at_ns: summary.ended_at_ns,
            host: &summary.host,
            pid: summary.pid,
            job_id: summary.job_id.as_ref(),
            rank: summary.rank,
            local_rank: summary.local_rank,
            source: &summary.source,
            sources_loaded: &session.sources,
        }
    }
}

#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Run")]
struct RunKeys {
    /// The id of the run: the one that was recorded, or else the job id, or else the id of the first
    /// session.
    run_id: Option<String>,
    program: Option<String>,
    /// The name that the user gave the run with `stormlog run --name`.
    name: Option<String>,
    session_ids: Vec<Text>,
    end: End,
    /// What was recorded of each resource: the host memory and each device of each process.
    resources: Vec<ResourceCoverage>,
    /// What used the memory of each device when its ledger was last recorded.
    ledgers: Vec<LedgerKeys>,
}

impl RunKeys {
    fn of((run, session_ids): (Run, Vec<Text>)) -> Self {
        Self {
            session_ids,
            end: run.end(),
            resources: run.by_resource(),
            ledgers: ledgers(&run),
            run_id: run.id,
            program: run.program.name,
            name: run.program.run_name,
        }
    }
}

/// Each run of the artifact with the ids of its sessions, the newest first.
fn runs_of(gathered: &Gathered) -> Vec<(Run, Vec<Text>)> {
    let numbered = gathered.loaded.iter().enumerate();
    let mut sessions: Vec<(usize, &LoadedSession)> = numbered
        .flat_map(|(artifact, one)| one.sessions.iter().map(move |session| (artifact, session)))
        .collect();
    newest_first(&mut sessions, |(_, session)| session);
    let members = sessions.iter().map(Member::of_pair);
    let run = |indices: Vec<usize>| {
        let sessions: Vec<&LoadedSession> = indices.iter().map(|&one| sessions[one].1).collect();
        let mut run = run_of(&sessions);
        read_oom_bundles(&mut run, &sessions);
        let ids = sessions.iter().map(|one| one.summary.session_id.clone());
        (run, ids.collect())
    };
    let runs = timeline::runs_newest_first(members);
    runs.into_iter().map(run).collect()
}

/// Describes as text what used the memory of the devices of a run, for at most `LEDGERS` devices.
fn ledger_texts(run: &Run, width: usize) -> String {
    let mut text = String::new();
    for ledger in ledger_lines(run, LEDGERS) {
        ledger_text(&mut text, &ledger, width);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::{dropped, ranges};

    #[test]
    fn a_narrow_terminal_has_fewer_columns() {
        assert_eq!(dropped(101), [""; 0]);
        assert_eq!(dropped(100), ["length"]);
        assert_eq!(dropped(80), ["length", "events"]);
        assert_eq!(dropped(20), ["length", "events", "rank", "allocated"]);
    }

    #[test]
    fn runs_of_ranks() {
        assert_eq!(ranges([0, 1, 2, 3, 5, 8, 9]), "0-3,5,8-9");
        assert_eq!(ranges([]), "");
    }
}
