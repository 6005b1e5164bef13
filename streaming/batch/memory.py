"""All slots of a bucket: packed, but for those in hand; with a few numbers of each in columns.

To `step`'s functions it is the dict of slots they know. A slot is unpacked when it is asked for, and packed again at the end of
the batch. What a redundant message changes, reports, sources and times, is counted in the columns: an event is what its bytes
say and what was counted since they were written.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

import numpy as np

from streaming.batch.arrays import Ints
from streaming.batch.brief import Brief, write_brief
from streaming.batch.columns import REFRESHED, Columns, Ends, Sums, end_of, is_one
from streaming.batch.hashing import event_hash, salt_of
from streaming.batch.notes import Notes
from streaming.batch.stowing import stow, stowed_tombstone, unstow
from streaming.batch.tables import RowTable, SortedTable
from streaming.broker.state import NEVER, Slot
from streaming.model.address import Address
from tidings.registers import Bounds, Join, Register
from tidings.topic import Topic
from topology.plan import Plan


class PackedMemory:
    """The slots of a bucket, in the order they were first heard of: a row for each."""

    def __init__(self, secret: str, bounds: Bounds) -> None:
        self.secret = secret
        self.bounds = bounds
        self._least_full = min(room for kind in Join if (room := kind.room(bounds)) is not None)
        """Fewer claims fill no register."""
        self.columns = Columns()
        self.packed: list[bytes | None] = []
        """As `stow` has them; None where the row is empty, or its slot has never been packed."""
        self.facts = SortedTable()
        """Known facts, with the published time of the report that stated them first."""
        self.sources = SortedTable()
        self.places: list[tuple[str, str]] = []
        self._place_of: dict[tuple[str, str], int] = {}
        self._rows = RowTable()
        """By the hash of an event key."""
        self.in_hand: dict[int, tuple[Address, Slot]] = {}
        self.stale: set[int] = set()
        """Rows whose slots are in hand, and whose columns do not say yet what became of them."""
        self._fresh: dict[int, tuple[int, ...]] = {}
        """What the columns of `REFRESHED` are to say of rows whose slots have been packed again."""
        self._laid: list[tuple[int, int, int]] = []
        """Rows that are new, with hash and place, which their columns do not say yet."""
        self.begin_notes()
        self.forgotten: dict[int, tuple[int, ...]] = {}
        """Rows of which an event has ended, with the salts of those that have not."""
        self._oldest = 0

    # ---- as the dict of slots -----------------------------------------------------------------------------------------

    def __len__(self) -> int:
        return len(self._rows)

    def __iter__(self) -> Iterator[Address]:
        return (at for at, _ in self.items())

    def get(self, at: Address) -> Slot | None:
        row = self._rows.of(event_hash(self.secret, at))
        return None if row < 0 else self.take(row)[1]

    def setdefault(self, at: Address, slot: Slot) -> Slot:
        number = event_hash(self.secret, at)
        row = self._rows.of(number)
        if row < 0:
            row = self._add(number, at, slot)
        return self.take(row)[1]

    def __delitem__(self, at: Address) -> None:
        self.empty(self._rows.of(event_hash(self.secret, at)))

    def items(self) -> Iterator[tuple[Address, Slot]]:
        return (self.take(row) for row in self.rows().tolist())

    def values(self) -> Iterator[Slot]:
        return (slot for _, slot in self.items())

    def due(self, now_ms: int) -> list[tuple[Address, Slot]]:
        """Where a timer may fire by now: also where the columns do not say yet."""
        return [self.take(row) for row in sorted({*self.due_rows(now_ms), *self.stale})]

    def at(self, chosen: Callable[[str, str], bool]) -> list[tuple[Address, Slot]]:
        wanted = np.array([chosen(*place) for place in self.places] or [False])
        rows = self.rows()
        return [self.take(row) for row in rows[wanted[self.columns.place[rows]]].tolist()]

    def oldest(self) -> tuple[Address, Slot]:
        row = next(row for row in range(self._oldest, len(self.packed)) if self._is_used(row))
        self._oldest = row
        return self.take(row)

    def next_ms(self, topic_of: Callable[[str], Topic], *, forgets: bool = False) -> int:
        del topic_of
        assert not self.stale, "the columns know it when all slots have been put back"
        column = self.columns.wake_ms if forgets else self.columns.next_ms
        return int(column[: len(self.packed)].min(initial=NEVER))

    # ---- rows ---------------------------------------------------------------------------------------------------------

    def row_of(self, number: int) -> int:
        """The row of an event key by its hash; -1 if there is none."""
        return self._rows.of(number)

    def rows_of(self, numbers: Ints) -> Ints:
        return self._rows.all_of(numbers)

    def rows(self) -> Ints:
        """All that are used, in order."""
        return self._rows.rows()

    def quiet_rows(self, now_ms: int, ends: Ends) -> Ints:
        """Where just this is to be done by now, in slots that are not in hand; as far as the columns say."""
        columns, rows = self.columns, len(self.packed)
        found = np.flatnonzero((columns.ends[:rows] == ends) & (columns.wake_ms[:rows] <= now_ms))
        taken = np.fromiter({*self.in_hand, *self._fresh}, dtype=np.int64)
        return found[~np.isin(found, taken)]

    def bury(self, rows: Ints, forget_ms: Ints) -> None:
        """Leave tombstones of the events that there are in these slots."""
        columns, packed = self.columns, self.packed
        spans = columns.first_ms[rows].tolist(), columns.last_ms[rows].tolist()
        for row, first_ms, last_ms, until_ms in zip(rows.tolist(), *spans, forget_ms.tolist(), strict=True):
            packed[row] = stowed_tombstone(packed[row] or b"", first_ms, last_ms, until_ms)
        self.changed.update(rows.tolist())
        columns.next_ms[rows], columns.wake_ms[rows] = NEVER, forget_ms
        columns.plain[rows], columns.more[rows], columns.ends[rows] = False, 0, Ends.FORGOTTEN

    def due_rows(self, now_ms: int) -> list[int]:
        """Where something is to be done by now, as far as the columns say."""
        found: list[int] = np.flatnonzero(self.columns.wake_ms[: len(self.packed)] <= now_ms).tolist()
        return found

    def take(self, row: int) -> tuple[Address, Slot]:
        """A slot, which may be changed from here on: its columns do not say so before the next `refresh`."""
        self.stale.add(row)
        self._fresh.pop(row, None)
        found = self.in_hand.get(row)
        if found is None:
            found = self.in_hand[row] = self._unpacked(row)
        return found

    def _unpacked(self, row: int) -> tuple[Address, Slot]:
        packed, more = self.packed[row], int(self.columns.more[row])
        assert packed is not None
        at, slot = unstow(packed)
        if more:
            self._add_counted(slot, row, more)
        return at, slot

    def _add_counted(self, slot: Slot, row: int, reports: int) -> None:
        """To the one event in a slot, of which the columns have the rest."""
        (event,) = slot.open
        event.reports += reports
        event.span.include(int(self.columns.first_ms[row]))
        event.span.include(int(self.columns.last_ms[row]))
        event.source_count = int(self.columns.sources[row])

    def count(self, rows: Ints, sums: Sums) -> None:
        """Count messages that change nothing else, about the one event in each of these slots."""
        columns = self.columns
        columns.more[rows] += sums.count
        columns.first_ms[rows] = np.minimum(columns.first_ms[rows], sums.lowest_ms)
        columns.last_ms[rows] = np.maximum(columns.last_ms[rows], sums.highest_ms)
        columns.sources[rows] += sums.sources
        self.counted.append(rows)
        for at in np.flatnonzero(np.isin(rows, list(self.in_hand))).tolist() if self.in_hand else ():
            row = int(rows[at])
            self._add_counted(self.in_hand[row][1], row, int(sums.count[at]))

    def place(self, broker: str, topic: str) -> int:
        at = (broker, topic)
        if at not in self._place_of:
            self._place_of[at] = len(self.places)
            self.places.append(at)
        return self._place_of[at]

    def empty(self, row: int) -> None:
        """Forget a slot."""
        self.in_hand.pop(row, None)
        self.stale.discard(row)
        self._fresh.pop(row, None)
        self.empty_all(np.array([row]))

    def empty_all(self, rows: Ints) -> None:
        """Forget slots, none of which is in hand."""
        columns, emptied = self.columns, rows.tolist()
        self._rows.take_out(columns.hash[rows])
        for row in emptied:
            self.packed[row] = None
        self.changed.difference_update(emptied)
        columns.wake_ms[rows] = columns.next_ms[rows] = NEVER
        columns.plain[rows], columns.ends[rows] = False, Ends.LOUDLY
        columns.more[rows] = columns.salt[rows] = columns.hash[rows] = 0
        self.gone.update(emptied)
        self.forgotten.update(dict.fromkeys(emptied, ()))

    def _add(self, number: int, at: Address, slot: Slot) -> int:
        row = self._rows[number] = len(self.packed)
        self.packed.append(None)
        self.columns.grow(row + 1)
        self.columns.hash[row], self.columns.place[row] = number, self.place(at.broker, at.topic)
        self.in_hand[row] = (at, slot)
        return row

    def _is_used(self, row: int) -> bool:
        return self._rows.of(int(self.columns.hash[row])) == row

    # ---- columns ------------------------------------------------------------------------------------------------------

    def refresh(self, plan: Plan) -> None:
        """Let the columns say what became of the slots that were in hand. Timers follow from the plan."""
        for row in self.stale:
            self._fresh[row] = self._numbers(row, *self.in_hand[row], plan.topic(self.in_hand[row][0].topic))
        self.stale.clear()
        if self._laid:
            rows, hashes, places = np.array(self._laid, dtype=np.int64).T
            self.columns.hash[rows], self.columns.place[rows] = hashes, places
            self._laid.clear()
        if self._fresh:
            rows = list(self._fresh)
            for column, values in zip(REFRESHED, zip(*self._fresh.values(), strict=True), strict=True):
                getattr(self.columns, column)[rows] = values
            self.changed.update(rows)
            self._fresh.clear()

    def _numbers(self, row: int, _: Address, slot: Slot, topic: Topic) -> tuple[int, ...]:
        """What the columns of `REFRESHED` are to say of a slot."""
        columns, next_ms = self.columns, slot.next_ms(topic)
        wake_ms = min(next_ms, slot.forget_ms)
        if not slot.open:
            kept = (columns.salt, columns.first_ms, columns.last_ms, columns.sources, columns.entered_ms)
            return next_ms, wake_ms, False, *(int(column[row]) for column in kept), end_of(slot)
        event = slot.open[0]
        salt, known = salt_of(event), int(columns.salt[row])
        if known not in (0, salt):
            self.forgotten[row] = tuple(map(salt_of, slot.open))
        plain = is_one(slot) and not self.any_full(event.knowledge.values())
        span = event.span
        return next_ms, wake_ms, plain, salt, span.first_ms, span.last_ms, event.source_count, event.entered_ms, end_of(slot)

    def any_full(self, registers: Iterable[Register]) -> bool:
        least = self._least_full
        for register in registers:  # noqa: SIM110 (a generator takes longer than what it asks)
            if len(register.claims) >= least and register.is_full(self.bounds):
                return True
        return False

    def put_back(self, row: int, topic: Topic) -> None:
        """Pack a slot that nobody will ask for soon."""
        at, slot = self.in_hand.pop(row)
        self._fresh[row] = self._numbers(row, at, slot, topic)
        self.stale.discard(row)
        self.packed[row], self.columns.more[row] = stow(at, slot), 0

    def reserve(self, rows: int) -> None:
        """So many may be kept soon that are not here yet."""
        self.columns.grow(len(self.packed) + rows)

    def keep(self, row: int, number: int, brief: Brief, salt: int, timers: tuple[int, Ends]) -> int:
        """Keep an event that was not in hand as it is now, and return its row: a new one, reserved before, has none yet."""
        kept = write_brief(brief)
        if row < 0:
            row = self._rows[number] = len(self.packed)
            self.packed.append(kept)
            self._laid.append((row, number, self.place(brief.at.broker, brief.at.topic)))
        else:
            self.packed[row] = kept
            self.columns.more[row] = 0
        next_ms, ends = timers
        said = next_ms, next_ms, True, salt, brief.first_ms, brief.last_ms, brief.sources, brief.origin.append_ms, ends
        self._fresh[row] = said
        return row

    def pack(self) -> None:
        """Put all slots back."""
        assert not self.stale, "what became of the slots in hand is not in their columns"
        for row, (at, slot) in self.in_hand.items():
            self.packed[row] = stow(at, slot)
        self.columns.more[list(self.in_hand)] = 0
        self.in_hand.clear()
        self._rows.settle()

    # ---- tables -------------------------------------------------------------------------------------------------------

    def add_facts(self, keys: Ints, owner: Ints, stated_ms: Ints) -> None:
        self._add_to(self.facts, self.noted.facts, keys, owner, stated_ms)

    def add_sources(self, keys: Ints, owner: Ints, salt: Ints) -> None:
        self._add_to(self.sources, self.noted.sources, keys, owner, salt)

    def _add_to(self, table: SortedTable, notes: list[tuple[Ints, Ints, Ints]], keys: Ints, owner: Ints, beside: Ints) -> None:
        if len(keys):
            here = self.columns.hash[owner] != 0  # a row may have been emptied since
            added = keys[here], owner[here], beside[here]
            table.add(*added)
            notes.append(added)

    def forget(self) -> None:
        """Take what is of no more use out of the tables."""
        if self.forgotten:
            still_open = [salt for salts in self.forgotten.values() for salt in salts]
            self.facts.drop(self.forgotten)
            self.sources.drop(self.forgotten, still_open)
            self.noted.forget(self.forgotten, still_open)
            self.forgotten.clear()

    # ---- as it should be ----------------------------------------------------------------------------------------------

    def validate(self, plan: Plan) -> None:
        """Hold the columns and tables to the slots; `AssertionError` where they differ. Timers follow from the plan."""
        for row, packed in enumerate(self.packed):
            if self._is_used(row):
                at, slot = self.in_hand.get(row) or self._unpacked(row)
                assert self.columns.hash[row] == event_hash(self.secret, at), (row, at)
                assert self.places[self.columns.place[row]] == at.place, (row, at)
                if row not in self.stale:
                    self._validate_row(row, slot, plan.topic(at.topic))
            else:
                left = {name: int(getattr(self.columns, name)[row]) for name in ("hash", "salt", "more", "plain")}
                assert not any((packed, *left.values())), (row, left)
                assert self.columns.wake_ms[row] == self.columns.next_ms[row] == NEVER, row
        for table in (self.facts, self.sources):
            assert (table.keys[1:] > table.keys[:-1]).all(), "a table is not in order"
            assert all(self._is_used(row) or row in self.forgotten for row in np.unique(table.owner).tolist())

    def _validate_row(self, row: int, slot: Slot, topic: Topic) -> None:
        says = {name: int(getattr(self.columns, name)[row]) for name in Columns.NAMES}
        assert says["next_ms"] == slot.next_ms(topic), (row, says, slot)
        assert says["wake_ms"] == min(says["next_ms"], slot.forget_ms), (row, says, slot)
        assert says["plain"] == (is_one(slot) and not self.any_full(slot.open[0].knowledge.values())), (row, says, slot)
        assert says["more"] == 0 or says["plain"], (row, says, slot)
        assert says["ends"] in (Ends.LOUDLY, end_of(slot)), (row, says, slot)
        for event in slot.open[:1]:
            assert says["salt"] == salt_of(event), (row, says, slot)
            assert says["entered_ms"] in (0, event.entered_ms), (row, says, slot)
            assert (says["first_ms"], says["last_ms"]) == (event.span.first_ms, event.span.last_ms), (row, says, slot)
            assert says["sources"] == event.source_count, (row, says, slot)
            if row not in self.forgotten:
                assert says["sources"] == len(self.sources.of(row, says["salt"])), (row, says, slot)

    # ---- notes, for a patch -------------------------------------------------------------------------------------------

    def begin_notes(self) -> None:
        """Nothing has changed since the last patch."""
        self.changed: set[int] = set()
        """Rows whose slots were in hand."""
        self.counted: list[Ints] = []
        """Rows whose columns alone were changed."""
        self.gone: set[int] = set()
        self.noted = Notes()

    # ---- from patches -------------------------------------------------------------------------------------------------

    def remove(self, rows: Ints) -> None:
        rows = rows[rows < len(self.packed)]
        self.empty_all(rows[self.columns.hash[rows] != 0])
        self.begin_notes()
        self.forgotten.clear()

    def lay(self, rows: int, places: list[tuple[str, str]]) -> None:
        """Make room for this many rows."""
        self.columns.grow(rows)
        self.packed.extend([None] * (rows - len(self.packed)))
        for broker, topic in places:
            self.place(broker, topic)

    def find_rows(self, rows: Ints) -> None:
        """Rows have got their columns: they can be found by them."""
        self._rows.add(self.columns.hash[rows], rows)

    def compact(self) -> None:
        """Take the empty rows out. All others get new numbers, in their order."""
        assert not self.in_hand
        self.forget()
        rows = self.rows()
        if len(rows) == len(self.packed):
            return
        new = np.full(len(self.packed), -1, dtype=np.int32)
        new[rows] = np.arange(len(rows), dtype=np.int32)
        self.facts.renumber(new)
        self.sources.renumber(new)
        self.packed = [self.packed[row] for row in rows.tolist()]
        old, self.columns = self.columns, Columns()
        self.columns.grow(len(rows))
        for name in Columns.NAMES:
            getattr(self.columns, name)[: len(rows)] = getattr(old, name)[rows]
        self._rows = RowTable()
        self.find_rows(np.arange(len(rows)))
        self._oldest = 0
