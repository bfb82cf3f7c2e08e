//! Takes snapshots of PyTorch's allocator. Lists the blocks in use for which PyTorch has recorded
//! the call stack of the allocation, and the sizes of the memory pools.

use std::collections::BTreeMap;

use pyo3::exceptions::PyTypeError;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList, PyModule};

/// Takes a snapshot of PyTorch's allocator with `torch._C._cuda_memorySnapshot`; returns the blocks
/// in use that have a recorded stack, as (device, address, bytes, frames), and the number of all
/// blocks, in use or not.
#[pyfunction]
pub(crate) fn live_blocks<'py>(
    torch: &Bound<'py, PyModule>,
    snapshot: &Bound<'py, PyAny>,
) -> PyResult<(Bound<'py, PyList>, usize)> {
    without_collection(torch.py(), || framed(&taken(torch, snapshot)?))
}

/// A memory pool of PyTorch: its id of two numbers, its size in bytes, the bytes of its blocks in
/// use, and the number of its segments.
type PoolSize = ((u64, u64), u64, u64, u64);

/// The memory pools of one device in a snapshot of PyTorch's allocator. The id of the default pool,
/// which all allocations share by default, is two zeros.
#[pyfunction]
pub(crate) fn pool_sizes(
    torch: &Bound<'_, PyModule>,
    snapshot: &Bound<'_, PyAny>,
    device: i64,
) -> PyResult<Vec<PoolSize>> {
    without_collection(torch.py(), || {
        sizes_of_pools(&taken(torch, snapshot)?, device)
    })
}

/// Runs `work` with Python's cyclic garbage collection switched off. The objects of a snapshot
/// exist for a moment only, but they would make the next full garbage collection come earlier,
/// which can stop a large program for tens of milliseconds. While the collection is off, the
/// interpreter lock is held and no bytecode is run, so no other thread can change the setting or
/// notice the change.
fn without_collection<T>(py: Python<'_>, work: impl FnOnce() -> PyResult<T>) -> PyResult<T> {
    let gc = py.import(intern!(py, "gc"))?;
    if !gc.call_method0(intern!(py, "isenabled"))?.is_truthy()? {
        return work();
    }
    gc.call_method0(intern!(py, "disable"))?;
    let result = work();
    gc.call_method0(intern!(py, "enable"))?;
    result
}

fn sizes_of_pools(taken: &Bound<'_, PyAny>, device: i64) -> PyResult<Vec<PoolSize>> {
    let py = taken.py();
    let mut pools: BTreeMap<(u64, u64), (u64, u64, u64)> = BTreeMap::new();
    for segment in taken.get_item(intern!(py, "segments"))?.try_iter()? {
        let segment = segment?;
        if segment.get_item(intern!(py, "device"))?.extract::<i64>()? != device {
            continue;
        }
        let pool = segment.get_item(intern!(py, "segment_pool_id"))?;
        let number = |key| segment.get_item(key)?.extract::<u64>();
        let pool = pools.entry(pool.extract()?).or_default();
        pool.0 += number(intern!(py, "total_size"))?;
        pool.1 += number(intern!(py, "allocated_size"))?;
        pool.2 += 1;
    }
    let pools = pools.into_iter();
    Ok(pools
        .map(|(id, sums)| (id, sums.0, sums.1, sums.2))
        .collect())
}

/// To explain frames of generated code, PyTorch's snapshot looks up its module `_inductor`; in a
/// program that has not loaded that module yet, the lookup would load it, which takes six seconds
/// on the training thread. Without `_inductor` the program has no generated code, so an empty
/// module replaces `_inductor` during the call. No other code sees the empty module, because the
/// interpreter lock is held and no bytecode is run.
fn taken<'py>(
    torch: &Bound<'py, PyModule>,
    snapshot: &Bound<'py, PyAny>,
) -> PyResult<Bound<'py, PyAny>> {
    let py = torch.py();
    let name = intern!(py, "_inductor");
    let is_loaded = torch.dict().contains(name)?;
    if !is_loaded {
        torch
            .dict()
            .set_item(name, PyModule::new(py, "torch._inductor")?)?;
    }
    let taken = call(snapshot);
    if !is_loaded {
        torch.dict().del_item(name)?;
    }
    taken
}

fn call<'py>(snapshot: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
    let py = snapshot.py();
    match snapshot.call1((py.None(),)) {
        // In versions of PyTorch before 2.6, the snapshot function has no argument for a pool.
        Err(error) if error.is_instance_of::<PyTypeError>(py) => snapshot.call0(),
        taken => taken,
    }
}

fn framed<'py>(taken: &Bound<'py, PyAny>) -> PyResult<(Bound<'py, PyList>, usize)> {
    let py = taken.py();
    let found = PyList::empty(py);
    let mut all = 0;
    for segment in taken.get_item(intern!(py, "segments"))?.try_iter()? {
        let segment = segment?;
        let device = segment.get_item(intern!(py, "device"))?;
        let blocks = segment.get_item(intern!(py, "blocks"))?;
        for block in blocks.cast::<PyList>()?.iter() {
            all += 1;
            let block = block.cast_into::<PyDict>()?;
            let Some(frames) = block.get_item(intern!(py, "frames"))? else {
                continue;
            };
            let state = block.get_item(intern!(py, "state"))?;
            let is_in_use = match state {
                Some(state) => state.eq(intern!(py, "active_allocated"))?,
                None => false,
            };
            if !is_in_use || frames.len()? == 0 {
                continue;
            }
            let address = block.get_item(intern!(py, "address"))?;
            let size = block.get_item(intern!(py, "size"))?;
            found.append((&device, address, size, frames))?;
        }
    }
    Ok((found, all))
}
