//! Lists what uses the memory of each device of a run (its ledger): as lines for people and as
//! JSON.

use schemars::JsonSchema;
use serde::Serialize;
use stormlog_analysis::timeline::{Ledger, LedgerEntry, Owner, Resource, Run, Site, Track};

use crate::held::device;
use crate::{bytes, time};

/// The largest number of users of a device that are listed with a line each; the smaller ones are
/// summed up in one further line.
const MOST_LINES: usize = 10;

/// The devices of a run that have a recorded ledger (the list of what uses the device's memory),
/// each with its last recorded ledger.
fn known(run: &Run) -> impl Iterator<Item = (&Track, &Ledger)> {
    let devices = run.tracks.iter();
    devices.filter_map(|track| Some((track, track.ledger.as_ref()?)))
}

/// The list of what uses the memory of one device (its ledger), as text.
#[derive(Clone, Debug, PartialEq)]
pub struct LedgerLines {
    /// The title of the list, such as `What uses GPU 0 (4.62 GiB at 2026-11-16 12:00:05 UTC)`.
    pub title: String,
    /// The users of the memory (the CUDA context, PyTorch's pools, libraries, other processes), the
    /// largest first; then a line for the memory that no user explains. CUDA managed memory, if
    /// there is any, is the last line.
    pub lines: Vec<LedgerLine>,
    /// A sentence that names what could not be read; `None` if everything was read.
    pub unknown: Option<String>,
}

/// One user of the device's memory, such as PyTorch's pool or another process, with the amount.
#[derive(Clone, Debug, PartialEq)]
pub struct LedgerLine {
    /// How much memory the user holds, such as `1.50 GiB`, or `unknown`.
    pub size: String,
    /// The name of the user, such as `CUDA context of this process` or `process 4711 (python)`.
    pub name: String,
    /// The user's share of the memory in use on the device; `None` if either number is unknown.
    pub share: Option<f64>,
}

impl LedgerLines {
    /// Renders the whole list on one line of text: the title, all lines, and the sentence in
    /// `unknown`.
    pub fn sentence(&self) -> String {
        let lines = self.lines.iter();
        let lines = lines.map(|line| format!("{} {}", line.size, line.name));
        let lines = lines.collect::<Vec<_>>().join(", ");
        let unknown = self.unknown.as_ref();
        let unknown = unknown.map_or(String::new(), |unknown| format!(". {unknown}"));
        format!("{}: {lines}{unknown}", self.title)
    }
}

/// Lists what uses the memory of at most `most` devices of a run: those with the most memory in
/// use.
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
    let at = time::moment(ledger.at_ns);
    let used = ledger.used_bytes.map(bytes::human);
    let used = used.map_or(String::new(), |used| format!("{used} "));
    let title = format!("What uses {} ({used}at {at})", device(track, several));
    let mut entries: Vec<&LedgerEntry> = ledger.entries.iter().collect();
    entries.sort_by_key(|entry| std::cmp::Reverse(entry.bytes));
    let rest = entries.split_off(entries.len().min(MOST_LINES));
    let of = |bytes: i64, name: String| LedgerLine {
        size: bytes::human(bytes),
        name,
        share: ledger.used_bytes.and_then(|used| share(bytes, used)),
    };
    let shown = entries.iter();
    let mut lines: Vec<LedgerLine> = shown
        .map(|entry| of(entry.bytes, name(&entry.owner)))
        .collect();
    if !rest.is_empty() {
        let sizes = rest.iter().map(|entry| entry.bytes);
        let sum = sizes.fold(0, i64::saturating_add);
        lines.push(of(sum, format!("{} smaller ones", rest.len())));
    }
    lines.push(match ledger.rest_bytes {
        Some(rest) => {
            let mut line = of(rest, "not explained".to_owned());
            if let Some(share) = line.share {
                line.name = format!("not explained ({:.1} %)", share * 100.0);
            }
            line
        }
        None => LedgerLine {
            size: "unknown".to_owned(),
            name: "not explained".to_owned(),
            share: None,
        },
    });
    if ledger.managed_bytes > 0 {
        let what = "managed memory, on the device or on the host, not added to the other lines";
        lines.push(LedgerLine {
            share: None,
            ..of(ledger.managed_bytes, what.to_owned())
        });
    }
    let unknown =
        (!ledger.unknown.is_empty()).then(|| format!("Not known: {}", ledger.unknown.join(", ")));
    LedgerLines {
        title,
        lines,
        unknown,
    }
}

fn share(part: i64, whole: i64) -> Option<f64> {
    (whole > 0).then(|| part as f64 / whole as f64)
}

fn name(owner: &Owner) -> String {
    match owner {
        Owner::Context => "CUDA context of this process".to_owned(),
        Owner::Pool => "PyTorch's pool".to_owned(),
        Owner::PrivatePools(1) => "PyTorch's private pool (CUDA graphs)".to_owned(),
        Owner::PrivatePools(count) => format!("PyTorch's {count} private pools (CUDA graphs)"),
        Owner::Library { name, site } => {
            let name = name.as_deref().unwrap_or("an unknown library");
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

/// What used a device when its ledger was last recorded. Unknown values are null.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "Ledger")]
pub struct LedgerKeys {
    rank: u32,
    device_id: Option<i64>,
    timestamp_ns: i64,
    used_bytes: Option<i64>,
    entries: Vec<EntryKeys>,
    /// The bytes in use that no entry of the ledger explains.
    rest_bytes: Option<i64>,
    /// Bytes of CUDA managed memory, which can be on the device or on the host and is therefore
    /// not counted in `entries`.
    managed_bytes: i64,
    /// What could not be read; its memory is part of `rest_bytes`.
    unknown: Vec<String>,
}

#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "LedgerEntry")]
struct EntryKeys {
    #[schemars(extend("enum" = ["context", "pool", "private_pools", "library", "process"]))]
    owner: &'static str,
    name: Option<String>,
    pid: Option<i64>,
    site: Option<Site>,
    bytes: i64,
}

/// Makes the lists of what uses the memory of each device of a run (the ledgers), for JSON
/// documents.
pub fn ledgers(run: &Run) -> Vec<LedgerKeys> {
    let devices = known(run).map(|(track, ledger)| LedgerKeys {
        rank: track.rank,
        device_id: match track.resource() {
            Resource::Device(index) => Some(index),
            Resource::Host => None,
        },
        timestamp_ns: ledger.at_ns,
        used_bytes: ledger.used_bytes,
        entries: ledger.entries.iter().map(entry).collect(),
        rest_bytes: ledger.rest_bytes,
        managed_bytes: ledger.managed_bytes,
        unknown: ledger.unknown.clone(),
    });
    devices.collect()
}

fn entry(entry: &LedgerEntry) -> EntryKeys {
    let (owner, name, pid, site) = match entry.owner.clone() {
        Owner::Context => ("context", None, None, None),
        Owner::Pool => ("pool", None, None, None),
        Owner::PrivatePools(_) => ("private_pools", None, None, None),
        Owner::Library { name, site } => ("library", name, None, site),
        Owner::Process { pid, name } => ("process", name, pid, None),
    };
    EntryKeys {
        owner,
        name,
        pid,
        site,
        bytes: entry.bytes,
    }
}
