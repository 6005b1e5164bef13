"""The snapshot files of the control data, one for each version, with their checksums.

A damaged one is put out of the way. The newest is then made anew from the one before and what `control` holds since; one that is
still needed and cannot be made anew is missed by the query, which says so.
"""

from __future__ import annotations

import logging
from pathlib import Path

from service.directory.checksum import checksum_path, is_damaged, write_checksum
from service.directory.directory import replace_text
from tidings.control import Snapshot, snapshot_path
from tidings.topic import Timing

_log = logging.getLogger("tidings.keeper")


def write_snapshot(folder: Path, snapshot: Snapshot, keep: int) -> None:
    """Write a version's file; of all files the ``keep`` newest stay."""
    path = snapshot_path(folder, snapshot.version)
    checksum_path(path).unlink(missing_ok=True)  # a kill must not leave a new file beside an old checksum
    replace_text(path, snapshot.to_json())
    write_checksum(path)
    for old in sorted(folder.glob("*.json"))[:-keep]:
        old.unlink()
        checksum_path(old).unlink(missing_ok=True)


def newest_snapshot(folder: Path, timing: Timing) -> Snapshot:
    """The newest that can be read; the empty one if there is none."""
    _put_damaged_away(folder)
    for path in sorted(folder.glob("*.json"), reverse=True):
        try:
            return Snapshot.from_json(path.read_text(encoding="utf-8"), timing)
        except (ValueError, KeyError, TypeError):
            _put_away(path)  # damaged, and a kill had left it without a checksum
    return Snapshot(timing=timing)


def _put_damaged_away(folder: Path) -> None:
    for path in folder.glob("*.json"):
        if is_damaged(path):
            _put_away(path)


def _put_away(path: Path) -> None:
    _log.error("%s is damaged; it is put away as %s.damaged and made anew if it can be", path, path.name)
    path.replace(path.with_name(f"{path.name}.damaged"))
    checksum_path(path).unlink(missing_ok=True)
