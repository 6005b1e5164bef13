"""Runs of messages that say nothing new: entered without being opened, in an event that is in hand or in columns of numbers."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass

import numpy as np

from streaming.batch.arrays import Bools, Ints
from streaming.batch.columns import is_one
from streaming.batch.desk import BatchDesk, Handling
from streaming.batch.ground import Grounds
from streaming.batch.hashing import salt_of
from streaming.batch.judge import Judged
from streaming.batch.planner import fits, sums_of
from streaming.model.event import OpenEvent


@dataclass(slots=True)
class Track:
    """How far the messages of an event have been taken in, those from ``cursor`` to ``end`` not yet."""

    event: int
    cursor: int
    end: int
    row: int
    """Of the shelf; -1 while nothing is known."""
    salt: int
    odd: bool = False
    """Something unusual happened to the event: its messages are opened, one by one."""


class Tracks:
    """Events that something was opened for, or whose timers may fire: all others are counted in the end."""

    def __init__(self, judged: Judged, salts: Ints) -> None:
        self._judged, self._salts = judged, salts
        self._found: dict[int, Track] = {}

    def of(self, event: int) -> Track:
        if (found := self._found.get(event)) is None:
            judged = self._judged
            row = int(judged.shelf_row[event])
            salt = int(self._salts[row]) if row >= 0 else 0
            found = Track(event, int(judged.starts[event]), int(judged.starts[event + 1]), row, salt)
            self._found[event] = found
        return found

    def __iter__(self) -> Iterator[Track]:
        return iter(self._found.values())

    def columns(self) -> tuple[Ints, Ints, Ints, Bools]:
        """Of all events the row, how far they were taken in, the salt (0 of an odd one), and which nothing was done with."""
        judged = self._judged
        row, cursor = judged.shelf_row.copy(), judged.starts[:-1].copy()
        salt, untouched = np.zeros(len(row), dtype=np.int64), np.ones(len(row), dtype=bool)
        if self._found:
            tracked = [(track.event, track.row, 0 if track.odd else track.salt, track.cursor) for track in self]
            event, *values = np.array(tracked, dtype=np.int64).T
            row[event], salt[event], cursor[event] = values
            untouched[event] = False
        return row, cursor, salt, untouched

    def all_counted(self, events: Ints) -> None:
        """All that was left of these events has been counted."""
        for event in events.tolist():
            track = self._found[event]
            track.cursor = track.end


def count_run(desk: BatchDesk, grounds: Grounds, judged: Judged, track: Track, start: int, until: int) -> int:
    """Count messages from ``start`` on, up to the first before which a timer fires. Returns where it came to."""
    if track.odd or track.row < 0:
        return start
    (broker, name, _), slot = desk.shelf.take(track.row)
    ground = grounds.at(broker, name)
    if not is_one(slot) or salt_of(slot.open[0]) != track.salt or not ground.gathers:
        return start
    found = slot.open[0]
    # Most runs are of a few messages, and numpy would take longer to begin than to look at them.
    appended = judged.append_ms[start:until].tolist()
    next_ms = slot.next_ms(ground.topic)
    if max(appended, default=next_ms) >= next_ms:
        until = start + next((place for place, ms in enumerate(appended) if ms >= next_ms), 0)
        appended = appended[: until - start]
    if start == until:
        return until
    if min(appended) < found.entered_ms:
        return start
    published_ms = judged.published_ms[start:until].tolist()
    low, high = min(published_ms), max(published_ms)
    if max(found.span.last_ms, high) - min(found.span.first_ms, low) >= ground.timing.window_ms:
        return start
    if not _count_sources(desk, judged, found, start, until):
        return start
    found.reports += until - start
    found.span.include(low)
    found.span.include(high)
    desk.enter_known(broker, name, until - start)
    return until


def _count_sources(desk: BatchDesk, judged: Judged, found: OpenEvent, start: int, until: int) -> bool:
    new = judged.new_source[start:until]
    if not new.any():
        return True
    of = desk.row_of(found), salt_of(found)
    noted = desk.noted
    entries = [entry for entry in (judged.source[start:until][new] ^ of[1]).tolist() if noted.get(entry) != of]
    if found.source_count + len(entries) > desk.rules.sources:
        return False
    found.source_count += len(entries)
    noted.update(dict.fromkeys(entries, of))
    return True


def absorb_all(
    desk: BatchDesk, grounds: Grounds, judged: Judged, tracks: Tracks, done: Collection[int], among: Bools | None = None
) -> Ints:
    """Enter, in columns, what is left of all events, or of those ``among`` all, that nothing unusual has happened to and that are
    not done with: everything, if nothing was opened for one. Returns which. The shelf's columns must say what became of the
    others."""
    row, cursor, salt, untouched = tracks.columns()
    cursor[list(done)] = judged.starts[1:][list(done)]
    left = np.flatnonzero((cursor < judged.starts[1:]) if among is None else (cursor < judged.starts[1:]) & among)
    left = left[untouched[left] | _go_on(desk, grounds, judged, salt, row, cursor, left)]
    if not len(left):
        return left
    row, sums = row[left], sums_of(judged, cursor[left])
    desk.shelf.count(row, sums)
    by_place = np.bincount(desk.shelf.columns.place[row], weights=sums.count).astype(np.int64)
    for place in np.flatnonzero(by_place).tolist():
        desk.enter_known(*desk.shelf.places[place], int(by_place[place]))
    note_sources(desk, judged, left, row, cursor[left])
    tracks.all_counted(left[~untouched[left]])
    desk.ways[Handling.COUNTED] += int(sums.count.sum())
    return left


def _go_on(
    desk: BatchDesk,
    grounds: Grounds,
    judged: Judged,
    salt: Ints,
    row: Ints,
    cursor: Ints,
    events: Ints,
) -> Bools:
    """Of these events, whether something was opened for them, and what is left of their messages can be counted all the same."""
    columns, shelf = desk.shelf.columns, desk.shelf
    here, salt = row[events], salt[events]
    found: Bools = (here >= 0) & (salt != 0) & (columns.salt[here] == salt) & columns.plain[here]
    if not found.any():
        return found
    gathered = np.array([grounds.at(*place).gathers for place in shelf.places])
    sums = sums_of(judged, cursor[events])
    found &= gathered[columns.place[here]] & (columns.next_ms[here] > sums.latest_ms)
    found &= (sums.earliest_ms >= columns.entered_ms[here]) & fits(shelf, grounds, desk.rules, here, sums)
    for at in np.flatnonzero(found & (sums.sources > 0)).tolist() if desk.noted else ():
        position = slice(int(cursor[events[at]]), int(judged.starts[events[at] + 1]))
        entries = judged.source[position][judged.new_source[position]] ^ salt[at]
        found[at] = desk.noted.keys().isdisjoint(entries.tolist())
    return found


def note_sources(desk: BatchDesk, judged: Judged, events: Ints, row: Ints, cursor: Ints) -> None:
    """Put who reported for the first time into the table."""
    owner, first = np.full(len(judged.shelf_row), -1, dtype=np.int64), np.zeros(len(judged.shelf_row), dtype=np.int64)
    owner[events], first[events] = row, cursor
    named = np.flatnonzero(judged.new_source)
    named = named[(owner[judged.event[named]] >= 0) & (named >= first[judged.event[named]])]
    of = owner[judged.event[named]]
    salt = desk.shelf.columns.salt[of]
    desk.shelf.add_sources(judged.source[named] ^ salt, of, salt)
