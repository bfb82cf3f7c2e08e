//! Shows and draws snapshots of PyTorch's allocator. Reading a snapshot needs neither PyTorch nor a
//! GPU.

use std::borrow::Cow;
use std::path::Path;

use schemars::JsonSchema;
use serde::Serialize;
use stormlog_analysis::allocator_snapshot::{
    Account, Holder, LiveBlock, Owners, SegmentUse, Snapshot, SnapshotError, Totals, read,
};
use stormlog_analysis::regular_file;
use stormlog_format::{counted, grouped, human_duration};
use stormlog_report::escape::for_terminal;
use stormlog_report::{Theme, allocator_page, bytes, time};

use crate::console::Console;
use crate::failure::hinted;

/// The file with the names of tensors, which `capture_cuda_snapshot_artifacts` writes beside a
/// snapshot.
const ATTRIBUTION: &str = "cuda_tensor_attribution.json";
/// The largest size in bytes of the file with tensor names; a larger file is not read.
const MOST_ATTRIBUTION_BYTES: u64 = 64 << 20;
/// The largest numbers of lines of code and of named tensors that the text output lists for one
/// device; `--json` prints more of them.
const HOLDERS: usize = 15;
const BLOCKS: usize = 10;

/// Prints what a snapshot of PyTorch's allocator contains, for `stormlog show`.
pub(crate) fn show(path: &Path, as_json: bool, console: &mut Console<'_>) -> anyhow::Result<()> {
    let accounts = accounts(path, console)?;
    let name = path.to_string_lossy();
    if as_json {
        let document = Document {
            path: name,
            kind: KIND,
            devices: accounts.iter().map(DeviceKeys::of).collect(),
        };
        return Ok(console.print_json(&document)?);
    }
    writeln!(
        console.out,
        "{}: snapshot of PyTorch's allocator",
        for_terminal(&name)
    )?;
    if accounts.is_empty() {
        writeln!(console.out, "  no device memory allocated")?;
    }
    for account in &accounts {
        print(account, console)?;
    }
    Ok(())
}

/// Draws the memory of the first device in a snapshot as an HTML page, for `stormlog plot`.
pub(crate) fn page(path: &Path, theme: Theme, console: &mut Console<'_>) -> anyhow::Result<String> {
    let accounts = accounts(path, console)?;
    let Some(first) = accounts.first() else {
        let message = format!("'{}' has no allocated device memory", path.display());
        return Err(hinted(
            anyhow::anyhow!("{}", for_terminal(&message)),
            "take the snapshot while tensors exist on a device",
        ));
    };
    if accounts.len() > 1 {
        writeln!(
            console.err,
            "note: the page shows only cuda:{}; render_attributed_html of the Python package draws \
             any device",
            first.device
        )?;
    }
    Ok(allocator_page(first, theme)?)
}

/// Reads a snapshot file and computes for each device which lines of code hold its memory.
fn accounts(path: &Path, console: &mut Console<'_>) -> anyhow::Result<Vec<Account>> {
    let failure = |error: SnapshotError| {
        let hint = match error {
            SnapshotError::TooLarge
            | SnapshotError::TooManyValues
            | SnapshotError::TooRepetitive => {
                "record a shorter history: \
                 torch.cuda.memory._record_memory_history(max_entries=100000) is usually enough"
            }
            SnapshotError::Io(_) => "check the path",
            _ => "a snapshot is written by torch.cuda.memory._dump_snapshot",
        };
        let message = format!("cannot read '{}': {error}", path.display());
        hinted(anyhow::anyhow!("{}", for_terminal(&message)), hint)
    };
    let bytes = read(path).map_err(failure)?;
    let snapshot = Snapshot::parse(&bytes).map_err(failure)?;
    if !snapshot.has_content() {
        let found = "the file has neither segments nor traces".to_owned();
        return Err(failure(SnapshotError::Malformed(found)));
    }
    let owners = owners(path, console)?;
    let devices = snapshot.devices().into_iter();
    Ok(devices
        .map(|device| Account::of(&snapshot, &owners, device))
        .collect())
}

fn owners(path: &Path, console: &mut Console<'_>) -> anyhow::Result<Owners> {
    let beside = path.with_file_name(ATTRIBUTION);
    let reason = match document_of_names(&beside) {
        Ok(None) => return Ok(Owners::default()),
        Ok(Some(document)) => match Owners::parse(&document) {
            Ok(owners) => return Ok(owners),
            Err(error) => error.to_string(),
        },
        Err(error) => error.to_string(),
    };
    let message = format!(
        "tensor names are not shown: cannot read '{}': {reason}",
        beside.display()
    );
    writeln!(console.err, "warning: {}", for_terminal(&message))?;
    Ok(Owners::default())
}

/// Reads the file with tensor names, if it exists; the number of bytes is limited while reading,
/// because the size in the file's metadata may be wrong.
fn document_of_names(path: &Path) -> std::io::Result<Option<Vec<u8>>> {
    let folder = path.parent().unwrap_or(Path::new("."));
    match regular_file::read_inside(folder, path, MOST_ATTRIBUTION_BYTES) {
        Ok(document) => Ok(Some(document)),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

fn print(account: &Account, console: &mut Console<'_>) -> anyhow::Result<()> {
    let totals = &account.totals;
    let out = &mut *console.out;
    writeln!(out, "\ncuda:{}", account.device)?;
    let mut fact = |name: &str, text: String| writeln!(out, "  {name:<10} {text}");
    match (account.moments.first(), account.moments.last()) {
        (Some(first), Some(last)) if account.has_times => fact(
            "recorded",
            format!(
                "{events}, {first} to {last} ({span})",
                events = counted(totals.events, "event"),
                first = time::moment(first.time_ns),
                last = time::moment(last.time_ns),
                span = human_duration(last.time_ns.saturating_sub(first.time_ns))
            ),
        )?,
        (Some(_), _) => fact("recorded", counted(totals.events, "event"))?,
        _ => fact(
            "recorded",
            "no history of allocations, only the current state".into(),
        )?,
    }
    if let (Some(live), Some(reserved)) = (totals.peak_requested_bytes, totals.peak_reserved_bytes)
    {
        fact(
            "peak",
            format!(
                "live {}, reserved {}",
                bytes::human(live),
                bytes::human(reserved)
            ),
        )?;
    }
    fact(
        "live",
        format!(
            "{live} in {blocks}, {named} named",
            live = bytes::human(totals.requested_bytes),
            blocks = counted(totals.live_blocks, "block"),
            named = grouped(totals.named_blocks)
        ),
    )?;
    fact(
        "reserved",
        format!(
            "{reserved} in {segments}, {unused} of it unused",
            reserved = bytes::human(totals.reserved_bytes),
            segments = counted(totals.segments, "segment"),
            unused = bytes::human(totals.idle_bytes())
        ),
    )?;
    if totals.ooms > 0 {
        fact("OOM", counted(totals.ooms, "time"))?;
    }
    print_holders(account, console)
}

fn print_holders(account: &Account, console: &mut Console<'_>) -> anyhow::Result<()> {
    let out = &mut *console.out;
    if !account.holders.is_empty() {
        writeln!(
            out,
            "\n  {:>11} {:>10} {:>8}  allocation site",
            "at peak", "now", "count"
        )?;
    }
    let has_history = !account.moments.is_empty();
    let recorded = |text: String| if has_history { text } else { "unknown".into() };
    for holder in account.holders.iter().take(HOLDERS) {
        writeln!(
            out,
            "  {:>11} {:>10} {:>8}  {}",
            recorded(bytes::human(holder.at_peak_bytes)),
            bytes::human(holder.now_bytes),
            recorded(holder.allocations.to_string()),
            for_terminal(&label(holder))
        )?;
    }
    let named: Vec<&LiveBlock> = account
        .live
        .iter()
        .filter(|block| !block.owner.names.is_empty())
        .collect();
    if !named.is_empty() {
        writeln!(out, "\n  {:>11}  largest named tensors", "size")?;
    }
    for block in named.iter().take(BLOCKS) {
        let owner = &block.owner;
        let text = [
            &owner.names.join(", "),
            owner.shape.as_deref().unwrap_or_default(),
            owner.dtype.as_deref().unwrap_or_default(),
        ]
        .join(" ");
        writeln!(
            out,
            "  {:>11}  {}",
            bytes::human(block.bytes),
            for_terminal(text.trim())
        )?;
    }
    Ok(())
}

fn label(holder: &Holder) -> String {
    match holder.names.as_slice() {
        [] => holder.place.clone(),
        names => format!("{}: {}", holder.place, names.join(", ")),
    }
}

/// A snapshot of PyTorch's allocator. Values that come from the history of allocations are null if
/// the snapshot has no history.
#[derive(Serialize, JsonSchema)]
pub(crate) struct Document<'a> {
    path: Cow<'a, str>,
    #[schemars(extend("const" = KIND))]
    kind: &'static str,
    devices: Vec<DeviceKeys<'a>>,
}

const KIND: &str = "allocator_snapshot";

/// The memory that the allocator holds on one device.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Device")]
struct DeviceKeys<'a> {
    device: i64,
    /// When the history begins; null without a history, or when it contains no times.
    first_timestamp_ns: Option<i64>,
    /// When the history ends; null without a history, or when it contains no times.
    last_timestamp_ns: Option<i64>,
    #[serde(flatten)]
    totals: Totals,
    /// The lines of the program that hold the most memory, at most 50.
    holders: Vec<HolderKeys<'a>>,
    /// Live blocks, the largest first, at most 1000.
    live: &'a [LiveBlock],
    /// The segments of the allocator's memory, the largest first.
    segments: &'a [SegmentUse],
}

/// A line of the program and the memory that it holds.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Holder")]
struct HolderKeys<'a> {
    /// The line of code, or a description if the line is unknown.
    place: &'a str,
    /// Bytes that the line held at the peak of the device.
    at_peak_bytes: Option<i64>,
    /// Bytes that the line holds at the time of the snapshot.
    now_bytes: i64,
    /// How many allocations in the history come from the line.
    allocations: Option<usize>,
    /// The sum of all allocations of the line in the history, in bytes.
    allocated_bytes: Option<i64>,
    /// Names of some live tensors that the line allocated.
    names: &'a [String],
}

impl<'a> DeviceKeys<'a> {
    fn of(account: &'a Account) -> Self {
        let has_history = !account.moments.is_empty();
        let holders = account.holders.iter().map(|holder| HolderKeys {
            place: &holder.place,
            at_peak_bytes: has_history.then_some(holder.at_peak_bytes),
            now_bytes: holder.now_bytes,
            allocations: has_history.then_some(holder.allocations),
            allocated_bytes: has_history.then_some(holder.allocated_bytes),
            names: &holder.names,
        });
        let times = account.moments.first().zip(account.moments.last());
        let times = times.filter(|_| account.has_times);
        Self {
            device: account.device,
            first_timestamp_ns: times.map(|(first, _)| first.time_ns),
            last_timestamp_ns: times.map(|(_, last)| last.time_ns),
            totals: account.totals,
            holders: holders.collect(),
            live: &account.live,
            segments: &account.segments,
        }
    }
}
