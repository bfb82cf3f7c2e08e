"""Classifies objects for the search for holders, and reads their parts without running their code.

Types are classified by their base classes, once for each type. Attributes are read from
dictionaries and slots through the interpreter's own descriptors, never through ``getattr``.
"""

from __future__ import annotations

# Not `threading`: the thread that imports it first becomes the main thread for Python before 3.13.
import _thread
import functools
import gc
import mmap
import sys
import types
import weakref
from collections import deque
from collections.abc import Iterable, Iterator
from itertools import chain, islice
from typing import Any

(
    ATOM,  # holds nothing
    TENSOR,
    ARRAY,  # of NumPy
    JAX_ARRAY,
    MODULE,  # torch.nn.Module
    OPTIMIZER,
    DICT,
    LIST,
    TUPLE,
    SET,
    DEQUE,
    FUNCTION,
    METHOD,
    BUILTIN,
    CELL,
    CLASS,
    CACHE,  # functools.lru_cache
    PARTIAL,
    GENERATOR,
    EXCEPTION,
    INSTANCE,
    OPAQUE,  # a type of an extension
    MAPPING,  # mmap.mmap
    THREAD_LOCAL,  # threading.local
) = range(24)

_ATOMS = (
    type(None),
    bool,
    int,
    float,
    complex,
    str,
    bytes,
    bytearray,
    range,
    slice,
    types.CodeType,
    types.ModuleType,
    # Frames are read only as roots and in tracebacks.
    types.FrameType,
    weakref.ReferenceType,
    *weakref.ProxyTypes,
)
_BUILT_IN = {
    types.FunctionType: FUNCTION,
    types.MethodType: METHOD,
    types.BuiltinFunctionType: BUILTIN,
    types.CellType: CELL,
    types.GeneratorType: GENERATOR,
    types.CoroutineType: GENERATOR,
    types.AsyncGeneratorType: GENERATOR,
    functools._lru_cache_wrapper: CACHE,
}
_BASES = (
    (dict, DICT),
    (list, LIST),
    (tuple, TUPLE),
    (set, SET),
    (frozenset, SET),
    (deque, DEQUE),
    (BaseException, EXCEPTION),
    (functools.partial, PARTIAL),
    (mmap.mmap, MAPPING),
    (_thread._local, THREAD_LOCAL),
    (type, CLASS),
    *((kind, ATOM) for kind in _ATOMS),
)
_mro_of = type.__dict__["__mro__"].__get__
_dict_of_class = type.__dict__["__dict__"].__get__
_module_of = type.__dict__["__module__"].__get__


class Kinds:
    """The roles of types (TENSOR, DICT and so on), including the types of loaded libraries."""

    def __init__(self) -> None:
        torch: Any = sys.modules.get("torch")
        numpy: Any = sys.modules.get("numpy")
        known = [
            (getattr(torch, "Tensor", None), TENSOR),
            (getattr(getattr(torch, "nn", None), "Module", None), MODULE),
            (getattr(getattr(torch, "optim", None), "Optimizer", None), OPTIMIZER),
            (getattr(numpy, "ndarray", None), ARRAY),
            (getattr(sys.modules.get("jax._src.array"), "ArrayImpl", None), JAX_ARRAY),
            *_BASES,
        ]
        self._bases = [(kind, role) for kind, role in known if isinstance(kind, type)]
        self.roles: dict[int, int] = {id(kind): role for kind, role in _BUILT_IN.items()}
        self._parts: dict[int, tuple[Any, list[tuple[str, Any]]]] = {}
        self._hides: dict[int, bool] = {}

    def role(self, kind: type) -> int:
        """The role of the objects of a type."""
        role = self.roles.get(id(kind))
        if role is None:
            role = self.roles[id(kind)] = self._decide(kind)
        return role

    def _decide(self, kind: type) -> int:
        bases = _mro_of(kind)
        for known, role in self._bases:
            if any(base is known for base in bases):
                return role
        module = _dict_of_class(kind).get("__module__")
        if type(module) is str and module.partition(".")[0] == "stormlog":
            return ATOM
        read, slots = self._readers(kind)
        return INSTANCE if read is not None or slots else OPAQUE

    def hides_memory(self, kind: type, role: int) -> bool:
        """Whether objects of a type may have memory that Python does not see: those of extensions
        outside of the standard library, and pointers of ctypes."""
        if role not in (INSTANCE, OPAQUE):
            return False
        known = self._hides.get(id(kind))
        if known is None:
            bases = [_module_of(base) for base in _mro_of(kind)]
            known = "_ctypes" in bases
            if not known and role == OPAQUE:
                package = str(bases[0]).partition(".")[0]
                known = package not in sys.stdlib_module_names and package != "numpy"
            self._hides[id(kind)] = known
        return known

    def attributes_of_threads(self, thing: object) -> list[tuple[str, Any]]:
        """The attributes that a ``threading.local`` has in all threads, each with the value of one
        thread."""
        found = []
        for part in referents(thing):
            # A dictionary whose values are the dictionaries of the threads.
            for _, own in entries(part) if type(part) is dict else ():
                if type(own) is dict:
                    found += [(name, value) for name, value in entries(own) if type(name) is str]
        return found

    def attributes(self, thing: object) -> list[tuple[str, Any]]:
        """The attributes of the object itself, from its dictionary and its slots."""
        read, slots = self._readers(type(thing))
        found: list[tuple[str, Any]] = []
        if read is not None:
            try:
                own = read(thing)
            except Exception:
                own = None
            if type(own) is dict:
                found = entries(own)
        for name, slot in slots:
            try:
                found.append((name, slot(thing)))
            except Exception:
                # The slot is not assigned.
                continue
        return found

    def _readers(self, kind: type) -> tuple[Any, list[tuple[str, Any]]]:
        known = self._parts.get(id(kind))
        if known is not None:
            return known
        read, slots = None, []
        for base in _mro_of(kind):
            for name, value in list(_dict_of_class(base).items()):
                if name == "__dict__" and type(value) is types.GetSetDescriptorType:
                    read = read or value.__get__
                elif type(value) is types.MemberDescriptorType and name[:2] != "__":
                    slots.append((name, value.__get__))
        self._parts[id(kind)] = (read, slots)
        return read, slots


def keys_are_sparse(keys: list[Any]) -> bool:
    """Whether the keys of a dictionary look like ids, which do not come back, and not like the
    names or indices of a collection that ends."""
    return bool(keys) and all(map(_is_of_sparse, _packed(keys)))


def _packed(keys: list[Any]) -> list[Any]:
    """The keys; numbers that lie close together are replaced by one word."""
    numbers = [key for key in keys if type(key) is int]
    if len(numbers) < len(keys) or max(numbers) - min(numbers) > _SPARSE * len(numbers):
        return keys
    return ["index"]


def _is_of_sparse(key: Any) -> bool:
    kind = type(key)
    if kind is tuple:
        return any(type(part) is float or _is_of_sparse(part) for part in key)
    if kind is int:
        return bool(abs(key) >= _LARGE_KEY)
    if kind is str:
        digits = sum(letter in _HEX for letter in key)
        return len(key) >= _LONG_ID and digits >= _MOSTLY * len(key)
    return kind is float or kind is bytes


# Keys are ids when they are at least this large, as addresses and random numbers are, or when they
# are texts of at least this many characters, most of which are hexadecimal digits or hyphens.
_SPARSE, _LARGE_KEY, _LONG_ID, _MOSTLY = 1000, 1 << 32, 16, 0.9
_HEX = frozenset("0123456789abcdefABCDEF-")


def entries(mapping: Any, most: int | None = None) -> list[tuple[Any, Any]]:
    """The entries of a dictionary. If it has more than ``most`` entries, only the first and the
    last ones. Empty if another thread changes the dictionary meanwhile."""
    try:
        items = dict.items(mapping)
        if most is None or dict.__len__(mapping) <= most:
            return list(items)
        half = most // 2
        return [*islice(items, half), *islice(reversed(items), half)]
    except RuntimeError:
        # Another thread changed it meanwhile.
        return []


def elements(sequence: Any, role: int, most: int) -> tuple[int, Iterable[int], list[Any]]:
    """The length of a list, tuple, set or deque, and the positions and values of its elements. If
    it has more than ``most`` elements, only the first and the last ones are returned, each half of
    ``most``; of a set, which has no order, only one such half.

    Positions and values are returned separately and not as pairs: thousands of tuples would bring
    the next full garbage collection of the program closer."""
    base: Any = _base_of(sequence, role)
    length = base.__len__(sequence)
    try:
        if length <= most:
            return length, range(length), list(base.__iter__(sequence))
        half = most // 2
        first = list(islice(base.__iter__(sequence), half))
        if role == SET:
            return length, range(half), first
        if role == DEQUE:
            tail = list(islice(deque.__reversed__(sequence), half))
            backwards = range(length - 1, length - 1 - half, -1)
            return length, chain(range(half), backwards), first + tail
        tail = list(base.__getitem__(sequence, slice(length - half, length)))
        return length, chain(range(half), range(length - half, length)), first + tail
    except RuntimeError:
        return length, range(0), []


def length(collection: Any, role: int) -> int:
    """The length of a dictionary, list, tuple, set or deque."""
    base = dict if role == DICT else _base_of(collection, role)
    return int(base.__len__(collection))


def _base_of(sequence: Any, role: int) -> Any:
    return _SEQUENCES.get(role) or (set if isinstance(sequence, set) else frozenset)


_SEQUENCES: dict[int, Any] = {LIST: list, TUPLE: tuple, DEQUE: deque}


def module_of_class(kind: type) -> str:
    """The module in which a class was defined."""
    name = _dict_of_class(kind).get("__module__")
    return name if type(name) is str else ""


def class_attributes(kind: type) -> list[tuple[str, Any]]:
    """The attributes that a class itself holds, without those whose names begin with ``__``."""
    try:
        found = list(_dict_of_class(kind).items())
    except RuntimeError:
        return []
    return [(name, value) for name, value in found if type(name) is str and name[:2] != "__"]


def most_elements_of(thing: Any, role: int) -> int | None:
    """The number of elements that a deque or a cache can have at most: 0 for a cache without a
    bound, None for collections whose type sets no bound."""
    if role == DEQUE:
        most = deque.__dict__["maxlen"].__get__(thing)
        return most if type(most) is int else None
    if role == CACHE:
        most = type(thing).cache_info(thing).maxsize
        return most if type(most) is int else 0
    return None


def most_items_of_queue(kind: type, attributes: list[tuple[str, Any]]) -> int | None:
    """The number of items that a queue of the standard library can have at most: 0 if it has no
    bound, None if the object is no such queue."""
    if not any(module_of_class(base) in _QUEUES for base in _mro_of(kind)):
        return None
    found = dict(attributes)
    most = found.get("maxsize", found.get("_maxsize"))
    return max(most, 0) if type(most) is int else None


_QUEUES = ("queue", "asyncio.queues")


def referents(thing: object) -> Iterator[Any]:
    """The objects that an object of an unknown type refers to, except its type."""
    kind = type(thing)
    return (one for one in gc.get_referents(thing) if one is not kind)


def size_of_mapping(thing: Any) -> int:
    """The bytes that an ``mmap`` maps; 0 for a closed one."""
    try:
        return int(mmap.mmap.__len__(thing))
    except ValueError:
        return 0


def size_of(thing: object, role: int) -> int:
    """The size of the object itself in bytes. A program's own ``__sizeof__`` is not called."""
    kind = type(thing)
    if not _flags_of(kind) & _HEAP_TYPE:
        return sys.getsizeof(thing)
    base = _SIZED.get(role)
    if base is not None:
        return int(base.__sizeof__(thing)) + _COLLECTOR_BYTES
    return int(_basic_size_of(kind)) + _COLLECTOR_BYTES


_flags_of = type.__dict__["__flags__"].__get__
_basic_size_of = type.__dict__["__basicsize__"].__get__
_SIZED: dict[int, Any] = {DICT: dict, LIST: list, TUPLE: tuple, DEQUE: deque}
_HEAP_TYPE = 1 << 9
_COLLECTOR_BYTES = 16
