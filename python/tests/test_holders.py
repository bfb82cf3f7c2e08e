"""The search for what holds memory, over plain objects: every way that Python can keep one."""

from __future__ import annotations

import functools
import gc
import logging
import logging.handlers
import os
import sys
import threading
import time
import types
import weakref
from collections import OrderedDict, defaultdict, deque
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from stormlog import _holders
from stormlog._holders import frames, paths, roots

LARGE = 100_000


def blob() -> bytes:
    """A piece of memory of its own."""
    return bytes(bytearray(LARGE))


@pytest.fixture
def program() -> Iterator[types.ModuleType]:
    """A module of the user's, whose globals are roots."""
    module = types.ModuleType("training")
    module.__file__ = "/home/ada/training.py"
    sys.modules["training"] = module
    yield module
    del sys.modules["training"]


def search(**options: Any) -> _holders.Survey:
    options = {"counts_host": True, "libraries": False, **options}
    return _holders.survey(time.monotonic() + 60, **options)


class Box:
    def __init__(self, held: object) -> None:
        self.held = held


class Slotted:
    __slots__ = ("held", "unset")

    def __init__(self, held: object) -> None:
        self.held = held


def closed_over(held: object) -> Callable[[], object]:
    seen = [held]

    def keep() -> object:
        return seen

    return keep


def cached(limit: int | None) -> Any:
    @functools.lru_cache(limit)
    def embed(number: int) -> object:
        return blob()

    embed(1)
    return embed


def failed(held: object) -> Exception:
    def step(batch: object) -> None:
        raise ValueError("no")

    try:
        step(held)
    except ValueError as error:
        return error
    raise AssertionError


def suspended(held: object) -> Iterator[object]:
    def produce() -> Iterator[object]:
        batch = held
        yield 1
        yield batch

    running = produce()
    next(running)
    return running


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda one: one, "`kept` in `training`"),
        (lambda one: [0, one], "`kept[1]` in `training`"),
        (lambda one: (0, one), "`kept[1]` in `training`"),
        (lambda one: {"logits": one}, "`kept['logits']` in `training`"),
        (lambda one: {7: [one]}, "`kept[7][0]` in `training`"),
        (lambda one: {one}, "`kept[...]` in `training`"),
        (lambda one: deque([0, one]), "`kept[1]` in `training`"),
        (lambda one: OrderedDict(a=one), "`kept['a']` in `training`"),
        (lambda one: defaultdict(list, a=[one]), "`kept['a'][0]` in `training`"),
        (Box, "`kept.held` in `training`"),
        (Slotted, "`kept.held` in `training`"),
        (closed_over, "`seen[0]` closed over by `keep`"),
        (lambda one: closed_over(one).__closure__, "`kept[0][0]` in `training`"),
        (lambda one: cached(None), "the `lru_cache` of `embed`"),
        (lambda one: cached(8), "the `lru_cache` of `embed`"),
        (lambda one: functools.partial(print, one), "`kept[0]` in `training`"),
        (lambda one: Box([one]).__eq__, "`kept.held[0]` in `training`"),
        (lambda one: [one].append, "`kept[0]` in `training`"),
        (suspended, "`kept` in `training`"),
        (lambda one: types.MappingProxyType({"a": one}), "`kept['a']` in `training`"),
    ],
)
def test_every_way_to_keep_an_object(
    program: types.ModuleType, make: Callable[[object], object], words: str
) -> None:
    program.kept = make(blob())  # type: ignore[attr-defined]
    scopes = ("training", "embed", "keep")
    [holder] = [one for one in search().storages if one.place and one.place.scope in scopes]
    assert holder.place is not None
    assert holder.place.phrase == words
    assert holder.bytes >= LARGE
    assert (holder.device, holder.category) == ("cpu", "other_named")


def test_an_array_is_held_by_its_view(program: types.ModuleType) -> None:
    numpy = pytest.importorskip("numpy")
    program.views = [numpy.zeros(LARGE)[:1] for _ in range(3)]  # type: ignore[attr-defined]
    found = [one for one in search().storages if one.container and one.container.name == "views"]
    assert [one.bytes for one in found] == [8 * LARGE] * 3


def test_a_container_is_the_outermost_that_can_grow(program: types.ModuleType) -> None:
    program.sessions = {  # type: ignore[attr-defined]
        number: [(blob(), blob()) for _ in range(4)] for number in range(5)
    }
    program.state = {"epoch": 1, "cache": [blob() for _ in range(40)]}  # type: ignore[attr-defined]
    groups = {one.phrase: one for one in _holders.group(search().storages)}
    assert groups["`sessions` in `training`"].storages == 40
    assert groups["`state['cache']` in `training`"].storages == 40
    assert groups["`sessions` in `training`"].bytes >= 40 * LARGE


def test_containers_have_lengths_and_estimated_bytes(program: types.ModuleType) -> None:
    program.rows = [{"x": f"{n:01000}", "n": n} for n in range(5000)]  # type: ignore[attr-defined]
    program.log = deque(f"{n} {'z' * 500}" for n in range(300))  # type: ignore[attr-defined]
    found = {str(one.place): one for one in search().containers}
    rows = found["training.rows"]
    assert (rows.kind, rows.length, rows.identity) == ("list", 5000, id(program.rows))
    assert 5000 * 1200 < rows.bytes < 5000 * 1700, "extrapolated from the elements that were read"
    assert 300 * 500 < found["training.log"].bytes < 300 * 700


def test_a_shared_object_counts_once(program: types.ModuleType) -> None:
    program.first = [blob()] * 20  # type: ignore[attr-defined]
    program.second = {"a": program.first[0]}  # type: ignore[attr-defined]
    found = [one for one in search().storages if one.place and one.place.scope == "training"]
    assert [one.bytes < 2 * LARGE for one in found] == [True]
    sizes = {str(one.place): one.bytes for one in search().containers}
    assert sizes["training.first"] < 2 * LARGE


def test_tracebacks_name_the_exception(program: types.ModuleType) -> None:
    program.errors = [failed(blob()) for _ in range(2)]  # type: ignore[attr-defined]
    found = search().storages
    words = [one.place.phrase for one in found if one.place and one.place.traceback_of]
    assert len(words) == 2
    assert words[0].startswith("local `held` in `failed` (test_holders.py:")
    assert words[0].endswith(", kept by the traceback of `errors[0]`")
    [group] = [one for one in _holders.group(found) if one.through == "traceback"]
    assert group.phrase == "the tracebacks of 2 exceptions in `errors` in `training`"


def test_log_records_are_found(program: types.ModuleType) -> None:
    handler = logging.handlers.MemoryHandler(1000)
    logger = logging.getLogger("test_holders")
    logger.addHandler(handler)
    logger.propagate = False
    try:
        logger.warning("kept %s", blob())
        program.handler = handler  # type: ignore[attr-defined]
        [one] = [one for one in search().storages if one.place and "buffer" in one.place.name]
        assert one.container is not None
        assert one.container.phrase == "`handler.buffer` in `training`"
    finally:
        logger.removeHandler(handler)


def test_class_attributes_of_the_user_are_found(program: types.ModuleType) -> None:
    kind = type("Trainer", (), {"__module__": "training", "history": [blob()]})
    program.Trainer = kind  # type: ignore[attr-defined]
    [one] = [one for one in search().storages if one.place and one.place.scope == "training"]
    assert str(one.place) == "training.Trainer.history[0]"


def test_locals_of_all_threads_are_found() -> None:
    ready, done = threading.Event(), threading.Event()
    kept = [blob()]

    def work(batch: list[bytes]) -> None:
        ready.set()
        done.wait(60)

    thread = threading.Thread(target=work, args=(kept.pop(),))
    thread.start()
    try:
        assert ready.wait(60)
        found = [one for one in search().storages if one.place and one.place.scope == "work"]
        assert [one.place.name for one in found if one.place] == ["batch"]
    finally:
        done.set()
        thread.join()


def test_what_an_exception_unwound_is_searched() -> None:
    error = failed(blob())
    trace = error.__traceback__
    error = error.with_traceback(None)
    found = [one for one in search(traceback=trace).storages if one.place]
    names = [one.place.phrase for one in found if one.place and one.place.scope == "failed"]
    assert len(names) == 1
    assert names[0].startswith("local `held` in `failed` (test_holders.py:")


class Hostile:
    """An object whose every method fails the test."""

    def __init__(self) -> None:
        object.__setattr__(self, "inner", [blob()])

    def _fail(self, *args: object) -> Any:
        raise AssertionError("code of the program ran")

    __getattr__ = __getattribute__ = __eq__ = __hash__ = __repr__ = __len__ = __iter__ = _fail
    __sizeof__ = __bool__ = __contains__ = __class_getitem__ = _fail  # type: ignore[assignment]
    name = property(_fail)


class HostileList(list):  # type: ignore[type-arg]
    __iter__ = __len__ = __getitem__ = __sizeof__ = Hostile._fail  # type: ignore[assignment]


class HostileDict(dict):  # type: ignore[type-arg]
    items = keys = values = __iter__ = __len__ = __sizeof__ = Hostile._fail  # type: ignore[assignment]


def test_no_code_of_the_program_runs(program: types.ModuleType) -> None:
    program.one = Hostile()  # type: ignore[attr-defined]
    program.many = HostileList([blob()])  # type: ignore[attr-defined]
    program.named = HostileDict(a=blob())  # type: ignore[attr-defined]
    program.keyed = {Slotted(1): blob()}  # type: ignore[attr-defined]
    found = {str(one.place) for one in search().storages if one.place}
    names = ("one.inner[0]", "many[0]", "named['a']", "keyed[...]")
    assert {f"training.{name}" for name in names} <= found


def test_nothing_is_kept_alive(program: types.ModuleType) -> None:
    class Kept:
        pass

    def run() -> weakref.ref[Kept]:
        local = Kept()
        program.box = [local, lambda: local]  # type: ignore[attr-defined]
        try:
            raise ValueError
        except ValueError as error:
            program.error = error  # type: ignore[attr-defined]
        gc.disable()
        search(sweep=True)
        return weakref.ref(local)

    try:
        alive = run()
        assert alive() is not None
        del program.box, program.error  # type: ignore[attr-defined]
        # The closure and the traceback were the last references; nothing waits for the collector.
        assert alive() is None
    finally:
        gc.enable()


def test_locals_are_not_kept() -> None:
    class Kept:
        pass

    # Without an `assert`, for which pytest calls `locals()`.
    def inner() -> tuple[list[str], weakref.ref[Kept]]:
        later = Kept()
        names = [name for name, _ in frames.local_variables(sys._getframe())]
        alive = weakref.ref(later)
        del later
        return names, alive

    names, alive = inner()
    assert names == ["later", "Kept"] and alive() is None


def test_the_dictionary_of_the_programs_locals_does_not_change() -> None:
    def by_locals() -> bool:
        mine = locals()
        before = dict(mine)
        frames.local_variables(sys._getframe())
        return mine == before

    def by_vars() -> bool:
        mine = vars()
        before = dict(mine)
        frames.local_variables(sys._getframe())
        return mine == before

    def by_exec() -> bool:
        exec("made = 1")
        before = dir()
        frames.local_variables(sys._getframe())
        return [name for name in dir() if name != "before"] == before

    assert by_locals() and by_vars() and by_exec()


@pytest.mark.parametrize(
    ("key", "label"),
    [
        ("logits", "'logits'"),
        ("blocks.0.weight", "'blocks.0.weight'"),
        (12, "12"),
        ("a customer's name", "str"),
        ("sk-proj-4f3a9b", "str"),
        ("x" * 40, "str"),
        (4929123412341234, "int"),
        (("a", 1), "tuple"),
        (b"secret", "bytes"),
    ],
)
def test_keys_are_shown_only_when_they_are_names(key: object, label: str) -> None:
    assert paths.key_label(key) == label


def test_no_secret_enters_a_path(program: types.ModuleType) -> None:
    token = "ghp_" + "a1B2c3D4" * 4 + "a1B2"
    program.by_token = {token: blob(), "user one": blob()}  # type: ignore[attr-defined]
    program.box = Box(None)  # type: ignore[attr-defined]
    program.box.__dict__[token] = blob()  # type: ignore[attr-defined]
    for one in search().storages:
        assert token not in f"{one.place}{one.place and one.place.phrase}"
        assert "user one" not in str(one.place)


def test_a_search_ends_in_time(program: types.ModuleType) -> None:
    program.deep = [[[n] for n in range(300)] for _ in range(300)]  # type: ignore[attr-defined]
    began = time.monotonic()
    found = _holders.survey(began + 0.02, most_elements=1000)
    assert found.cut_short == "no time was left"
    assert time.monotonic() - began < 5


def test_a_search_beside_the_program_rests_after_a_millisecond_of_work(
    program: types.ModuleType,
) -> None:
    program.deep = [[[n] for n in range(300)] for _ in range(300)]  # type: ignore[attr-defined]
    rested = [time.thread_time()]
    search(rest=lambda: rested.append(time.thread_time()), most_elements=1000)
    worked = time.thread_time() - rested[0]
    assert worked > 0.02, "a shorter search needs no rests"
    assert len(rested) > worked / 0.005


def test_a_graph_of_objects_that_is_endless_ends(program: types.ModuleType) -> None:
    chain: list[Any] = []
    for _ in range(100_000):
        chain = [chain]
    chain.append(chain)
    program.chain = chain  # type: ignore[attr-defined]
    assert search().objects < 1_000_000
    # Freed level by level: the interpreter would nest as deep as the lists.
    while chain:
        chain = chain[0] if chain[0] is not chain else []


def test_a_search_beside_the_program_reads_no_gradient_and_no_graph(
    program: types.ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    # PyTorch's engine replaces both without the interpreter; reading them then is a crash.
    read: list[str] = []

    class Storage:
        def data_ptr(self) -> int:
            return 1 << 40

        def nbytes(self) -> int:
            return 64

    class Tensor:
        requires_grad, is_leaf, retains_grad, is_cuda, device = True, False, True, False, "cpu"

        def untyped_storage(self) -> Storage:
            return Storage()

        @property
        def grad(self) -> None:
            read.append("grad")

        @property
        def grad_fn(self) -> None:
            read.append("grad_fn")

    torch = types.ModuleType("torch")
    torch.Tensor = Tensor  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "torch", torch)
    program.kept = [Tensor()]  # type: ignore[attr-defined]
    deadline = time.monotonic() + 60
    located = _holders.locate({1 << 40: 64}, deadline, rest=lambda: None)
    assert [str(one.place) for one in located.holders.values()] == ["training.kept[0]"]
    assert read == []
    # The graph is left to the thread of the program.
    assert len(located.with_graph) == 1
    _holders.locate_in_graphs({1 << 41: 64}, located.with_graph, deadline)
    assert read == ["grad_fn"]


def test_a_long_cache_is_extrapolated(program: types.ModuleType) -> None:
    @functools.cache
    def parse(number: int) -> bytes:
        return bytes(bytearray(1000 + number % 2))

    program.parse = parse  # type: ignore[attr-defined]
    for number in range(3000):
        parse(number)
    cache = max(search().containers, key=lambda one: one.length if "parse" in str(one.place) else 0)
    assert cache.length == 3000
    assert 3000 * 1000 < cache.bytes < 3000 * 1300


def test_old_optimizers_in_a_list_are_held_by_it(
    torch: types.ModuleType, program: types.ModuleType
) -> None:
    def an_optimizer(number: int) -> Any:
        optimizer = torch.optim.Optimizer()
        parameter, moment = (torch.Tensor(0x1000 * number + at, nbytes=64) for at in (0, 0x800))
        moment.requires_grad = False
        optimizer.__dict__.update(
            param_groups=[{"params": [parameter]}], state={parameter: {"exp_avg": moment}}
        )
        return optimizer

    # The variable of the newest one is found before the list.
    setattr(program, "opt", an_optimizer(3))  # noqa: B010
    setattr(program, "restarts", [an_optimizer(1), an_optimizer(2), program.opt])  # noqa: B010
    blocks = {0x1000 * number + at: 64 for number in (1, 2, 3) for at in (0, 0x800)}
    located = _holders.locate(blocks, time.monotonic() + 60)
    groups = {one.category: one for one in _holders.group(located.holders.values())}
    assert groups["optimizer_state"].phrase == "`restarts` in `training`"
    assert groups["optimizer_state"].storages == 3


def test_libraries_are_not_the_users_code() -> None:
    for library in (
        os.__file__,
        str(pytest.__file__),
        _holders.__file__,
        "/usr/lib64/python3.12/threading.py",
        "/tmp/torchinductor_ada/ab/cab.py",
        "<frozen runpy>",
        "",
        None,
    ):
        assert not roots.is_users(library), library
    for own in (__file__, "<stdin>", "/home/ada/torch/train.py", "/home/\udcff/train.py"):
        assert roots.is_users(own), own
