"""Show that the TensorFlow profiler and tracker work with the real TensorFlow, on the CPU.

    python benches/tensorflow_proof.py [--keep DIRECTORY] [--package tensorflow-cpu]

Makes a virtual environment of its own, installs TensorFlow from the package index into it, and
lets it import Stormlog from this checkout (built with `maturin develop`). What is proven is
printed as a table; anything that does not hold ends the script with 1. Not part of the tests:
TensorFlow is some hundred megabytes.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import venv
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]

PROOF = """
import json, sys, tempfile, time
from pathlib import Path

sys.path.insert(0, sys.argv[1])
import stormlog
assert "tensorflow" not in sys.modules, "importing stormlog imports TensorFlow"

from stormlog.telemetry import load_telemetry_events, validate_telemetry_record
from stormlog.telemetry_sink import TelemetrySinkConfig
from stormlog.tensorflow import TFMemoryProfiler, TensorFlowAnalyzer, TensorFlowMemoryTracker
import tensorflow as tf

rows = []

def show(what, seen, held=True):
    rows.append([what, seen])
    assert held, f"{what}: {seen}"

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
print(json.dumps(rows))
"""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--package", default="tensorflow-cpu", help="what to install")
    parser.add_argument("--keep", type=Path, help="an environment to make here, or to use again")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        folder = arguments.keep or Path(scratch) / "venv"
        python = folder / "bin" / "python"
        if not python.exists():
            venv.create(folder, with_pip=True)
        have = subprocess.run([python, "-c", "import tensorflow"], capture_output=True)
        if have.returncode != 0:
            install = [python, "-m", "pip", "install", "-q", "--no-cache-dir", arguments.package]
            if subprocess.run(install).returncode != 0:
                print(f"'{arguments.package}' cannot be installed here", file=sys.stderr)
                return 1
        done = subprocess.run(
            [python, "-c", PROOF, str(ROOT / "python")], stdout=subprocess.PIPE, text=True
        )
        if done.returncode != 0:
            return 1
        print("| question | answer |\n|---|---|")
        for what, seen in json.loads(done.stdout.splitlines()[-1]):
            print(f"| {what} | {seen} |")
    return 0


if __name__ == "__main__":
    sys.exit(main())
