//! Records out-of-memory errors for Python, and takes single readings of the host and its GPUs.

use std::path::PathBuf;

use pyo3::prelude::*;
use pyo3::types::{PyDict, PyString};
use stormlog_capture::collect::cgroup::{self, MemoryGroup, Roots};
use stormlog_capture::collect::{health, host, nvml};
use stormlog_capture::oom::{self, Dump, Retention};
use stormlog_format::classify::{ExceptionFacts, device_oom_reason, legacy_oom_reason};
use stormlog_format::{Map, SessionSummary, Text, signed};

use crate::convert::whole_map;
use crate::convert::{Objects, text_from_python};
use crate::errors::invalid_session;
use crate::recorder::os_error;

/// If an exception means that the memory of a device ran out, the reason to record in the OOM
/// bundle, such as `torch.cuda.OutOfMemoryError`; `None` for other exceptions.
#[pyfunction]
pub(crate) fn classify_oom(
    class: String,
    module: String,
    message: String,
    is_torch_oom: bool,
) -> Option<String> {
    device_oom_reason(&ExceptionFacts {
        class,
        module,
        message,
        is_torch_oom,
    })
}

/// The same as [`classify_oom`] by the rules of stormlog 0.3.9.
#[pyfunction]
pub(crate) fn classify_oom_legacy(
    class: String,
    module: String,
    message: String,
    is_torch_oom: bool,
) -> Option<String> {
    legacy_oom_reason(&ExceptionFacts {
        class,
        module,
        message,
        is_torch_oom,
    })
}

/// The number of bytes that a failed allocation requested, if the message contains it.
#[pyfunction]
pub(crate) fn requested_bytes(message: &str) -> Option<i64> {
    oom::requested_bytes(message)
}

/// The content of an OOM bundle, the folder with details of an out-of-memory error, as Python
/// passes it.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
pub(crate) struct DumpFields<'py> {
    root: PathBuf,
    sequence: u64,
    stamp: String,
    created: String,
    reason: Bound<'py, PyString>,
    exception: [Bound<'py, PyString>; 3],
    context: Option<Bound<'py, PyString>>,
    backend: Bound<'py, PyString>,
    events: Vec<Bound<'py, PyAny>>,
    metadata: Bound<'py, PyAny>,
    session: Option<Bound<'py, PyAny>>,
    system: Bound<'py, PyAny>,
    pid: u32,
    cwd: PathBuf,
}

/// Writes an OOM bundle and returns its directory.
#[pyfunction]
pub(crate) fn write_oom_bundle(py: Python<'_>, fields: DumpFields<'_>) -> PyResult<PathBuf> {
    let session = fields.session.as_ref().map(|session| {
        SessionSummary::from_map(&whole_map(session)?).map_err(|error| invalid_session(py, &error))
    });
    let events = fields.events.iter().map(whole_map);
    let dump = Dump {
        reason: text_from_python(&fields.reason)?,
        exception: exception_of(&fields.exception)?,
        context: fields.context.as_ref().map(text_from_python).transpose()?,
        backend: text_from_python(&fields.backend)?,
        events: events.collect::<PyResult<_>>()?,
        custom_metadata: whole_map(&fields.metadata)?,
        session: session.transpose()?,
        system: whole_map(&fields.system)?,
        pid: fields.pid,
        cwd: fields.cwd,
    };
    let (root, stamp, created) = (fields.root, fields.stamp, fields.created);
    let written = py.detach(|| oom::write(&root, dump, &stamp, &created, fields.sequence));
    written.map_err(|error| os_error(&error.source, &error.path))
}

/// The class name, the module and the text of an exception.
fn exception_of([class, module, message]: &[Bound<'_, PyString>; 3]) -> PyResult<[Text; 3]> {
    Ok([
        text_from_python(class)?,
        text_from_python(module)?,
        text_from_python(message)?,
    ])
}

/// Adds the exception, the context and further facts to an OOM bundle that is already written.
#[pyfunction]
pub(crate) fn amend_oom_bundle(
    py: Python<'_>,
    path: PathBuf,
    exception: [Bound<'_, PyString>; 3],
    context: Option<Bound<'_, PyString>>,
    facts: &Bound<'_, PyAny>,
) -> PyResult<()> {
    let exception = exception_of(&exception)?;
    let context = context.as_ref().map(text_from_python).transpose()?;
    let facts = whole_map(facts)?;
    let amended = py.detach(|| oom::amend(&path, exception, context, facts));
    amended.map_err(|error| os_error(&error.source, &error.path))
}

/// Adds the files of an allocator history to an OOM bundle's list of files, after the bundle was
/// written.
#[pyfunction]
pub(crate) fn attach_history_to_oom_bundle(
    py: Python<'_>,
    path: PathBuf,
    names: Vec<String>,
) -> PyResult<()> {
    let names: Vec<Text> = names.iter().map(|name| Text::from(name.as_str())).collect();
    let attached = py.detach(|| oom::attach_history(&path, &names));
    attached.map_err(|error| os_error(&error.source, &error.path))
}

/// Deletes the oldest OOM bundles in the folder `root` until the remaining bundles are within the
/// limits on their number and on their total size.
#[pyfunction]
pub(crate) fn prune_oom_bundles(py: Python<'_>, root: PathBuf, max_dumps: i64, max_total_mb: i64) {
    let retention = Retention {
        max_dumps,
        max_total_mb,
    };
    py.detach(|| oom::prune(&root, retention));
}

/// The resident and the virtual size of this process, in bytes; `None` if they cannot be read.
#[pyfunction]
pub(crate) fn process_sizes() -> Option<(u64, u64)> {
    let sizes = host::sizes_of_this_process()?;
    Some((sizes.resident_bytes, sizes.virtual_bytes))
}

/// Total and available memory of the machine, and the memory limit of this process, in bytes.
#[pyfunction]
pub(crate) fn machine_memory() -> (Option<u64>, Option<u64>, Option<u64>) {
    let roots = Roots::default();
    let machine = cgroup::machine_room(&roots);
    let limit = MemoryGroup::of_process(&roots, None).and_then(|group| group.limit());
    (machine.total, machine.free, limit)
}

/// The GPUs that NVML lists: index, name, UUID, and used, free and total bytes.
#[pyfunction]
pub(crate) fn nvml_gpus(py: Python<'_>) -> PyResult<Vec<Bound<'_, PyDict>>> {
    let gpus = py.detach(nvml::gpus).unwrap_or_default();
    let described = gpus.iter().map(|gpu| {
        let mut map = Map::new();
        map.insert("index", i64::from(gpu.index));
        map.insert("name", &*gpu.name);
        map.insert("uuid", &*gpu.uuid);
        if let Ok(memory) = nvml::device_memory(gpu.index) {
            map.insert("used_bytes", signed(memory.used));
            map.insert("free_bytes", signed(memory.free));
            map.insert("total_bytes", signed(memory.total));
        }
        Objects::default().map_to_python(py, &map)
    });
    described.collect()
}

/// Seconds to wait before a collector is read again after `failures` failures in a row.
#[pyfunction]
pub(crate) fn retry_delay_s(failures: i64, initial_s: f64, factor: f64, max_s: f64) -> f64 {
    health::retry_delay_s(failures, initial_s, factor, max_s)
}

/// Whether the environment sets a rank, but does not set all variables of any one launcher.
#[pyfunction]
pub(crate) fn launcher_is_incomplete(env: &Bound<'_, PyAny>) -> PyResult<bool> {
    Ok(stormlog_capture::launcher::launcher_variables_incomplete(
        &whole_map(env)?,
    ))
}
