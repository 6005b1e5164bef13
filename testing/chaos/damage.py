"""What disks do to files: cut short, zeroed, a bit turned over, gone."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from random import Random
from types import MappingProxyType


def cut_short(path: Path, rng: Random) -> None:
    size = path.stat().st_size
    with path.open("r+b") as file:
        file.truncate(rng.randrange(size) if size else 0)


def zeroed(path: Path, _rng: Random) -> None:
    path.write_bytes(bytes(path.stat().st_size))


def flipped(path: Path, rng: Random) -> None:
    """One bit is not what it was."""
    content = bytearray(path.read_bytes())
    if content:
        content[rng.randrange(len(content))] ^= 1 << rng.randrange(8)
        path.write_bytes(content)


def gone(path: Path, _rng: Random) -> None:
    path.unlink()


WAYS: Mapping[str, Callable[[Path, Random], None]] = MappingProxyType(
    {"cut short": cut_short, "zeroed": zeroed, "one bit flipped": flipped, "gone": gone}
)


def newest(folder: Path, pattern: str, count: int = 1) -> list[Path]:
    """The files that were written last, without those that only check others."""
    found = [path for path in folder.glob(pattern) if path.is_file() and not path.name.startswith(".")]
    return sorted(found, key=lambda path: (path.stat().st_mtime_ns, path.name))[-count:]
