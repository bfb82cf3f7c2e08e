"""Read-only containers, for the values of frozen dataclasses."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NoReturn


class ReadOnlyDict(dict[str, Any]):
    """A dictionary that rejects changes. Unlike ``types.MappingProxyType`` it can be pickled,
    copied and written as JSON."""

    def _refuse(self, *_: object, **__: object) -> NoReturn:
        raise TypeError(f"{type(self).__name__!r} object does not support changes")

    __setitem__ = __delitem__ = __ior__ = _refuse
    clear = pop = popitem = setdefault = update = _refuse

    def __reduce__(self) -> tuple[type[ReadOnlyDict], tuple[dict[str, Any]]]:
        return type(self), (dict(self),)


def freeze(value: Any) -> Any:
    """A read-only copy of the value: mappings become ``ReadOnlyDict`` with text keys, and lists
    become tuples, at every depth."""
    if isinstance(value, Mapping):
        return ReadOnlyDict({str(key): freeze(item) for key, item in value.items()})
    if isinstance(value, (list, tuple)):
        return tuple(freeze(item) for item in value)
    return value


def thaw(value: Any) -> Any:
    """A copy of the value in which mappings are plain dictionaries with text keys, and lists and
    tuples are lists, at every depth."""
    if isinstance(value, Mapping):
        return {str(key): thaw(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [thaw(item) for item in value]
    return value
