"""A part of a batch under one version of the control data: what is counted, what is opened, and in which order."""

from __future__ import annotations

import heapq
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from streaming.batch.desk import BatchDesk
from streaming.batch.hashing import event_hash, salt_of
from streaming.batch.judge import Judged, judge
from streaming.batch.memory import is_one
from streaming.batch.quick_join import adds, opens
from streaming.batch.reading import quick_message
from streaming.batch.rows import Bools, Ints, Rows
from streaming.broker.state import Rules
from streaming.broker.step import take
from streaming.broker.timers import advance_all
from streaming.model.address import Address
from streaming.model.entry import Origin
from streaming.model.event import OpenEvent
from streaming.model.inputs import Arrived, Heard, Input, Refused
from streaming.wire.clock import TickerIdentity
from streaming.wire.inputs import read
from streaming.wire.message import MessageLimits
from streaming.wire.record import Record
from tidings import names
from tidings.errors import Unreadable
from tidings.message import Message
from tidings.topic import Topic
from topology.plan import Plan, Role

_DIFFERENTLY = "topic and key were read differently when it was routed"
_ODD = None
"""For the salt of an event that something unusual happened to: its messages are opened, one by one."""


@dataclass(frozen=True, slots=True)
class EngineSettings:
    """What an engine needs to know beside its state and the batch."""

    plan_at: Callable[[int], Plan]
    rules: Rules
    limits: MessageLimits
    ticker: TickerIdentity


class Segment:
    """Rows from ``lo`` to ``hi`` of a batch; the control data changes with the first of them, if at all."""

    def __init__(
        self, desk: BatchDesk, rows: Rows, lo: int, hi: int, inputs: dict[int, list[Input]], setting: EngineSettings
    ) -> None:
        self._desk, self._shelf, self._rows, self._inputs, self._setting = desk, desk.shelf, rows, inputs, setting
        self._lo, self._hi = lo, hi
        self._now = lo
        """The row that is being taken in."""
        self._disturbed: list[int] = []
        """Events whose timers are firing."""
        self._gathered: dict[tuple[str, str], bool] = {}
        """By broker and topic, whether events are gathered here; asked after the control data changed, if it did."""
        self._topics: dict[str, Topic] = {}
        self._joined: list[tuple[int, int, int, int]] = []
        """Opened messages whose facts are known from here on: row of the batch, of the shelf, salt, published time."""

    def run(self) -> None:
        self._begin()
        if self._lo in self._inputs:
            # It may bring other control data: what follows is judged under that.
            self._take_inputs(self._lo)
            self._lo += 1
        self._judge()
        self._shelf.before_due = self._catch_up
        while self._waiting:
            self._now = heapq.heappop(self._waiting)
            self._open(self._now)
        self._now = self._hi
        for event in self._tracked:
            self._absorb(event, self._starts[event + 1])
        self._absorb_untouched()
        self._shelf.refresh()
        self._learn()

    def _begin(self) -> None:
        self._shelf.before_due = lambda _: None
        self._desk.noted.clear()

    # ---- judging ------------------------------------------------------------------------------------------------------

    def _judge(self) -> None:
        rows, shelf, desk = self._rows, self._shelf, self._desk
        shelf.refresh()
        found = self._judged = judge(rows, self._lo, self._hi, shelf, desk.rules.ahead_ms)
        desk.state.changed = desk.state.changed or len(found.index) > 0  # every message is entered into the books
        columns = shelf.columns
        known = found.shelf_row >= 0
        row = found.shelf_row
        slow = known & ~(columns.plain[row] & self._gathering()[columns.place[row]]) if len(row) else known
        slow |= np.isin(rows.event[found.index[found.starts[:-1]]], self._otherwise_touched())
        found.open |= slow[found.event]
        if len(row):
            # What stood in a partition that was read later may have entered before all that is known of its event.
            found.open |= known[found.event] & (rows.append_ms[found.index] <= columns.entered_ms[row][found.event])
        self._runs(found)
        opened = np.bincount(found.event[found.open], minlength=len(row)) > 0
        found.open |= (~self._fit(row) | (~opened & ~self._undisturbed(row)))[found.event]
        if desk.state.size + int(found.open.sum()) + self._hi - self._lo - len(found.index) > desk.rules.open_events:
            found.open[:] = True  # some events will have to make room, and any of them might
        opened_rows = ~rows.plain
        opened_rows[found.index[found.open]] = True
        # Rows to be opened, the next one first; more are added when something unusual happens to an event.
        self._waiting: list[int] = (np.flatnonzero(opened_rows[self._lo : self._hi]) + self._lo).tolist()
        self._position = np.full(len(rows), -1, dtype=np.int64)
        self._position[found.index] = np.arange(len(found.index))
        self._starts: list[int] = found.starts.tolist()
        self._cursor: list[int] = self._starts[:-1]
        self._published: list[int] = found.published_ms.tolist()
        self._appended: list[int] = rows.append_ms[found.index].tolist()
        self._salt: list[int | None] = np.where(known, columns.salt[row], 0).tolist() if len(row) else []
        self._event_rows: list[int] = row.tolist()
        self._unknown_facts: list[int] = found.unknown_facts.tolist()
        self._tracked = set(np.unique(found.event[found.open]).tolist())
        self._by_number: dict[int, int] | None = None

    def _runs(self, found: Judged) -> None:
        """Sums over all messages of each event, for those where none is opened."""
        starts = found.starts[:-1]
        if not len(starts):
            self._count = self._lowest = self._highest = self._latest = self._news = np.empty(0, dtype=np.int64)
            return
        self._count = np.diff(found.starts)
        self._lowest = np.minimum.reduceat(found.published_ms, starts)
        self._highest = np.maximum.reduceat(found.published_ms, starts)
        self._latest = np.maximum.reduceat(self._rows.append_ms[found.index], starts)
        self._news = np.add.reduceat(found.new_source.astype(np.int64), starts)

    def _fit(self, row: Ints) -> Bools:
        """Of each event, whether all its messages fit its window, and its sources into what is counted of them."""
        if not len(row):
            return np.empty(0, dtype=bool)
        columns, known = self._shelf.columns, row >= 0
        windows = np.array([self._desk.topic(topic).timing.window_ms for _, topic in self._shelf.places] or [0], dtype=np.int64)
        highest = np.where(known, np.maximum(columns.last_ms[row], self._highest), self._highest)
        lowest = np.where(known, np.minimum(columns.first_ms[row], self._lowest), self._lowest)
        # The topic of an event that is not known yet is not known either.
        window = np.where(known, windows[columns.place[row]], self._desk.plan.snapshot.shortest_window_ms)
        sources = np.where(known, columns.sources[row], 0) + self._news
        fits: Bools = (highest - lowest < window) & (sources <= self._desk.rules.sources)
        return fits

    def _undisturbed(self, row: Ints) -> Bools:
        """Whether an event is known, and no timer of it fires before its last message."""
        found: Bools = (row >= 0) & (self._shelf.columns.next_ms[row] > self._latest) if len(row) else np.empty(0, dtype=bool)
        return found

    def _gathering(self) -> Bools:
        return np.array([self._gathers(broker, topic) for broker, topic in self._shelf.places] or [False])

    def _gathers(self, broker: str, topic: str) -> bool:
        at = (broker, topic)
        if (found := self._gathered.get(at)) is None:
            found = self._desk.plan.place(broker, topic).role is Role.GATHERS and self._desk.topic(topic).gather
            self._gathered[at] = found
        return found

    def _topic(self, name: str) -> Topic:
        if (found := self._topics.get(name)) is None:
            found = self._topics[name] = self._desk.topic(name)
        return found

    def _otherwise_touched(self) -> Ints:
        """Events that something other than a plain message is about."""
        part = slice(self._lo, self._hi)
        return self._rows.event[part][~self._rows.plain[part]]

    # ---- one by one ---------------------------------------------------------------------------------------------------

    def _open(self, index: int) -> None:
        position = int(self._position[index])
        if position < 0:
            self._take_inputs(index)
            return
        event = int(self._judged.event[position])
        if position >= self._cursor[event]:  # else it was opened on the way to another
            self._absorb(event, position)
            self._open_plain(event, index, position)

    def _take_inputs(self, index: int) -> None:
        self._desk.state.wake_ms = 0  # the shelf knows better, and is asked each time
        for happened in self._inputs.get(index) or self._read(index):
            take(self._desk, happened)
        for event in self._disturbed:
            if not self._is_as_it_was(event):
                self._make_odd(event)
        self._disturbed.clear()

    def _read(self, index: int) -> list[Input]:
        return [self._checked(each, index) for each in read(self._rows.record(index), self._setting.limits, self._setting.ticker)]

    def _checked(self, happened: Input, index: int) -> Input:
        """Refuse what was routed by another topic and key than it has."""
        if isinstance(happened, Arrived | Heard) and event_hash(self._shelf.secret, happened.at) != int(self._rows.event[index]):
            return Refused(happened.origin, happened.broker, Unreadable.ROUTING_DIFFERS, _DIFFERENTLY)
        return happened

    def _open_plain(self, event: int, index: int, position: int) -> None:
        self._cursor[event] = position + 1
        row = self._rows.record(index)
        message = self._rows.message[index] or quick_message(row.value, self._setting.limits)
        joined = None
        if message is not None:
            joined = self._joined_simply(event, index, position, message)
        if joined is None:
            joined = self._joined_fully(row, index, message)
        if joined is None:
            self._make_odd(event)
            return
        salt = salt_of(joined)
        if self._event_rows[event] < 0:
            self._event_rows[event] = self._desk.row_of(joined)
            if self._salt[event] is not _ODD:  # what was judged of its messages does not hold once one of them was turned away
                self._salt[event] = salt
        if self._salt[event] != salt:
            self._make_odd(event)
        self._joined.append((index, self._event_rows[event], salt, self._published[position]))

    def _joined_simply(self, event: int, index: int, position: int, message: Message) -> OpenEvent | None:
        """Join a message that only adds to what is known; None if it is not of that kind."""
        rows, desk = self._rows, self._desk
        at = Address(names.broker_of(rows.kafka_topic[index]), message.topic, message.key)
        number = int(rows.event[index])
        published_ms, append_ms, source = self._published[position], self._appended[position], int(rows.source[index])
        if (
            self._salt[event] is _ODD
            or event_hash(self._shelf.secret, at) != number
            or not self._gathers(at.broker, at.topic)
            or published_ms - append_ms > desk.rules.ahead_ms
        ):
            return None
        here = self._shelf.row_of(number)
        if here < 0:
            origin = Origin(rows.kafka_topic[index], int(rows.partition[index]), int(rows.offset[index]), append_ms)
            return opens(desk, at, message, published_ms, origin, source)
        if here != self._event_rows[event]:  # it was not known yet; or it had to make room, and was opened again since
            return None
        _, slot = self._shelf.take(here)
        if slot.next_ms(self._topic(at.topic)) <= append_ms:
            self._fire(event, position)
        if not is_one(slot) or salt_of(slot.open[0]) != self._salt[event]:
            return None
        joined = slot.open[0]
        if append_ms <= joined.entered_ms and self._judged.shelf_row[event] >= 0:
            return None  # it may be the first; of an event that this batch opened, the order of the log says that it is not
        new = [name for name in message.fields if name not in joined.knowledge]
        # If more facts are new than fields, one is disputed.
        if len(new) != self._unknown_facts[position]:
            return None
        return joined if adds(desk, joined, new, message, published_ms, append_ms, source) else None

    def _joined_fully(self, row: Record, index: int, message: Message | None) -> OpenEvent | None:
        """Take a message in as `step` does. Returns its event, if what it said will be known from here on."""
        if message is None:
            happened = self._read(index)[0]
        else:
            arrived = Arrived(row.origin, names.broker_of(row.kafka_topic), message, row.key, row.value)
            happened = self._checked(arrived, index)
        self._desk.joined = None
        take(self._desk, happened)
        joined = self._desk.joined
        return joined if joined and isinstance(happened, Arrived) and self._stays_known(joined, happened) else None

    def _stays_known(self, event: OpenEvent, happened: Arrived) -> bool:
        """Whether the same facts, stated again and later, would change nothing."""
        for name in happened.message.fields:
            register = event.knowledge[name]
            if register.kind.repeats_matter or register.is_full(self._desk.rules.bounds):
                return False
        return True

    # ---- in runs ------------------------------------------------------------------------------------------------------

    def _make_odd(self, event: int) -> None:
        """From here on, open every message about this event in its turn."""
        if self._salt[event] is _ODD:
            return
        self._salt[event] = _ODD
        rest = slice(self._cursor[event], self._starts[event + 1])
        for index in self._judged.index[rest][~self._judged.open[rest]].tolist():
            heapq.heappush(self._waiting, index)

    def _is_as_it_was(self, event: int) -> bool:
        row = self._event_rows[event]
        if row < 0 or self._shelf.columns.hash[row] == 0:
            return False
        _, slot = self._shelf.take(row)
        return is_one(slot) and salt_of(slot.open[0]) == self._salt[event]

    def _catch_up(self, rows: list[int]) -> None:
        """Timers are about to fire in these rows: enter what came before."""
        if self._by_number is None:
            numbers = self._rows.event[self._judged.index[self._judged.starts[:-1]]].tolist()
            self._by_number = {number: event for event, number in enumerate(numbers)}
        for number in self._shelf.columns.hash[rows].tolist():
            if (event := self._by_number.get(number)) is not None and self._cursor[event] < self._starts[event + 1]:
                start, end = self._cursor[event], self._starts[event + 1]
                before = int(np.searchsorted(self._judged.index[start:end], self._now))
                self._tracked.add(event)
                self._absorb(event, start + before)
                self._disturbed.append(event)

    def _absorb(self, event: int, until: int) -> None:
        """Enter the messages of an event up to a position that nobody has to open; or open them after all."""
        while (start := self._cursor[event]) < until:
            reached = self._count_run(event, start, until)
            if reached == start:
                self._fire(event, start)
                reached = self._count_run(event, start, until)
            if reached == start:
                self._open_plain(event, int(self._judged.index[start]), start)
            else:
                self._cursor[event] = reached

    def _fire(self, event: int, position: int) -> None:
        """Fire the timers of an event up to a message, as opening the message would."""
        if self._salt[event] is not _ODD and self._event_rows[event] >= 0 and self._is_as_it_was(event):
            at, slot = self._shelf.take(self._event_rows[event])
            before = slot.size
            advance_all(self._desk, slot, self._topic(at.topic), self._appended[position])
            self._desk.state.size += slot.size - before  # it is not dropped, though it may be empty: the message comes next

    def _count_run(self, event: int, start: int, until: int) -> int:
        """Count messages from ``start`` on, up to the first before which a timer fires. Returns where it came to."""
        salt, row = self._salt[event], self._event_rows[event]
        if salt is _ODD or row < 0:
            return start
        (broker, name, _), slot = self._shelf.take(row)
        if not is_one(slot) or salt_of(slot.open[0]) != salt or not self._gathers(broker, name):
            return start
        found, topic = slot.open[0], self._topic(name)
        next_ms = slot.next_ms(topic)
        until = next((n for n in range(start, until) if self._appended[n] >= next_ms), until)
        if start == until:
            return until
        if min(self._appended[start:until]) < found.entered_ms:
            return start
        low, high = min(self._published[start:until]), max(self._published[start:until])
        if max(found.span.last_ms, high) - min(found.span.first_ms, low) >= topic.timing.window_ms:
            return start
        if not self._count_sources(found, start, until):
            return start
        found.reports += until - start
        found.span.include(low)
        found.span.include(high)
        self._desk.enter_known(broker, name, until - start)
        return until

    def _count_sources(self, found: OpenEvent, start: int, until: int) -> bool:
        new = self._judged.new_source[start:until]
        if not new.any():
            return True
        of = self._desk.row_of(found), salt_of(found)
        noted = self._desk.noted
        entries = [entry for entry in (self._judged.source[start:until][new] ^ of[1]).tolist() if noted.get(entry) != of]
        if found.source_count + len(entries) > self._desk.rules.sources:
            return False
        found.source_count += len(entries)
        noted.update(dict.fromkeys(entries, of))
        return True

    def _absorb_untouched(self) -> None:
        """Enter the messages of all events that nothing was opened for."""
        found, columns = self._judged, self._shelf.columns
        events = np.ones(len(found.shelf_row), dtype=bool)
        events[list(self._tracked)] = False
        events = np.flatnonzero(events)
        if not len(events):
            return
        row, count = found.shelf_row[events], self._count[events]
        columns.more[row] += count
        columns.first_ms[row] = np.minimum(columns.first_ms[row], self._lowest[events])
        columns.last_ms[row] = np.maximum(columns.last_ms[row], self._highest[events])
        columns.sources[row] += self._news[events]
        self._shelf.counted.append(row)
        by_place = np.bincount(columns.place[row], weights=count).astype(np.int64)
        for place in np.flatnonzero(by_place).tolist():
            self._desk.enter_known(*self._shelf.places[place], int(by_place[place]))
        named = np.flatnonzero(found.new_source & np.isin(found.event, events))
        owner = found.shelf_row[found.event[named]]
        self._shelf.add_sources(found.source[named] ^ columns.salt[owner], owner, columns.salt[owner])

    # ---- remembering --------------------------------------------------------------------------------------------------

    def _learn(self) -> None:
        """Put what the opened messages stated into the tables."""
        shelf, rows = self._shelf, self._rows
        shelf.forget()
        if self._joined:
            index, row, salt, published_ms = np.array(self._joined, dtype=np.int64).T
            count = rows.starts[index + 1] - rows.starts[index]
            facts = rows.facts[rows.facts_of(index)]
            shelf.add_facts(facts ^ np.repeat(salt, count), np.repeat(row, count), np.repeat(published_ms, count))
        if noted := self._desk.noted:
            owner, salts = np.array(list(noted.values()), dtype=np.int64).T
            shelf.add_sources(np.fromiter(noted, dtype=np.int64, count=len(noted)), owner, salts)
            noted.clear()
