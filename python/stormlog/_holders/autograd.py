"""Reads what the autograd graph of a tensor keeps: saved tensors, or what hooks saved in
their place.

Saved tensors are read in the packed form, in which hooks stored them. Unpacking a saved tensor
would run hooks of the program, and the hooks of ``torch.utils.checkpoint`` repeat the forward pass.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

_RAW = "_raw_saved_"
# Names of values that an operation saves from its arguments; other saved values are its results.
_ARGUMENTS = frozenset(
    ("self", "input", "mat1", "mat2", "other", "indices", "target", "query", "key", "value")
)


class Graph:
    """Walks autograd graphs. Until ``forget`` is called, every node is visited at most once.

    Visited nodes are kept alive until ``forget`` is called, because a node is recognized by the
    identity of its Python object.
    """

    def __init__(self) -> None:
        self._nodes: dict[int, Any] = {}
        self._saved: dict[int, list[tuple[str, bool]]] = {}
        # PyTorch older than 2.6 cannot show a saved tensor without unpacking it.
        self.is_opaque = False

    def forget(self) -> None:
        """Release all nodes."""
        self._nodes.clear()

    def held(self, root: Any) -> Iterator[tuple[Any, bool, bool]]:
        """The values that the nodes behind ``root`` keep. Each comes with two flags: whether it is
        an argument of an operation, and whether it is a leaf tensor that accumulates a gradient."""
        waiting = [root]
        while waiting:
            node = waiting.pop()
            if node is None or id(node) in self._nodes:
                continue
            self._nodes[id(node)] = node
            try:
                waiting.extend(following for following, _ in node.next_functions)
            except Exception:
                continue
            for name, is_argument in self._names(type(node)):
                for value in self._packed(node, name):
                    yield value, is_argument, False
            leaf = getattr(node, "variable", None) if _is_leaf(node) else None
            if leaf is not None:
                yield leaf, False, True
            # An operation written in Python may keep any values.
            attributes = getattr(node, "__dict__", None)
            if type(attributes) is dict:
                for value in list(attributes.values()):
                    yield value, False, False

    def _names(self, kind: type) -> list[tuple[str, bool]]:
        names = self._saved.get(id(kind))
        if names is None:
            found = [name for name in dir(kind) if name.startswith(_RAW)]
            names = [(name, name[len(_RAW) :] in _ARGUMENTS) for name in found]
            self._saved[id(kind)] = names
        return names

    def _packed(self, node: Any, name: str) -> Iterator[Any]:
        try:
            raw = getattr(node, name)
        except Exception:
            # The backward pass has freed it.
            return
        for one in raw if isinstance(raw, (tuple, list)) else (raw,):
            try:
                value = one.data
            except AttributeError:
                self.is_opaque = True
            except Exception:
                continue
            else:
                if value is not None:
                    yield value


def _is_leaf(node: Any) -> bool:
    return type(node).__name__ == "AccumulateGrad"
