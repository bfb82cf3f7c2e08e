//! Writes a diagnose bundle of the calling process, for `stormlog.diagnose`.

use std::path::PathBuf;

use pyo3::prelude::*;
use pyo3::types::PyDict;
use stormlog::diagnose::{self, Bundle, Ending, Flavour, Plan, Seen};
use stormlog_analysis::LoadOptions;
use stormlog_format::SessionSummary;

use crate::convert::{Objects, Reading};
use crate::errors::{invalid_session, invalid_value, raise, wrong_type};

/// A diagnose bundle (a folder with a short recording and its analysis) while it is being written.
#[pyclass(module = "stormlog._core")]
pub(crate) struct DiagnoseBundle(Option<Bundle>);

#[pymethods]
impl DiagnoseBundle {
    /// Creates the directory of the bundle and writes the files that are known before the
    /// recording.
    #[new]
    #[pyo3(signature = (output, command_line, environment, framework = "torch", native_history = false))]
    fn new(
        py: Python<'_>,
        output: Option<PathBuf>,
        command_line: String,
        environment: &Bound<'_, PyDict>,
        framework: &str,
        native_history: bool,
    ) -> PyResult<Self> {
        let flavour = match framework {
            "torch" => Flavour::Torch,
            "tensorflow" => Flavour::TensorFlow,
            "jax" => Flavour::Jax,
            other => return Err(invalid_value(py, format!("unknown framework '{other}'"))),
        };
        let environment = Reading::Dimensions
            .deep_map(environment)?
            .unwrap_or_default();
        let plan = Plan {
            flavour,
            output,
            command_line,
            environment,
            oom_horizon_hours: 24.0,
            native_history,
        };
        let bundle = py.detach(|| Bundle::begin(plan));
        bundle
            .map(|bundle| Self(Some(bundle)))
            .map_err(|error| raise(py, "ArtifactWriteError", format!("{error:#}")))
    }

    /// The directory inside the bundle into which events are recorded.
    #[getter]
    fn telemetry(&self) -> Option<PathBuf> {
        self.0.as_ref().map(Bundle::telemetry)
    }

    /// The directory of the bundle.
    #[getter]
    fn directory(&self) -> Option<PathBuf> {
        self.0
            .as_ref()
            .map(|bundle| bundle.directory().to_path_buf())
    }

    /// Adds files that the caller put into the bundle to the bundle's list of files.
    fn adopt(&mut self, names: Vec<String>) {
        if let Some(bundle) = &mut self.0 {
            bundle.adopt(names);
        }
    }

    /// Writes the summary of the session that is now being recorded to the bundle's manifest.
    fn session_has_begun(&mut self, py: Python<'_>, summary: &Bound<'_, PyDict>) -> PyResult<()> {
        let map = Reading::Dimensions.deep_map(summary)?.unwrap_or_default();
        let summary =
            SessionSummary::from_map(&map).map_err(|error| invalid_session(py, &error))?;
        let Some(bundle) = &mut self.0 else {
            return Ok(());
        };
        bundle
            .session_has_begun(&summary)
            .map_err(|error| raise(py, "ArtifactWriteError", format!("{error:#}")))
    }

    /// Writes the results of the diagnosis into the bundle and returns its directory, the exit code
    /// and the summary.
    #[pyo3(signature = (device, counted_ooms, has_window, cut_short))]
    fn finish<'py>(
        &mut self,
        py: Python<'py>,
        device: Option<i64>,
        counted_ooms: u64,
        has_window: bool,
        cut_short: Option<String>,
    ) -> PyResult<(PathBuf, u8, Bound<'py, PyDict>, bool)> {
        let Some(bundle) = self.0.take() else {
            return Err(wrong_type(py, "the bundle is finished already"));
        };
        let outcome = py.detach(|| {
            let options = LoadOptions::skipping();
            let recorded = stormlog_analysis::load_sessions(&bundle.telemetry(), &options);
            let ending = match (&recorded, cut_short) {
                (_, Some(why)) => Ending::CutShort(why),
                (Err(error), None) => Ending::Failed(error.to_string()),
                (Ok(_), None) => Ending::Complete,
            };
            bundle.finish(&Seen {
                recorded: recorded.into_iter().collect(),
                device,
                counted_ooms,
                has_window,
                ending,
                ..Seen::default()
            })
        });
        let summary = Objects::default().map_to_python(py, &outcome.summary)?;
        let is_risk = !outcome.raised.is_empty();
        Ok((outcome.directory, outcome.exit.code(), summary, is_risk))
    }
}

/// Computes sizes in bytes and ratios, such as the fragmentation, from the framework's memory
/// counters of a GPU.
#[pyfunction]
pub(crate) fn gpu_fragmentation<'py>(
    py: Python<'py>,
    gpu: &Bound<'py, PyDict>,
) -> PyResult<Bound<'py, PyDict>> {
    let gpu = Reading::Dimensions.deep_map(gpu)?.unwrap_or_default();
    Objects::default().map_to_python(py, &diagnose::fragmentation(&gpu))
}
