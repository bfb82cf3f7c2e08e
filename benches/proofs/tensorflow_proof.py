"""Show that the TensorFlow profiler and tracker work with the real TensorFlow, on the CPU.

python benches/proofs/tensorflow_proof.py [--keep DIRECTORY] [--package tensorflow-cpu]
"""

from __future__ import annotations

import sys

from framework_proof import prove

PROOF = """
assert "tensorflow" not in sys.modules, "importing stormlog imports TensorFlow"

from stormlog.telemetry import load_telemetry_events, validate_telemetry_record
from stormlog.telemetry_sink import TelemetrySinkConfig
from stormlog.tensorflow import TFMemoryProfiler, TensorFlowAnalyzer, TensorFlowMemoryTracker
import tensorflow as tf

show("versions", f"TensorFlow {tf.__version__}, Python {sys.version.split()[0]}")

# The profiler.
profiler = TFMemoryProfiler(enable_tensor_tracking=True)
show("device", profiler.device, profiler.device == "/CPU:0")
kept = []

@profiler.profile_function
def grow():
    kept.append(tf.ones((1024, 1024, 8)))
    return len(kept)

with profiler.profile_context("training"):
    for _ in range(4):
        grow()
    variable = tf.Variable(tf.zeros((256, 256)))
result = profiler.get_results().to_dict()
json.dumps(result)
show("profile_function", f"{result['function_profiles']['grow']['calls']} calls",
     result["function_profiles"]["grow"]["calls"] == 4)
show("profile_context", ", ".join(result["function_profiles"]),
     "training" in result["function_profiles"])
first, last = result["snapshots"][0], result["snapshots"][-1]
show("tensors seen before and after", f"{first['num_tensors']} and {last['num_tensors']}",
     last["num_tensors"] >= first["num_tensors"] + 4)
tensors_mb = last["tensor_sizes"]["total_mb"]
show("their size", f"{tensors_mb:.1f} MB", tensors_mb >= 128)
grown = last["cpu_memory_mb"] - first["cpu_memory_mb"]
show("resident size grew by", f"{grown:.0f} MB", grown > 100)
score = TensorFlowAnalyzer().score_optimization(profiler.get_results())
show("score_optimization", f"{score['overall_score']:.2f} of 10")
kept.clear()

# The tracker, around a Keras model.
folder = Path(tempfile.mkdtemp())
tracker = TensorFlowMemoryTracker(
    sampling_interval=0.01, telemetry_sink_config=TelemetrySinkConfig(root_dir=folder / "sink"))
model = tf.keras.Sequential([tf.keras.Input((64,)), tf.keras.layers.Dense(512, activation="relu"),
                             tf.keras.layers.Dense(1)])
model.compile(optimizer="adam", loss="mse")
tracker.start_tracking()
with tracker.phase("fit"):
    model.fit(tf.random.normal((4096, 64)), tf.random.normal((4096, 1)), epochs=3, verbose=0)
tracked = tracker.stop_tracking()
statistics = tracker.get_statistics()
show("tracker, while Keras trained", f"{len(tracked.memory_usage)} samples in "
     f"{tracked.duration:.1f} s", len(tracked.memory_usage) > 5)
show("its peak", f"{tracked.peak_memory:.0f} MB", tracked.peak_memory > 50)
six = ("tracking_duration_seconds", "total_events", "peak_memory", "alert_count",
       "total_allocations", "total_deallocations")
missing = [key for key in six if key not in statistics]
show("documented statistics", f"missing: {missing or 'none'}", not missing)
events = load_telemetry_events(folder / "sink")
for record in tracked.events:
    validate_telemetry_record(record)
kinds = sorted({event.event_type for event in events})
show("its sink", f"{len(events)} events: {', '.join(kinds)}", "phase_enter" in kinds)

# Diagnosis and plots.
from stormlog.tensorflow import TensorFlowVisualizer
from stormlog.tensorflow.diagnose import run_diagnose

directory, code = run_diagnose(str(folder / "bundle"), None, 0.5, 0.05, "proof")
show("run_diagnose", f"exit code {code}, {len(list(directory.iterdir()))} files", code == 0)
TensorFlowVisualizer().save_plots(profiler.get_results(), str(folder / "plots"))
plots = sorted(path.name for path in (folder / "plots").iterdir())
show("plots", ", ".join(plots), len(plots) == 3)
print(json.dumps(rows))
"""

if __name__ == "__main__":
    sys.exit(prove("tensorflow", "tensorflow-cpu", PROOF, __doc__.splitlines()[0]))
