"""No form of a secret reaches the files of a run: arguments, exceptions, metadata."""

from __future__ import annotations

import json
import re
import shlex
import string
import sys
from pathlib import Path
from random import Random
from types import ModuleType

from stormlog import _tensor_index
from stormlog.cpu_profiler import CPUMemoryTracker
from stormlog.telemetry_sink import AppendOnlyTelemetrySink, TelemetrySinkConfig
from test_run import record

FORMS = Path(__file__).resolve().parents[2] / "fixtures" / "secrets" / "forms.txt"
LETTERS = {
    "hex": "0123456789abcdef",
    "caps": string.ascii_uppercase + string.digits,
    "low": string.ascii_lowercase + string.digits,
    "pass": string.ascii_letters + string.digits + "!%+^",
}


def forms() -> list[tuple[str, list[str]]]:
    """Each line with random text in its places, and that text."""
    random = Random(20261116)
    found = []
    for line in FORMS.read_text().splitlines():
        secrets: list[str] = []

        def fill(place: re.Match[str], secrets: list[str] = secrets) -> str:
            letters = LETTERS.get(place[1], string.ascii_letters + string.digits)
            secret = "aB3"[: 0 if place[1] in ("hex", "caps", "low") else 3]
            secret += "".join(random.choices(letters, k=int(place[2]) - len(secret)))
            if place[1] in ("hex", "caps", "low"):
                secret = secret[:-2] + ("7A" if place[1] == "caps" else "7a")
            secrets.append(secret)
            return secret

        if not line.startswith("#"):
            text = re.sub(r"\{(hex|word|caps|low|base64|pass)(\d+)\}", fill, line)
            found.append((text, secrets))
    return found


def leaks(folder: Path, secrets: list[str]) -> list[str]:
    files = [path for path in folder.rglob("*") if path.is_file()]
    assert files
    text = "".join(path.read_text(errors="replace") for path in files)
    return [secret for secret in secrets if secret[:8] in text or secret[-8:] in text]


def test_names_of_tensors_keep_no_secret(torch: ModuleType) -> None:
    secrets = forms()
    kept = {text: torch.Tensor(0x1000 * (at + 1)) for at, (text, _) in enumerate(secrets)}
    kept["activations"] = torch.Tensor(0xFF0000)
    text = json.dumps(_tensor_index.index_of(0))
    found = [secret for _, hidden in secrets for secret in hidden if secret[:8] in text]
    assert found == [] and '"activations"' in text and len(kept) > 9


def test_a_run_keeps_no_secret(tmp_path: Path) -> None:
    script, out = tmp_path / "train.py", tmp_path / "out"
    every = forms()
    commands = [text for text, _ in every if text.startswith("python train.py ")]
    assert len(commands) >= 30
    words = [word for text in commands for word in shlex.split(text)[2:]]
    # A message of several lines; it is cut after 4,000 letters.
    message = "\n".join(text for text, _ in every[::5])
    assert 2000 < len(message) < 4000
    script.write_text(f"raise MemoryError({message!r})\n")
    result = record(out, sys.executable, script, *words, cwd=tmp_path)
    assert result.returncode == 1
    assert (out / "oom_dumps").exists()
    secrets = [secret for _, secrets in every for secret in secrets]
    assert leaks(out, secrets) == []


def test_a_sink_keeps_no_secret(tmp_path: Path) -> None:
    every = forms()
    sink = AppendOnlyTelemetrySink(TelemetrySinkConfig(root_dir=tmp_path / "sink"))
    for number, (text, _) in enumerate(every):
        metadata = {"note": text, "nested": {"lines": f"failed:\n{text}"}, "n": number}
        sink.append({"timestamp_ns": number, "context": text, "metadata": metadata})
    sink.close()
    secrets = [secret for _, secrets in every for secret in secrets]
    assert leaks(tmp_path / "sink", secrets) == []


def test_a_tracker_keeps_no_secret(tmp_path: Path) -> None:
    every = forms()
    sink = TelemetrySinkConfig(root_dir=tmp_path / "sink")
    with CPUMemoryTracker(sampling_interval=0.05, telemetry_sink_config=sink) as tracker:
        for text, _ in every:
            with tracker.phase("train", metadata={"command_line": text, "note": text}):
                pass
        tracker.export_events(str(tmp_path / "events.json"), format="json")
        tracker.export_events(str(tmp_path / "events.csv"), format="csv")
    assert '"note"' in (tmp_path / "events.json").read_text()
    secrets = [secret for _, secrets in every for secret in secrets]
    assert leaks(tmp_path, secrets) == []
