"""What is to become of the messages in a part of a batch: which are counted, which are opened and why. A value, made before
anything is done; what the opened ones then do to their events may still have others opened (`Handling`)."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from enum import StrEnum

import numpy as np
import numpy.typing as npt

from streaming.batch.arrays import Bools, Ints
from streaming.batch.judge import Judged


class Why(StrEnum):
    """Why a message is opened; or that it is not. Of several reasons, the first that was found."""

    KNOWN = "known"
    """It is counted: all that it says was said before."""
    NEW_FACT = "new-fact"
    """It says something that nobody has said, or not as early."""
    NEW_EVENT = "new-event"
    """Nothing is known under its key."""
    AHEAD = "ahead"
    """It was published too far in the future."""
    UNUSUAL = "unusual"
    """There is more than one event under its key, or one that has ended, or one with a field that is full."""
    NOT_GATHERED = "not-gathered"
    """Its topic is not gathered here."""
    TOUCHED = "touched"
    """Something that is no plain message is about its event."""
    READ_LATE = "read-late"
    """It may have entered before all that is known of its event."""
    NO_FIT = "no-fit"
    """With it, its event would not fit a window, or have more sources than are counted."""
    TIMER = "timer"
    """A timer of its event fires before its last message."""
    NO_ROOM = "no-room"
    """Some events may have to make room, and any of them might."""


_CODES = {why: code for code, why in enumerate(Why)}
_COUNTED = _CODES[Why.KNOWN]


class Handling(StrEnum):
    """The way that a message of a publisher went in the end."""

    COUNTED = "counted"
    """From numbers alone."""
    AT_ONCE = "at-once"
    """With all that the batch says of its event, which is of the usual kind."""
    QUICK = "quick"
    """One by one, by a short way."""
    OPENED = "opened"
    """As `step` takes it in."""


@dataclass(slots=True)
class Course:
    """The plan for the rows from ``lo`` to ``hi``. Positions are those of ``judged``."""

    lo: int
    hi: int
    judged: Judged
    why: npt.NDArray[np.int8]
    """By position, the number of a `Why`."""
    others: Ints
    """Rows that are no plain messages: each is taken in in its turn."""
    until_ms: Ints
    """By event, the time up to which its timers may fire in this part: that of its last message, or the clock's."""
    usual: Bools
    """By event, whether something is opened for it, and all that is said of it may be taken in at once."""

    @staticmethod
    def of(lo: int, hi: int, judged: Judged, others: Ints, until_ms: Ints) -> Course:
        why, usual = np.full(len(judged.index), _COUNTED, dtype=np.int8), np.ones(len(judged.shelf_row), dtype=bool)
        return Course(lo, hi, judged, why, others, until_ms, usual)

    @property
    def open(self) -> Bools:
        """By position, whether the message is opened."""
        found: Bools = self.why != _COUNTED
        return found

    def open_for(self, why: Why, chosen: Bools) -> None:
        """Those that are chosen are opened, unless they are already."""
        self.why[chosen & (self.why == _COUNTED)] = _CODES[why]

    def open_all_for(self, why: Why, events: Bools) -> None:
        """So are all messages about these events, which are not usual."""
        self.open_for(why, events[self.judged.event])
        self.usual &= ~events

    @property
    def tracked(self) -> Bools:
        """By event, whether any of its messages is opened: the others are counted all at once."""
        found: Bools = np.bincount(self.judged.event[self.open], minlength=len(self.judged.shelf_row)) > 0
        return found

    @property
    def rows(self) -> Ints:
        """All that is taken in one by one, in the order of the log."""
        return np.sort(np.concatenate([self.judged.index[self.open], self.others]))

    def reasons(self) -> Counter[Why]:
        """How many messages are opened for which reason, or counted."""
        counts = np.bincount(self.why, minlength=len(Why)).tolist()
        return Counter({why: count for why, count in zip(Why, counts, strict=True) if count})

    def __str__(self) -> str:
        found = [f"{count} {why}" for why, count in self.reasons().items()]
        return f"rows {self.lo} to {self.hi}: {', '.join([*found, f'{len(self.others)} others'])}"
