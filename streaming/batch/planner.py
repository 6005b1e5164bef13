"""What is to become of the messages in a part of a batch: which are counted, which are opened and why. The plan is a value, made
from the batch and the memory before anything is done; what the opened ones then do to their events may still have others opened
(`Handling`)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum

import numpy as np
import numpy.typing as npt

from streaming.batch.arrays import Bools, Ints
from streaming.batch.columns import Sums
from streaming.batch.ground import Ground, Grounds
from streaming.batch.judge import Judged, judge
from streaming.batch.memory import PackedMemory
from streaming.batch.rows import Rows
from streaming.broker.state import Rules


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


def sums_of(judged: Judged, starts: Ints) -> Sums:
    """Over the messages from each of these positions up to the end of its event."""
    if not len(starts):
        none = np.empty(0, dtype=np.int64)
        return Sums(none, none, none, none, none, none)
    ends = judged.starts[judged.event[starts] + 1]
    # Every second part is between two events, and not looked at. The last may end where the columns do.
    bounds = np.column_stack([starts, ends]).ravel()
    bounds = bounds[:-1] if ends[-1] == len(judged.index) else bounds
    return Sums(
        count=ends - starts,
        lowest_ms=np.minimum.reduceat(judged.published_ms, bounds)[::2],
        highest_ms=np.maximum.reduceat(judged.published_ms, bounds)[::2],
        earliest_ms=np.minimum.reduceat(judged.append_ms, bounds)[::2],
        latest_ms=np.maximum.reduceat(judged.append_ms, bounds)[::2],
        sources=np.add.reduceat(judged.new_source.astype(np.int64), bounds)[::2],
    )


@dataclass(frozen=True, slots=True)
class Part:
    """A part of a batch: its rows from ``lo`` to ``hi``, how much the bucket remembers before it, and how far the clock comes."""

    rows: Rows
    lo: int
    hi: int
    size: int
    clock_ms: int


def plan(shelf: PackedMemory, grounds: Grounds, rules: Rules, part: Part) -> Course:
    """The plan for a part of a batch."""
    rows, lo, hi = part.rows, part.lo, part.hi
    judged = judge(rows, lo, hi, shelf, rules.ahead_ms)
    sums = sums_of(judged, judged.starts[:-1])
    course = Course.of(lo, hi, judged, np.flatnonzero(~rows.plain[lo:hi]) + lo, np.maximum(sums.latest_ms, part.clock_ms))
    row, event, columns = judged.shelf_row, judged.event, shelf.columns
    known = row >= 0
    course.open_for(Why.AHEAD, judged.ahead)
    course.open_for(Why.NEW_EVENT, judged.opening)
    course.open_for(Why.NEW_FACT, judged.unknown_facts > 0)
    if len(row):
        course.open_all_for(Why.UNUSUAL, known & ~columns.plain[row])
        course.open_all_for(
            Why.NOT_GATHERED, known & ~_of_places(shelf, grounds, lambda ground: ground.gathers)[columns.place[row]]
        )
        course.open_for(Why.READ_LATE, known[event] & (judged.append_ms <= columns.entered_ms[row][event]))
    course.open_all_for(Why.TOUCHED, np.isin(rows.event[judged.index[judged.starts[:-1]]], rows.event[course.others]))
    course.open_all_for(Why.NO_FIT, ~fits(shelf, grounds, rules, row, sums))
    if len(row):
        _keep_usual(course, shelf, grounds, rows, sums)
        course.open_for(Why.TIMER, (~course.tracked & ~(known & (columns.next_ms[row] > sums.latest_ms)))[event])
        if rules.hands_on:
            # What a timer has a broker send is handed on in its turn.
            linked = known & ~_of_places(shelf, grounds, lambda ground: ground.alone)[columns.place[row]]
            course.open_all_for(Why.TIMER, linked & course.tracked & (columns.next_ms[row] <= course.until_ms))
    if part.size + _most_new(course, shelf, grounds, rules, part) > rules.open_events:
        course.open_all_for(Why.NO_ROOM, np.ones(len(row), dtype=bool))
    return course


def _most_new(course: Course, shelf: PackedMemory, grounds: Grounds, rules: Rules, part: Part) -> int:
    """How many slots may be opened at most. What is handed on opens one at each broker that it comes to, also if a timer sends
    it."""
    found = int(course.open.sum()) + len(course.others)
    if not rules.hands_on:
        return found
    latest_ms = int(part.rows.append_ms[part.lo : part.hi].max(initial=part.clock_ms))
    return grounds.brokers * (found + len(shelf.due_rows(latest_ms)))


def _keep_usual(course: Course, shelf: PackedMemory, grounds: Grounds, rows: Rows, sums: Sums) -> None:
    """Leave those events out of which something may have to be done in between: by a timer, by the order in which reports
    entered, or for somebody who asks for more than a cadence."""
    judged, columns = course.judged, shelf.columns
    row, known = judged.shelf_row, judged.shelf_row >= 0
    quiet = _of_places(shelf, grounds, lambda ground: ground.quiet and not ground.cut_off)[columns.place[row]]
    course.usual &= course.tracked & (~known | (quiet & (columns.next_ms[row] > course.until_ms)))
    course.usual &= ~known | (sums.earliest_ms > columns.entered_ms[row])
    course.usual[judged.event[judged.ahead]] = False
    if (np.diff(rows.append_ms[course.lo : course.hi]) < 0).any():
        course.usual[:] = False


def fits(shelf: PackedMemory, grounds: Grounds, rules: Rules, row: Ints, sums: Sums) -> Bools:
    """Of each event, whether all these messages fit its window, and their sources into what is counted of them."""
    if not len(row):
        return np.empty(0, dtype=bool)
    columns, known = shelf.columns, row >= 0
    windows = np.array([grounds.at(*place).timing.window_ms for place in shelf.places] or [0], dtype=np.int64)
    highest = np.where(known, np.maximum(columns.last_ms[row], sums.highest_ms), sums.highest_ms)
    lowest = np.where(known, np.minimum(columns.first_ms[row], sums.lowest_ms), sums.lowest_ms)
    # The topic of an event that is not known yet is not known either.
    window = np.where(known, windows[columns.place[row]], grounds.shortest_window_ms)
    sources = np.where(known, columns.sources[row], 0) + sums.sources
    found: Bools = (highest - lowest < window) & (sources <= rules.sources)
    return found


def _of_places(shelf: PackedMemory, grounds: Grounds, holds: Callable[[Ground], bool]) -> Bools:
    """What holds at each place of the shelf."""
    return np.array([holds(grounds.at(*place)) for place in shelf.places] or [False])
