"""A few numbers of each slot of a bucket, in columns."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from typing import Final

import numpy as np
import numpy.typing as npt

from streaming.batch.arrays import Bools, Ints
from streaming.broker.state import NEVER, Slot

_FIRST_ROWS = 64


REFRESHED: Final = ("next_ms", "wake_ms", "plain", "salt", "first_ms", "last_ms", "sources", "entered_ms", "ends")
"""Columns that follow from a slot, and are wrong while it changes."""


class Ends(IntEnum):
    """What is left to be done in a slot when its time has come."""

    LOUDLY = 0
    """Anything: somebody has to look at it."""
    QUIETLY = 1
    """Its one event ends, of which everything has left: nobody is told, nothing is settled."""
    FORGOTTEN = 2
    """The one tombstone in it is forgotten, and with it the slot."""


def is_one(slot: Slot) -> bool:
    """Whether all that comes, if it is about anything here, is about one event that goes on."""
    return len(slot.open) == 1 and slot.open[0].ended_ms is None


def end_of(slot: Slot) -> Ends:
    """What there will be to do in a slot when its time has come, where nobody beyond its broker has to know."""
    if slot.seen or slot.caps or slot.spread or slot.ahead or len(slot.open) + len(slot.closed) != 1:
        return Ends.LOUDLY
    if slot.closed:
        return Ends.FORGOTTEN
    (event,) = slot.open
    elsewhere = event.links or event.kept or event.owed or event.ended_ms is not None
    waits = event.held or event.release_ms is not None or not (event.released or not event.knowledge)
    if elsewhere or waits or any(ledger.due_ms is not None or ledger.capped for ledger in event.ledgers.values()):
        return Ends.LOUDLY
    return Ends.QUIETLY


@dataclass(frozen=True, slots=True)
class Sums:
    """Over messages of each event."""

    count: Ints
    lowest_ms: Ints
    """Of the published times."""
    highest_ms: Ints
    earliest_ms: Ints
    """Of the append times."""
    latest_ms: Ints
    sources: Ints
    """How many are the first of their source."""


class Columns:
    """Numbers of each row; they grow together."""

    __slots__ = NAMES = (
        *("hash", "salt", "place", "wake_ms", "next_ms", "first_ms", "last_ms", "more", "sources", "plain"),
        *("entered_ms", "ends"),
    )

    def __init__(self) -> None:
        self.hash: Ints = np.zeros(_FIRST_ROWS, dtype=np.int64)
        self.salt: Ints = np.zeros(_FIRST_ROWS, dtype=np.int64)
        """Of the open event: what is known of the one before it under the same key does not count."""
        self.place: Ints = np.zeros(_FIRST_ROWS, dtype=np.int64)
        """Which broker and topic."""
        self.wake_ms: Ints = np.full(_FIRST_ROWS, NEVER, dtype=np.int64)
        """When something is to be done in the slot; `NEVER` for rows that are empty."""
        self.next_ms: Ints = np.full(_FIRST_ROWS, NEVER, dtype=np.int64)
        """When something is to be done in its one open event."""
        self.first_ms: Ints = np.zeros(_FIRST_ROWS, dtype=np.int64)
        self.last_ms: Ints = np.zeros(_FIRST_ROWS, dtype=np.int64)
        self.more: Ints = np.zeros(_FIRST_ROWS, dtype=np.int64)
        """Reports that were counted since the slot was packed."""
        self.sources: Ints = np.zeros(_FIRST_ROWS, dtype=np.int64)
        self.plain: Bools = np.zeros(_FIRST_ROWS, dtype=bool)
        """Whether there is just one open event, which has not ended, and none of its registers is full."""
        self.entered_ms: Ints = np.zeros(_FIRST_ROWS, dtype=np.int64)
        """When the first report of the open event entered; 0 in a state from before this was kept, until it is in hand again."""

        self.ends: npt.NDArray[np.int8] = np.zeros(_FIRST_ROWS, dtype=np.int8)
        """An `Ends`: what there will be to do at ``wake_ms``."""

    def grow(self, rows: int) -> None:
        size = len(self.hash)
        if rows <= size:
            return
        more = max(rows, 2 * size) - size
        for name in self.NAMES:
            column = getattr(self, name)
            empty = NEVER if name in ("wake_ms", "next_ms") else 0
            setattr(self, name, np.concatenate([column, np.full(more, empty, dtype=column.dtype)]))
