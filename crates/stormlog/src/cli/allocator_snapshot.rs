//! Shows and draws snapshots of PyTorch's allocator. Needs neither PyTorch nor a GPU.

use std::path::Path;

use serde_json::{Value, json};
use stormlog_analysis::allocator_snapshot::{
    Account, Holder, LiveBlock, Owners, Snapshot, SnapshotError, read,
};
use stormlog_analysis::regular_file;
use stormlog_report::escape::for_terminal;
use stormlog_report::{Theme, allocator_page, bytes, time};

use crate::console::Console;
use crate::failure::hinted;

/// The names of tensors, which `capture_cuda_snapshot_artifacts` writes beside a snapshot.
const ATTRIBUTION: &str = "cuda_tensor_attribution.json";
/// A larger file of names is not read.
const MOST_ATTRIBUTION_BYTES: u64 = 64 << 20;
/// How many rows are printed; `--json` has more.
const HOLDERS: usize = 15;
const BLOCKS: usize = 10;

/// Prints the content of a snapshot.
pub(crate) fn show(path: &Path, as_json: bool, console: &mut Console<'_>) -> anyhow::Result<()> {
    let accounts = accounts(path, console)?;
    let name = path.to_string_lossy();
    if as_json {
        let devices: Vec<Value> = accounts.iter().map(document).collect();
        let document = json!({"path": name, "kind": "allocator_snapshot", "devices": devices});
        writeln!(console.out, "{}", serde_json::to_string_pretty(&document)?)?;
        return Ok(());
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

/// Draws the first device of a snapshot as a page.
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
            "note: the page shows cuda:{} only; render_attributed_html draws the others",
            first.device
        )?;
    }
    Ok(allocator_page(first, theme)?)
}

/// Reads a snapshot and computes one account per device.
fn accounts(path: &Path, console: &mut Console<'_>) -> anyhow::Result<Vec<Account>> {
    let failure = |error: SnapshotError| {
        let hint = match error {
            SnapshotError::TooLarge
            | SnapshotError::TooManyValues
            | SnapshotError::TooRepetitive => {
                "record fewer entries; max_entries=100000 is usually enough"
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
        let found = "it has neither segments nor traces".to_owned();
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
    let message = format!("no names: cannot read '{}': {reason}", beside.display());
    writeln!(console.err, "warning: {}", for_terminal(&message))?;
    Ok(Owners::default())
}

/// Reads the file, if it exists, up to the size limit, because its metadata may be wrong about its
/// size.
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
                "{} events, {} to {} ({})",
                totals.events,
                time::moment(first.time_ns),
                time::moment(last.time_ns),
                time::span(last.time_ns.saturating_sub(first.time_ns))
            ),
        )?,
        (Some(_), _) => fact("recorded", format!("{} events", totals.events))?,
        _ => fact("recorded", "no history, only the current state".into())?,
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
            "{} in {} blocks, {} named",
            bytes::human(totals.requested_bytes),
            totals.live_blocks,
            totals.named_blocks
        ),
    )?;
    fact(
        "reserved",
        format!(
            "{} in {} segments, {} of it unused",
            bytes::human(totals.reserved_bytes),
            totals.segments,
            bytes::human(totals.idle_bytes())
        ),
    )?;
    if totals.ooms > 0 {
        let times = if totals.ooms == 1 { "time" } else { "times" };
        fact("OOM", format!("{} {times}", totals.ooms))?;
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
        .filter(|block| {
            block
                .owner
                .as_ref()
                .is_some_and(|owner| !owner.names.is_empty())
        })
        .collect();
    if !named.is_empty() {
        writeln!(out, "\n  {:>11}  largest named tensors", "size")?;
    }
    for block in named.iter().take(BLOCKS) {
        let owner = block.owner.clone().unwrap_or_default();
        let text = [
            owner.names.join(", "),
            owner.shape.unwrap_or_default(),
            owner.dtype.unwrap_or_default(),
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

fn document(account: &Account) -> Value {
    let totals = &account.totals;
    let has_history = !account.moments.is_empty();
    let holders = account.holders.iter().map(|holder| {
        json!({
            "place": holder.place,
            "at_peak_bytes": has_history.then_some(holder.at_peak_bytes),
            "now_bytes": holder.now_bytes,
            "allocations": has_history.then_some(holder.allocations),
            "allocated_bytes": has_history.then_some(holder.allocated_bytes),
            "names": holder.names,
        })
    });
    let live = account.live.iter().map(|block| {
        let owner = block.owner.as_ref();
        json!({
            "address": block.address,
            "size_bytes": block.bytes,
            "names": owner.map_or(&[][..], |owner| &owner.names),
            "shape": owner.and_then(|owner| owner.shape.clone()),
            "dtype": owner.and_then(|owner| owner.dtype.clone()),
            "place": block.place,
            "frames": block.frames,
            "pool": block.pool,
        })
    });
    let segments = account.segments.iter().map(|segment| {
        json!({
            "address": segment.address,
            "total_bytes": segment.total_bytes,
            "allocated_bytes": segment.allocated_bytes,
            "pool": segment.pool,
            "stream": segment.stream,
        })
    });
    let times = account.moments.first().zip(account.moments.last());
    let times = times.filter(|_| account.has_times);
    json!({
        "device": account.device,
        "events": totals.events,
        "first_timestamp_ns": times.map(|(first, _)| first.time_ns),
        "last_timestamp_ns": times.map(|(_, last)| last.time_ns),
        "peak_requested_bytes": totals.peak_requested_bytes,
        "peak_reserved_bytes": totals.peak_reserved_bytes,
        "requested_bytes": totals.requested_bytes,
        "allocated_bytes": totals.allocated_bytes,
        "reserved_bytes": totals.reserved_bytes,
        "awaiting_free_bytes": totals.awaiting_free_bytes,
        "live_blocks": totals.live_blocks,
        "named_blocks": totals.named_blocks,
        "ooms": totals.ooms,
        "holders": holders.collect::<Vec<_>>(),
        "live": live.collect::<Vec<_>>(),
        "segments": segments.collect::<Vec<_>>(),
    })
}
