"""The command ``jaxmemprof`` under the name of the module that it had."""

from __future__ import annotations

from ..entrypoint import jaxmemprof as main

__all__ = ["main"]

if __name__ == "__main__":
    raise SystemExit(main())
