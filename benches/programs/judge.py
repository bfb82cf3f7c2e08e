"""Records programs with `stormlog run` and judges what `stormlog analyze` reports.

    python benches/programs/judge.py --out runs                     all programs that can run here
    python benches/programs/judge.py --needs python,numpy --jobs 2  those that need no framework
    python benches/programs/judge.py --only gan,ema --seconds 30
    python benches/programs/judge.py --judge-only runs              recordings made before
    python benches/programs/judge.py --same-results                 the programs' own results
    python benches/programs/judge.py --programs benches/programs/untuned/second

The report on a clean program is right when no finding is a warning or critical. The report on a
fault is right when a finding of an expected kind is a warning or critical, none of an unexpected
kind is, and no finding names a wrong line or holder. programs.json, beside the programs, lists what
is expected. Needs the standard library only. Exit code: 0 when everything is right, 1 otherwise.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

TUNED = Path(__file__).resolve().parent / "tuned"
HELPERS = {"common", "tiny", "judge", "net", "parts"}
NEEDS = (
    "python",
    "numpy",
    "torch-cpu",
    "cuda",
    "jax",
    "jax-gpu",
    "lightning",
    "transformers",
    "accelerate",
    "pandas",
    "sqlalchemy",
    "sklearn",
    "lightgbm",
)
# What programs need that use no device.
HOST_ONLY = {"python", "numpy", "pandas", "sqlalchemy", "sklearn", "lightgbm"}
LOUD = ("warning", "critical")
ROOT = Path(__file__).resolve().parents[2]
KINDS = json.loads((ROOT / "docs/schemas/kinds.json").read_text())
LEAKS = {kind["kind"] for kind in KINDS if kind["is_growth"]}
OUT_OF_MEMORY = re.compile(
    r"ran out of (host )?memory|out[- ]of[- ]memory|\bOOM\b|MemoryError|RESOURCE_EXHAUSTED|(can't|cannot|failed to) allocate",
    re.IGNORECASE,
)
# The roles of a line that makes memory stay.
KEEPING = ("adds_items", "assigns", "registers")
MARK = re.compile(r"#\s*(CULPRIT(?:-HOLDER)?)\b")

# Runs in the interpreter of the programs, which need not be ours.
PROBE = """
import importlib.util, json
have = ["python"]
for need, module in (("numpy", "numpy"), ("torch-cpu", "torch"), ("jax", "jax"), ("lightning", "lightning"),
                     ("transformers", "transformers"), ("accelerate", "accelerate"),
                     ("pandas", "pandas"), ("sqlalchemy", "sqlalchemy"), ("sklearn", "sklearn"),
                     ("lightgbm", "lightgbm")):
    if importlib.util.find_spec(module):
        have.append(need)
if "torch-cpu" in have:
    import torch
    have += ["cuda"] * torch.cuda.is_available()
if "jax" in have:
    import jax
    have += ["jax-gpu"] * (jax.default_backend() == "gpu")
print(json.dumps(have))
"""


@dataclass
class Marks:
    """The marked lines of a program."""

    allocating: set[int] = field(default_factory=set)  # numbers of the lines marked CULPRIT
    keeping: set[int] = field(default_factory=set)  # numbers of the lines marked CULPRIT-HOLDER
    text: str = ""  # all marked lines, which contain the names of the holders

    def are_named_by(self, cause: dict[str, Any], source: Path) -> bool:
        """Whether the cause of a finding names a marked line, or a variable of one as the holder."""
        site, allocated_at = cause["site"], cause.get("allocated_at")
        calls = [call for call in (site, allocated_at, *cause["call_path"]) if call]
        if site and cause["site_role"] in KEEPING:
            if Path(site["file"]).name == source.name and site["line"] in self.keeping:
                return True
        if any(
            Path(call["file"]).name == source.name and call["line"] in self.allocating
            for call in calls
        ):
            return True
        names = re.findall(
            r"[A-Za-z_]\w+", " ".join(re.findall(r"`([^`]+)`", cause["holder"] or ""))
        )
        return any(
            re.search(rf"\b{name}\b", self.text)
            for name in names
            if name not in ("self", "__main__")
        )


@dataclass
class Program:
    """One entry of programs.json."""

    name: str
    about: str
    needs: list[str]
    launcher: str = "python"
    exit: int = 0
    expect: list[str] = field(
        default_factory=list
    )  # kinds, any of which names the fault; empty: clean
    expect_cpu: list[str] | None = None  # instead, where the program runs without a GPU
    cause: list[str] = field(default_factory=list)  # one of these must be reported as well
    beside: list[str] = field(default_factory=list)  # these may be reported as well
    rank: int | None = None  # the rank that the finding must name, on a GPU
    severity: str = "warning"  # the least severity that counts as naming the fault
    folder: Path = TUNED

    @property
    def source(self) -> Path:
        return self.folder / f"{self.name}.py"

    def expected(self, device: str) -> set[str]:
        if device == "cpu" and self.expect_cpu is not None:
            return set(self.expect_cpu)
        return set(self.expect)

    def command(self, python: str) -> list[str]:
        launcher, *count = self.launcher.split()
        if launcher == "torchrun":
            ranks = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", *count]
            return [python, *ranks, f"{self.name}.py"]
        return [python, f"{self.name}.py"]

    def marks(self) -> Marks | None:
        """The lines of the program's source that a report may name as the cause."""
        if not self.source.exists():  # only the program's recording is in the repository
            return None
        marks = Marks()
        for number, line in enumerate(self.source.read_text().splitlines(), 1):
            if found := MARK.search(line):
                marks.text += line[: found.start()] + "\n"
                if found[1] == "CULPRIT":
                    marks.allocating.add(number)
                else:
                    marks.keeping.add(number)
        return marks

    def device(self, have: set[str]) -> str:
        """Where the program's arrays are: 'cuda' or 'cpu'."""
        if set(self.needs) <= HOST_ONLY:
            return "cpu"
        return "cuda" if ("jax-gpu" if "jax" in self.needs else "cuda") in have else "cpu"


@dataclass
class Recording:
    """How a recorded program ended; kept beside the recording as NAME.run.json."""

    name: str
    device: str
    exit: int | None
    seconds: float | None = None
    took_s: float | None = None
    stdout: str = ""
    stderr_tail: str = ""


@dataclass
class Judgement:
    """What was expected of one program, what was reported, and whether that is right."""

    name: str
    expected: str
    reported: str = ""
    wrong: list[str] = field(default_factory=list)
    clean: bool = True
    named: bool = False
    false_findings: int = 0
    causes_right: list[str] = field(default_factory=list)
    causes_wrong: list[str] = field(default_factory=list)
    headline: str = ""

    @property
    def verdict(self) -> str:
        return "ok" if not self.wrong else "; ".join(self.wrong)


def load_programs(folder: Path = TUNED) -> list[Program]:
    """The table of a folder of programs, checked against the files."""
    entries = json.loads((folder / "programs.json").read_text())["programs"]
    programs = [Program(**entry, folder=folder) for entry in entries]
    names = [program.name for program in programs]
    files = {path.stem for path in folder.glob("*.py")} - HELPERS
    problems = [f"{name}.py is not in programs.json" for name in sorted(files - set(names))]
    problems += [
        f"programs.json has '{name}', but there is no {name}.py"
        for name in sorted(set(names) - files)
    ]
    for program in programs:
        problems += [
            f"{program.name}: unknown need '{need}'" for need in program.needs if need not in NEEDS
        ]
        if (marks := program.marks()) and bool(program.expect) != bool(marks.text):
            problems.append(
                f"{program.name}: a faulty program has a CULPRIT mark, a clean one has none"
            )
    if problems:
        sys.exit("error: " + "\n".join(problems))
    return programs


def environment(arguments: argparse.Namespace, steps: int | None = None) -> dict[str, str]:
    """The variables that the programs run with."""
    env = dict(
        os.environ,
        PYTHONHASHSEED="0",
        PYTHONDONTWRITEBYTECODE="1",
        SCENARIO_S=str(arguments.seconds),
    )
    env.pop("SCENARIO_STEPS", None)
    if steps:
        env["SCENARIO_STEPS"] = str(steps)
    if arguments.device == "cpu":
        env.update(CUDA_VISIBLE_DEVICES="", JAX_PLATFORMS="cpu")
    return env


def execute(
    command: list[str], folder: Path, env: dict[str, str], limit_s: float
) -> tuple[int, str, str]:
    """Exit code, standard output and standard error. A signal N is 128 + N, as in a shell."""
    child = subprocess.Popen(
        command,
        cwd=folder,
        env=env,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        errors="replace",
        start_new_session=True,
    )
    try:
        out, err = child.communicate(timeout=limit_s)
    except subprocess.TimeoutExpired:
        os.killpg(child.pid, signal.SIGKILL)  # a session of its own: the program and its children
        out, err = child.communicate()
        return 124, out, f"{err}\nstopped after {limit_s:.0f} s"
    code = child.returncode
    return (code if code >= 0 else 128 - code), out, err


def record(program: Program, arguments: argparse.Namespace, have: set[str]) -> Recording:
    """Run one program under `stormlog run`, into a folder of its own."""
    folder = arguments.out / program.name
    shutil.rmtree(folder, ignore_errors=True)
    command = [
        *arguments.stormlog,
        "run",
        "--dir",
        str(folder),
        "--",
        *program.command(arguments.python),
    ]
    begin = time.monotonic()
    code, out, err = execute(
        command, program.folder, environment(arguments), 3 * arguments.seconds + 180
    )
    took = round(time.monotonic() - begin, 2)
    made = Recording(
        program.name, program.device(have), code, arguments.seconds, took, out, err[-2000:]
    )
    (arguments.out / f"{program.name}.run.json").write_text(json.dumps(asdict(made), indent=1))
    return made


def recorded(program: Program, folder: Path, device: str | None) -> Recording:
    """How a recording made before ended, as far as it is known."""
    notes = folder / f"{program.name}.run.json"
    if notes.exists():
        return Recording(**json.loads(notes.read_text()))
    host_only = set(program.needs) <= HOST_ONLY
    return Recording(program.name, "cpu" if host_only else device or "cuda", None)


def analyze(path: Path, stormlog: list[str]) -> dict[str, Any] | str:
    """The report of `stormlog analyze`, or why there is none."""
    done = subprocess.run(
        [*stormlog, "analyze", str(path), "--format", "json"], capture_output=True, text=True
    )
    if done.returncode != 0:
        return (done.stderr.strip().splitlines() or [f"exit code {done.returncode}"])[0]
    try:
        report: dict[str, Any] = json.loads(done.stdout)
    except ValueError as error:
        return f"not JSON: {error}"
    return report


def kind_of(finding: dict[str, Any]) -> str:
    """A finding's kind, in the words of programs.json.

    A leak of host memory is 'host_leak', whether the kind says so or the resource does; an
    'oom_risk' that reports an out-of-memory error that happened is 'oom'.
    """
    kind = str(finding["kind"])
    resource = str(finding.get("resource") or finding.get("evidence", {}).get("resource") or "")
    if kind == "allocator_leak" and (resource.startswith("host") or finding.get("device_id") == -1):
        return "host_leak"
    if kind in ("out_of_memory", "oom_risk", "oom"):
        happened = kind != "oom_risk" or OUT_OF_MEMORY.search(finding.get("explanation", ""))
        return "oom" if happened else "oom_risk"
    return kind


def judge(program: Program, made: Recording, report: dict[str, Any] | str) -> Judgement:
    """Compare one report with what programs.json expects."""
    expected = program.expected(made.device)
    result = Judgement(program.name, "|".join(sorted(expected)) or "clean", clean=not expected)
    if made.exit is not None and made.exit != program.exit:
        result.wrong.append(f"exit code {made.exit} instead of {program.exit}")
    if isinstance(report, str):
        result.wrong.append(f"no analysis: {report}")
        return result

    findings = report["findings"]
    loud = [found for found in findings if found["severity"] in LOUD]
    result.reported = (
        ", ".join(sorted({f"{kind_of(found)} ({found['severity']})" for found in loud})) or "silent"
    )
    result.headline = report["verdict"]["headline"]
    if program.exit == 0 and any(found["severity"] == "critical" for found in loud):
        result.wrong.append("critical, but the program ended normally")

    def names_rank(found: dict[str, Any]) -> bool:
        on_gpu = program.rank is not None and made.device == "cuda"
        return not on_gpu or kind_of(found) not in LEAKS or found["rank"] == program.rank

    allowed = expected | set(program.cause) | set(program.beside)
    if expected & LEAKS:
        allowed.add("oom_risk")  # where the same growth leads
    false = [found for found in loud if kind_of(found) not in allowed or not names_rank(found)]
    result.false_findings = len(false)
    result.wrong += sorted({f"false: {kind_of(found)}" for found in false})
    judge_causes(program, findings, result)

    if expected:
        heard = findings if program.severity == "info" else loud
        kinds = {kind_of(found) for found in heard if names_rank(found)}
        result.named = bool(kinds & expected)
        if not result.named:
            result.wrong.append("missed")
        if "oom" in expected and program.exit != 0 and not OUT_OF_MEMORY.search(result.headline):
            result.named = False
            result.wrong.append("the headline is not the out-of-memory error")
        if program.cause and not kinds & set(program.cause):
            result.named = False
            result.wrong.append(f"cause missed: {'|'.join(program.cause)}")
    return result


def judge_causes(program: Program, findings: list[dict[str, Any]], result: Judgement) -> None:
    """Compare the lines and holders that findings name with the marks in the program's source."""
    marks = program.marks()
    for finding in findings if marks else ():
        counts = finding["severity"] in LOUD or kind_of(finding) in result.expected
        if (cause := finding.get("cause")) and counts and not is_of_native(cause):
            site = cause["site"] and f"{Path(cause['site']['file']).name}:{cause['site']['line']}"
            named = ", ".join(name for name in (site, cause["holder"]) if name)
            (
                result.causes_right
                if marks.are_named_by(cause, program.source)
                else result.causes_wrong
            ).append(named)
    result.wrong += [f"wrong cause: {named}" for named in result.causes_wrong]


def is_of_native(cause: dict[str, Any]) -> bool:
    """Whether a cause names only a kind of memory, and no line or holder."""
    return cause["site"] is None and str(cause["holder"]).startswith("native memory")


def same_results(program: Program, arguments: argparse.Namespace) -> Judgement:
    """Compare exit code and output with and without `stormlog run`, for a fixed number of steps."""
    env, limit_s = environment(arguments, arguments.steps), 300.0
    command = program.command(arguments.python)
    plain = execute(command, program.folder, env, limit_s)
    with tempfile.TemporaryDirectory() as folder:
        recording = [*arguments.stormlog, "run", "-q", "--dir", folder, "--", *command]
        under = execute(recording, program.folder, env, limit_s)
    result = Judgement(
        program.name, f"exit {plain[0]}, {len(plain[1])} B", f"exit {under[0]}, {len(under[1])} B"
    )
    if plain[0] != program.exit:
        result.wrong.append(f"exit code {plain[0]} instead of {program.exit} without stormlog")
    if plain[:2] != under[:2]:
        again = execute(command, program.folder, env, limit_s)
        result.wrong.append(
            "not the same"
            if again[:2] == plain[:2]
            else "not deterministic without stormlog either"
        )
        result.headline = f"{plain[1][-300:]!r} against {under[1][-300:]!r}; {under[2][-300:]!r}"
    return result


def print_table(rows: list[Judgement], titles: tuple[str, str, str, str]) -> None:
    cells = [titles] + [(row.name, row.expected, row.reported, row.verdict) for row in rows]
    widths = [max(len(line[column]) for line in cells) for column in range(3)]
    for line in cells:
        print("  ".join(text.ljust(width) for text, width in zip(line, [*widths, 0])).rstrip())


def totals(rows: list[Judgement]) -> dict[str, int]:
    clean = [row for row in rows if row.clean]
    faulty = [row for row in rows if not row.clean]
    return {
        "clean": len(clean),
        "clean_silent": sum(not row.wrong for row in clean),
        "faults": len(faulty),
        "faults_named": sum(row.named for row in faulty),
        "false_findings": sum(row.false_findings for row in rows),
        "causes_right": sum(bool(row.causes_right) for row in faulty),
        "causes_wrong": sum(bool(row.causes_wrong) for row in rows),
        "wrong": sum(bool(row.wrong) for row in rows),
    }


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--out", type=Path, help="where recordings go (default: a temporary folder)"
    )
    parser.add_argument(
        "--programs",
        type=Path,
        default=TUNED,
        metavar="DIR",
        help="folder of programs (default: tuned, beside this script)",
    )
    parser.add_argument("--only", help="names of programs, separated by commas")
    parser.add_argument("--needs", help="only programs that need nothing else, e.g. python,numpy")
    parser.add_argument("--jobs", type=int, default=1, help="programs at a time")
    parser.add_argument(
        "--seconds", type=float, default=20.0, help="how long each runs (at most 60)"
    )
    parser.add_argument(
        "--steps", type=int, default=80, help="steps of each run with --same-results"
    )
    parser.add_argument(
        "--device", choices=["cpu", "cuda"], help="cpu: hide the GPU (default: use what is there)"
    )
    parser.add_argument("--python", default=sys.executable, help="interpreter of the programs")
    parser.add_argument(
        "--stormlog", help="the command (default: beside the interpreter, else from PATH)"
    )
    parser.add_argument(
        "--judge-only", type=Path, metavar="DIR", help="judge recordings made before"
    )
    parser.add_argument(
        "--same-results",
        action="store_true",
        help="compare results with and without 'stormlog run'",
    )
    parser.add_argument(
        "--json", type=Path, metavar="FILE", help="write the results to a file as well"
    )
    parser.add_argument(
        "--list", action="store_true", help="print the programs as a Markdown table and exit"
    )
    arguments = parser.parse_args()
    if not arguments.stormlog:
        beside = [Path(which).parent / "stormlog" for which in (arguments.python, sys.executable)]
        arguments.stormlog = next((str(path) for path in beside if path.exists()), "stormlog")
    arguments.stormlog = arguments.stormlog.split()
    return arguments


def select(programs: list[Program], arguments: argparse.Namespace) -> list[Program]:
    if arguments.only:
        wanted = arguments.only.split(",")
        if unknown := set(wanted) - {program.name for program in programs}:
            sys.exit(f"error: unknown program: {', '.join(sorted(unknown))}")
        programs = [program for program in programs if program.name in wanted]
    if arguments.needs:
        given = set(arguments.needs.split(","))
        if unknown := given - set(NEEDS):
            sys.exit(
                f"error: unknown need: {', '.join(sorted(unknown))} (known: {', '.join(NEEDS)})"
            )
        programs = [program for program in programs if set(program.needs) <= given]
    return programs


def probe(arguments: argparse.Namespace) -> set[str]:
    """What the interpreter of the programs has."""
    done = subprocess.run(
        [arguments.python, "-c", PROBE], env=environment(arguments), capture_output=True, text=True
    )
    if done.returncode != 0:
        sys.exit(f"error: '{arguments.python}' cannot be used: {done.stderr.strip()[-300:]}")
    return set(json.loads(done.stdout.splitlines()[-1]))


def print_list(programs: list[Program]) -> None:
    print("| program | needs | expected | what it does |\n|---|---|---|---|")
    for program in programs:
        expected = (
            ", ".join(program.expect + [f"caused by {cause}" for cause in program.cause]) or "clean"
        )
        if program.expect_cpu is not None:
            expected += f" (CPU: {', '.join(program.expect_cpu) or 'clean'})"
        if program.exit:
            expected += f"; exit {program.exit}"
        needs = ", ".join(program.needs) + (
            "" if program.launcher == "python" else f"; {program.launcher}"
        )
        print(f"| {program.name} | {needs} | {expected} | {program.about} |")


def main() -> int:
    arguments = parse_arguments()
    programs = select(load_programs(arguments.programs.resolve()), arguments)
    if arguments.list:
        print_list(programs)
        return 0
    skipped: list[Program] = []
    if arguments.judge_only:
        folder = arguments.judge_only
        skipped = [program for program in programs if not (folder / program.name).exists()]
        have: set[str] = set()
    else:
        have = probe(arguments)
        skipped = [program for program in programs if not set(program.needs) <= have]
    programs = [program for program in programs if program not in skipped]

    with tempfile.TemporaryDirectory() as scratch, ThreadPoolExecutor(arguments.jobs) as pool:
        arguments.out = (arguments.out or Path(scratch)).resolve()
        arguments.out.mkdir(parents=True, exist_ok=True)

        def one(program: Program) -> Judgement:
            if arguments.same_results:
                return same_results(program, arguments)
            if arguments.judge_only:
                made, where = recorded(program, folder, arguments.device), folder
            else:
                made, where = record(program, arguments, have), arguments.out
            return judge(program, made, analyze(where / program.name, arguments.stormlog))

        rows = []
        for row in pool.map(one, programs):
            rows.append(row)
            print(
                f"{len(rows)}/{len(programs)} {row.name}: {row.verdict}",
                file=sys.stderr,
                flush=True,
            )

    if arguments.same_results:
        print_table(rows, ("program", "without", "with stormlog run", "verdict"))
        wrong = sum(bool(row.wrong) for row in rows)
        summary = {"same": len(rows) - wrong, "programs": len(rows), "wrong": wrong}
        print(f"\nsame results {summary['same']}/{summary['programs']}")
    else:
        print_table(rows, ("program", "expected", "reported", "verdict"))
        summary = totals(rows)
        print(
            f"\nclean silent {summary['clean_silent']}/{summary['clean']}, "
            f"faults named {summary['faults_named']}/{summary['faults']}, "
            f"false findings {summary['false_findings']}, "
            f"lines or holders named {summary['causes_right']}/{summary['faults']}, "
            f"wrong ones {summary['causes_wrong']}"
        )
    if skipped:
        reason = "no recording" if arguments.judge_only else "needs missing here"
        print(f"skipped ({reason}): " + ", ".join(program.name for program in skipped))
    if arguments.json:
        results = [dict(asdict(row), verdict=row.verdict) for row in rows]
        names = [program.name for program in skipped]
        arguments.json.write_text(
            json.dumps({"totals": summary, "results": results, "skipped": names}, indent=1)
        )
    return 1 if summary["wrong"] or not rows else 0


if __name__ == "__main__":
    sys.exit(main())
