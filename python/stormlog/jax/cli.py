"""The command ``jaxmemprof``, in the module that it had in stormlog 0.3.9."""

from __future__ import annotations

from ..entrypoint import jaxmemprof as main

__all__ = ["main"]

if __name__ == "__main__":
    raise SystemExit(main())
