"""Whether the checkpoint is what Spark wrote.

Spark checks its state files when it reads them, but not those that say how far it got: with one bit of an offset turned over it
would pass over messages and never know. Beside each file lies the checksum that Hadoop's file system wrote: this looks at it
before Spark reads the file.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

from service.directory.checksum import is_damaged
from service.watch.advice import DECIDE_ANEW
from tidings.errors import CannotRun


def check_checkpoint(folder: Path) -> None:
    """Raise `CannotRun` if a file of the checkpoint is damaged or missing."""
    for problem in problems(folder):
        raise CannotRun(f"{folder} is damaged: {problem}; {DECIDE_ANEW}")


def problems(folder: Path) -> Iterator[str]:
    """What is wrong, in words."""
    if any((folder / "offsets").glob("[0-9]*")) and not (folder / "metadata").exists():
        yield "metadata is missing"
    for log in ("offsets", "commits"):
        yield from _gaps(folder / log)
    for path in [folder / "metadata", *(folder / "offsets").glob("[0-9]*"), *(folder / "commits").glob("[0-9]*")]:
        if is_damaged(path):
            yield f"{path.relative_to(folder)} is not what was written"
    for path in (folder / "state").glob("*/_metadata/**/*"):
        if path.is_file() and not path.name.startswith(".") and is_damaged(path):
            yield f"{path.relative_to(folder)} is not what was written"


def _gaps(log: Path) -> Iterator[str]:
    """Files that should be there: numbers left out, and a checksum newer than any file.

    A kill may leave the checksum of an old file behind, as Spark deletes that after the file.
    """
    there = sorted(_numbers(log))
    for before, after in pairwise(there):
        if after != before + 1:
            yield f"{log.name}/{before + 1} is missing"
    checked = [int(path.name[1:-4]) for path in log.glob(".*.crc") if path.name[1:-4].isdecimal()]
    if checked and max(checked) > max(there, default=-1):
        yield f"{log.name}/{max(checked)} is missing"


def _numbers(log: Path) -> Iterator[int]:
    return (int(path.name) for path in log.glob("[0-9]*") if path.name.isdecimal())
