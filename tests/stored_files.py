"""Files of models taken apart and put together by the words of docs/file_format.md."""

import json
import math
import struct
import subprocess
import sys
import zlib

import numpy as np

PREAMBLE = 32


def taken_apart(raw: bytes) -> tuple[dict, bytes]:
    """(header, bytes behind it) of a file, by the words of docs/file_format.md."""
    length = int.from_bytes(raw[12:16], "little")
    start = -(-(PREAMBLE + length) // 64) * 64
    return json.loads(raw[PREAMBLE : PREAMBLE + length]), raw[start:]


def put_together(header: dict | bytes, arrays: bytes, version: int = 1, length: int | None = None):
    """A file with correct checksums around whatever is given, by the words of docs/file_format.md."""
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    start = -(-(PREAMBLE + len(text)) // 64) * 64
    front = struct.pack(
        "<8sIIQI",
        b"\x89MFD\r\n\x1a\n",
        version,
        len(text) if length is None else length,
        start + len(arrays),
        zlib.crc32(text),
    )
    front += struct.pack("<I", zlib.crc32(front))
    return front + text + bytes(start - PREAMBLE - len(text)) + arrays


def resummed(header: dict, arrays: bytes) -> dict:
    """The header with checksums that fit the arrays."""
    header = json.loads(json.dumps(header))
    for row in header["arrays"]:
        n = math.prod(row["shape"]) * np.dtype(row["dtype"]).itemsize
        piece = arrays[row["offset"] : row["offset"] + n]
        row["crc32"] = [zlib.crc32(piece[i : i + (1 << 24)]) for i in range(0, n, 1 << 24)]
    return header


def python(code: str, *arguments: object) -> str:
    """What the code prints in a process of its own."""
    command = [sys.executable, "-W", "error", "-c", code, *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout
