"""The search itself: breadth first from the roots, so that the shortest path is found first.

Tensors and arrays are read when they are found and are never kept. Containers are kept from the
moment they are found until they are expanded. Nothing is kept when the search returns.
"""

from __future__ import annotations

import gc
import sys
import time
import weakref
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from itertools import chain
from types import CellType, FunctionType, ModuleType, TracebackType
from typing import Any

from . import frames, kinds, paths, roots
from .autograd import Graph
from .paths import Step

PARAMETERS, GRADIENTS, OPTIMIZER_STATE = "parameters", "gradients", "optimizer_state"
INPUTS, ACTIVATIONS, OTHER, UNNAMED = "inputs", "activations", "other_named", "unnamed"
CATEGORIES = (PARAMETERS, GRADIENTS, OPTIMIZER_STATE, INPUTS, ACTIVATIONS, OTHER, UNNAMED)
_PREFERENCE = {category: place for place, category in enumerate(CATEGORIES)}

# The clock is read once per this many objects. A search with ``rest`` works for this time before
# each rest.
_BETWEEN_CHECKS = 32
_LONGEST_WORK_S = 0.001
_MOST_OBJECTS = 2_000_000
_MOST_REFERENTS = 1000
_MOST_GRAPHS = 256
_DEEPEST = 30
# A dictionary with at least this many entries may be one that grows.
_LONG = 16
# With at most this many modules, comparing the collections of libraries takes about 20 ms.
_FEW_MODULES = 1500
_MOST_OF_REGISTRY = 8
# Texts and byte strings of at least this size are storages of their own.
_LARGE_ATOM = 1 << 16
# The interpreter allocates small objects in multiples of this.
_ALIGNMENT = 16
_TEXTS = (str, bytes, bytearray)
_CALLABLE = (kinds.FUNCTION, kinds.METHOD, kinds.BUILTIN, kinds.PARTIAL)
_ELEMENTS = (paths.INDEX, paths.KEY, paths.ELEMENT)
_COLLECTIONS = (kinds.DICT, kinds.LIST, kinds.SET, kinds.DEQUE)
_REGISTRIES = (*_COLLECTIONS, kinds.CACHE)


class Stop(Exception):
    """Ends the search early: its time is over, or it has visited too many objects."""


class Storage:
    """The memory of a tensor or an array; several tensors or arrays may share it."""

    __slots__ = ("address", "bytes", "category", "device", "rank", "step")

    def __init__(self, address: int, size: int, device: str) -> None:
        self.address, self.bytes, self.device = address, size, device
        self.category = UNNAMED
        self.step: Step | None = None
        self.rank: tuple[int, ...] = (sys.maxsize,)


class Collection:
    """A list, dictionary, set, deque or cache."""

    __slots__ = (
        "bytes",
        "callables",
        "graphs",
        "has_ids",
        "hidden",
        "identity",
        "kind",
        "length",
        "most",
        "owner",
        "parent",
        "step",
        "weight",
    )

    def __init__(
        self, thing: object, kind: str, length: int, step: Step, parent: Collection | None
    ) -> None:
        self.identity, self.kind, self.length = id(thing), kind, length
        self.step, self.parent = step, parent
        self.bytes, self.weight = 0.0, 1.0
        # The number of elements that it can have at most: 0 if it has no bound, None if unknown.
        self.most: int | None = None
        # Whether it is a dictionary whose keys look like ids.
        self.has_ids = False
        # The number of elements that are tensors with an autograd graph.
        self.graphs = 0.0
        # The number of elements that are functions or methods.
        self.callables = 0.0
        # The number of objects in it whose memory only a library knows.
        self.hidden = 0.0
        # The class of the object that has it as an attribute, if it is a class of a library.
        self.owner = ""


# An object to visit, as a tuple: the object, its role, the path to it, the collection that contains
# it, the number of objects that it represents (more than one when only some elements of a long
# collection are read), the category of tensors in it, and its depth.
_Waiting = tuple[Any, int, Step, "Collection | None", float, "str | None", int]


class Walk:
    """One search for what holds memory. ``wanted`` is called with the address of each storage and
    returns whether to record the storage."""

    def __init__(
        self,
        deadline: float,
        *,
        most_elements: int,
        rest: Callable[[], None] | None = None,
        counts_host: bool = False,
        wanted: Callable[[int], bool] | None = None,
        prefers_collections: bool = False,
        traceback: TracebackType | None = None,
        lengths: dict[tuple[int, str], int] | None = None,
    ) -> None:
        self._deadline, self._rest, self._most_elements = deadline, rest, most_elements
        self._counts_host, self._wanted = counts_host, wanted
        self._prefers_collections = prefers_collections
        self._traceback = traceback
        # The lengths of the collections of libraries at an earlier search, by identity and kind.
        self._earlier = lengths or {}
        self.lengths: dict[tuple[int, str], int] = {}
        # Whether the program waits for the search. During a search with ``rest`` it runs: PyTorch's
        # engine then frees saved tensors and replaces gradients without the interpreter, and
        # reading them can crash the process.
        self._is_alone = rest is None
        self._kinds = kinds.Kinds()
        self._roles = self._kinds.roles
        self._graph = Graph()
        self._queue: deque[_Waiting] = deque()
        self._graphs: deque[tuple[Any, Step]] = deque()
        self._seen: set[int] = set()
        # The ids of optimizers that were found, but not in a collection so far.
        self._alone: set[int] = set()
        # The bounds of queues, by the id of the collection that has the items.
        self._most_items: dict[int, int] = {}
        # The classes of libraries whose objects have a collection as an attribute, by its id.
        self._owners: dict[int, str] = {}
        self._atoms: set[int] = set()
        self._rested = time.monotonic()
        self._level = 0
        self._user_modules: set[str] = {"__main__"}
        self.objects = 0
        self.storages: dict[int, Storage] = {}
        self.collections: list[Collection] = []
        # The collections by the identity of their paths; None until it is needed.
        self._by_step: dict[int, Collection] | None = None
        self.cut_short: str | None = None
        # The tensors whose graph was not followed; if there are more than _MOST_GRAPHS, only the
        # ones that were found last.
        self.with_graph: deque[tuple[weakref.ref[Any], Step]] = deque(maxlen=_MOST_GRAPHS)

    # The stages of a search.

    def run(self, *, libraries: bool, sweep: bool, done: Callable[[], bool] | None = None) -> None:
        """Search stage by stage; end after the first stage after which ``done`` returns True."""
        torch: Any = sys.modules.get("torch")
        # Subclasses of tensors may run any code when they are read.
        plain = getattr(getattr(torch, "_C", None), "DisableTorchFunctionSubclass", nullcontext)
        stages: list[Callable[[], None]] = [self._users_globals, self._locals]
        if self._counts_host and (libraries or len(sys.modules) <= _FEW_MODULES):
            # What local variables reach may take all the time of the search.
            stages.insert(1, self._registries)
        # The globals of libraries come last, because they take longest. An object that the sweep
        # has found gets the name of a library's global variable if one reaches it.
        stages += [self._sweep] if sweep else []
        stages += [self._library_globals] if libraries else []
        try:
            with plain():
                for stage in stages:
                    stage()
                    self._drain()
                    if done is None or not done():
                        self._follow_graphs(done)
                    if done is not None and done():
                        break
                    # The nodes of graphs keep objects alive that the program may want to free.
                    self._graph.forget()
        except Stop:
            self.cut_short = self.cut_short or "no time was left"
        finally:
            self._drop_all()
        self._sum_up()

    def run_graphs(
        self, tensors: deque[tuple[weakref.ref[Any], Step]], done: Callable[[], bool]
    ) -> None:
        """Follow the autograd graphs of tensors that an earlier search found, beginning with the
        tensor that it found last."""
        try:
            while tensors and not done():
                reference, step = tensors.pop()
                tensor = reference()
                node = None if tensor is None else tensor.grad_fn
                del tensor
                if node is not None:
                    self._graphs.append((node, (step, paths.GRAPH, None, 0)))
                    del node
                    self._follow_graphs(done)
        except Stop:
            self.cut_short = self.cut_short or "no time was left"
        finally:
            self._drop_all()

    def _drop_all(self) -> None:
        self._queue.clear()
        self._graphs.clear()
        self._graph.forget()
        self._traceback = None

    def _users_globals(self) -> None:
        users, _ = roots.modules()
        self._user_modules.update(module.__name__ for module in users)
        for module in users:
            name = "__main__" if module is sys.modules.get("__main__") else module.__name__
            for variable, value in roots.variables(module):
                self._found(value, (None, paths.GLOBAL, (name, paths.attribute(variable)), 0))

    def _locals(self) -> None:
        # The user's functions come first, because users recognize their names.
        for wants_users in (True, False):
            frame: Any
            # Frames that the exception left come first, because memory ran out there.
            for stack in chain([roots.unwound(self._traceback)], roots.stacks()):
                forward = self._outermost_forward(stack)
                for level, frame in enumerate(stack):
                    if roots.is_users(frame.f_code.co_filename) == wants_users:
                        self._variables(frame, None, None if level < forward else level - forward)
                # The reference to the frame is dropped, so that the frame can be freed.
                frame = None
                stack.clear()
            self._drain()

    def _outermost_forward(self, stack: list[Any]) -> int:
        for level, frame in enumerate(stack):
            if frame.f_code.co_name == "forward" and frame.f_code.co_argcount:
                first = frames.local_variables(frame)[:1]
                if first and self._kinds.role(type(first[0][1])) == kinds.MODULE:
                    return level
        return len(stack)

    def _variables(
        self,
        frame: Any,
        parent: Step | None,
        inside_forward: int | None,
        inside: Collection | None = None,
        weight: float = 1.0,
    ) -> None:
        """Visits the local variables of a frame. In the forward pass of a module, the arguments of
        ``forward`` are inputs. Its other variables, and all variables of the functions that it
        calls, are activations."""
        code = frame.f_code
        file = paths.file_label(code.co_filename)
        arguments = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
        for name, value in frames.local_variables(frame):
            hint = None
            if inside_forward is not None:
                hint = INPUTS if inside_forward == 0 and name in arguments else ACTIVATIONS
            label = (paths.attribute(name), code.co_name, file, frame.f_lineno)
            self._found(value, (parent, paths.LOCAL, label, 0), inside, weight, hint)

    def _registries(self) -> None:
        """Visits the collections of libraries that have become longer since an earlier search.
        Only the collections that the variables, classes and objects of a module have directly are
        compared, which takes a fraction of the time of a search through all of them. Of those that
        are longer, a few elements are searched."""
        most, self._most_elements = self._most_elements, _MOST_OF_REGISTRY
        try:
            self._visit_longer()
        finally:
            self._most_elements = most

    def _visit_longer(self) -> None:
        _, others = roots.modules()
        for module in others:
            self._check()
            for thing, role, step in self._registries_of(module):
                if role == kinds.CACHE:
                    length = type(thing).cache_info(thing).currsize
                else:
                    length = kinds.length(thing, role)
                key = (id(thing), type(thing).__name__)
                self.lengths[key] = length
                if length > self._earlier.get(key, length):
                    self._found(thing, step)
                    self._drain()

    def _registries_of(self, module: ModuleType) -> Iterator[tuple[Any, int, Step]]:
        module_name = module.__name__
        for variable, value in roots.variables(module):
            role = self._kinds.role(type(value))
            step: Step = (None, paths.GLOBAL, (module_name, paths.attribute(variable)), 0)
            if role in _REGISTRIES:
                yield value, role, step
                continue
            parts: list[tuple[str, Any]] = []
            if role == kinds.INSTANCE:
                parts = self._kinds.attributes(value)
            elif role == kinds.CLASS and kinds.module_of_class(value) == module_name:
                parts = kinds.class_attributes(value)
            for name, part in parts:
                role = self._kinds.role(type(part))
                if role in _REGISTRIES:
                    yield part, role, _attribute(step, name)

    def _library_globals(self) -> None:
        _, others = roots.modules()
        for module in others:
            self._check()
            for variable, value in roots.variables(module):
                role = self._kinds.role(type(value))
                # Libraries have many functions and classes, which hold little memory. Functions are
                # skipped, and of a class only the attributes that may hold memory are searched.
                if role in (kinds.ATOM, kinds.FUNCTION, kinds.BUILTIN):
                    continue
                name = (module.__name__, paths.attribute(variable))
                if role != kinds.CLASS:
                    self._found(value, (None, paths.GLOBAL, name, 0))
                elif kinds.module_of_class(value) == module.__name__:
                    step = (None, paths.GLOBAL, name, 0)
                    self._class(value, step, only=(*_COLLECTIONS, kinds.TENSOR, kinds.CACHE))

    def _sweep(self) -> None:
        """Visits objects that no root reaches but the garbage collector knows: optimizers and
        modules that are no longer used, and tensors in the middle of an expression."""
        roles = (kinds.TENSOR, kinds.MODULE, kinds.OPTIMIZER)
        found: list[tuple[int, Any]] = []
        role_of, seen = self._kinds.role, self._seen
        for thing in gc.get_objects():
            role = role_of(type(thing))
            if role in roles and id(thing) not in seen:
                found.append((role, thing))
        thing = None
        # Optimizers and modules come before tensors, because they hold tensors.
        for wanted in (kinds.OPTIMIZER, kinds.MODULE, kinds.TENSOR):
            for role, thing in found:
                if role != wanted:
                    continue
                name = type(thing).__name__
                words = {
                    kinds.OPTIMIZER: f"an optimizer (`{name}`) that no variable names",
                    kinds.MODULE: f"a module (`{name}`) that no variable names",
                    kinds.TENSOR: "a tensor that no variable names",
                }
                hint = UNNAMED if role == kinds.TENSOR else None
                self._found(thing, (None, paths.UNREACHED, words[role], 0), hint=hint)
            thing = None
            self._drain()
        found.clear()

    # One object.

    def _found(
        self,
        thing: Any,
        step: Step,
        inside: Collection | None = None,
        weight: float = 1.0,
        hint: str | None = None,
    ) -> None:
        role = self._roles.get(id(type(thing)))
        if role is None:
            role = self._kinds.role(type(thing))
        if role == kinds.ATOM:
            if self._counts_host:
                self._count_atom(thing, step, inside, weight)
        elif role == kinds.TENSOR:
            self._tensor(thing, step, inside, weight, hint)
        elif role == kinds.ARRAY:
            self._array(thing, step, inside, weight, hint)
        elif role == kinds.MAPPING:
            size = kinds.size_of_mapping(thing)
            self._store(id(thing), size, "cpu", hint or OTHER, step, inside, weight)
        elif role == kinds.JAX_ARRAY:
            facts = _jax_facts(thing)
            if facts is not None:
                self._store(*facts, hint or OTHER, step, inside, weight)
        elif not self._is_known(thing, role, step):
            if inside is not None and self._counts_host:
                self._note_element(thing, role, step, inside, weight)
            if self._level < _DEEPEST:
                level = self._level + 1
                self._queue.append((thing, role, step, inside, weight, hint, level))

    def _note_element(
        self, thing: Any, role: int, step: Step, inside: Collection, weight: float
    ) -> None:
        if role in _CALLABLE:
            inside.callables += weight if step[1] in _ELEMENTS else 0
        elif self._kinds.hides_memory(type(thing), role):
            inside.hidden += weight

    def _is_known(self, thing: Any, role: int, step: Step) -> bool:
        """Whether a thing was followed before. An optimizer that was found outside of collections
        is followed again when it is also found in a collection, because this collection may be the
        one that grows."""
        key = id(thing)
        if key not in self._seen:
            self._seen.add(key)
            if role == kinds.OPTIMIZER and self._prefers_collections:
                if paths.container(step) is None:
                    self._alone.add(key)
            return False
        if key in self._alone and paths.container(step) is not None:
            self._alone.remove(key)
            return False
        return True

    def _drain(self) -> None:
        while self._queue:
            thing, role, step, inside, weight, hint, self._level = self._queue.popleft()
            self.objects += 1
            if self.objects % _BETWEEN_CHECKS == 0:
                self._check()
            if self._counts_host and inside is not None:
                inside.bytes += kinds.size_of(thing, role) * weight
            self._expand(thing, role, step, inside, weight, hint)
        self._level = 0

    def _check(self) -> None:
        now = time.monotonic()
        if now >= self._deadline:
            raise Stop
        if self.objects > _MOST_OBJECTS:
            self.cut_short = f"more than {_MOST_OBJECTS} objects"
            raise Stop
        if self._rest is not None and now - self._rested > _LONGEST_WORK_S:
            self._rest()
            self._rested = time.monotonic()

    def _expand(
        self,
        thing: Any,
        role: int,
        step: Step,
        inside: Collection | None,
        weight: float,
        hint: str | None,
    ) -> None:
        if role == kinds.DICT:
            self._dictionary(thing, step, inside, weight, hint)
        elif role in (kinds.LIST, kinds.TUPLE, kinds.SET, kinds.DEQUE):
            self._sequence(thing, role, step, inside, weight, hint)
        elif role == kinds.MODULE:
            self._module(thing, step, inside, weight)
        elif role == kinds.OPTIMIZER:
            self._optimizer(thing, step, inside, weight)
        elif role == kinds.FUNCTION:
            self._function(thing, step, inside, weight)
        elif role == kinds.METHOD:
            self._found(thing.__func__, step, inside, weight, hint)
            self._found(thing.__self__, step, inside, weight, hint)
        elif role == kinds.BUILTIN:
            self._found(thing.__self__, step, inside, weight, hint)
        elif role == kinds.CELL:
            for value in kinds.referents(thing):
                self._found(value, step, inside, weight, hint)
        elif role == kinds.CLASS:
            if kinds.module_of_class(thing) in self._user_modules:
                self._class(thing, step)
        elif role == kinds.CACHE:
            self._cache(thing, step, inside, weight)
        elif role == kinds.EXCEPTION:
            self._exception(thing, step, inside, weight)
        elif role == kinds.THREAD_LOCAL:
            for name, value in self._kinds.attributes_of_threads(thing):
                self._found(value, _attribute(step, name), inside, weight, hint)
        elif role == kinds.GENERATOR:
            self._generator(thing, step, inside, weight, hint)
        else:
            self._instance(thing, role, step, inside, weight, hint)

    def _collection(
        self, thing: Any, length: int, step: Step, inside: Collection | None, weight: float
    ) -> Collection:
        one = Collection(thing, type(thing).__name__, length, step, inside)
        one.weight = weight
        role = self._kinds.role(type(thing))
        one.most = self._most_items.get(id(thing), kinds.most_elements_of(thing, role))
        if self._counts_host:
            one.owner = self._owners.get(id(thing), "")
            if inside is None:
                one.bytes += kinds.size_of(thing, role) * weight
        self.collections.append(one)
        return one

    def _dictionary(
        self, thing: Any, step: Step, inside: Collection | None, weight: float, hint: str | None
    ) -> None:
        length = dict.__len__(thing)
        # A dictionary that the garbage collector does not track contains only numbers and texts.
        if not length or not (self._counts_host or gc.is_tracked(thing)):
            return
        own = self._collection(thing, length, step, inside, weight)
        found = kinds.entries(thing, self._most_elements)
        each = weight * length / len(found) if found else weight
        if self._counts_host or length >= _LONG:
            own.has_ids = kinds.keys_are_sparse(self._keys_of(found))
        for key, value in found:
            way = (step, paths.KEY, paths.key_label(key), length)
            self._found(value, way, own, each, hint)
            # A tensor or a large text may be a key.
            self._found(key, way, own, each, hint)

    def _keys_of(self, found: list[tuple[Any, Any]]) -> list[Any]:
        """The keys of a dictionary's entries. Where bytes are not counted, long dictionaries are
        read whole, so only some of their keys are looked at."""
        if not self._counts_host:
            found = found[:_LONG] + found[-_LONG:]
        return [key for key, _ in found]

    def _sequence(
        self,
        thing: Any,
        role: int,
        step: Step,
        inside: Collection | None,
        weight: float,
        hint: str | None,
    ) -> None:
        length, places, found = kinds.elements(thing, role, self._most_elements)
        if not length:
            return
        own = inside
        kind, size = paths.FIXED, 0
        if role != kinds.TUPLE:
            own = self._collection(thing, length, step, inside, weight)
            kind, size = (paths.ELEMENT if role == kinds.SET else paths.INDEX), length
        each = weight * length / len(found) if found else weight
        for place, value in zip(places, found, strict=False):
            self._found(value, (step, kind, place, size), own, each, hint)

    def _instance(
        self,
        thing: Any,
        role: int,
        step: Step,
        inside: Collection | None,
        weight: float,
        hint: str | None,
    ) -> None:
        if role == kinds.INSTANCE:
            # Reading the dictionary of an object creates one, so this is done only where names are
            # needed.
            parts = list(kinds.referents(thing))
            if not any(self._needs_name(part) for part in parts):
                for part in parts if self._counts_host else ():
                    self._count_atom(part, step, inside, weight)
                return
            named = self._kinds.attributes(thing)
            self._note_bound(type(thing), named)
            if self._counts_host:
                self._note_collections(type(thing), named)
            for name, value in named:
                self._found(value, _attribute(step, name), inside, weight, hint)
            if not self._counts_host:
                return
            # A class of Python may extend one of an extension, whose parts have no names: the
            # blocks of a data frame, for example.
            known = {id(value) for _, value in named}
            for value in parts:
                if id(value) not in known and type(value) is not dict:
                    way = (step, paths.INSIDE, type(thing).__name__, 0)
                    self._found(value, way, inside, weight, hint)
            return
        # The parts of an extension type have no names.
        for count, value in enumerate(kinds.referents(thing)):
            if count >= _MOST_REFERENTS:
                break
            way = (step, paths.INSIDE, type(thing).__name__, 0)
            self._found(value, way, inside, weight, hint)

    def _note_collections(self, kind: type, attributes: list[tuple[str, Any]]) -> None:
        if kinds.module_of_class(kind) not in self._user_modules:
            for _, value in attributes:
                if self._kinds.role(type(value)) in _COLLECTIONS:
                    self._owners[id(value)] = type.__dict__["__name__"].__get__(kind)

    def _note_bound(self, kind: type, attributes: list[tuple[str, Any]]) -> None:
        if not any(name in ("queue", "_queue") for name, _ in attributes):
            return
        most = kinds.most_items_of_queue(kind, attributes)
        if most is not None:
            for name, value in attributes:
                if name in ("queue", "_queue"):
                    self._most_items[id(value)] = most

    def _needs_name(self, thing: Any) -> bool:
        kind = type(thing)
        if self._kinds.role(kind) != kinds.ATOM:
            return True
        return self._counts_host and kind in _TEXTS and len(thing) >= _LARGE_ATOM

    def _function(self, thing: Any, step: Step, inside: Collection | None, weight: float) -> None:
        code = thing.__code__
        # The names come from the code, because functools.wraps and programs may rename a function.
        for name, cell in zip(code.co_freevars, thing.__closure__ or (), strict=False):
            if type(cell) is not CellType:
                continue
            try:
                value = cell.cell_contents
            except ValueError:
                continue
            label = (paths.attribute(name), paths.attribute(code.co_name))
            self._found(value, (step, paths.CLOSURE, label, 0), inside, weight)
        for defaults in (thing.__defaults__, thing.__kwdefaults__):
            if defaults:
                self._found(defaults, _attribute(step, "__defaults__"), inside, weight)
        attributes = FunctionType.__dict__["__dict__"].__get__(thing)
        for name, value in kinds.entries(attributes):
            self._found(value, _attribute(step, name), inside, weight)

    def _class(self, thing: Any, step: Step, only: tuple[int, ...] | None = None) -> None:
        for name, value in kinds.class_attributes(thing):
            role = self._kinds.role(type(value))
            if role in (kinds.ATOM, kinds.BUILTIN) or (only is not None and role not in only):
                continue
            if type(value) in (staticmethod, classmethod, property):
                continue
            self._found(value, _attribute(step, name))

    def _cache(self, thing: Any, step: Step, inside: Collection | None, weight: float) -> None:
        """Visits the results that a ``functools.lru_cache`` holds, in a dictionary or directly."""
        parts = list(kinds.referents(thing))
        wrapped = [part for part in parts if type(part) is FunctionType]
        name = wrapped[0].__code__.co_name if wrapped else "function"
        way = (step, paths.CACHE, paths.attribute(name), 0)
        length = type(thing).cache_info(thing).currsize
        own = self._collection(thing, length, way, inside, weight)
        for part in parts:
            if type(part) is FunctionType:
                self._found(part, step)
            elif type(part) is dict:
                if dict.__len__(part) == length:
                    found = kinds.entries(part, self._most_elements)
                    # The results that are read represent all results.
                    each = weight * length / len(found) if found else weight
                    for _, value in found:
                        self._found(value, (way, paths.ELEMENT, None, length), own, each)
            else:
                self._found(part, (way, paths.ELEMENT, None, length), own, weight)

    def _exception(self, thing: Any, step: Step, inside: Collection | None, weight: float) -> None:
        read = BaseException.__dict__
        trace = read["__traceback__"].__get__(thing)
        way = (step, paths.TRACEBACK, None, 0)
        while trace is not None:
            frame = trace.tb_frame
            if not roots.is_own(frame.f_code.co_filename):
                self._variables(frame, way, None, inside, weight)
            trace = trace.tb_next
        for name in ("__cause__", "__context__", "args"):
            value = read[name].__get__(thing)
            self._found(value, (step, paths.ATTRIBUTE, name, 0), inside, weight)
        for name, value in self._kinds.attributes(thing):
            self._found(value, _attribute(step, name), inside, weight)

    def _generator(
        self, thing: Any, step: Step, inside: Collection | None, weight: float, hint: str | None
    ) -> None:
        for value in kinds.referents(thing):
            self._found(value, (step, paths.INSIDE, "generator", 0), inside, weight, hint)

    def _module(self, thing: Any, step: Step, inside: Collection | None, weight: float) -> None:
        for name, value in self._kinds.attributes(thing):
            if name in ("_parameters", "_buffers", "_modules") and isinstance(value, dict):
                hint = None if name == "_modules" else PARAMETERS
                for key, child in kinds.entries(value):
                    way = (step, paths.CHILD, key if type(key) is str else "...", 0)
                    self._found(child, way, inside, weight, hint)
            else:
                self._found(value, _attribute(step, name), inside, weight)

    def _optimizer(self, thing: Any, step: Step, inside: Collection | None, weight: float) -> None:
        for name, value in self._kinds.attributes(thing):
            if name != "state" or not isinstance(value, dict):
                self._found(value, _attribute(step, name), inside, weight)
                continue
            for parameter, state in kinds.entries(value):
                address, is_tensor = 0, self._kinds.role(type(parameter)) == kinds.TENSOR
                if is_tensor:
                    facts = _tensor_facts(parameter)
                    address = facts[0] if facts else 0
                    self._found(parameter, (step, paths.ATTRIBUTE, "param_groups", 0))
                pairs = kinds.entries(state) if isinstance(state, dict) else [("state", state)]
                for key, held in pairs:
                    label = (address, paths.attribute(key))
                    way = (step, paths.STATE, label, 0)
                    self._found(held, way, inside, weight, OPTIMIZER_STATE)

    # Memory.

    def _tensor(
        self, thing: Any, step: Step, inside: Collection | None, weight: float, hint: str | None
    ) -> None:
        facts = _tensor_facts(thing, self._wanted)
        if facts is not None:
            address, size, device, has_history, is_parameter = facts
            category = hint
            if is_parameter:
                category = PARAMETERS
            elif hint is None or (hint == INPUTS and has_history):
                category = ACTIVATIONS if has_history else OTHER
            elif hint == UNNAMED and has_history:
                category = ACTIVATIONS
            self._store(address, size, device, category or OTHER, step, inside, weight)
            if has_history and inside is not None:
                inside.graphs += weight
        if id(thing) in self._seen:
            return
        self._seen.add(id(thing))
        self.objects += 1
        if self.objects % _BETWEEN_CHECKS == 0:
            self._check()
        self._behind_tensor(thing, step)

    def _behind_tensor(self, thing: Any, step: Step) -> None:
        if self._is_alone:
            self._autograd(thing, step)
        elif _has_graph(thing):
            self.with_graph.append((weakref.ref(thing), step))
        # The tensor's dictionary and hooks, if it has any.
        for part in kinds.referents(thing):
            if isinstance(part, dict):
                for name, value in kinds.entries(part, self._most_elements):
                    self._found(value, _attribute(step, name))

    def _autograd(self, thing: Any, step: Step) -> None:
        try:
            # Reading the gradient of a tensor that is neither a leaf nor retains its gradient gives
            # a warning and no gradient.
            gradient = thing.grad if thing.is_leaf or thing.retains_grad else None
        except Exception:
            gradient = None
        if gradient is not None:
            facts = _tensor_facts(thing)
            way = (step, paths.GRADIENT, facts[0] if facts else 0, 0)
            self._tensor(gradient, way, None, 1.0, GRADIENTS)
        try:
            node = thing.grad_fn
        except Exception:
            node = None
        if node is not None:
            self._graphs.append((node, (step, paths.GRAPH, None, 0)))

    def _follow_graphs(self, done: Callable[[], bool] | None) -> None:
        # The tensors that the variables of this stage and of earlier stages reach are already
        # recorded, so a graph becomes the holder only of other tensors.
        while self._graphs and (done is None or not done()):
            node, step = self._graphs.popleft()
            for value, is_argument, is_leaf in self._graph.held(node):
                role = self._kinds.role(type(value))
                self.objects += 1
                if self.objects % _BETWEEN_CHECKS == 0:
                    self._check()
                if role == kinds.TENSOR:
                    facts = _tensor_facts(value, self._wanted)
                    if facts is None:
                        continue
                    address, size, device, has_history, is_parameter = facts
                    is_input = is_argument and not has_history
                    category = INPUTS if is_input else ACTIVATIONS
                    if is_leaf or is_parameter:
                        category = PARAMETERS
                    self._store(address, size, device, category, step, None, 1.0)
                elif role != kinds.ATOM:
                    self._found(value, step, hint=ACTIVATIONS)
            node = value = None
            self._drain()

    def _array(
        self, thing: Any, step: Step, inside: Collection | None, weight: float, hint: str | None
    ) -> None:
        owner = thing
        read = sys.modules["numpy"].ndarray.__dict__
        # A view keeps the whole array that it was taken from.
        for _ in range(_DEEPEST):
            base = read["base"].__get__(owner)
            if base is None or self._kinds.role(type(base)) != kinds.ARRAY:
                break
            owner = base
        if base is not None:
            # The memory belongs to another object: a tensor, a bytes object, a file.
            self._found(base, step, inside, weight, hint)
            return
        address = read["ctypes"].__get__(owner).data
        self._store(
            address, read["nbytes"].__get__(owner), "cpu", hint or OTHER, step, inside, weight
        )
        if read["dtype"].__get__(owner).hasobject and id(owner) not in self._seen:
            self._seen.add(id(owner))
            for place, value in enumerate(read["flat"].__get__(owner)):
                if place >= self._most_elements:
                    break
                self._found(value, (step, paths.INDEX, place, owner.size), inside, weight, hint)

    def _count_atom(self, thing: Any, step: Step, inside: Collection | None, weight: float) -> None:
        kind = type(thing)
        if kind is int:
            if -6 < thing < 257:
                # The interpreter has only one object for each of these integers.
                return
        elif kind is not float and kind not in _TEXTS:
            return
        size = sys.getsizeof(thing)
        if size >= _LARGE_ATOM:
            self._store(id(thing), size, "cpu", OTHER, step, inside, weight)
        elif inside is not None and id(thing) not in self._atoms:
            # An object that several elements share is counted once.
            self._atoms.add(id(thing))
            inside.bytes += (size + _ALIGNMENT - 1) // _ALIGNMENT * _ALIGNMENT * weight

    def _store(
        self,
        address: int,
        size: int,
        device: str,
        category: str,
        step: Step,
        inside: Collection | None,
        weight: float,
    ) -> None:
        if self._wanted is not None and not self._wanted(address):
            return
        known = self.storages.get(address)
        if known is None:
            known = self.storages[address] = Storage(address, size, device)
            if self._counts_host and inside is not None and device == "cpu":
                inside.bytes += size * weight
        if _PREFERENCE[category] < _PREFERENCE[known.category]:
            known.category = category
        rank = self._rank(category, step)
        if rank < known.rank:
            known.rank, known.step = rank, step

    def _rank(self, category: str, step: Step) -> tuple[int, ...]:
        is_child = step[1] in (paths.CHILD, paths.STATE, paths.GRADIENT)
        is_in_graph = paths.in_graph(step)
        lacks_collection = self._prefers_collections and paths.container(step) is None
        is_unreached = paths.root(step)[1] == paths.UNREACHED
        depth = paths.depth(step)
        return (is_unreached, not is_child, is_in_graph, lacks_collection, depth)

    def _sum_up(self) -> None:
        # A collection is found after the collection that contains it, so in reverse order the sum
        # of each collection is complete before it is added to its parent.
        for one in reversed(self.collections):
            if one.parent is not None:
                one.parent.bytes += one.bytes
                one.parent.hidden += one.hidden

    def way_to(self, storage: Storage) -> Step | None:
        """The best path to a storage. The path to a gradient begins with the best path to its
        parameter."""
        step = storage.step
        if step is not None and step[1] == paths.GRADIENT:
            parameter = self.storages.get(step[2])
            if parameter is not None and parameter.step is not None:
                return (parameter.step, *step[1:])
        return step

    def collection_at(self, step: Step) -> Collection | None:
        """The collection at the end of a path that the search made."""
        if self._by_step is None:
            self._by_step = {id(one.step): one for one in self.collections}
        return self._by_step.get(id(step))

    def name_of_parameter(self, address: int) -> str | None:
        """The name of the parameter whose storage is at an address. Paths to the state of an
        optimizer show this name. None when no named parameter is known there."""
        storage = self.storages.get(address)
        if storage is None or storage.category != PARAMETERS:
            return None
        step = storage.step
        if step is None or step[1] != paths.CHILD:
            return None
        return paths.render(step, lambda _: None).name


def _attribute(step: Step, name: object) -> Step:
    return (step, paths.ATTRIBUTE, paths.attribute(name), 0)


def _tensor_facts(
    thing: Any, wanted: Callable[[int], bool] | None = None
) -> tuple[int, int, str, bool, bool] | None:
    """The address, bytes and device of a tensor's storage, whether the tensor was computed with
    gradients, and whether it is a parameter. None for a tensor that is not wanted or has no memory
    of its own: fake, sparse or partly destroyed."""
    try:
        storage = thing.untyped_storage()
        address = int(storage.data_ptr())
        if not address or (wanted is not None and not wanted(address)):
            return None
        device = f"cuda:{thing.get_device()}" if thing.is_cuda else str(thing.device)
        size = int(storage.nbytes())
        is_leaf = bool(thing.is_leaf)
        is_parameter = is_leaf and bool(thing.requires_grad)
        return address, size, device, not is_leaf, is_parameter
    except Exception:
        return None


def _has_graph(thing: Any) -> bool:
    try:
        return bool(thing.requires_grad) and not thing.is_leaf
    except Exception:
        return False


def _jax_facts(thing: Any) -> tuple[int, int, str] | None:
    """Address, bytes and device of an array; None for one that was deleted or is on several
    devices."""
    try:
        [device] = thing.devices()
        # A process with GPUs has two devices with the id 0: a CPU and a GPU.
        name = "cpu" if device.platform == "cpu" else f"jax:{device.id}"
        return int(thing.unsafe_buffer_pointer()), int(thing.nbytes), name
    except Exception:
        return None
