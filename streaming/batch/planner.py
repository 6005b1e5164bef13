"""Which messages of a part of a batch have to be opened: from the batch and the memory, before anything is done."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from streaming.batch.arrays import Bools, Ints
from streaming.batch.course import Course, Why
from streaming.batch.ground import Grounds
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


def plan(shelf: PackedMemory, grounds: Grounds, rules: Rules, size: int, rows: Rows, lo: int, hi: int) -> Course:
    """The plan for the rows from ``lo`` to ``hi``. ``size`` is how much the bucket remembers."""
    judged = judge(rows, lo, hi, shelf, rules.ahead_ms)
    course = Course.of(lo, hi, judged, np.flatnonzero(~rows.plain[lo:hi]) + lo)
    row, event, columns = judged.shelf_row, judged.event, shelf.columns
    append_ms = rows.append_ms[judged.index]
    known = row >= 0
    course.open_for(Why.AHEAD, judged.ahead)
    course.open_for(Why.NEW_EVENT, judged.opening)
    course.open_for(Why.NEW_FACT, judged.unknown_facts > 0)
    if len(row):
        course.open_for(Why.UNUSUAL, (known & ~columns.plain[row])[event])
        course.open_for(Why.NOT_GATHERED, (known & ~_gathered(shelf, grounds)[columns.place[row]])[event])
        course.open_for(Why.READ_LATE, known[event] & (append_ms <= columns.entered_ms[row][event]))
    course.open_for(Why.TOUCHED, np.isin(rows.event[judged.index[judged.starts[:-1]]], rows.event[course.others])[event])
    sums = sums_of(judged, append_ms, judged.starts[:-1])
    course.open_for(Why.NO_FIT, ~fits(shelf, grounds, rules, row, sums)[event])
    if len(row):
        course.open_for(Why.TIMER, (~course.tracked & ~(known & (columns.next_ms[row] > sums.latest_ms)))[event])
    if size + int(course.open.sum()) + len(course.others) > rules.open_events:
        course.open_for(Why.NO_ROOM, np.ones(len(event), dtype=bool))
    return course


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


def _gathered(shelf: PackedMemory, grounds: Grounds) -> Bools:
    """By place of the shelf."""
    return np.array([grounds.at(*place).gathers for place in shelf.places] or [False])
