"""Packs inputs into the file that the tests replay: ``python fuzz/pack.py FOLDER FILE``."""

import gzip
import struct
import sys
from pathlib import Path


def main(folder: str, file: str) -> None:
    # The order of a folder is not the same everywhere; that of its contents is.
    inputs = sorted(path.read_bytes() for path in Path(folder).iterdir())
    packed = b"".join(struct.pack("<I", len(data)) + data for data in inputs)
    Path(file).write_bytes(gzip.compress(packed, mtime=0))
    print(f"{file}: {len(inputs)} inputs, {Path(file).stat().st_size} bytes")


if __name__ == "__main__":
    main(*sys.argv[1:])
