"""Which messages of a part of a batch have to be opened: from the batch and the memory, before anything is done."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from streaming.batch.arrays import Bools, Ints
from streaming.batch.course import Course, Why
from streaming.batch.ground import Ground, Grounds
from streaming.batch.judge import Judged, judge
from streaming.batch.memory import PackedMemory
from streaming.batch.rows import Rows
from streaming.broker.state import Rules


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


def sums_of(judged: Judged, append_ms: Ints, starts: Ints) -> Sums:
    """Over the messages from each of these positions up to the end of its event; ``append_ms`` is by position."""
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
        earliest_ms=np.minimum.reduceat(append_ms, bounds)[::2],
        latest_ms=np.maximum.reduceat(append_ms, bounds)[::2],
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
    append_ms = rows.append_ms[judged.index]
    sums = sums_of(judged, append_ms, judged.starts[:-1])
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
        course.open_for(Why.READ_LATE, known[event] & (append_ms <= columns.entered_ms[row][event]))
    course.open_all_for(Why.TOUCHED, np.isin(rows.event[judged.index[judged.starts[:-1]]], rows.event[course.others]))
    course.open_all_for(Why.NO_FIT, ~fits(shelf, grounds, rules, row, sums))
    if len(row):
        _keep_usual(course, shelf, grounds, rows, sums)
        course.open_for(Why.TIMER, (~course.tracked & ~(known & (columns.next_ms[row] > sums.latest_ms)))[event])
    if part.size + int(course.open.sum()) + len(course.others) > rules.open_events:
        course.open_all_for(Why.NO_ROOM, np.ones(len(row), dtype=bool))
    return course


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
