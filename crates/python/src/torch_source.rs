//! PyTorch as a collector of the recorder: calls PyTorch's functions for the counters, and provides
//! the hook that PyTorch calls at the ends of steps.

mod allocator;
mod snapshot;
mod watcher;

use std::sync::Arc;

use pyo3::prelude::*;
use pyo3::types::PyTuple;
use stormlog_capture::collect::CounterSource;
use stormlog_capture::collect::torch::{Shared, StepReading, TorchCollector, TorchDevice};

use self::allocator::PythonAllocator;
use self::watcher::Watcher;

pub(crate) use self::allocator::TorchFunctions;
pub(crate) use self::snapshot::{live_blocks, pool_sizes};

/// Makes the collector of a CUDA device, and the hook that PyTorch should call at the end of every
/// step.
pub(crate) fn collector(
    source: CounterSource,
    functions: TorchFunctions,
) -> (TorchCollector<PythonAllocator>, StepHook) {
    let device = TorchDevice {
        uuid: functions.uuid.clone(),
        is_integrated: functions.is_integrated,
    };
    let collector = TorchCollector::new(source, &device, |asks_for_device| {
        PythonAllocator::new(functions, asks_for_device)
    });
    let (shared, allocator) = collector.at_steps();
    let hook = StepHook {
        shared,
        allocator,
        watcher: Watcher::default(),
    };
    (collector, hook)
}

/// A hook that PyTorch calls at the end of every optimizer step, on the training thread.
#[pyclass(frozen, module = "stormlog._core")]
pub(crate) struct StepHook {
    shared: Arc<Shared>,
    allocator: Arc<PythonAllocator>,
    watcher: Watcher,
}

#[pymethods]
impl StepHook {
    /// Accepts any arguments that PyTorch passes to a hook; a failure of the hook raises no
    /// exception.
    #[pyo3(signature = (optimizer, *_rest))]
    fn __call__(&self, py: Python<'_>, optimizer: &Bound<'_, PyAny>, _rest: &Bound<'_, PyTuple>) {
        let (step, index, is_due) = self.shared.steps.begin(optimizer.as_ptr() as usize);
        let mut rise = None;
        if is_due && let Ok(Some(allocator)) = self.allocator.counters(py) {
            rise = self.shared.steps.keep(StepReading {
                allocator,
                step,
                optimizer: index,
            });
        }
        if let Some(attended) = self.shared.attention.at_step(index, rise) {
            let bytes = rise.map_or(0, |rise| rise.bytes);
            let goes_on = self.watcher.call(py, step, bytes);
            self.shared.attention.answer(attended, goes_on);
        }
    }

    /// Sets the watcher, a function that is called at the end of a step when the level of memory at
    /// the ends of steps rises; it gets the number of the step and the rise so far in bytes. The
    /// watcher is called again at every further step of the same optimizer for as long as it
    /// returns true, and never again after it has raised an exception.
    fn set_watcher(&self, watcher: Option<Py<PyAny>>) {
        self.shared.attention.end();
        self.watcher.set(watcher);
    }

    /// Requests a call of the watcher at the next end of a step, even if the level of memory does
    /// not rise.
    fn attend(&self) {
        self.shared.attention.attend();
    }

    /// The message of the exception that the watcher raised, after which it is never called again;
    /// `None` while it has raised none.
    #[getter]
    fn watcher_error(&self) -> Option<String> {
        self.watcher.error()
    }

    /// Bytes per second by which memory rises in a program without steps; `None` where memory does
    /// not rise. Each rise of memory is returned once.
    fn take_rise(&self) -> Option<f64> {
        self.shared.attention.take_rise()
    }

    /// How many optimizer steps the program has made since the hook was created.
    #[getter]
    fn steps(&self) -> u64 {
        self.shared.steps.count()
    }
}
