"""Show that the JAX tracker, profiler and helpers work with the real JAX, on a CPU or a GPU.

python benches/proofs/jax_proof.py [--keep DIRECTORY] [--package jax]
"""

from __future__ import annotations

import sys

from framework_proof import prove

PROOF = """
assert "jax" not in sys.modules, "importing stormlog imports JAX"

import contextlib, io
from stormlog import entrypoint
from stormlog.jax import JAXMemoryProfiler, MemoryAnalyzer, MemoryTracker
from stormlog.jax.diagnose import run_diagnose
from stormlog.jax.pprof_parser import parse_jax_memory_profile
from stormlog.jax.utils import get_backend_info
from stormlog.jax.visualizer import MemoryVisualizer
from stormlog.telemetry import load_telemetry_events, validate_telemetry_record
from stormlog.telemetry_sink import TelemetrySinkConfig
assert "jax" not in sys.modules, "importing stormlog.jax imports JAX"
import jax
import jax.numpy as jnp

MB = 1 << 20
folder = Path(tempfile.mkdtemp())
device = jax.devices()[0]
on_device = device.memory_stats() is not None
backend = get_backend_info()["runtime_backend"]
show("versions", f"JAX {jax.__version__}, Python {sys.version.split()[0]}")
show("device", f"{device.device_kind}, backend {backend}, "
     f"{'reports' if on_device else 'does not report'} its memory")

if backend != "cpu" and not on_device:
    # An allocator without counters, such as XLA_PYTHON_CLIENT_ALLOCATOR=platform.
    with MemoryTracker(sampling_interval=0.01) as tracker:
        time.sleep(0.2)
    seen = tracker.get_tracking_results()
    show("missing counters are unknown", f"{seen.memory_source}: "
         f"{seen.device_memory_unavailable_reason}", not seen.memory_usage)
    print(json.dumps(rows))
    sys.exit()

# The profiler.
profiler = JAXMemoryProfiler()
kept = []

@profiler.profile_function
def grow():
    kept.append(jax.block_until_ready(jnp.ones((1024, 1024, 8))))
    return len(kept)

with profiler.profile_context("training"):
    for _ in range(4):
        grow()
result = profiler.get_results()
json.dumps(result.to_dict())
profile = result.function_profiles["grow"]
show("profile_function", f"{profile['calls']} calls, {profile['total_memory_delta'] / MB:.0f} MB",
     profile["calls"] == 4 and (profile["total_memory_delta"] >= 128 * MB) == on_device)
grown = result.snapshots[-1].cpu_memory_mb - result.snapshots[0].cpu_memory_mb
if not on_device:
    show("resident size grew by", f"{grown:.0f} MB", grown > 100)

# What holds the memory, while it is held.
tracker = MemoryTracker(sampling_interval=0.01)
path = tracker.save_device_memory_profile_to_dir(str(folder))
samples = parse_jax_memory_profile(path)["samples"]
held = sum(sample["values"][-1] for sample in samples if "grow" in sample["stack"])
show("device memory profile", f"grow holds {held / MB:.0f} MB", held >= 4 * 32 * MB)
kept.clear()

# The tracker, around a training loop.
tracker = MemoryTracker(
    sampling_interval=0.01, alert_threshold_mb=1,
    telemetry_sink_config=TelemetrySinkConfig(root_dir=folder / "sink"))

@jax.jit
def step(weights, batch):
    loss = lambda w: jnp.mean((jnp.tanh(batch @ w[0]) @ w[1]) ** 2)
    return jax.tree.map(lambda w, g: w - 0.1 * g, weights, jax.grad(loss)(weights))

weights = [jnp.ones((512, 2048)) * 0.01, jnp.ones((2048, 512)) * 0.01]
batch = jnp.ones((256, 512))
for _ in range(20):
    weights = jax.block_until_ready(step(weights, batch))
tracker.start_tracking()
with tracker.phase("fit"):
    until = time.monotonic() + 1.5
    while time.monotonic() < until:
        weights = jax.block_until_ready(step(weights, batch))
tracked = tracker.stop_tracking()
statistics = tracker.get_statistics()
show("tracker, while it trained", f"{tracked.samples_collected} samples in "
     f"{tracked.duration:.1f} s from {tracked.memory_source}", tracked.samples_collected > 20)
show("its peak", f"{tracked.peak_memory_mb:.1f} MB", tracked.peak_memory_mb >= 8)
show("its alerts", str(tracked.alert_count), tracked.alert_count == 1)
six = ("tracking_duration_seconds", "total_events", "peak_memory", "alert_count",
       "total_allocations", "total_deallocations")
missing = [key for key in six if key not in statistics]
show("documented statistics", f"missing: {missing or 'none'}", not missing)
events = load_telemetry_events(folder / "sink")
for record in tracked.telemetry_events:
    validate_telemetry_record(record)
kinds = sorted({event.event_type for event in events})
show("its sink", f"{len(events)} events: {', '.join(kinds)}", "phase_enter" in kinds)
last = [event for event in events if event.event_type == "sample"][-1]
if on_device:
    stats = device.memory_stats()
    show("the limit of the device", f"{last.device_total_bytes / MB:,.0f} MB",
         last.device_total_bytes == stats["bytes_limit"])
    show("allocated and reserved", f"{last.allocator_allocated_bytes / MB:.1f} MB and "
         f"{last.allocator_reserved_bytes / MB:.1f} MB; the pool: "
         f"{last.metadata.get('allocator_pool_bytes', 'unknown')}",
         last.allocator_reserved_bytes >= last.allocator_allocated_bytes)
gaps = MemoryAnalyzer().analyze_memory_gaps(list(events))
show("gap findings of a clean run", str(len(gaps)), not gaps)
report = stormlog.analyze(folder / "sink")
found = [finding.kind for finding in report.findings if finding.severity != "info"]
show("findings of stormlog.analyze", ", ".join(found) or "none", not found)

# The cost of a sample.
begin = time.perf_counter()
for _ in range(2000):
    tracker.collector.sample_with_diagnostics()
cost = (time.perf_counter() - begin) / 2000 * 1e6
show("cost of a reading", f"{cost:.1f} us", cost < 100)

# A peak that no sample sees.
if on_device:
    tracker = MemoryTracker(sampling_interval=0.5)
    tracker.start_tracking()
    time.sleep(0.7)
    jax.block_until_ready(jnp.ones((1024, 1024, 256))).delete()
    time.sleep(0.7)
    tracked = tracker.stop_tracking()
    peaks = [event["metadata"].get("allocator_peak_bytes", 0) for event in tracked.telemetry_events]
    show("a peak between two samples", f"{max(peaks) / MB:,.0f} MB, while samples saw at most "
         f"{tracked.peak_memory_mb:,.0f} MB", max(peaks) >= 1024 * MB > tracked.peak_memory_bytes)

# Running out of memory, with JAX's own exception.
tracker = MemoryTracker(sampling_interval=0.02, enable_oom_flight_recorder=True,
                        oom_dump_dir=str(folder / "oom"))
try:
    with tracker, tracker.capture_oom("step 7"):
        time.sleep(0.1)
        # More than any address space on a CPU, which would else promise it; more than any GPU.
        jax.block_until_ready(jnp.ones((1 << (40 if on_device else 46),)))
except Exception as error:
    message = f"{type(error).__name__}: {str(error)[:60]}"
bundle = Path(tracker.last_oom_dump_path)
names = sorted(path.name for path in bundle.iterdir())
show("out of memory", f"{message} ...", "RESOURCE_EXHAUSTED" in message)
show("its bundle", f"{len(names)} files", any(name.endswith(".prof") for name in names))
reason = json.loads((bundle / "metadata.json").read_text())["reason"]
show("its reason", reason, reason == "message_pattern:out of memory")

# Diagnosis, plots, the program.
directory, code = run_diagnose(str(folder / "bundle"), 0, 0.5, 0.05, "proof")
summary = json.loads((directory / "diagnostic_summary.json").read_text())
show("run_diagnose", f"exit code {code}, total {summary['total_bytes']}", code == 0)
MemoryVisualizer().save_plots(result, str(folder / "plots"))
plots = sorted(path.name for path in (folder / "plots").iterdir())
show("plots", ", ".join(plots), len(plots) == 3)
output = folder / "monitor.json"
with contextlib.redirect_stdout(io.StringIO()):
    code = entrypoint.jaxmemprof(["monitor", "--duration", "0.5", "--interval", "0.05",
                                  "--device", "gpu" if on_device else "cpu", "--output", str(output)])
seen = json.loads(output.read_text())
show("jaxmemprof monitor", f"exit code {code}, {len(seen['memory_usage'])} samples, peak "
     f"{seen['peak_memory']:,.0f} MB from {seen['memory_source']}", code == 0 and seen["peak_memory"] > 50)
print(json.dumps(rows))
"""

if __name__ == "__main__":
    sys.exit(prove("jax", "jax", PROOF, __doc__.splitlines()[0]))
