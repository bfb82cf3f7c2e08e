"""Lists the tensors on a CUDA device by the address of their storage, with names.

All objects that the garbage collector knows are visited. Reading an attribute of an unknown object
could run any code, so attributes are read only from tensors; an error of such a read is ignored. Of
other objects only the type (with ``type``) and the instance dictionary are read. The index contains
plain data and keeps no tensor alive.
"""

from __future__ import annotations

import gc
from collections.abc import Iterable, Iterator
from contextlib import nullcontext
from typing import Any

from . import _core
from ._holders.paths import key_label
from ._torch import require_torch

# More names and tensors of one storage add no information.
_MOST_NAMES = 16
_MOST_TENSORS = 16
_LONGEST_NAME = 200
# A dictionary with more entries than this holds data, and its keys are not used as names.
_LONGEST_DICT = 100_000
_DEEPEST_MODULE = 64

_TENSOR, _MODULE, _OPTIMIZER, _DICT, _OTHER = range(5)


def index_of(device_index: int) -> dict[str, Any]:
    """The tensors of a device that are in use, grouped by storage, with names."""
    torch = require_torch()
    roles = _Roles(torch)
    found: dict[int, list[Any]] = {role: [] for role in range(_OTHER)}
    for thing in gc.get_objects():
        role = roles.of(thing)
        if role != _OTHER:
            found[role].append(thing)
    try:
        storages = _storages(found, roles, torch, device_index)
    finally:
        # `found` is itself one of the dictionaries that it lists, a cycle that would keep all the
        # tensors alive.
        for things in found.values():
            things.clear()
    return {
        "device_index": device_index,
        "storage_pointer_count": len(storages),
        "attributed_storage_pointers": [_entry(storages[pointer]) for pointer in sorted(storages)],
    }


def _storages(
    found: dict[int, list[Any]], roles: _Roles, torch: Any, device_index: int
) -> dict[int, dict[str, Any]]:
    storages: dict[int, dict[str, Any]] = {}
    addresses: dict[int, int] = {}
    # Subclasses of tensors may run any code when their attributes are read.
    plain = getattr(torch._C, "DisableTorchFunctionSubclass", nullcontext)
    with plain():
        for tensor in found[_TENSOR]:
            _add_tensor(tensor, device_index, storages, addresses)
        named = _named_by_modules(found[_MODULE], roles)
        _add_names(named, storages, addresses)
        labels = {id(tensor): name for name, tensor in sorted(named, key=_by_dots, reverse=True)}
        _add_names(_named_by_optimizers(found[_OPTIMIZER], roles, labels), storages, addresses)
        # Usually only C++ holds a gradient, and the garbage collector does not know it. The list
        # keeps the Python objects of all gradients until the end of this function, so that no other
        # object gets the id of one of them.
        gradients = list(_gradients(named))
        for _, gradient in gradients:
            if id(gradient) not in addresses:
                _add_tensor(gradient, device_index, storages, addresses)
        _add_names(gradients, storages, addresses)
        unnamed = {pointer for pointer, entry in storages.items() if not entry["names"]}
        keyed = _named_by_dicts(found[_DICT], roles)
        of_unnamed = ((key, value) for key, value in keyed if addresses.get(id(value)) in unnamed)
        _add_names(of_unnamed, storages, addresses)
    return storages


class _Roles:
    """Whether an object is a tensor, module, optimizer or dictionary; decided once per type."""

    def __init__(self, torch: Any) -> None:
        optimizer = getattr(getattr(torch, "optim", None), "Optimizer", None)
        kinds = ((torch.Tensor, _TENSOR), (torch.nn.Module, _MODULE), (optimizer, _OPTIMIZER))
        self._kinds = [(kind, role) for kind, role in kinds if kind is not None]
        self._known: dict[int, int] = {}

    def of(self, thing: object) -> int:
        kind = type(thing)
        role = self._known.get(id(kind))
        if role is None:
            role = self._known[id(kind)] = self._decide(kind)
        return role

    def _decide(self, kind: type) -> int:
        for known, role in self._kinds:
            if issubclass(kind, known):
                return role
        return _DICT if issubclass(kind, dict) else _OTHER


def _add_tensor(
    tensor: Any, device_index: int, storages: dict[int, dict[str, Any]], addresses: dict[int, int]
) -> None:
    try:
        if not tensor.is_cuda or tensor.get_device() != device_index:
            return
        pointer = int(tensor.untyped_storage().data_ptr())
        facts = {
            "shape": [int(size) for size in tensor.shape],
            "dtype": str(tensor.dtype),
            "device": str(tensor.device),
            "size_bytes": int(tensor.nelement()) * int(tensor.element_size()),
            "requires_grad": bool(tensor.requires_grad),
            "is_leaf": bool(tensor.is_leaf),
        }
    except Exception:
        # A tensor without its own storage: fake, sparse, or partly destroyed.
        return
    if pointer == 0:
        return
    addresses[id(tensor)] = pointer
    entry = storages.setdefault(
        pointer, {"pointer": pointer, "names": {}, "count": 0, "tensors": []}
    )
    entry["count"] += 1
    if len(entry["tensors"]) < _MOST_TENSORS:
        entry["tensors"].append(facts)


def _add_names(
    named: Iterable[tuple[str, Any]],
    storages: dict[int, dict[str, Any]],
    addresses: dict[int, int],
) -> None:
    for name, tensor in named:
        pointer = addresses.get(id(tensor))
        if pointer is not None:
            names = storages[pointer]["names"]
            if len(names) < _MOST_NAMES:
                names[_core.sendable_text(name)[:_LONGEST_NAME]] = None


def _named_by_modules(modules: list[Any], roles: _Roles) -> list[tuple[str, Any]]:
    """Parameters and buffers, named by their path from the outermost module that contains them.

    Each module is visited once, by the first path to it. If modules refer to the modules that
    contain them, there are too many paths to follow all.
    """
    children = {id(module): list(_children(module, roles)) for module in modules}
    inner = {id(child) for below in children.values() for _, child in below}
    # Modules that are in no other module come first. If each module is in another one, the module
    # with the most direct submodules is taken for the model.
    starts = sorted(modules, key=lambda module: (id(module) in inner, -len(children[id(module)])))
    named: list[tuple[str, Any]] = []
    seen: set[int] = set()
    for start in starts:
        waiting: list[tuple[Any, str, int]] = [(start, "", 0)]
        while waiting:
            module, prefix, depth = waiting.pop()
            if depth > _DEEPEST_MODULE or id(module) in seen:
                continue
            seen.add(id(module))
            for attribute in ("_parameters", "_buffers"):
                for key, tensor in _entries(_attributes(module).get(attribute)):
                    if roles.of(tensor) == _TENSOR:
                        named.append((prefix + key, tensor))
            below = children.get(id(module)) or list(_children(module, roles))
            waiting.extend((child, f"{prefix}{key}.", depth + 1) for key, child in reversed(below))
    return named


def _children(module: Any, roles: _Roles) -> Iterator[tuple[str, Any]]:
    for key, child in _entries(_attributes(module).get("_modules")):
        if roles.of(child) == _MODULE:
            yield key, child


def _named_by_optimizers(
    optimizers: list[Any], roles: _Roles, labels: dict[int, str]
) -> Iterator[tuple[str, Any]]:
    """The tensors that optimizers keep for parameters, named after the parameters."""
    for optimizer in optimizers:
        states = _attributes(optimizer).get("state")
        if not isinstance(states, dict):
            continue
        for parameter, state in list(dict.items(states)):
            for key, value in _entries(state):
                if roles.of(value) == _TENSOR:
                    yield f"{labels.get(id(parameter), 'optimizer')}.{key}", value


def _gradients(named: list[tuple[str, Any]]) -> Iterator[tuple[str, Any]]:
    for name, tensor in named:
        try:
            gradient = tensor.grad if tensor.is_leaf else None
        except Exception:
            continue
        if gradient is not None:
            yield f"{name}.grad", gradient


def _named_by_dicts(dicts: list[Any], roles: _Roles) -> Iterator[tuple[str, Any]]:
    for one in dicts:
        if dict.__len__(one) > _LONGEST_DICT:
            continue
        for key, value in _entries(one):
            if roles.of(value) == _TENSOR:
                # `key_label` hides a key that is not a name. Such a key may be data of the program,
                # for example an address with a password.
                yield key_label(key).strip("'"), value


def _attributes(thing: Any) -> dict[str, Any]:
    try:
        attributes = object.__getattribute__(thing, "__dict__")
    except Exception:
        return {}
    return attributes if type(attributes) is dict else {}


def _entries(mapping: Any) -> Iterator[tuple[str, Any]]:
    """The entries of a dictionary whose keys are texts. Stops early, without an error, when another
    thread changes the dictionary meanwhile."""
    if not isinstance(mapping, dict):
        return
    try:
        for key, value in dict.items(mapping):
            if type(key) is str:
                yield key, value
    except RuntimeError:
        # Another thread changed it meanwhile.
        return


def _by_dots(named: tuple[str, Any]) -> tuple[int, str]:
    """Sort key: the name with the most dots comes first, because it contains the most
    information."""
    return -named[0].count("."), named[0]


def _entry(storage: dict[str, Any]) -> dict[str, Any]:
    names = [name for name, _ in sorted(storage["names"].items(), key=_by_dots)]
    return {
        "storage_ptr": hex(storage["pointer"]),
        "storage_ptr_int": storage["pointer"],
        "names": names,
        "tensor_count": storage["count"],
        "tensors": storage["tensors"],
    }
