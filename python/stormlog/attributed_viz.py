"""HTML pages of a snapshot of PyTorch's allocator, with the names of tensors."""

from __future__ import annotations

import json
import pickle
from typing import Any

from . import _core
from ._snapshot_files import TRACE_HTML_ANNOTATED_FILENAME
from .errors import InvalidTypeError, InvalidValueError

__all__ = [
    "ATTRIBUTED_HTML_FILENAME",
    "render_attributed_html",
    "render_attributed_wandb_preview_html",
]

ATTRIBUTED_HTML_FILENAME = TRACE_HTML_ANNOTATED_FILENAME


def render_attributed_html(snapshot: Any, tensor_index: dict[str, Any], *, device: int = 0) -> str:
    """Render a snapshot of PyTorch's allocator as an interactive, self-contained HTML page.

    ``snapshot`` is the result of ``torch.cuda.memory._snapshot()``, ``tensor_index`` that of
    ``build_cuda_tensor_attribution_index``. The page has the timeline of allocations, the lines of
    the program that hold memory, a map of the segments and the live blocks.
    """
    return _core.allocator_snapshot_page(*_stored(snapshot, tensor_index), device)


def render_attributed_wandb_preview_html(
    snapshot: Any,
    tensor_index: dict[str, Any],
    *,
    device: int = 0,
    max_timeline_points: int = 480,
    max_marker_points: int = 80,
    max_offenders: int = 12,
    max_active_rows: int = 12,
) -> str:
    """Render a snapshot as a small HTML page without scripts, which other pages can embed."""
    limits = (max_timeline_points, max_marker_points, max_offenders, max_active_rows)
    if min(limits) < 0:
        raise InvalidValueError("limits must be >= 0")
    return _core.allocator_snapshot_still(*_stored(snapshot, tensor_index), device, limits)


def _stored(snapshot: Any, tensor_index: dict[str, Any]) -> tuple[bytes, str]:
    """The snapshot as a pickle and the index as JSON, which the Rust core reads."""
    try:
        stored = pickle.dumps(snapshot, protocol=4)
    except Exception as error:
        raise InvalidTypeError(f"the snapshot is not plain data: {error}") from error
    return stored, json.dumps(tensor_index, default=str)
