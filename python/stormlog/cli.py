"""The command ``gpumemprof`` under the name of the module that it had."""

from __future__ import annotations

from .entrypoint import gpumemprof as main

__all__ = ["main"]

if __name__ == "__main__":
    raise SystemExit(main())
