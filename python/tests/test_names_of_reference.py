"""Every public name of stormlog 0.3.9 is here and is called the same way.

`names_of_reference.json` was recorded by `parity/names.py`: names, parameters and defaults. We
may add parameters, keyword-only and with a default; nothing else may differ but what is listed.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from parity.names import VALUE

HERE = Path(__file__).parent
REFERENCE: dict[str, dict[str, Any]] = json.loads((HERE / "names_of_reference.json").read_text())

# Modules that are not provided; each is listed in docs/compatibility.md.
NOT_YET = ("stormlog.infer",)
# Rows come from `QueryStore`, so nothing builds them by hand.
_ROW_BUILDERS = {
    "RunContext",
    "RunIdentityConflict",
    "RunIdentityIndex",
    "attachment_storage_or_default",
    "attachment_storage_or_none",
    "build_identity_index",
    "build_run_contexts",
    "diagnose_attachment_rows",
    "envelope_attachment_rows",
    "flat_telemetry_attachment_rows",
    "local_attachment_row",
    "oom_attachment_rows",
    "rollup_attachment_rows",
    "run_attachment_matches",
    "run_id_for_identity",
    "run_matches",
    "sidecar_attachment_rows",
    "sink_attachment_rows",
    "sink_segment_attachment_rows",
}
MISSING = {
    "stormlog.run_catalog": _ROW_BUILDERS,
    # Constants that stormlog 0.3.9's module holds for its own use.
    "stormlog.query": _ROW_BUILDERS
    | {
        "ATTACHMENTS_FILENAME",
        "ATTACHMENTS_FORMAT",
        "ATTACHMENTS_SCHEMA_VERSION",
        "CLOCK_DOMAIN_UNIX_EPOCH_NS",
        "CLOCK_NORMALIZATION_PRODUCER_EPOCH_NS",
    },
}
# A row that gained a last field, with a default.
GAINED = {"stormlog.query.SessionRow": "effective_status=None"}


@pytest.fixture(scope="module")
def ours() -> dict[str, dict[str, Any]]:
    """Read in a process of its own: modules must not find what other tests have set up."""
    code = (
        "import importlib, json, sys; from parity.names import fact_of\n"
        "reference = json.load(open('names_of_reference.json')); found = {}\n"
        "for name, facts in reference.items():\n"
        "    try: module = importlib.import_module(name)\n"
        "    except ImportError: continue\n"
        "    asked = {one: getattr(module, one) for one in facts if hasattr(module, one)}\n"
        "    found[name] = {one: fact_of(value) for one, value in asked.items()}\n"
        "json.dump(found, sys.stdout)"
    )
    fakes = [str(HERE / f"fake_{name}") for name in ("torch", "tensorflow", "jax")]
    done = subprocess.run(
        [sys.executable, "-c", f"import sys; sys.path[:0] = {[str(HERE), *fakes]!r}\n{code}"],
        check=True,
        capture_output=True,
        text=True,
        cwd=HERE,
    )
    found: dict[str, dict[str, Any]] = json.loads(done.stdout)
    return found


def test_every_module_and_name_is_there(ours: dict[str, dict[str, Any]]) -> None:
    missing = []
    for module, names in REFERENCE.items():
        if module not in ours:
            if not module.startswith(NOT_YET):
                missing.append(module)
            continue
        left_out = MISSING.get(module, set())
        missing += [f"{module}.{name}" for name in names if name not in {*ours[module], *left_out}]
    assert missing == []


def agrees(theirs: str, own: str, gained: str | None) -> bool:
    """Whether every call that fits their parameters also fits ours."""
    if own == theirs or (gained is not None and own == f"{theirs}, {gained}"):
        return True
    added = own.removeprefix(theirs).removeprefix(", ")
    is_longer = (own.startswith(theirs) and len(added) < len(own)) or not theirs
    return is_longer and all(word.startswith("kw ") and "=" in word for word in added.split(", "))


def test_everything_is_called_the_same_way(ours: dict[str, dict[str, Any]]) -> None:
    different = []
    for module, names in REFERENCE.items():
        for name, theirs in names.items():
            own = ours.get(module, {}).get(name)
            if theirs == VALUE or own is None:
                continue
            pairs = theirs if isinstance(theirs, dict) else {"": theirs}
            owns = own if isinstance(own, dict) else {"": own}
            for member, parameters in pairs.items():
                where = f"{module}.{name}" + (f".{member}" if member else "")
                if member not in owns:
                    different.append(f"{where} is missing")
                elif VALUE not in (parameters, owns[member]) and None not in (
                    parameters,
                    owns[member],
                ):
                    if not agrees(parameters, owns[member], GAINED.get(where)):
                        different.append(f"{where}({owns[member]}) and not ({parameters})")
    assert different == []


@pytest.mark.parametrize(
    ("theirs", "own", "is_fine"),
    [
        ("a, b=1", "a, b=1", True),
        ("a, b=1", "a, b=1, kw c=None", True),
        ("", "kw c=None", True),
        ("a", "a, b=1", False),
        ("a", "a, kw b", False),
        ("a, b=1", "a, b=2", False),
        ("a, b=1", "a", False),
        ("a, b=1", "a, b=10", False),
    ],
)
def test_what_agrees(theirs: str, own: str, is_fine: bool) -> None:
    assert agrees(theirs, own, None) is is_fine
