"""A bucket's engine: the same as `streaming.broker.step`, for a batch of rows at once.

A batch is cut where the control data changes. For each such part a plan is made (`planner`): most messages are counted, the
others are opened for a reason. Then it is carried out: what is opened, and all that is no message of a publisher,
goes one by one, in the order of the log; news of the usual kind by a short way, the rest through the functions that `step` is
made of. Before one of those is about an event, the run of counted messages before it is entered, so every notification says what
it would have said.
"""

from __future__ import annotations

import heapq
from collections import Counter, deque
from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from streaming.batch.arrays import Ints
from streaming.batch.at_once import AtOnce
from streaming.batch.columns import is_one
from streaming.batch.desk import BatchDesk, Handling
from streaming.batch.ground import Ground, grounds_of
from streaming.batch.hashing import event_hash, salt_of
from streaming.batch.memory import PackedMemory
from streaming.batch.planner import Course, Part, plan
from streaming.batch.quick_join import Known, adds, opens, restated
from streaming.batch.report import Report, reports_of
from streaming.batch.rows import IS_MESSAGE, Rows
from streaming.batch.runs import Track, Tracks, absorb_all, count_run
from streaming.broker.state import BucketState, Rules
from streaming.broker.step import finish, start, take
from streaming.broker.timers import advance_all, furthest_clock
from streaming.model.address import Address
from streaming.model.event import OpenEvent
from streaming.model.inputs import Arrived, Heard, Input, Marked, Refused, Ticked
from streaming.model.outputs import Output
from streaming.wire.clock import TickerIdentity
from streaming.wire.inputs import read
from streaming.wire.message import MessageLimits
from tidings import names
from tidings.errors import Unreadable
from topology.plan import Plan

_DIFFERENTLY = "topic and key were read differently when it was routed"


@dataclass(frozen=True, slots=True)
class EngineSettings:
    """What an engine needs to know beside its state and the batch."""

    plan_at: Callable[[int], Plan]
    rules: Rules
    limits: MessageLimits
    ticker: TickerIdentity


def process(
    state: BucketState, shelf: PackedMemory, rows: Rows, setting: EngineSettings, ways: Counter[Handling] | None = None
) -> list[Output]:
    """Take in a batch, and say what is to be done. ``state`` has the shelf for its slots.

    ``ways`` takes down how many messages went which way.
    """
    timed = np.flatnonzero(rows.kind != IS_MESSAGE).tolist()
    inputs = {index: read(rows.record(index), setting.limits, setting.ticker) for index in timed}
    start(state, (happened for found in inputs.values() for happened in found))
    desk = BatchDesk(state, setting.plan_at, setting.rules, shelf=shelf, ways=Counter() if ways is None else ways)
    for lo, hi in pairwise([0, *_changes(state.version, inputs), len(rows)]):
        if lo < hi:
            Segment(desk, rows, lo, hi, inputs, setting).run()
    return desk.outputs


def _changes(version: int, inputs: dict[int, list[Input]]) -> list[int]:
    """The rows with which another version of the control data begins to hold."""
    found = []
    for index, happened in inputs.items():
        for each in happened:
            if isinstance(each, Ticked | Marked) and each.version is not None and each.version > version:
                version = each.version
                found.append(index)
    return sorted(set(found) - {0})


class Segment:
    """Rows from ``lo`` to ``hi`` of a batch; the control data changes with the first of them, if at all."""

    def __init__(
        self, desk: BatchDesk, rows: Rows, lo: int, hi: int, inputs: dict[int, list[Input]], setting: EngineSettings
    ) -> None:
        self._desk, self._shelf, self._rows, self._inputs, self._setting = desk, desk.shelf, rows, inputs, setting
        self._lo, self._hi = lo, hi
        self._waiting: list[int] = []
        """Rows to be opened, the next one first; more are added when something unusual happens to an event."""
        self._numbers = np.empty(0, dtype=np.int64)
        """Of the events that the plan is about, in order."""
        self._joined: list[tuple[int, int, int, int]] = []
        """Opened messages whose facts are known from here on: row of the batch, of the shelf, salt, published time."""

    def run(self) -> None:
        self._desk.noted.clear()
        if self._lo in self._inputs:
            # It may bring other control data: what follows is judged under that.
            self._take(self._inputs[self._lo], self._lo)
            self._lo += 1
        self._plan()
        while self._waiting:
            self._open(heapq.heappop(self._waiting))
        self._shelf.refresh(self._desk.plan)
        absorb_all(self._desk, self._grounds, self._judged, self._tracks, self._at_once.done)
        for track in list(self._tracks):
            self._absorb(track, track.end)
        self._shelf.refresh(self._desk.plan)
        self._at_once.finish()
        self._learn()

    def _plan(self) -> None:
        rows, shelf, desk = self._rows, self._shelf, self._desk
        shelf.refresh(desk.plan)
        self._learn_sources()  # the first of them may have brought reports that had waited, or were at another broker
        self._grounds = grounds_of(desk.plan, shelf.secret)
        happened = (each for index, found in self._inputs.items() if self._lo <= index < self._hi for each in found)
        part = Part(rows, self._lo, self._hi, desk.state.size, furthest_clock(desk.state, happened))
        self.course: Course = plan(shelf, self._grounds, desk.rules, part)
        self._judged = self.course.judged
        # Every message is entered into the books.
        desk.state.changed = desk.state.changed or len(self._judged.index) > 0
        self._tracks = Tracks(self._judged, shelf.columns.salt)
        self._line_up()

    def _line_up(self) -> None:
        """Put what is to be opened into the order of the log."""
        judged, course = self._judged, self.course
        self._numbers = self._rows.event[judged.index[judged.starts[:-1]]]
        opened = np.flatnonzero(course.open)
        self._at_once = AtOnce(self._desk, self._grounds, self._rows, course)
        self._reports: dict[int, Report] = {}
        self._open_reports(opened[~course.usual[judged.event[opened]]])
        self._last_opened = dict(zip(judged.event[opened].tolist(), opened.tolist(), strict=True))
        position = np.full(len(self._rows), -1, dtype=np.int64)
        position[judged.index] = np.arange(len(judged.index))
        self._position: list[int] = position.tolist()
        later = np.setdiff1d(self._at_once.rows, self._at_once.first_rows)
        self._waiting = np.setdiff1d(course.rows, later).tolist()  # in order, so it is a heap
        for event in np.flatnonzero(course.tracked & ~course.usual).tolist():
            self._tracks.of(event)

    # ---- one by one ---------------------------------------------------------------------------------------------------

    def _open(self, index: int) -> None:
        position = self._position[index]
        if position < 0:
            self._take_inputs(index)
            return
        event = int(self._judged.event[position])
        if self._at_once.has(event):
            left = self._at_once.take(event)
            if not left:
                return
            self._reports.update({report.batch_row: report for report in left})
            for report in left[1:]:
                heapq.heappush(self._waiting, report.batch_row)
        track = self._tracks.of(event)
        if position >= track.cursor:  # else it was opened on the way to another
            self._absorb(track, position)
            self._open_plain(track, self._report(index, position))

    def _report(self, index: int, position: int) -> Report:
        if index not in self._reports:  # it was not to be opened
            self._open_reports(np.array([position]))
        return self._reports[index]

    def _open_reports(self, positions: Ints) -> None:
        self._reports.update({report.batch_row: report for report in reports_of(self._rows, self._judged, positions)})

    def _is_gathered(self, ground: Ground, report: Report) -> bool:
        """Whether it becomes part of an event here, under the key that it was routed by, and at a time that can be."""
        return (
            ground.gathers
            and ground.number(report.message.key) == report.number
            and report.published_ms - report.append_ms <= self._desk.rules.ahead_ms
        )

    def _take_inputs(self, index: int) -> None:
        timed = self._inputs.get(index)
        disturbed = self._catch_up(index) if timed else []
        self._take(timed or self._read(index), index)
        for track in disturbed:
            if not self._is_as_it_was(track) or self._may_send(track):
                self._make_odd(track)

    def _take(self, inputs: list[Input], index: int) -> None:
        """As `step` does. The columns must say what is due."""
        self._shelf.refresh(self._desk.plan)
        self._desk.state.wake_ms = 0  # the shelf knows better, and is asked each time
        for happened in inputs:
            take(self._desk, happened)
            self._hand_on(index)
            finish(self._desk, happened)

    def _hand_on(self, index: int) -> None:
        """What brokers sent when a row was taken in comes where it goes, before all rows that follow."""
        desk = self._desk
        while handed := desk.handed:
            desk.handed = deque()
            while handed:
                happened = handed.popleft()
                track = self._interrupted(happened.at, index)
                take(desk, happened)
                if track is not None:
                    self._make_odd(track)
                handed += desk.handed
                desk.handed.clear()

    def _interrupted(self, at: Address, index: int) -> Track | None:
        """The messages of the batch that are about an event that hears from a neighbour; those before it have been taken in."""
        number = event_hash(self._shelf.secret, at)
        event = int(np.searchsorted(self._numbers, number))
        if event == len(self._numbers) or self._numbers[event] != number:
            return None
        self._at_once.leave(event)
        track = self._tracks.of(event)
        self._absorb_before(track, index)
        return track

    def _read(self, index: int) -> list[Input]:
        return [self._checked(each, index) for each in read(self._rows.record(index), self._setting.limits, self._setting.ticker)]

    def _checked(self, happened: Input, index: int) -> Input:
        """Refuse what was routed by another topic and key than it has."""
        if isinstance(happened, Arrived | Heard) and event_hash(self._shelf.secret, happened.at) != int(self._rows.event[index]):
            return Refused(happened.origin, happened.broker, Unreadable.ROUTING_DIFFERS, _DIFFERENTLY)
        return happened

    def _open_plain(self, track: Track, report: Report) -> None:
        track.cursor = report.position + 1
        known = self._joined_simply(track, report)
        self._desk.ways[Handling.QUICK if known else Handling.OPENED] += 1
        if known is None:
            known = self._joined_fully(report)
        self._hand_on(report.batch_row)
        if known is None:
            self._make_odd(track)
            return
        row, salt = known
        if track.row < 0:
            track.row = row
            if not track.odd:  # what was judged of its messages does not hold once one of them was turned away
                track.salt = salt
        if track.salt != salt or self._may_send(track):
            self._make_odd(track)
        self._joined.append((report.batch_row, track.row, salt, report.published_ms))

    def _joined_simply(self, track: Track, report: Report) -> Known | None:
        """Join a message that only adds to what is known; None if it is not of that kind."""
        desk, message, append_ms = self._desk, report.message, report.append_ms
        ground = self._grounds.at(names.broker_of(report.kafka_topic), message.topic)
        if track.odd or not self._is_gathered(ground, report):
            return None
        here = self._shelf.row_of(report.number)
        if here < 0:
            return opens(desk, ground, report)
        if here != track.row:  # it was not known yet; or it had to make room, and was opened again since
            return None
        _, slot = self._shelf.take(here)
        if slot.next_ms(ground.topic) <= append_ms:
            self._fire(track, append_ms)
        if not is_one(slot) or salt_of(slot.open[0]) != track.salt:
            return None
        joined = slot.open[0]
        if append_ms <= joined.entered_ms and self._judged.shelf_row[track.event] >= 0:
            return None  # it may be the first; of an event that this batch opened, the order of the log says that it is not
        new = [name for name in message.fields if name not in joined.knowledge]
        # If more facts are new than fields, one is disputed, or may have been stated first.
        again = {} if new and len(new) == report.unknown_facts else restated(joined, report, desk.rules.bounds)
        if again is None or not adds(desk, ground, joined, new, again, report):
            return None
        if self._last_opened.get(track.event, -1) < track.cursor:
            self._shelf.put_back(here, ground.topic)
        return here, track.salt

    def _joined_fully(self, report: Report) -> Known | None:
        """Take a message in as `step` does. Returns its event, if what it said will be known from here on."""
        row = self._rows.record(report.batch_row)
        arrived = Arrived(row.origin, names.broker_of(row.kafka_topic), report.message, row.key, row.value)
        happened = self._checked(arrived, report.batch_row)
        joined = take(self._desk, happened)
        if joined is None or not isinstance(happened, Arrived) or not self._stays_known(joined, happened):
            return None
        return self._desk.row_of(joined), salt_of(joined)

    def _stays_known(self, event: OpenEvent, happened: Arrived) -> bool:
        """Whether the same facts, stated again and later, would change nothing."""
        for name in happened.message.fields:
            register = event.knowledge[name]
            if register.kind.repeats_matter or register.is_full(self._desk.rules.bounds):
                return False
        return True

    # ---- what was counted, and what happens to it ---------------------------------------------------------------------

    def _make_odd(self, track: Track) -> None:
        """From here on, open every message about this event in its turn."""
        if track.odd:
            return
        track.odd = True
        rest = slice(track.cursor, track.end)
        for index in self._judged.index[rest][~self.course.open[rest]].tolist():
            heapq.heappush(self._waiting, index)

    def _is_as_it_was(self, track: Track) -> bool:
        if track.row < 0 or self._shelf.columns.hash[track.row] == 0:
            return False
        _, slot = self._shelf.take(track.row)
        return is_one(slot) and not track.odd and salt_of(slot.open[0]) == track.salt

    def _catch_up(self, index: int) -> list[Track]:
        """Time is about to pass: enter what came before, of events whose timers may fire."""
        state = self._desk.state
        self._shelf.refresh(self._desk.plan)
        # The lowest mark cannot be beyond the highest there is.
        rows = self._shelf.due_rows(max(int(self._rows.append_ms[index]), state.clock_ms, *state.marks.values(), 0))
        if not rows:
            return []
        number, due = self._numbers, self._shelf.columns.hash[rows]
        at = np.searchsorted(number, due)
        at[at == len(number)] = 0
        found = []
        events = at[number[at] == due] if len(number) else at[:0]
        self._absorb_whole(events, index)
        for event in events.tolist():
            if event in self._at_once.done or self._at_once.has(event):
                continue  # none of its timers fires that soon
            track = self._tracks.of(event)
            if track.cursor < track.end:
                self._absorb_before(track, index)
                found.append(track)
        return found

    def _absorb_whole(self, events: Ints, index: int) -> None:
        """Of these events, enter in columns those that no message is about from a row on: when a service catches up, many are
        over by one tick."""
        judged = self._judged
        among = np.zeros(len(judged.shelf_row), dtype=bool)
        among[events[judged.index[judged.starts[events + 1] - 1] < index]] = True
        for event in absorb_all(self._desk, self._grounds, judged, self._tracks, self._at_once.done, among).tolist():
            track = self._tracks.of(event)
            track.cursor = track.end

    def _absorb_before(self, track: Track, index: int) -> None:
        """Enter the messages of an event that stand before a row."""
        before = int(np.searchsorted(self._judged.index[track.cursor : track.end], index))
        self._absorb(track, track.cursor + before)

    def _absorb(self, track: Track, until: int) -> None:
        """Enter the messages of an event up to a position that nobody has to open; or open them after all."""
        while (start := track.cursor) < until:
            reached = self._count_run(track, start, until)
            if reached == start:
                self._fire(track, int(self._judged.append_ms[start]))
                self._hand_on(int(self._judged.index[start]))
                reached = self._count_run(track, start, until)
            if reached == start:
                index = int(self._judged.index[start])
                self._open_plain(track, self._report(index, start))
            else:
                self._desk.ways[Handling.COUNTED] += reached - start
                track.cursor = reached

    def _count_run(self, track: Track, start: int, until: int) -> int:
        return count_run(self._desk, self._grounds, self._judged, track, start, until)

    def _fire(self, track: Track, now_ms: int) -> None:
        """Fire the timers of an event up to a message, as opening the message would."""
        if not track.odd and track.row >= 0 and self._is_as_it_was(track):
            at, slot = self._shelf.take(track.row)
            before = slot.size
            advance_all(self._desk, slot, self._grounds.at(at.broker, at.topic).topic, now_ms)
            self._desk.state.size += slot.size - before  # it is not dropped, though it may be empty: the message comes next

    def _may_send(self, track: Track) -> bool:
        """Whether what is left about an event may have its broker send something: a timer may fire, messages go on by
        themselves, or the event has gone. It is handed on in time only if all are opened, each in its turn."""
        if not self._desk.rules.hands_on or self._grounds.brokers == 1 or track.row < 0:
            return False
        if self._shelf.row_of(int(self._numbers[track.event])) != track.row:
            return True
        at, slot = self._shelf.take(track.row)
        ground = self._grounds.at(at.broker, at.topic)
        is_still = ground.gathers and slot.next_ms(ground.topic) > int(self.course.until_ms[track.event])
        return not ground.alone and not is_still

    # ---- remembering --------------------------------------------------------------------------------------------------

    def _learn(self) -> None:
        """Put what the opened messages stated into the tables."""
        shelf, rows = self._shelf, self._rows
        shelf.forget()
        if joined := self._joined + self._at_once.joined:
            index, row, salt, published_ms = np.array(joined, dtype=np.int64).T
            count = rows.starts[index + 1] - rows.starts[index]
            facts = rows.facts[rows.facts_of(index)]
            shelf.add_facts(facts ^ np.repeat(salt, count), np.repeat(row, count), np.repeat(published_ms, count))
        self._learn_sources()

    def _learn_sources(self) -> None:
        if noted := self._desk.noted:
            owner, salts = np.array(list(noted.values()), dtype=np.int64).T
            self._shelf.add_sources(np.fromiter(noted, dtype=np.int64, count=len(noted)), owner, salts)
            noted.clear()
