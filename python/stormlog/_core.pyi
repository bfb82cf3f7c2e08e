"""The Rust core. Do not call it directly; the modules of this package are its public interface."""

from collections.abc import Callable, Mapping, Sequence
from os import PathLike
from pathlib import Path
from types import ModuleType
from typing import Any, Final, TypeAlias, TypedDict, final

from typing_extensions import Self, disjoint_base

from .derived_fields import DerivedFields, SessionDerivedFields
from .session import SessionSummary
from .telemetry import TelemetryEventV3
from .telemetry_sink import TelemetrySinkConfig

__all__ = [
    "ALERT_EVENT_TYPES",
    "COLLECTOR_DEGRADED_STATUSES",
    "COLLECTOR_TRANSITION_TYPES",
    "DEFAULT_THRESHOLDS",
    "THINNING_BUDGET_BYTES",
    "VERSION",
    "Around",
    "DiagnoseBundle",
    "Drawing",
    "EventRows",
    "InPhase",
    "MemoryErrors",
    "PhaseReplay",
    "PhaseStacks",
    "QueriedEvents",
    "QueryStore",
    "Recorder",
    "Sink",
    "StepHook",
    "after_fork_in_parent",
    "alert_category",
    "allocator_snapshot_page",
    "allocator_snapshot_still",
    "amend_oom_bundle",
    "analyze_runs",
    "attach_history_to_oom_bundle",
    "attribute_collectives",
    "attribute_phase",
    "before_fork",
    "check_collective_fields",
    "check_collective_limits",
    "classify_oom",
    "classify_oom_legacy",
    "collective_fields_in_order",
    "collective_preset",
    "compare_ranks",
    "compare_runs",
    "device_shares",
    "distinct",
    "distributed_model",
    "device_profile_page",
    "driver_answer",
    "driver_held",
    "driver_question",
    "driver_start",
    "driver_state",
    "driver_stop",
    "error_stem",
    "event_backend",
    "event_fields",
    "event_from_record",
    "event_severity",
    "every_fork_is_announced",
    "fingerprint_id",
    "forget_after_fork",
    "framework_efficiency",
    "framework_fragmentation",
    "framework_leaks",
    "framework_patterns",
    "framework_performance",
    "framework_score",
    "framework_suggestions",
    "gap_findings",
    "gather_artifacts",
    "gpu_fragmentation",
    "is_alert_event",
    "is_collector_degradation_event",
    "is_command",
    "is_library_file",
    "is_oom_event",
    "is_run_envelope",
    "issue_kind",
    "issue_state",
    "launcher_is_incomplete",
    "live_blocks",
    "load_events",
    "load_sessions",
    "machine_memory",
    "main",
    "manifest_path",
    "merge_phases",
    "new_session_id",
    "normalize_dimensions",
    "normalize_session_status",
    "normalize_text",
    "nvml_gpus",
    "optimization_score",
    "parse_rank_filter",
    "phase_boundary",
    "phase_label",
    "pool_sizes",
    "process_name",
    "process_sizes",
    "profile_insights",
    "profile_patterns",
    "profile_summary",
    "project",
    "prune_oom_bundles",
    "read_manifest",
    "read_device_profile",
    "read_rollups",
    "read_run_envelope",
    "recorded_identity",
    "requested_bytes",
    "resolve_identity",
    "retry_delay_s",
    "rollup_path",
    "rollups_from_mapping",
    "rows_from_events",
    "rows_from_records",
    "save_baseline",
    "segment_paths",
    "sendable",
    "sendable_document",
    "sendable_text",
    "session_fields",
    "session_from_mapping",
    "session_integer",
    "session_order",
    "session_rollups",
    "session_span",
    "stable_legacy_session_id",
    "timeline_markers",
    "validate_record",
    "wait_for_contexts",
    "write_oom_bundle",
    "write_rollups",
]

VERSION: Final[str]
DEFAULT_THRESHOLDS: Final[Sequence[tuple[str, float]]]
THINNING_BUDGET_BYTES: Final[int]
ALERT_EVENT_TYPES: Final[Sequence[str]]
COLLECTOR_TRANSITION_TYPES: Final[Sequence[str]]
COLLECTOR_DEGRADED_STATUSES: Final[Sequence[str]]

# Records

def validate_record(record: Mapping[str, Any]) -> None:
    """Raise an exception if the record is invalid for its version."""

def event_from_record(
    record: Mapping[str, Any],
    permissive_legacy: bool,
    default_collector: str,
    default_sampling_interval_ms: int,
    default_session_id: str | None,
) -> TelemetryEventV3:
    """The event of a record of any version."""

def resolve_identity(
    job_id: object,
    rank: object,
    local_rank: object,
    world_size: object,
    metadata: Mapping[str, Any] | None,
    env: Mapping[str, str] | None,
) -> dict[str, Any]:
    """Resolve job id, rank, local rank and world size from arguments, metadata and environment."""

def recorded_identity(env: Mapping[str, str]) -> dict[str, Any]:
    """Job id, rank, local rank and world size of a process under ``stormlog run``. Blank variables
    count as unset, and a process whose variables are invalid has rank 0."""

# Sessions

def new_session_id() -> str:
    """A new random session id."""

def stable_legacy_session_id(parts: Sequence[object]) -> str:
    """The session id for the given parts; equal parts give equal ids. Parts that are None are
    left out."""

def normalize_session_status(status: object) -> str:
    """The status as files spell it."""

def session_integer(value: object, field: str) -> int:
    """Convert a field of a summary to an integer."""

def session_from_mapping(payload: Mapping[str, Any]) -> dict[str, Any]:
    """The summary fields in a mapping."""

def session_span(
    events: Sequence[tuple[object, object]], fallback_status: object
) -> tuple[int, int, int | None, str] | None:
    """For events given as (time, type): the index and the time of the earliest event, the end of
    the session and its status."""

def session_order(summaries: Sequence[object]) -> list[int]:
    """The indices of the summaries; the default session comes first."""

# Projection

def project(record: Mapping[str, Any], observed_timestamp_ns: int | None) -> dict[str, Any]:
    """The fields of the projection of a record."""

def distinct(mappings: Sequence[Mapping[str, Any]]) -> list[int]:
    """The indices of the mappings that differ from all mappings before them."""

# Classification and derived fields

def is_alert_event(event_type: object, metadata: Mapping[str, Any]) -> bool:
    """Whether an event is an alert."""

def event_severity(event_type: object, metadata: Mapping[str, Any]) -> str:
    """The severity of an event."""

def is_library_file(path: str) -> bool:
    """Whether a Python source file belongs to a package, to the standard library or to PyTorch."""

def is_oom_event(event_type: object, metadata: Mapping[str, Any]) -> bool:
    """Whether an event is an out-of-memory error."""

def is_collector_degradation_event(event_type: object, metadata: Mapping[str, Any]) -> bool:
    """Whether an event was recorded by a degraded collector."""

def event_backend(metadata: Mapping[str, Any]) -> str:
    """The backend in an event's metadata."""

def event_fields(
    allocated: object, reserved: object, total: object, collector: object
) -> DerivedFields:
    """The numbers that are derived from an event's counters."""

def session_fields(
    events: Sequence[tuple[object, object, object, object]], last_type: object
) -> SessionDerivedFields:
    """The numbers that are derived from all events of a session."""

# Fingerprints

def issue_kind(kind: object) -> str:
    """Validate the kind of an issue."""

def issue_state(state: object) -> str:
    """The state of an issue as files spell it."""

def fingerprint_id(kind: str, dimensions: Mapping[str, Any], schema_version: int) -> str:
    """The id of a fingerprint over normalized dimensions."""

def normalize_dimensions(dimensions: Mapping[str, Any]) -> dict[str, Any]:
    """Remove what changes from run to run from dimensions."""

def normalize_text(value: object) -> str | None:
    """A label without the parts that change from run to run; ``None`` for an empty value."""

def alert_category(context: object) -> str:
    """The category of an alert, from its text."""

def error_stem(error: object) -> str:
    """The part of an error text that identifies the error."""

# Loading

_Path: TypeAlias = str | PathLike[str]

# File, line, first and last byte, reason, field.
_Damage: TypeAlias = tuple[Path, int | None, tuple[int, int] | None, str, str | None]

@final
class Drawing:
    """A drawing that can be rendered in any size and format."""

    @staticmethod
    def of_rows(rows: EventRows, kind: str, title: str | None) -> Drawing: ...
    @staticmethod
    def of_ranks(rows: EventRows) -> Drawing: ...
    @staticmethod
    def of_paths(
        paths: Sequence[PathLike[str]], session_id: str | None, kind: str, title: str | None
    ) -> Drawing: ...
    @staticmethod
    def of_points(points: Sequence[tuple[int, int, int, str]], title: str) -> Drawing: ...
    @staticmethod
    def of_functions(
        calls: Sequence[tuple[str, float, int, int, int]], what: str
    ) -> Drawing: ...
    @staticmethod
    def of_profile(
        points: Sequence[tuple[int, int, int, str]],
        calls: Sequence[tuple[str, float, int, int, int]],
    ) -> Drawing: ...
    @property
    def title(self) -> str: ...
    def svg(self, width: int, height: int | None, dark: bool) -> str: ...
    def png(self, width: int, height: int | None, dark: bool, scale: float) -> bytes: ...
    def html(self, theme: str) -> str: ...

@final
class EventRows:
    """Events in columns."""

    def __len__(self) -> int: ...
    def has_samples(self) -> bool: ...
    def event(self, index: int) -> TelemetryEventV3:
        """The event at an index; a new object each time."""

    def fields(self, index: int) -> dict[str, Any]:
        """The fields of the event at an index, by name."""

    def __arrow_c_schema__(self) -> Any:
        """The columns of the Arrow stream."""

    def __arrow_c_stream__(self, requested_schema: Any | None = None) -> Any:
        """The events as an Arrow stream."""

def rows_from_records(records: Sequence[Mapping[str, Any]]) -> EventRows:
    """Make columns of valid records."""

def load_sessions(
    path: _Path,
    permissive_legacy: bool,
    events_key: str | None,
    skip_damaged: bool,
) -> tuple[list[tuple[dict[str, Any], EventRows, list[str], list[_Damage]]], list[_Damage]]:
    """Load every session of an artifact (summary, events, sources, damage), and list all damage."""

def load_events(
    path: _Path,
    permissive_legacy: bool,
    events_key: str | None,
    session_id: str | None,
    skip_damaged: bool,
) -> tuple[EventRows, list[_Damage]]:
    """Load the events of one session of an artifact: the given session or the default."""

@final
class DiagnoseBundle:
    """A bundle that is being written."""

    def __new__(
        cls,
        output: _Path | None,
        command_line: str,
        environment: dict[str, Any],
        framework: str = ...,
        native_history: bool = ...,
    ) -> DiagnoseBundle: ...
    @property
    def telemetry(self) -> Path: ...
    @property
    def directory(self) -> Path: ...
    def adopt(self, names: list[str]) -> None: ...
    def session_has_begun(self, summary: dict[str, Any]) -> None: ...
    def finish(
        self, device: int | None, counted_ooms: int, has_window: bool, cut_short: str | None
    ) -> tuple[Path, int, dict[str, Any], bool]: ...

def allocator_snapshot_page(pickle: bytes, owners: str, device: int) -> str:
    """An HTML page of one device of a snapshot of PyTorch's allocator."""

def allocator_snapshot_still(
    pickle: bytes, owners: str, device: int, limits: tuple[int, int, int, int]
) -> str:
    """The page of ``allocator_snapshot_page`` without scripts. The limits are numbers of timeline
    points, marks, holders and live blocks."""

def read_device_profile(path: _Path) -> list[tuple[list[str], list[int]]]:
    """The allocations of a device memory profile of JAX: functions and values."""

def device_profile_page(samples: Sequence[tuple[Sequence[str], Sequence[int]]]) -> str:
    """Draw a page of the functions that hold memory."""

def gpu_fragmentation(gpu: dict[str, Any]) -> dict[str, Any]:
    """The memory use of a GPU, from the framework's counters."""

def gather_artifacts(
    paths: list[_Path], session_id: str | None
) -> tuple[
    list[tuple[tuple[dict[str, Any], EventRows, list[str], list[_Damage]], list[str]]],
    int | None,
    list[str],
    list[str],
]:
    """Load all artifacts at some paths. Returns the sessions, each with its warnings, the index of
    the selected session, all warnings and all sources."""

def distributed_model(rows: EventRows, ranks: set[int] | None) -> dict[str, Any]:
    """The ranks of events as a table, with the names of ``DistributedDiagnosticsModel``."""

def parse_rank_filter(text: str, available: list[int]) -> set[int]:
    """Select the ranks that a filter text names."""

def read_manifest(path: _Path) -> dict[str, Any] | None:
    """The manifest of a sink, or ``None`` when there is none."""

def manifest_path(path: _Path) -> Path | None:
    """The path of a sink's manifest, for any path into the sink."""

def segment_paths(path: _Path) -> list[Path]:
    """The segment files of a sink, for any path into it."""

# Recording

class _RecorderOptions(TypedDict):
    """The options of a recorder."""

    interval: float
    max_events: int
    bundle_events: int | None
    alerts: bool
    identity: dict[str, Any]
    session_source: str
    sink: TelemetrySinkConfig | None
    samples_only: bool
    start_metadata: dict[str, Any] | None

def live_blocks(
    torch: ModuleType, snapshot: Callable[..., Any]
) -> tuple[list[tuple[int, int, int, list[dict[str, Any]]]], int]:
    """The blocks in use that PyTorch's history saw allocated, and the number of all blocks."""

def pool_sizes(
    torch: ModuleType, snapshot: Callable[..., Any], device: int
) -> list[tuple[tuple[int, int], int, int, int]]:
    """The pools of one device, each with its id, bytes, bytes in use and number of segments."""

@final
class Around:
    """Wraps a function of PyTorch and calls other functions before and after it."""

    def __new__(
        cls,
        function: Callable[..., Any],
        *,
        before: Callable[[], object] | None = None,
        after: Callable[[], object] | None = None,
    ) -> Around: ...
    def __call__(self, *arguments: Any, **options: Any) -> Any:
        """Calls the wrapped function; exceptions of the other functions are ignored."""

@final
class InPhase:
    """Wraps a method of a class, so that a phase begins and ends with each call."""

    def __new__(
        cls,
        function: Callable[..., Any],
        phase: str,
        enter: Callable[[str], Callable[[], object]],
    ) -> InPhase: ...
    def __call__(self, *arguments: Any, **options: Any) -> Any:
        """Calls the wrapped method; exceptions of the functions that begin and end the phase are
        ignored."""
    def __get__(self, instance: Any, owner: Any = None, /) -> Any:
        """Binds the method to an object."""

@final
class MemoryErrors:
    """Calls a function with each raised exception that means that memory ran out, and with whether
    it is the memory of a device."""

    def __new__(cls, then: Callable[[BaseException, bool], object]) -> MemoryErrors: ...
    def __call__(self, _code: object, _offset: int, error: object) -> None:
        """Calls the function if memory ran out; exceptions that it raises are ignored."""

def device_shares(index: int) -> tuple[int, int, list[tuple[int, int]]] | None:
    """Used and total bytes of a GPU, and the bytes of each process on it."""

def process_name(pid: int) -> str | None:
    """The command of a process without secrets."""

def wait_for_contexts(
    known: list[int], every_s: float, patience_s: float
) -> tuple[list[int], float | None]:
    """Waits for a CUDA context on a device that is not in ``known``. Returns the devices with a new
    context, and how many seconds after the call they were last seen without one."""

def driver_start(libraries: list[str]) -> str | None:
    """Starts to attribute the driver's allocations; returns the reason when it cannot."""

def driver_stop(reason: str) -> None:
    """Gives CUPTI back to the program."""

def driver_state() -> tuple[str, str | None]:
    """Whether the driver's allocations are attributed (``off``, ``on``, ``ended``), and why the
    attribution ended."""

def driver_held() -> tuple[list[dict[str, Any]], int]:
    """What the driver has allocated, by owner, and how many allocations were not followed."""

def driver_question(patience_s: float) -> tuple[int, int] | None:
    """Waits until an allocating thread asks for its line of Python; returns the numbers of the
    question and of the thread."""

def driver_answer(question: tuple[int, int], site: tuple[str, int, str] | None) -> None:
    """Answers a question of ``driver_question`` with file, line and function, if they are known."""

@final
class StepHook:
    """Called by PyTorch at the end of every optimizer's step, on the training thread."""

    def __call__(self, optimizer: object, /, *_rest: object) -> None:
        """Accepts any arguments that PyTorch passes; a failure raises no exception."""

    @property
    def steps(self) -> int:
        """How many steps there have been."""

    def set_watcher(self, watcher: Callable[[int, int], object] | None) -> None:
        """Sets a function that is called at the end of a step when the memory level at the ends of
        steps rises."""

    def attend(self) -> None:
        """Calls the watcher at the next end of a step, whether the level rises or not."""

    @property
    def watcher_error(self) -> str | None:
        """Why the watcher is no longer called."""

    def take_rise(self) -> float | None:
        """Bytes per second by which the level rises in a program without steps."""

@final
class Recorder:
    """Records the memory of this process or of a device."""

    def __new__(
        cls,
        options: _RecorderOptions,
        collector: object | None,
        listener: Callable[[dict[str, Any]], None] | None,
    ) -> Recorder: ...
    @property
    def step_hook(self) -> StepHook | None:
        """The function that PyTorch calls at the end of every optimizer step; None for other
        sources."""

    def start(self) -> None: ...
    def stop(self, status: str) -> None: ...
    def set_paused(self, is_paused: bool) -> None:
        """Pause or resume sampling; the session goes on."""

    @property
    def is_tracking(self) -> bool: ...
    def flush(self, patience_s: float) -> bool: ...
    def take_notices(self) -> list[str]:
        """Take the log messages; each is returned once."""

    def sink_status(self) -> tuple[Path | None, str | None] | None:
        """The directory of the running session's sink, and its problem if it has one."""

    def record(
        self,
        event_type: str,
        change: int,
        context: str,
        metadata: Mapping[str, Any] | None,
    ) -> None: ...
    def enter_phase(
        self, name: str, thread: tuple[int, str], attributes: Mapping[str, Any] | None
    ) -> tuple[str, str, list[str]]:
        """Begin a phase; returns its scope id, name and path."""

    def exit_phase(
        self, scope_id: str, thread_id: int, attributes: Mapping[str, Any] | None
    ) -> None:
        """End a phase."""

    def events(
        self,
        event_type: str | None = None,
        last: int | None = None,
        since: float | None = None,
        alerts_only: bool = False,
    ) -> list[dict[str, Any]]:
        """The events in memory, as the fields of a tracking event."""

    def records(self) -> list[dict[str, Any]]:
        """The events in memory as records."""

    def record_oom(
        self, reason: str, facts: dict[str, int] | None = None
    ) -> list[dict[str, Any]]:
        """Record that memory ran out. Returns the events for the OOM bundle; the event of this
        error comes last."""

    def clear(self) -> None: ...
    def set_threshold(self, name: str, value: float) -> bool:
        """Set the threshold of an alert; false when the name is unknown."""

    def tally(self) -> dict[str, Any]: ...
    def device_statistics(self, last_bundle: str | None) -> dict[str, Any]: ...
    def host_statistics(self) -> dict[str, Any]: ...
    def timeline(self, interval_s: float) -> tuple[list[float], list[int], list[int]]:
        """The events in memory in time buckets: timestamps, allocated, reserved."""

    def export(self, path: _Path, format: str) -> None:
        """Write the events in memory to a file; does nothing when there are none."""

    def session(self) -> dict[str, Any] | None:
        """The summary fields of the running or the last session."""

# Type, context, scope, scope id and path of a boundary.
_PhaseFields: TypeAlias = tuple[str, str, dict[str, Any], str, list[str]]

@final
class PhaseStacks:
    """Open phases by session, rank and thread."""

    def __new__(cls) -> PhaseStacks: ...
    def reset(self) -> None: ...
    def enter(
        self, owner: tuple[str, str], name: str, thread: tuple[int, str]
    ) -> _PhaseFields: ...
    def exit(self, owner: tuple[str, str], scope_id: str, thread_id: int) -> _PhaseFields: ...

def requested_bytes(message: str) -> int | None: ...
def classify_oom(
    class_: str, module: str, message: str, is_torch_oom: bool, /
) -> str | None:
    """The reason if an exception means that the memory of a device ran out."""

def classify_oom_legacy(
    class_: str, module: str, message: str, is_torch_oom: bool, /
) -> str | None:
    """The reason if stormlog 0.3.9 takes an exception for an out-of-memory error."""

def write_oom_bundle(fields: Mapping[str, Any]) -> Path:
    """Write a bundle and return its directory."""

def amend_oom_bundle(
    path: _Path,
    exception: tuple[str, str, str],
    context: str | None,
    facts: Mapping[str, Any],
) -> None:
    """Add details to a bundle that is already written."""

def attach_history_to_oom_bundle(path: _Path, names: list[str]) -> None:
    """Add files of an allocator history to the list of a bundle that is already written."""

def prune_oom_bundles(root: _Path, max_dumps: int, max_total_mb: int) -> None:
    """Delete the oldest bundles beyond the limits."""

def process_sizes() -> tuple[int, int] | None:
    """Resident and virtual size of this process."""

def machine_memory() -> tuple[int | None, int | None, int | None]:
    """Total and available memory of the machine, and the limit of this process."""

def nvml_gpus() -> list[dict[str, Any]]:
    """The GPUs that the driver knows."""

def retry_delay_s(failures: int, initial_s: float, factor: float, max_s: float) -> float:
    """Seconds to wait after a number of failures of a collector."""

def launcher_is_incomplete(env: Mapping[str, str]) -> bool:
    """Whether the environment sets a rank, but not all variables of any launcher."""

# Sinks and rollups

@disjoint_base
class Sink:
    """A sink on a directory; the base of ``AppendOnlyTelemetrySink``."""

    def __new__(cls, config: TelemetrySinkConfig) -> Self: ...
    def start(self, summary: SessionSummary | None) -> dict[str, Any]:
        """Start a session; returns the fields of the session that is active after the call."""

    def current(self) -> dict[str, Any] | None:
        """The fields of the active session."""

    def append(self, record: Mapping[str, Any]) -> None:
        """Append a record of the active session. Without an active session, the session of the
        record begins."""

    def flush(self, force: bool = False) -> None:
        """Write what is buffered if that is due; with ``force``, write it in any case."""

    def end(self, session_status: str) -> None:
        """Flush, close the segment and end the session."""

    def diagnostics(self) -> dict[str, int]:
        """Counts of what was done to the segments."""

    @property
    def directory(self) -> Path:
        """The directory of the sink."""

    def take_notices(self) -> list[str]:
        """Take the log messages that were not taken yet."""

def before_fork() -> None:
    """Must be called by the thread that is about to fork."""

def after_fork_in_parent() -> None:
    """Must be called by the same thread in the parent after the fork."""

def every_fork_is_announced() -> None:
    """Declare that ``before_fork``, ``after_fork_in_parent`` and ``forget_after_fork`` are called
    around every fork."""

def forget_after_fork() -> None:
    """Release everything that sinks of the parent process hold."""

def session_rollups(
    sessions: Sequence[tuple[SessionSummary, EventRows, Sequence[str], Sequence[str]]],
    window_duration_ns: int,
) -> list[dict[str, Any]]:
    """The rollups of sessions (summary, events, sources, warnings), in order."""

def rollups_from_mapping(payload: Mapping[str, Any]) -> dict[str, Any]:
    """Validate the fields of a rollup file."""

def read_rollups(path: _Path) -> dict[str, Any] | None:
    """The rollups of a sink; None when it has none that match it."""

def rollup_path(path: _Path) -> Path:
    """The path of a sink's rollups, for any path into the sink."""

def write_rollups(root_dir: _Path, payload: Mapping[str, Any]) -> Path:
    """Write rollups to a directory and return their path."""

# The program

def main(dialect: str, arguments: Sequence[str]) -> int:
    """Run a command of the program and return its exit code."""

def is_command(word: str) -> bool:
    """Whether a word is a command of the program."""

def sendable(
    artifact: _Path, copies: _Path
) -> tuple[list[tuple[str, Path]], list[str]]:
    """The files of an artifact that may leave the machine, and what is left out.

    Redacted copies of files that contain a secret are written to ``copies``, an empty directory.
    """

def sendable_document(file: _Path) -> Any | None:
    """Read a JSON document without its secrets; ``None`` when it cannot be read."""

def sendable_text(text: str) -> str:
    """Replace what looks like a secret in a text."""

# Queries

_Row: TypeAlias = dict[str, Any]
_Wanted: TypeAlias = Mapping[str, Any]

@final
class QueriedEvents:
    """Events of many sources, in order of time."""

    def __len__(self) -> int: ...
    def row(self, index: int) -> tuple[TelemetryEventV3, str, str, str]:
        """Event, source path, source kind and session status of the row at an index."""

@final
class QueryStore:
    """The artifacts at some paths, ready for queries."""

    def __new__(cls, paths: Sequence[_Path]) -> QueryStore: ...
    def catalog(self) -> dict[str, Any]:
        """The catalog: sources, bundles, attachments and run envelopes."""

    def warnings(self) -> list[dict[str, str]]:
        """All warnings so far."""

    def runs(self, wanted: _Wanted) -> list[_Row]: ...
    def run_attachments(self, wanted: _Wanted) -> list[_Row]: ...
    def sessions(self, wanted: _Wanted) -> list[_Row]: ...
    def events(self, wanted: _Wanted) -> QueriedEvents: ...
    def oom_bundles(self, wanted: _Wanted) -> list[_Row]: ...
    def attachments(self, wanted: _Wanted) -> list[_Row]: ...
    def correlate(self, wanted: _Wanted) -> dict[str, Any]: ...
    def issues(
        self, wanted: _Wanted, states: Sequence[tuple[str, str]], include_findings: bool
    ) -> list[_Row]: ...
    def issue_states(self, sidecar: _Path) -> list[tuple[str, str]]:
        """The states of issues in a sidecar, by id."""

    def decide_issue(
        self,
        sidecar: _Path,
        fingerprint_id: str,
        state_until_ns: tuple[str, int | None],
        by_reason: tuple[str, str | None],
    ) -> str:
        """Store a decision about an issue in a sidecar, and return the state of the issue."""

    def summarize(self, metric: str, group_by: str | None) -> list[_Row]: ...

def is_run_envelope(payload: Mapping[str, Any]) -> bool:
    """Whether an object declares that it is a run envelope of a version that we read."""

def read_run_envelope(payload: Mapping[str, Any], path: _Path) -> dict[str, Any] | None:
    """The fields of a run envelope; None when it is invalid."""
# Analyses

_ProfiledCall: TypeAlias = tuple[str, float, float, float, int, int, int, int, int, int]

def rows_from_events(events: list[Any]) -> EventRows:
    """Make columns from event objects or mappings, without validating them."""

@final
class PhaseReplay:
    """The phases of some events."""

    @staticmethod
    def of_events(events: EventRows | list[Any]) -> PhaseReplay:
        """Replay the phases of columns, event objects or mappings."""

    @staticmethod
    def of_spans(groups: list[tuple[tuple[str, int], list[Any]]]) -> PhaseReplay:
        """Make a replay from spans that were computed elsewhere, grouped by session and rank."""

    def spans(self, session_id: object, rank: object) -> list[tuple[Any, ...]]:
        """The spans of a session, for one rank or for all."""

    def active(self, timestamp_ns: int, session_id: object, rank: object) -> list[tuple[Any, ...]]:
        """The spans that contain a time."""

    def resolve(
        self,
        timestamp_ns: int,
        session_id: object,
        rank: object,
        origin_thread_id: object,
        origin_phase_scope_id: object,
    ) -> dict[str, Any] | None:
        """The phase at a time."""

    def resolve_event(self, event: object) -> dict[str, Any] | None:
        """The phase in which an event happened."""

def phase_boundary(event: object) -> dict[str, Any] | None:
    """The phase boundary of an event, without its attributes."""

def attribute_phase(
    spans: list[Any], origin_thread_id: object, origin_phase_scope_id: object
) -> dict[str, Any] | None:
    """The phase at a time that the given spans contain."""

def merge_phases(first: object, second: object) -> dict[str, Any]:
    """Merge two attributions."""

def phase_label(attribution: object) -> str | None:
    """An attribution as one line of text."""

def timeline_markers(
    events: EventRows | list[Any], include_phases: bool
) -> list[tuple[dict[str, Any], int | None]]:
    """The markers of events, each with the index of its event when it has one."""

def gap_findings(
    rows: EventRows, thresholds: list[float], format_memory: object
) -> list[tuple[str, str, float, dict[str, Any], str, int, int]]:
    """Findings about the gap between used and reserved memory."""

def compare_ranks(
    rows: EventRows, resolver: object, with_points: bool
) -> tuple[dict[str, Any], dict[str, Any], list[str]]:
    """Compare ranks. Returns the merged timeline, the first cause (the ranks whose memory may have
    risen first), and the notes of both."""

def attribute_collectives(
    rows: EventRows, limits: list[float], resolver: object
) -> list[dict[str, Any]]:
    """Attribute the gap between used and reserved memory to collective operations."""

def collective_preset(name: str) -> tuple[str, list[float]]:
    """The name and the limits of a preset."""

def collective_fields_in_order() -> list[str]:
    """The names of the limits."""

def check_collective_fields(fields: list[str]) -> None:
    """Raise an exception for names that are not limits."""

def check_collective_limits(limits: list[float]) -> None:
    """Raise an exception for invalid limits."""

def profile_patterns(calls: list[_ProfiledCall], thresholds: list[float]) -> list[dict[str, Any]]:
    """The patterns of profiled calls."""

def profile_insights(calls: list[_ProfiledCall], thresholds: list[float]) -> list[dict[str, Any]]:
    """The insights of profiled calls."""

def profile_summary(calls: list[_ProfiledCall]) -> dict[str, Any]:
    """The summary of a report on profiled calls."""

def optimization_score(severities: list[str], impacts: list[str]) -> dict[str, Any]:
    """The score for severities of patterns and impacts of insights."""

_FunctionSizes: TypeAlias = tuple[str, int, float, float, float]

def framework_leaks(usage: Sequence[float], growth_rate: float) -> list[dict[str, Any]]:
    """Signs of a leak in memory use over time, given in megabytes."""

def framework_patterns(usage: Sequence[float]) -> list[dict[str, Any]]:
    """Repeated patterns and sudden rises in memory use over time, given in megabytes."""

def framework_fragmentation(
    snapshots: Sequence[tuple[float, float]], trend_name: str
) -> dict[str, float]:
    """The fragmentation of snapshots, each with megabytes in use and reserved."""

def framework_efficiency(
    peak_mb: float, growth: float, fragmentation: float, usage: Sequence[float] | None
) -> float:
    """Compute a score from 0 to 10."""

def framework_performance(name: str, profiles: Sequence[_FunctionSizes]) -> dict[str, Any]:
    """Memory and time per call."""

def framework_suggestions(
    name: str,
    peak_mb: float,
    growth: float,
    fragmentation: float,
    profiles: Sequence[_FunctionSizes],
) -> list[str]:
    """Suggestions for a profile."""

def framework_score(
    efficiency: float,
    fragmentation: float | None,
    profiles: Sequence[_FunctionSizes],
    suggestions: Sequence[str],
) -> dict[str, Any]:
    """The scores of a profile."""

# Complete reports

def analyze_runs(
    paths: Sequence[str | PathLike[str]],
    session_id: str | None,
    rank: int | None,
    oom_horizon_hours: float,
    skip_damaged: bool,
) -> tuple[dict[str, Any], str]:
    """Analyze the runs at some paths; returns a document and a text."""

def compare_runs(
    base: str | PathLike[str],
    new: str | PathLike[str],
    max_peak_growth: str | None,
    max_slope: str | None,
    max_leak_per_step: str | None,
    max_gap_growth: str | None,
    fail_on: Sequence[str],
    session_id: str | None,
    base_session_id: str | None,
    rank: int | None,
    oom_horizon_hours: float,
    skip_damaged: bool,
) -> tuple[dict[str, Any], str]:
    """Compare two runs; returns a document and a text."""

def save_baseline(
    run: str | PathLike[str],
    file: str | PathLike[str],
    session_id: str | None,
    rank: int | None,
    oom_horizon_hours: float,
    skip_damaged: bool,
) -> None:
    """Save the metrics of a run as a baseline for later comparisons."""
