"""Checksums of files, as Hadoop's file system writes them: beside `name` lies `.name.crc`, with a CRC-32 for every 512 bytes."""

from __future__ import annotations

import zlib
from pathlib import Path

_MAGIC = b"crc\x00"
_CHUNK_BYTES = 512


def checksum_path(path: Path) -> Path:
    """Where the checksum of a file is."""
    return path.with_name(f".{path.name}.crc")


def write_checksum(path: Path) -> None:
    """For a file that was just written."""
    checksum_path(path).write_bytes(_MAGIC + _CHUNK_BYTES.to_bytes(4) + _sums(path.read_bytes(), _CHUNK_BYTES))


def is_damaged(path: Path) -> bool:
    """Whether a file is not what its checksum says. Without a checksum nobody knows: a kill may have come between the two."""
    try:
        content = path.read_bytes()
        checksum = checksum_path(path).read_bytes()
    except FileNotFoundError:
        return False
    size = int.from_bytes(checksum[4:8])
    return checksum[:4] != _MAGIC or not size or checksum[8:] != _sums(content, size)


def _sums(content: bytes, size: int) -> bytes:
    return b"".join(zlib.crc32(content[start : start + size]).to_bytes(4) for start in range(0, len(content), size))
