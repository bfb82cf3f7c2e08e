//! Draws snapshots of PyTorch's CUDA allocator as HTML pages. Python passes a snapshot as its
//! pickle and the names of holders as JSON.

use pyo3::prelude::*;
use stormlog_analysis::allocator_snapshot::{Account, Owners, Snapshot};
use stormlog_report::{AllocatorLimits, Theme, allocator_page, allocator_still};

use crate::errors::invalid_artifact;

/// Draws one device of a PyTorch allocator snapshot as an interactive HTML page and returns its
/// text.
#[pyfunction]
pub(crate) fn allocator_snapshot_page(
    py: Python<'_>,
    pickle: &[u8],
    owners: &str,
    device: i64,
) -> PyResult<String> {
    let page = py.detach(|| {
        let account = account(pickle, owners, device)?;
        allocator_page(&account, Theme::System).map_err(|error| error.to_string())
    });
    page.map_err(|message| invalid_artifact(py, message))
}

/// Draws a snapshot as an HTML page without scripts, with limited numbers of points, marks, holders
/// and live blocks.
#[pyfunction]
pub(crate) fn allocator_snapshot_still(
    py: Python<'_>,
    pickle: &[u8],
    owners: &str,
    device: i64,
    limits: (usize, usize, usize, usize),
) -> PyResult<String> {
    let (timeline_points, marks, holders, live) = limits;
    let limits = AllocatorLimits {
        timeline_points,
        marks,
        holders,
        live,
        segments: 24,
    };
    let page = py.detach(|| {
        let account = account(pickle, owners, device)?;
        allocator_still(&account, &limits).map_err(|error| error.to_string())
    });
    page.map_err(|message| invalid_artifact(py, message))
}

fn account(pickle: &[u8], owners: &str, device: i64) -> Result<Account, String> {
    let owners = Owners::parse(owners.as_bytes()).map_err(|error| error.to_string())?;
    let snapshot = Snapshot::parse(pickle);
    let snapshot = snapshot.map_err(|error| format!("cannot draw the snapshot: {error}"))?;
    Ok(Account::of(&snapshot, &owners, device))
}
