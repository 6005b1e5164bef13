"""The usual way of news: an event is taken in hand once, and joined to all that a batch says of it.

An event goes this way if it, its messages and whoever asks for it are of the usual kind: the plan says which may be
(`Course.usual`). Where it turns out otherwise on the way, nothing has been done, and the messages are taken in one by one, in the
order of the log.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise

import numpy as np

from streaming.batch.arrays import slices, starts_of
from streaming.batch.brief import Brief, is_brief, read_brief
from streaming.batch.columns import Ends
from streaming.batch.desk import BatchDesk, Handling
from streaming.batch.ground import Ground, Grounds
from streaming.batch.hashing import salt_from
from streaming.batch.joining import Joining
from streaming.batch.opening import began, opened
from streaming.batch.planner import Course
from streaming.batch.report import Report, reports_of
from streaming.batch.rows import Rows
from streaming.batch.runs import note_sources
from streaming.broker.telling import settle_held
from streaming.model.outputs import MessageReason, Outcome
from tidings import names
from tidings.notification import Reason

_FEW = 128


class AtOnce:
    """All events of a part of a batch that go this way."""

    def __init__(self, desk: BatchDesk, grounds: Grounds, rows: Rows, course: Course) -> None:
        self._desk, self._shelf, self._grounds, self._rows, self._course = desk, desk.shelf, grounds, rows, course
        judged = course.judged
        events = np.flatnonzero(course.usual)
        opened = np.flatnonzero(course.open & course.usual[judged.event])
        starts = np.searchsorted(judged.event[opened], np.append(events, len(course.usual)))
        in_turn = np.argsort(judged.index[opened[starts[:-1]]])
        self._opened_at = opened[slices(starts, in_turn)]
        """Positions of what is opened of these events, event by event, in the order in which their turns come."""
        self.rows = judged.index[self._opened_at]
        """The same, as rows of the batch."""
        self._bounds = starts_of(np.diff(starts)[in_turn])
        self.first_rows = self.rows[self._bounds[:-1]]
        """Of each event, the first row: in its turn, all are taken in."""
        self._turns = dict(zip(events[in_turn].tolist(), range(len(events)), strict=True))
        self._at_hand: list[list[Report]] = []
        """What is opened of the events whose turns come next, the last one first. It is put together a few at a time, and so read
        soon after it was written."""
        self._shelf.reserve(len(events))
        self.done: dict[int, int] = {}
        """Events that were taken in, with the row of the shelf of each."""
        self.joined: list[tuple[int, int, int, int]] = []
        """Opened messages whose facts are known from here on: row of the batch, of the shelf, salt, published time."""
        self._left: set[int] = set()
        self._tallies: dict[Ground, _Tally] = {}
        row, columns = judged.shelf_row, self._shelf.columns
        self._shelf_row: list[int] = row.tolist()
        self._until_ms: list[int] = course.until_ms.tolist()
        before = (columns.more[row], columns.sources[row], columns.first_ms[row], columns.last_ms[row])
        self._before: list[tuple[int, ...]] = list(zip(*(column.tolist() for column in before), strict=True))
        """Of each event that is known, how many messages are counted in the columns alone, how many sources there were, the first
        and last published time."""
        ends = judged.starts[1:] - 1
        self._sums: list[tuple[int, ...]] = list(zip(*(column[ends].tolist() for column in judged.so_far), strict=True))
        """Of each event, how many messages there are about it, how many sources they add, the first and last published time."""

    def has(self, event: int) -> bool:
        """Whether it may go this way, and has not been tried yet."""
        return event in self._turns

    def leave(self, event: int) -> None:
        """It goes another way after all, if it has not been tried yet."""
        self._left.add(event)

    def take(self, event: int) -> list[Report]:
        """Take in all that the batch says of an event. If it is not of the usual kind, nothing is done, and the messages are
        returned that are to be opened one by one."""
        turn = self._turns.pop(event)
        if not self._at_hand:
            self._open(turn, min(turn + _FEW, len(self._bounds) - 1))
        reports = self._at_hand.pop()
        return [] if event not in self._left and self._takes(event, reports) else reports

    def _open(self, turn: int, until: int) -> None:
        bounds = self._bounds[turn : until + 1].tolist()
        reports = reports_of(self._rows, self._course.judged, self._opened_at[bounds[0] : bounds[-1]])
        self._at_hand = [reports[a - bounds[0] : b - bounds[0]] for a, b in pairwise(bounds)][::-1]

    def _takes(self, event: int, reports: list[Report]) -> bool:
        report, row = reports[0], self._shelf_row[event]
        ground = self._grounds.at(names.broker_of(report.kafka_topic), report.message.topic)
        if row < 0:
            if len(reports) == 1:
                return self._opens(event, ground, report)
            return self._joins(event, ground, began(ground, report), reports)
        return self._joins(event, ground, self._kept(ground, event), reports)

    def _opens(self, event: int, ground: Ground, report: Report) -> bool:
        """Open an event by the only message about it that is to be opened."""
        found = opened(ground, report, self._desk.rules)
        if found is None:
            return False
        brief, reason, told = found
        brief.reports, brief.sources, brief.first_ms, brief.last_ms = self._sums[event]
        timers = brief.timers(ground.timing)
        if timers[0] <= self._until_ms[event]:
            return False
        self._keep(event, brief, timers, (report,))
        tally = self._tally(ground)
        tally.known += brief.reports - (1 if brief.facts else 0)
        tally.news += 1 if brief.facts else 0
        if told:
            tally.settled.append((reason, 1))
            tally.told += [reason] * len(told)
            self._desk.outputs += told
        return True

    def _joins(self, event: int, ground: Ground, brief: Brief | None, reports: list[Report]) -> bool:
        """Join an event to what is opened of it."""
        if brief is None:
            return False
        is_new, at, timing, until_ms = self._shelf_row[event] < 0, brief.at, ground.timing, self._until_ms[event]
        joining = Joining(brief, ground, self._desk.rules, until_ms)
        for report in reports:
            message = report.message
            if message.key != at.key or message.topic != at.topic or not joining.join(report):
                return False
            # What comes later only puts the end of an event off; but that of a new one may be over by then.
            if is_new and report is reports[0] and brief.timers(timing)[0] <= until_ms:
                return False
        count, *sums = self._sums[event]
        joining.finish(count, *sums)
        self._keep(event, brief, brief.timers(timing), reports)
        tally = self._tally(ground)
        tally.known += count - joining.news - joining.disputed
        tally.news += joining.news
        tally.disputed += joining.disputed
        tally.conflicts += joining.conflicts
        tally.settled += joining.settled
        for reason, record in joining.told:
            tally.told.append(reason)
            self._desk.outputs.append(record)
        return True

    def _keep(self, event: int, brief: Brief, timers: tuple[int, Ends], reports: Sequence[Report]) -> None:
        salt = salt_from(brief.id)
        row = self.done[event] = self._shelf.keep(self._shelf_row[event], reports[0].number, brief, salt, timers)
        for report in reports:
            self.joined.append((report.batch_row, row, salt, report.published_ms))

    def _tally(self, ground: Ground) -> _Tally:
        if (tally := self._tallies.get(ground)) is None:
            tally = self._tallies[ground] = _Tally()
        return tally

    def _kept(self, ground: Ground, event: int) -> Brief | None:
        """An event that is known, with what was counted for it."""
        shelf, row = self._shelf, self._shelf_row[event]
        kept = shelf.packed[row]
        if row in shelf.in_hand or kept is None or not is_brief(kept):
            return None
        brief = read_brief(kept)
        if brief.at.broker != ground.broker:
            return None
        counted, brief.sources, brief.first_ms, brief.last_ms = self._before[event]
        brief.reports += counted
        return brief

    def finish(self) -> None:
        """Bring the books up to date, and the table of who reported. The shelf's columns must say what became of the events."""
        for ground, tally in self._tallies.items():
            tally.enter(self._desk, ground)
        if self.done:
            judged = self._course.judged
            events = np.fromiter(self.done, dtype=np.int64, count=len(self.done))
            row = np.fromiter(self.done.values(), dtype=np.int64, count=len(self.done))
            self._desk.state.size += int((judged.shelf_row[events] < 0).sum())
            note_sources(self._desk, judged, events, row, judged.starts[events])
            counted = int((judged.starts[events + 1] - judged.starts[events]).sum()) - len(self.joined)
            self._desk.ways.update({Handling.AT_ONCE: len(self.joined), Handling.COUNTED: counted})


@dataclass(slots=True)
class _Tally:
    """What became of the messages about a topic at a broker."""

    known: int = 0
    news: int = 0
    disputed: int = 0
    """Those that had no news, but another value for a field."""
    conflicts: int = 0
    """How many such values there are."""
    told: list[Reason] = field(default_factory=list)
    """Why notifications were told."""
    settled: list[tuple[Reason, int]] = field(default_factory=list)
    """Why what was held was told, and how many messages that were."""

    def enter(self, desk: BatchDesk, ground: Ground) -> None:
        """Enter all of it into the books."""
        desk.enter_known(ground.broker, ground.name, self.known)
        books = desk.books(ground.broker)
        books.received += self.news + self.disputed
        books.enter(Outcome.HELD, MessageReason.HOLDING, self.news)
        books.enter(Outcome.MERGED, MessageReason.CONFLICT, self.disputed)
        books.conflicts += self.conflicts
        for reason, count in Counter(self.told).items():
            books.notifications[reason] += count
        for (reason, held), count in Counter(self.settled).items():
            settle_held(books, held, Outcome.TOLD, reason, count)
