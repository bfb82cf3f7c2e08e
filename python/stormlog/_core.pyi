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
    "device_profile_page",
    "device_shares",
    "distinct",
    "distributed_model",
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
    "read_device_profile",
    "read_manifest",
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
    """Convert a record of any version to an event; the defaults replace fields that are missing."""

def resolve_identity(
    job_id: object,
    rank: object,
    local_rank: object,
    world_size: object,
    metadata: Mapping[str, Any] | None,
    env: Mapping[str, str] | None,
) -> dict[str, Any]:
    """Determine job id, rank, local rank and world size from the arguments, the metadata of an
    event and environment variables."""

def recorded_identity(env: Mapping[str, str]) -> dict[str, Any]:
    """Job id, rank, local rank and world size of a process under ``stormlog run``, from its
    environment variables. Blank variables count as unset, and a process whose variables are invalid
    has rank 0."""

# Sessions

def new_session_id() -> str:
    """A new random session id."""

def stable_legacy_session_id(parts: Sequence[object]) -> str:
    """The id of a session that was recorded without one, computed from the given parts. Equal parts
    give equal ids; parts that are None are left out."""

def normalize_session_status(status: object) -> str:
    """The status of a session as files spell it. The argument may have any case and spaces around
    it."""

def session_integer(value: object, field: str) -> int:
    """Convert a value to an integer; the message of an exception names ``field``, a field of a
    session summary."""

def session_from_mapping(payload: Mapping[str, Any]) -> dict[str, Any]:
    """Check a mapping with a session summary and return its fields as a new dictionary."""

def session_span(
    events: Sequence[tuple[object, object]], fallback_status: object
) -> tuple[int, int, int | None, str] | None:
    """For the events of a session, given as (time, type): the index and the time of the earliest
    event, the end of the session and its status. None when there are no events."""

def session_order(summaries: Sequence[object]) -> list[int]:
    """The indices of session summaries in the order in which a session is chosen when none is
    requested."""

# Projection

def project(record: Mapping[str, Any], observed_timestamp_ns: int | None) -> dict[str, Any]:
    """Convert a record to the form of ``stormlog.telemetry_model`` and return its fields by
    name."""

def distinct(mappings: Sequence[Mapping[str, Any]]) -> list[int]:
    """The indices of the mappings that differ from all mappings before them."""

# Classification and derived fields

def is_alert_event(event_type: object, metadata: Mapping[str, Any]) -> bool:
    """Whether an event is an alert, by its type or by the severity in its metadata."""

def event_severity(event_type: object, metadata: Mapping[str, Any]) -> str:
    """The severity of an event, from its metadata or otherwise from its type."""

def is_library_file(path: str) -> bool:
    """Whether a Python source file belongs to a package, to the standard library or to PyTorch."""

def is_oom_event(event_type: object, metadata: Mapping[str, Any]) -> bool:
    """Whether an event is an out-of-memory error."""

def is_collector_degradation_event(event_type: object, metadata: Mapping[str, Any]) -> bool:
    """Whether an event shows that its collector was degraded, by its type or by the health status
    in its metadata."""

def event_backend(metadata: Mapping[str, Any]) -> str:
    """The accelerator backend in an event's metadata, or a word for an unknown backend."""

def event_fields(
    allocated: object, reserved: object, total: object, collector: object
) -> DerivedFields:
    """Compute numbers from the counters of one event, such as reserved minus allocated bytes and
    the utilization."""

def session_fields(
    events: Sequence[tuple[object, object, object, object]], last_type: object
) -> SessionDerivedFields:
    """Compute numbers from the counters of all events of a session, such as the highest
    utilization. An event is given as (allocated, reserved, total, collector)."""

# Fingerprints

def issue_kind(kind: object) -> str:
    """Check that a kind of issues is known and return its name; raises an exception otherwise."""

def issue_state(state: object) -> str:
    """The state of an issue as files spell it. The argument may have any case and spaces around
    it."""

def fingerprint_id(kind: str, dimensions: Mapping[str, Any], schema_version: int) -> str:
    """Compute the fingerprint (the id) of an issue from its kind and its normalized dimensions."""

def normalize_dimensions(dimensions: Mapping[str, Any]) -> dict[str, Any]:
    """Replace the parts of dimensions that change from run to run, such as numbers, by
    placeholders."""

def normalize_text(value: object) -> str | None:
    """A label in which placeholders replace the parts that change from run to run, such as numbers;
    ``None`` for a blank value."""

def alert_category(context: object) -> str:
    """The category of an alert, from its text."""

def error_stem(error: object) -> str:
    """The part of an error text that identifies the error: the text before the first colon."""

# Loading

_Path: TypeAlias = str | PathLike[str]

# A part of an artifact that could not be read: file, line, first and last byte, reason, field.
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
    def of_functions(calls: Sequence[tuple[str, float, int, int, int]], what: str) -> Drawing: ...
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
    """Events, stored as columns of a table."""

    def __len__(self) -> int: ...
    def has_samples(self) -> bool: ...
    def event(self, index: int) -> TelemetryEventV3:
        """The event at an index; a new object each time."""

    def fields(self, index: int) -> dict[str, Any]:
        """The fields of the event at an index, by name."""

    def __arrow_c_schema__(self) -> Any:
        """The schema of the Arrow stream: the names and types of its columns."""

    def __arrow_c_stream__(self, requested_schema: Any | None = None) -> Any:
        """The events as an Arrow stream."""

def rows_from_records(records: Sequence[Mapping[str, Any]]) -> EventRows:
    """Store records in columns. The records must be valid."""

# A session: its summary, its events, the files from which it was read, and its damage.
_LoadedSession: TypeAlias = tuple[dict[str, Any], EventRows, list[str], list[_Damage]]

def load_sessions(
    path: _Path,
    permissive_legacy: bool,
    events_key: str | None,
    skip_damaged: bool,
) -> tuple[list[_LoadedSession], list[_Damage]]:
    """Load every session of an artifact as (summary, events, sources, damage). Also returns all
    damage of the artifact. Sources are the files from which a session was read."""

def load_events(
    path: _Path,
    permissive_legacy: bool,
    events_key: str | None,
    session_id: str | None,
    skip_damaged: bool,
) -> tuple[EventRows, list[_Damage]]:
    """Load the events of one session of an artifact, and list the damage. Without a ``session_id``,
    this is the first session with events in the order of ``session_order``."""

@final
class DiagnoseBundle:
    """A diagnose bundle that is being written."""

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
    """Draw one device of a PyTorch snapshot as an HTML page. ``owners`` are the names of holders as
    JSON."""

def allocator_snapshot_still(
    pickle: bytes, owners: str, device: int, limits: tuple[int, int, int, int]
) -> str:
    """The page of ``allocator_snapshot_page`` without scripts. The limits are the largest numbers
    of timeline points, marks, holders and blocks in use on the page."""

def read_device_profile(path: _Path) -> list[tuple[list[str], list[int]]]:
    """Read a device memory profile of JAX. For each call stack: its functions, and the number and
    the bytes of the allocations."""

def device_profile_page(samples: Sequence[tuple[Sequence[str], Sequence[int]]]) -> str:
    """Draw the result of ``read_device_profile`` as an HTML page and return its text."""

def gpu_fragmentation(gpu: dict[str, Any]) -> dict[str, Any]:
    """Compute sizes in bytes and ratios, such as the fragmentation, from the framework's counters
    of a GPU."""

def gather_artifacts(
    paths: list[_Path], session_id: str | None
) -> tuple[
    list[tuple[_LoadedSession, list[str]]],
    int | None,
    list[str],
    list[str],
]:
    """Load all artifacts at some paths. Returns the sessions, each with its warnings, the index of
    the selected session, all warnings and all sources."""

def distributed_model(rows: EventRows, ranks: set[int] | None) -> dict[str, Any]:
    """Compare the ranks that recorded the events. The result has the fields of
    ``DistributedDiagnosticsModel``, among them a table with one row for each rank."""

def parse_rank_filter(text: str, available: list[int]) -> set[int]:
    """The available ranks that a filter text such as ``all`` or ``0,2-4`` selects."""

def read_manifest(path: _Path) -> dict[str, Any] | None:
    """The manifest of a sink, or ``None`` when there is none that can be read."""

def manifest_path(path: _Path) -> Path | None:
    """The path of a sink's manifest; ``path`` is the folder of the sink or a file in it."""

def segment_paths(path: _Path) -> list[Path]:
    """The segments of a sink; ``path`` is the folder of the sink or a file in it."""

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
    """Take a snapshot. Returns the blocks in use of which PyTorch has recorded the stack, each as
    (device, address, bytes, frames), and the number of all blocks, in use or not."""

def pool_sizes(
    torch: ModuleType, snapshot: Callable[..., Any], device: int
) -> list[tuple[tuple[int, int], int, int, int]]:
    """Take a snapshot. Returns the memory pools of one device, each with its id, bytes, bytes in
    use and number of PyTorch's segments (pieces of memory obtained from the device)."""

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
        """Calls the wrapped function and returns its result. Exceptions of the functions before and
        after it are ignored. After an exception of the wrapped function, ``after`` is not
        called."""

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
    """Used and total bytes of a GPU, and (pid, bytes) of each process on it. None when the driver
    does not answer."""

def process_name(pid: int) -> str | None:
    """The command line of a process, with secrets removed. None where it cannot be read."""

def wait_for_contexts(
    known: list[int], every_s: float, patience_s: float
) -> tuple[list[int], float | None]:
    """Waits until this process has a CUDA context on a device that is not in ``known``, at most
    ``patience_s`` seconds. Returns the devices with a new context, and how many seconds after the
    call a check last found none (None if the first check found one)."""

def driver_start(libraries: list[str]) -> str | None:
    """Starts to find out which library and line of Python cause each allocation of the CUDA driver.
    If this is impossible, returns the reason."""

def driver_stop(reason: str) -> None:
    """Ends what ``driver_start`` has started and releases CUPTI (NVIDIA's profiling interface), so
    that the program can use it."""

def driver_state() -> tuple[str, str | None]:
    """Whether the driver's allocations are attributed (``off``, ``on``, ``ended``), and why the
    attribution ended."""

def driver_held() -> tuple[list[dict[str, Any]], int]:
    """The memory in use that was allocated through the driver, by device, kind, library and line.
    Also returns how many allocations this does not include, because too many were in use."""

def driver_question(patience_s: float) -> tuple[int, int] | None:
    """Waits until a thread that allocates memory asks for the line of Python that it executes.
    Returns the number of the question and the id of the thread; None after ``patience_s``
    seconds."""

def driver_answer(question: tuple[int, int], site: tuple[str, int, str] | None) -> None:
    """Answers a question of ``driver_question``. ``site`` is (file, line, function); None if they
    are not known."""

@final
class StepHook:
    """Called by PyTorch at the end of every optimizer's step, on the training thread."""

    def __call__(self, optimizer: object, /, *_rest: object) -> None:
        """Accepts any arguments that PyTorch passes; a failure raises no exception."""

    @property
    def steps(self) -> int:
        """How many optimizer steps there have been since this object was created."""

    def set_watcher(self, watcher: Callable[[int, int], object] | None) -> None:
        """Sets the watcher, a function that is called at the end of a step when the memory level at
        the ends of steps rises. Its arguments are the number of the step and the rise in bytes. It
        is called at the following steps of the same optimizer too, for as long as it returns
        True."""

    def attend(self) -> None:
        """Makes the hook call the watcher at the next end of a step, whether the memory level rises
        or not."""

    @property
    def watcher_error(self) -> str | None:
        """The message of the exception that the watcher raised, after which it is not called any
        more. None if there was no exception."""

    def take_rise(self) -> float | None:
        """Bytes per second by which the memory level rises in a program without steps. None when it
        does not rise; each rise is returned once."""

@final
class Recorder:
    """Records the memory that a collector reads; without a collector, the host memory of this
    process."""

    def __new__(
        cls,
        options: _RecorderOptions,
        collector: object | None,
        listener: Callable[[dict[str, Any]], None] | None,
    ) -> Recorder: ...
    @property
    def step_hook(self) -> StepHook | None:
        """The function that PyTorch calls at the end of every optimizer step; None for collectors
        other than PyTorch's."""

    def start(self) -> None: ...
    def stop(self, status: str) -> None: ...
    def set_paused(self, is_paused: bool) -> None:
        """Pause or resume sampling; the session goes on."""

    @property
    def is_tracking(self) -> bool: ...
    def flush(self, patience_s: float) -> bool: ...
    def take_notices(self) -> list[str]:
        """Remove and return the log messages of the recorder."""

    def sink_status(self) -> tuple[Path | None, str | None] | None:
        """The directory of the running session's sink and, if the sink cannot be written, the
        reason."""

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
        """End the phase with the scope id that ``enter_phase`` returned."""

    def events(
        self,
        event_type: str | None = None,
        last: int | None = None,
        since: float | None = None,
        alerts_only: bool = False,
    ) -> list[dict[str, Any]]:
        """The events in the recorder's memory, each as a dictionary with the fields of
        ``TrackingEvent``."""

    def records(self) -> list[dict[str, Any]]:
        """The events in the recorder's memory, as the records that are written to files."""

    def record_oom(self, reason: str, facts: dict[str, int] | None = None) -> list[dict[str, Any]]:
        """Record an event that memory ran out. Returns the events for the OOM bundle, with this
        event last."""

    def clear(self) -> None: ...
    def set_threshold(self, name: str, value: float) -> bool:
        """Set the threshold of an alert; false when the name is unknown."""

    def tally(self) -> dict[str, Any]: ...
    def device_statistics(self, last_bundle: str | None) -> dict[str, Any]: ...
    def host_statistics(self) -> dict[str, Any]: ...
    def timeline(self, interval_s: float) -> tuple[list[float], list[int], list[int]]:
        """The events in the recorder's memory by intervals of ``interval_s`` seconds. Returns three
        lists: the start of each interval in seconds since 1970, and the allocated and the reserved
        bytes of its last event."""

    def export(self, path: _Path, format: str) -> None:
        """Write the events in the recorder's memory to a file; does nothing when there are none."""

    def session(self) -> dict[str, Any] | None:
        """The fields of the summary of the running or the last session; None before the first
        one."""

# An event that enters or leaves a phase: its type, its text, the scope in its metadata, the scope
# id, and the names of the open phases from the outermost to this one.
_PhaseFields: TypeAlias = tuple[str, str, dict[str, Any], str, list[str]]

@final
class PhaseStacks:
    """The phases that have begun and not ended yet, by session, rank and thread."""

    def __new__(cls) -> PhaseStacks: ...
    def reset(self) -> None: ...
    def enter(self, owner: tuple[str, str], name: str, thread: tuple[int, str]) -> _PhaseFields: ...
    def exit(self, owner: tuple[str, str], scope_id: str, thread_id: int) -> _PhaseFields: ...

def requested_bytes(message: str) -> int | None: ...
def classify_oom(class_: str, module: str, message: str, is_torch_oom: bool, /) -> str | None:
    """The reason to record if an exception means that the memory of a device ran out, such as
    ``torch.cuda.OutOfMemoryError``; None for other exceptions."""

def classify_oom_legacy(
    class_: str, module: str, message: str, is_torch_oom: bool, /
) -> str | None:
    """The same as ``classify_oom``, by the rules of stormlog 0.3.9."""

def write_oom_bundle(fields: Mapping[str, Any]) -> Path:
    """Write an OOM bundle and return its directory."""

def amend_oom_bundle(
    path: _Path,
    exception: tuple[str, str, str],
    context: str | None,
    facts: Mapping[str, Any],
) -> None:
    """Add the exception, the context and facts to an OOM bundle that is already written."""

def attach_history_to_oom_bundle(path: _Path, names: list[str]) -> None:
    """Add the files of an allocator history to the list of files of an OOM bundle that is already
    written."""

def prune_oom_bundles(root: _Path, max_dumps: int, max_total_mb: int) -> None:
    """Delete the oldest OOM bundles in a folder until their number and their total size are within
    the limits."""

def process_sizes() -> tuple[int, int] | None:
    """Resident and virtual size of this process in bytes; None where they cannot be read."""

def machine_memory() -> tuple[int | None, int | None, int | None]:
    """Total and available memory of the machine and the memory limit of this process, in bytes;
    unknown values are None."""

def nvml_gpus() -> list[dict[str, Any]]:
    """The GPUs that NVML lists: index, name, UUID, and used, free and total bytes."""

def retry_delay_s(failures: int, initial_s: float, factor: float, max_s: float) -> float:
    """Seconds to wait before a collector is read again after ``failures`` failures in a row."""

def launcher_is_incomplete(env: Mapping[str, str]) -> bool:
    """Whether the environment sets a rank, but not all variables of any launcher."""

# Sinks and rollups

@disjoint_base
class Sink:
    """Writes a sink; the base class of ``AppendOnlyTelemetrySink``."""

    def __new__(cls, config: TelemetrySinkConfig) -> Self: ...
    def start(self, summary: SessionSummary | None) -> dict[str, Any]:
        """Start a session. Returns the summary fields of the session that is active after the
        call."""

    def current(self) -> dict[str, Any] | None:
        """The summary fields of the active session; None when no session is active."""

    def append(self, record: Mapping[str, Any]) -> None:
        """Append a record of the active session. Without an active session, the session of the
        record begins."""

    def flush(self, force: bool = False) -> None:
        """Write what is buffered if that is due; with ``force``, write it in any case."""

    def end(self, session_status: str) -> None:
        """Write what is buffered, close the segment and end the session."""

    def diagnostics(self) -> dict[str, int]:
        """How many new segments were started, and the numbers and bytes of the segments that were
        deleted and that are left."""

    @property
    def directory(self) -> Path:
        """The directory of the sink."""

    def take_notices(self) -> list[str]:
        """Remove and return the log messages of the sink."""

def before_fork() -> None:
    """Keep other threads from opening and closing the locks of sinks during a fork. The thread that
    is about to fork must call this."""

def after_fork_in_parent() -> None:
    """Let the other threads open and close the locks of sinks again. The thread that forked must
    call this in the parent process."""

def every_fork_is_announced() -> None:
    """Declare that around every fork ``before_fork`` is called, then ``after_fork_in_parent`` in
    the parent process and ``forget_after_fork`` in the child process."""

def forget_after_fork() -> None:
    """Drop buffers, files and locks of the parent process's sinks without writing anything. A
    forked child process must call this first."""

def session_rollups(
    sessions: Sequence[tuple[SessionSummary, EventRows, Sequence[str], Sequence[str]]],
    window_duration_ns: int,
) -> list[dict[str, Any]]:
    """The rollups of sessions, sorted by session. A session is given as (summary, events, sources,
    warnings)."""

def rollups_from_mapping(payload: Mapping[str, Any]) -> dict[str, Any]:
    """Check a mapping with the content of a rollup file and return its fields as a new
    dictionary."""

def read_rollups(path: _Path) -> dict[str, Any] | None:
    """The rollups of a sink; None when it has none that match its manifest."""

def rollup_path(path: _Path) -> Path:
    """The path of a sink's rollup file; ``path`` is the folder of the sink or a file in it."""

def write_rollups(root_dir: _Path, payload: Mapping[str, Any]) -> Path:
    """Write the rollup file of a sink and return its path."""

# The program

def main(dialect: str, arguments: Sequence[str]) -> int:
    """Run the program ``dialect``, such as ``stormlog`` or ``gpumemprof``, and return its exit
    code."""

def is_command(word: str) -> bool:
    """Whether a word is the name of a command of ``stormlog``."""

def sendable(artifact: _Path, copies: _Path) -> tuple[list[tuple[str, Path]], list[str]]:
    """The files of an artifact that may leave the machine (name and path), and what is left out.

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
        """The warnings of opening the paths and of all queries so far."""

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
        """The fingerprint and the state of each issue. ``sidecar`` is the file with decisions about
        issues (``issues.json``)."""

    def decide_issue(
        self,
        sidecar: _Path,
        fingerprint_id: str,
        state_until_ns: tuple[str, int | None],
        by_reason: tuple[str, str | None],
    ) -> str:
        """Store a decision about an issue in the file ``sidecar``, and return the state of the
        issue."""

    def summarize(self, metric: str, group_by: str | None) -> list[_Row]: ...

def is_run_envelope(payload: Mapping[str, Any]) -> bool:
    """Whether a JSON object declares that it is a run envelope of a version that Stormlog reads."""

def read_run_envelope(payload: Mapping[str, Any], path: _Path) -> dict[str, Any] | None:
    """The fields of a run envelope; None when it is invalid."""

# Analyses

_ProfiledCall: TypeAlias = tuple[str, float, float, float, int, int, int, int, int, int]

def rows_from_events(events: list[Any]) -> EventRows:
    """Store event objects or mappings in columns, without checking them."""

@final
class PhaseReplay:
    """The phases of a run as spans of time."""

    @staticmethod
    def of_events(events: EventRows | list[Any]) -> PhaseReplay:
        """Find the phases that begin and end in events: columns, event objects or mappings."""

    @staticmethod
    def of_spans(groups: list[tuple[tuple[str, int], list[Any]]]) -> PhaseReplay:
        """Use spans that were computed elsewhere, grouped by session and rank."""

    def spans(self, session_id: object, rank: object) -> list[tuple[Any, ...]]:
        """The spans of a session's phases, of one rank or, if ``rank`` is None, of all ranks."""

    def active(self, timestamp_ns: int, session_id: object, rank: object) -> list[tuple[Any, ...]]:
        """The spans of a session's phases that contain a time."""

    def resolve(
        self,
        timestamp_ns: int,
        session_id: object,
        rank: object,
        origin_thread_id: object,
        origin_phase_scope_id: object,
    ) -> dict[str, Any] | None:
        """The phase of a session and rank at a time; None outside of all phases."""

    def resolve_event(self, event: object) -> dict[str, Any] | None:
        """The phase in which an event happened; None outside of all phases."""

def phase_boundary(event: object) -> dict[str, Any] | None:
    """The fields of ``PhaseBoundaryRecord``, except ``attributes``, of an event that enters or
    leaves a phase; None for other events."""

def attribute_phase(
    spans: list[Any], origin_thread_id: object, origin_phase_scope_id: object
) -> dict[str, Any] | None:
    """The phase at a time, chosen from spans that all contain this time."""

def merge_phases(first: object, second: object) -> dict[str, Any]:
    """Merge two phase attributions into one."""

def phase_label(attribution: object) -> str | None:
    """A phase attribution as one line of text."""

def timeline_markers(
    events: EventRows | list[Any], include_phases: bool
) -> list[tuple[dict[str, Any], int | None]]:
    """The timeline markers of events. Each comes with the index of its event; the marker of a phase
    has no index."""

def gap_findings(
    rows: EventRows, thresholds: list[float], format_memory: object
) -> list[tuple[str, str, float, dict[str, Any], str, int, int]]:
    """Findings about the gap between used and reserved memory. ``format_memory`` is a function that
    writes a number of bytes as text."""

def compare_ranks(
    rows: EventRows, resolver: object, with_points: bool
) -> tuple[dict[str, Any], dict[str, Any], list[str]]:
    """Compare the ranks of a run. Returns the merged timeline, the first cause (the ranks whose
    memory may have risen first), and the remarks on both."""

def attribute_collectives(
    rows: EventRows, limits: list[float], resolver: object
) -> list[dict[str, Any]]:
    """Attribute the gap between used and reserved memory to collective operations of the ranks."""

def collective_preset(name: str) -> tuple[str, list[float]]:
    """The name and the limits of a preset for ``attribute_collectives``."""

def collective_fields_in_order() -> list[str]:
    """The names of the limits for ``attribute_collectives``, in their order."""

def check_collective_fields(fields: list[str]) -> None:
    """Raise an exception for names that are not limits for ``attribute_collectives``."""

def check_collective_limits(limits: list[float]) -> None:
    """Raise an exception for limits for ``attribute_collectives`` that are out of range."""

def profile_patterns(calls: list[_ProfiledCall], thresholds: list[float]) -> list[dict[str, Any]]:
    """Find patterns of wasted memory, such as leaks, in profiled calls: the fields of
    ``MemoryPattern`` for each."""

def profile_insights(calls: list[_ProfiledCall], thresholds: list[float]) -> list[dict[str, Any]]:
    """Find insights, such as slow functions, in profiled calls: the fields of
    ``PerformanceInsight`` for each."""

def profile_summary(calls: list[_ProfiledCall]) -> dict[str, Any]:
    """The numbers of functions and calls, the allocated bytes and the total time of profiled
    calls."""

def optimization_score(severities: list[str], impacts: list[str]) -> dict[str, Any]:
    """The score of a profile from 0 to 100: 100 minus deductions for the severities of its patterns
    and the impacts of its insights."""

# Name, number of calls, total seconds, total megabytes, peak megabytes.
_FunctionSizes: TypeAlias = tuple[str, int, float, float, float]

def framework_leaks(usage: Sequence[float], growth_rate: float) -> list[dict[str, Any]]:
    """Find signs of a leak in readings of memory use, which are given in megabytes. ``growth_rate``
    is only copied into the result."""

def framework_patterns(usage: Sequence[float]) -> list[dict[str, Any]]:
    """Find repeated patterns and sudden rises in readings of memory use, which are given in
    megabytes."""

def framework_fragmentation(
    snapshots: Sequence[tuple[float, float]], trend_name: str
) -> dict[str, float]:
    """The share of reserved memory that is unused: its mean, its trend (under the key
    ``trend_name``) and its extremes. A snapshot is one reading: megabytes in use and megabytes
    reserved."""

def framework_efficiency(
    peak_mb: float, growth: float, fragmentation: float, usage: Sequence[float] | None
) -> float:
    """Compute how efficiently a profiled program uses memory, as a score from 0 to 10."""

def framework_performance(name: str, profiles: Sequence[_FunctionSizes]) -> dict[str, Any]:
    """Memory and time per call of each profiled function, with recommendations. ``name`` is the
    framework."""

def framework_suggestions(
    name: str,
    peak_mb: float,
    growth: float,
    fragmentation: float,
    profiles: Sequence[_FunctionSizes],
) -> list[str]:
    """At most ten suggestions how a profiled program can use less memory. ``name`` is the
    framework."""

def framework_score(
    efficiency: float,
    fragmentation: float | None,
    profiles: Sequence[_FunctionSizes],
    suggestions: Sequence[str],
) -> dict[str, Any]:
    """The overall score of a profile, the scores for memory efficiency, fragmentation and
    performance of which it is the mean, and suggestions."""

# Complete reports

def analyze_runs(
    paths: Sequence[str | PathLike[str]],
    session_id: str | None,
    rank: int | None,
    oom_horizon_hours: float,
    skip_damaged: bool,
) -> tuple[dict[str, Any], str]:
    """Analyze the run in the artifacts at some paths. Returns the report as the content of its JSON
    document and as text."""

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
    """Compare two runs and check the gates. Returns the report as the content of its JSON document
    and as text."""

def save_baseline(
    run: str | PathLike[str],
    file: str | PathLike[str],
    session_id: str | None,
    rank: int | None,
    oom_horizon_hours: float,
    skip_damaged: bool,
) -> None:
    """Save the levels of a run to a baseline file, with which later runs can be compared."""
