//! `stormlog show`: what an artifact holds, in a screenful.

use std::path::PathBuf;

use serde_json::{Value, json};
use stormlog_analysis::allocator_snapshot::is_pickle;
use stormlog_analysis::timeline::{self, Member, newest_first, read_oom_bundles, run_of};
use stormlog_analysis::{
    Gathered, LoadOptions, Loaded, LoadedSession, OnError, Overview, Peak, gather,
};
use stormlog_report::analyze::{end, ledger_text, resources};
use stormlog_report::escape::for_terminal;
use stormlog_report::{
    add_removed, bytes, damage_json, ledger_lines, ledgers_json, removed_lines, time,
};

use super::allocator_snapshot;
use super::artifact::{load_failure, warn_of_damage};
use crate::Exit;
use crate::console::Console;
use crate::machine::settle_statuses;
use crate::progress::Progress;

/// Show the content of an artifact: sessions, time span, ranks, peaks, damage
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  stormlog show run/sink
  stormlog show events.json.gz
  stormlog show --json run/sink | jq '.sessions[].peak_allocated_bytes'
  stormlog show cuda_allocator_snapshot.pickle")]
pub(crate) struct Arguments {
    /// Sink, segment, JSON, JSONL or CSV file (also .gz and .zst), bundle, folder of these, or
    /// snapshot of PyTorch's allocator
    path: PathBuf,
    /// Skip and list records that cannot be read
    #[arg(long)]
    skip_damaged: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Sessions listed; `--json` lists all of them.
const ROWS: usize = 20;
/// Devices whose ledger is shown, likewise.
const LEDGERS: usize = 8;

pub(crate) fn run(arguments: &Arguments, console: &mut Console<'_>) -> anyhow::Result<Exit> {
    if is_pickle(&arguments.path) {
        allocator_snapshot::show(&arguments.path, arguments.json, console)?;
        return Ok(Exit::Fine);
    }
    let progress = Progress::through([&*arguments.path], console.err_is_terminal);
    let advance = |bytes| progress.advance(bytes);
    let options = LoadOptions {
        on_error: OnError::skip_if(arguments.skip_damaged),
        progress: &advance,
        ..LoadOptions::default()
    };
    let mut gathered = gather(std::slice::from_ref(&arguments.path), &options)
        .map_err(|(path, error)| load_failure(&error, &path, arguments.skip_damaged))?;
    drop(progress);
    let sessions = gathered.loaded.iter_mut().flat_map(|one| &mut one.sessions);
    settle_statuses(sessions);
    let (runs, ledgers) = runs_of(&gathered, console.width());
    let loaded = gathered.joined();
    if arguments.json {
        let document = as_json(&arguments.path.to_string_lossy(), &loaded, runs);
        writeln!(console.out, "{}", serde_json::to_string_pretty(&document)?)?;
    } else {
        print(&arguments.path.to_string_lossy(), &loaded, console)?;
        write!(console.out, "{ledgers}")?;
        warn_of_damage(&loaded.damage, console)?;
    }
    Ok(Exit::Fine)
}

fn print(path: &str, loaded: &Loaded, console: &mut Console<'_>) -> anyhow::Result<()> {
    let all = Overview::of(&loaded.sessions);
    let sessions = loaded.sessions.len();
    let plural = if sessions == 1 { "" } else { "s" };
    writeln!(
        console.out,
        "{}: {} events in {sessions} session{plural}",
        for_terminal(path),
        all.events
    )?;
    let mut fact =
        |name: &str, text: String| writeln!(console.out, "  {name:<10} {}", for_terminal(&text));
    if let Some((first, last)) = all.span_ns {
        let length = time::span(last.saturating_sub(first));
        fact(
            "recorded",
            format!(
                "{} to {} ({length})",
                time::moment(first),
                time::moment(last)
            ),
        )?;
    }
    let listed = |names: &std::collections::BTreeSet<String>| {
        let shown: Vec<&str> = names.iter().take(3).map(String::as_str).collect();
        let more = names.len().saturating_sub(3);
        let more = if more > 0 {
            format!(" and {more} more")
        } else {
            String::new()
        };
        format!("{}{more}", shown.join(", "))
    };
    if !all.jobs.is_empty() {
        fact("job", listed(&all.jobs))?;
    }
    fact("host", listed(&all.hosts))?;
    fact(
        "ranks",
        format!(
            "{} of {}",
            ranges(all.ranks.iter().copied()),
            all.world_size.max(1)
        ),
    )?;
    fact("peak", peaks(&all))?;
    let damage = match loaded.damage.len() {
        0 => "none".to_owned(),
        count => count.to_string(),
    };
    fact("damage", damage)?;
    for (label, text) in removed_lines(&loaded.removed) {
        fact(label, text)?;
    }
    writeln!(console.out)?;
    table(&loaded.sessions, console)
}

fn table(sessions: &[LoadedSession], console: &mut Console<'_>) -> anyhow::Result<()> {
    writeln!(
        console.out,
        "  {:<36} {:<11} {:>5} {:>9} {:>12} {:>10} {:>10}",
        "session", "status", "rank", "events", "length", "allocated", "used"
    )?;
    for session in sessions.iter().take(ROWS) {
        let overview = Overview::of([session]);
        let length = overview
            .span_ns
            .map_or("-".into(), |(first, last)| time::span(last - first));
        let peak =
            |peak: Option<Peak>| peak.map_or("unknown".into(), |peak| bytes::human(peak.bytes));
        let id = session.summary.session_id.to_string();
        writeln!(
            console.out,
            "  {:<36} {:<11} {:>5} {:>9} {length:>12} {:>10} {:>10}",
            for_terminal(&id),
            session.summary.status.as_str(),
            session.summary.rank,
            overview.events,
            peak(overview.allocated),
            peak(overview.used),
        )?;
    }
    if sessions.len() > ROWS {
        writeln!(
            console.out,
            "  and {} more; --json lists all",
            sessions.len() - ROWS
        )?;
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
        "{}, {}, {} of {total}",
        one("allocated", overview.allocated),
        one("reserved", overview.reserved),
        one("used", overview.used),
    )
}

/// `0-3,5,8-9`
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

/// What was recorded of each run, the newest first, with the numbers of `stormlog analyze`; and what
/// used the devices of the newest, as text.
fn runs_of(gathered: &Gathered, width: usize) -> (Value, String) {
    let numbered = gathered.loaded.iter().enumerate();
    let mut sessions: Vec<(usize, &LoadedSession)> = numbered
        .flat_map(|(artifact, one)| one.sessions.iter().map(move |session| (artifact, session)))
        .collect();
    newest_first(&mut sessions, |(_, session)| session);
    let members = sessions.iter().map(|(artifact, session)| Member {
        artifact: *artifact,
        session,
    });
    let mut text: Option<String> = None;
    let run = |indices: Vec<usize>| {
        let sessions: Vec<&LoadedSession> = indices.iter().map(|&one| sessions[one].1).collect();
        let mut run = run_of(&sessions);
        read_oom_bundles(&mut run, &sessions);
        text.get_or_insert_with(|| {
            let mut text = String::new();
            for ledger in ledger_lines(&run, LEDGERS) {
                ledger_text(&mut text, &ledger, width);
            }
            text
        });
        let ids = sessions
            .iter()
            .map(|session| session.summary.session_id.to_string());
        json!({
            "run_id": run.program.run_id,
            "program": run.program.name,
            "session_ids": ids.collect::<Vec<_>>(),
            "end": end(&run.end()),
            "resources": resources(&run),
            "ledgers": ledgers_json(&run),
        })
    };
    let runs = timeline::runs(members).into_iter().map(run).collect();
    (runs, text.unwrap_or_default())
}

fn as_json(path: &str, loaded: &Loaded, runs: Value) -> Value {
    let sessions: Vec<Value> = loaded.sessions.iter().map(session_json).collect();
    let mut document = overview_json(&Overview::of(&loaded.sessions));
    document["path"] = json!(path);
    document["sessions"] = json!(sessions);
    document["runs"] = runs;
    document["damage"] = loaded.damage.iter().map(damage_json).collect();
    add_removed(&mut document, &loaded.removed);
    document
}

fn session_json(session: &LoadedSession) -> Value {
    let summary = &session.summary;
    let mut object = overview_json(&Overview::of([session]));
    object["session_id"] = json!(summary.session_id.to_string());
    object["status"] = json!(summary.status.as_str());
    object["started_at_ns"] = json!(summary.started_at_ns);
    object["ended_at_ns"] = json!(summary.ended_at_ns);
    object["host"] = json!(summary.host.to_string());
    object["pid"] = json!(summary.pid);
    object["job_id"] = json!(summary.job_id.as_ref().map(ToString::to_string));
    object["rank"] = json!(summary.rank);
    object["local_rank"] = json!(summary.local_rank);
    object["source"] = json!(summary.source.to_string());
    object["sources_loaded"] = json!(session.sources);
    object
}

fn overview_json(overview: &Overview) -> Value {
    let peak = |peak: Option<Peak>| peak.map(|peak| peak.bytes);
    json!({
        "events": overview.events,
        "samples": overview.samples,
        "first_timestamp_ns": overview.span_ns.map(|(first, _)| first),
        "last_timestamp_ns": overview.span_ns.map(|(_, last)| last),
        "ranks": overview.ranks,
        "world_size": overview.world_size,
        "peak_allocated_bytes": peak(overview.allocated),
        "peak_reserved_bytes": peak(overview.reserved),
        "peak_used_bytes": peak(overview.used),
        "device_total_bytes": overview.total_bytes,
    })
}

#[cfg(test)]
mod tests {
    use super::ranges;

    #[test]
    fn runs_of_ranks() {
        assert_eq!(ranges([0, 1, 2, 3, 5, 8, 9]), "0-3,5,8-9");
        assert_eq!(ranges([]), "");
    }
}
