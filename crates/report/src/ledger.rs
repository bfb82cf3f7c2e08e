//! What uses each device of a run: as lines for people and as JSON.

use serde_json::{Value, json};
use stormlog_analysis::timeline::{Ledger, LedgerEntry, Owner, Resource, Run, Site, Track};

use crate::{bytes, time};

/// Lines of one ledger; the smallest entries are summed up.
const MOST_LINES: usize = 10;

/// The devices of a run whose ledger is known, each with its last one.
fn known(run: &Run) -> impl Iterator<Item = (&Track, &Ledger)> {
    let devices = run.tracks.iter();
    devices.filter_map(|track| Some((track, track.ledger.as_ref()?)))
}

/// What uses one device, in words.
pub struct LedgerLines {
    /// `What uses GPU 0 (4.62 GiB at 2026-11-16 12:00:05 UTC)`.
    pub title: String,
    /// How much and who, the most bytes first, and last what is not explained.
    pub lines: Vec<(String, String)>,
    /// What could not be read, as one sentence.
    pub unknown: Option<String>,
}

impl LedgerLines {
    /// All of it in one line of text.
    pub fn sentence(&self) -> String {
        let lines = self.lines.iter();
        let lines = lines.map(|(size, name)| format!("{size} {name}"));
        let lines = lines.collect::<Vec<_>>().join(", ");
        let unknown = self.unknown.as_ref();
        let unknown = unknown.map_or(String::new(), |unknown| format!(". {unknown}"));
        format!("{}: {lines}{unknown}", self.title)
    }
}

/// The ledgers of a run, at most so many: those with the most memory in use.
pub fn ledger_lines(run: &Run, most: usize) -> Vec<LedgerLines> {
    let mut found: Vec<_> = known(run).collect();
    found.sort_by_key(|(_, ledger)| std::cmp::Reverse(ledger.used_bytes));
    let several = run.tracks.iter().any(|track| track.rank > 0);
    let shown = found.into_iter().take(most);
    shown
        .map(|(track, ledger)| lines(track, ledger, several))
        .collect()
}

fn lines(track: &Track, ledger: &Ledger, several: bool) -> LedgerLines {
    let rank = if several {
        format!(" of rank {}", track.rank)
    } else {
        String::new()
    };
    let at = time::moment(ledger.at_ns);
    let used = ledger.used_bytes.map(bytes::human);
    let used = used.map_or(String::new(), |used| format!("{used} "));
    let title = format!("What uses GPU {}{rank} ({used}at {at})", track.device_id);
    let mut entries: Vec<&LedgerEntry> = ledger.entries.iter().collect();
    entries.sort_by_key(|entry| std::cmp::Reverse(entry.bytes));
    let rest = entries.split_off(entries.len().min(MOST_LINES));
    let mut lines: Vec<(String, String)> = entries
        .iter()
        .map(|entry| (bytes::human(entry.bytes), name(&entry.owner)))
        .collect();
    if !rest.is_empty() {
        let sum = rest
            .iter()
            .map(|entry| entry.bytes)
            .fold(0, i64::saturating_add);
        lines.push((bytes::human(sum), format!("{} smaller ones", rest.len())));
    }
    lines.push(match (ledger.rest_bytes, ledger.used_bytes) {
        (Some(rest), Some(used)) if used > 0 => {
            let percent = share(rest, used) * 100.0;
            (
                bytes::human(rest),
                format!("not explained ({percent:.1} %)"),
            )
        }
        _ => ("unknown".to_owned(), "not explained".to_owned()),
    });
    if ledger.managed_bytes > 0 {
        let what = "managed memory, on the device or on the host, in no sum";
        lines.push((bytes::human(ledger.managed_bytes), what.to_owned()));
    }
    let unknown =
        (!ledger.unknown.is_empty()).then(|| format!("Not known: {}", ledger.unknown.join(", ")));
    LedgerLines {
        title,
        lines,
        unknown,
    }
}

#[expect(clippy::cast_precision_loss, reason = "a share for people")]
fn share(part: i64, whole: i64) -> f64 {
    part as f64 / whole as f64
}

fn name(owner: &Owner) -> String {
    match owner {
        Owner::Context => "CUDA context of this process".to_owned(),
        Owner::Pool => "PyTorch's pool".to_owned(),
        Owner::PrivatePools(1) => "PyTorch's private pool (CUDA graphs)".to_owned(),
        Owner::PrivatePools(count) => format!("PyTorch's {count} private pools (CUDA graphs)"),
        Owner::Library { name, site } => {
            let name = name.as_deref().unwrap_or("a caller that is not known");
            let at = site.as_ref().map(Site::place);
            at.map_or(name.to_owned(), |at| format!("{name}, called at {at}"))
        }
        Owner::Process {
            pid: Some(pid),
            name,
        } => match name {
            Some(name) => format!("process {pid} ({name})"),
            None => format!("process {pid}"),
        },
        Owner::Process { .. } => "further processes".to_owned(),
    }
}

/// The ledgers of a run as JSON.
pub fn ledgers_json(run: &Run) -> Value {
    let devices = known(run).map(|(track, ledger)| {
        let index = match track.resource() {
            Resource::Device(index) => Some(index),
            Resource::Host => None,
        };
        json!({
            "rank": track.rank,
            "device_id": index,
            "timestamp_ns": ledger.at_ns,
            "used_bytes": ledger.used_bytes,
            "entries": ledger.entries.iter().map(entry).collect::<Vec<_>>(),
            "rest_bytes": ledger.rest_bytes,
            "managed_bytes": ledger.managed_bytes,
            "unknown": ledger.unknown,
        })
    });
    devices.collect()
}

fn entry(entry: &LedgerEntry) -> Value {
    let (owner, name, pid, site) = match &entry.owner {
        Owner::Context => ("context", None, None, None),
        Owner::Pool => ("pool", None, None, None),
        Owner::PrivatePools(_) => ("private_pools", None, None, None),
        Owner::Library { name, site } => ("library", name.as_deref(), None, site.as_ref()),
        Owner::Process { pid, name } => ("process", name.as_deref(), *pid, None),
    };
    json!({
        "owner": owner,
        "name": name,
        "pid": pid,
        "site": site.map(|site| json!({
            "file": site.file,
            "line": site.line,
            "function": site.function,
            "source_text": site.source_text,
        })),
        "bytes": entry.bytes,
    })
}
