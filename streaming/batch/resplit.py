"""The same state in another number of buckets.

What is known of an event goes, as it stands, to the bucket that its hash now chooses. What is about no event is shared
out so that the sums stay, numbers that must grow do, and the books of each bucket balance.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, fields, replace
from typing import TypeVar

import numpy as np
import numpy.typing as npt

from streaming.batch.arrays import Ints
from streaming.batch.columns import Columns
from streaming.batch.hashing import bucket_of
from streaming.batch.memory import PackedMemory
from streaming.batch.store import Bucket
from streaming.batch.stowing import unstow
from streaming.batch.tables import SortedTable
from streaming.broker.state import NEVER, BucketState, Filter
from streaming.model.address import Address
from streaming.model.books import Books
from streaming.model.outputs import MessageReason, Outcome
from tidings.registers import Bounds

Key = TypeVar("Key")


def resplit(buckets: Sequence[Bucket], count: int, secret: str, bounds: Bounds, *, hands_on: bool = False) -> list[Bucket]:
    """The buckets, all of one moment and with their slots packed, as ``count`` others. They have no notes yet."""

    def target_of(at: Address) -> int:
        return bucket_of(secret, at, count, hands_on=hands_on)

    slots = _Slots.of(buckets, target_of)
    target = slots.target
    shelves = _shelves(buckets, slots, target, count, secret, bounds)
    books = _books(buckets, slots, target, count)
    filters = _filters(buckets, count)
    ending = _ending(buckets, count, target_of)
    sizes = np.bincount(target, weights=slots.size, minlength=count).astype(np.int64).tolist()
    states = [bucket.state for bucket in buckets]
    return [
        Bucket(_state(_head(states), shelves[n], books[n], filters[n], ending[n], sizes[n]), shelves[n]) for n in range(count)
    ]


def _state(
    head: BucketState,
    shelf: PackedMemory,
    books: dict[str, Books],
    filters: dict[tuple[str, str], Filter],
    ending: dict[Address, int],
    size: int,
) -> BucketState:
    return replace(head, slots=shelf, books=books, filters=filters, ending=ending, size=size)


def home(number: int, count: int) -> int:
    """The bucket that goes on with what a bucket did for no event in particular."""
    return number % count


# ---- what all buckets know alike --------------------------------------------------------------------------------------


def _head(states: Sequence[BucketState]) -> BucketState:
    """Every bucket reads every tick and mark; one with an older clock had nothing to store since: the newest holds for all."""
    newest = max(states, key=lambda state: (state.version, max(state.marks.values(), default=0)), default=BucketState())
    marks = _highest(state.marks for state in states)
    return BucketState(
        version=newest.version,
        clock_ms=max((state.clock_ms for state in states), default=0),
        partitions=newest.partitions,
        marks={partition: ms for partition, ms in marks.items() if partition in newest.partitions},
        # A neighbour takes a record with a higher number than the last one it heard from the bucket of that name.
        sent=_highest(state.sent for state in states),
        # A link is read in order: what one bucket has heard, the others were given before, if it was for them.
        heard=_highest(state.heard for state in states),
        beats=_highest(state.beats for state in states),
        beats_due={name: list(due) for state in states for name, due in state.beats_due.items()},
        # As with links: the pipeline of windows takes what has a higher number than the last from the bucket of that name.
        offered=max((state.offered for state in states), default=0),
        ticked=max((state.ticked for state in states), default=(0, 0)),
        ticks=sorted({tick for state in states for tick in state.ticks}),
        carried={at for state in states for at in state.carried},
        progress=newest.progress,
        ways=newest.ways,
    )


def _highest(counts: Iterable[dict[Key, int]]) -> dict[Key, int]:
    found: dict[Key, int] = {}
    for each in counts:
        for key, number in each.items():
            found[key] = max(number, found.get(key, number))
    return found


# ---- slots ------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Slots:
    """All slots of all buckets, bucket by bucket."""

    bucket: Ints
    row: Ints
    target: Ints
    """The bucket that it goes to."""
    age_ms: Ints
    held: Ints
    size: Ints

    @staticmethod
    def of(buckets: Sequence[Bucket], target_of: Callable[[Address], int]) -> _Slots:
        columns = [_look(number, bucket.shelf, target_of) for number, bucket in enumerate(buckets)]
        return _Slots(*(np.concatenate(column) for column in zip(*columns, strict=True)))


def _look(number: int, shelf: PackedMemory, target_of: Callable[[Address], int]) -> tuple[Ints, ...]:
    assert not shelf.in_hand
    rows = shelf.rows()
    target, opened_ms, held, size = [], [], [], []
    for row in rows.tolist():
        packed = shelf.packed[row]
        assert packed is not None
        at, slot = unstow(packed)
        target.append(target_of(at))
        opened_ms.append(min((event.opened_ms for event in slot.open), default=NEVER))
        held.append(slot.held)
        size.append(slot.size)
    return np.full(len(rows), number), rows, _ints(target), _ages(opened_ms), _ints(held), _ints(size)


def _ages(opened_ms: list[int]) -> Ints:
    """When a slot was first heard of, at the latest: before its own events that are open, and before all slots after it."""
    ages: Ints = np.minimum.accumulate(_ints(opened_ms)[::-1])[::-1]
    return ages


def _shelves(
    buckets: Sequence[Bucket], slots: _Slots, target: Ints, count: int, secret: str, bounds: Bounds
) -> list[PackedMemory]:
    places = list(dict.fromkeys(place for bucket in buckets for place in bucket.shelf.places))
    rows = [slots.row[part] for part in _shared_out(slots.bucket, len(buckets))]
    columns = _columns(buckets, rows, places)
    packed = [bucket.shelf.packed[row] for bucket, here in zip(buckets, rows, strict=True) for row in here.tolist()]
    in_order = np.lexsort((slots.row, slots.bucket, slots.age_ms))
    shelves, new_row = [], np.zeros(len(target), dtype=np.int64)
    for chosen in _shared_out(target[in_order], count):
        moved = in_order[chosen]
        new_row[moved] = np.arange(len(moved))
        shelf = PackedMemory(secret, bounds)
        shelf.lay(len(moved), places)
        for name in Columns.NAMES:
            getattr(shelf.columns, name)[: len(moved)] = columns[name][moved]
        shelf.packed[:] = [packed[index] for index in moved.tolist()]
        shelf.find_rows(np.arange(len(moved)))
        shelves.append(shelf)
    _fill([shelf.facts for shelf in shelves], [bucket.shelf.facts for bucket in buckets], slots, target, new_row)
    _fill([shelf.sources for shelf in shelves], [bucket.shelf.sources for bucket in buckets], slots, target, new_row)
    return shelves


def _columns(buckets: Sequence[Bucket], rows: list[Ints], places: list[tuple[str, str]]) -> dict[str, Ints]:
    """The columns of all slots; places are numbered as in ``places``."""
    found: dict[str, Ints] = {}
    shelves = [bucket.shelf for bucket in buckets]
    for name in Columns.NAMES:
        found[name] = np.concatenate([getattr(shelf.columns, name)[here] for shelf, here in zip(shelves, rows, strict=True)])
    number = {place: index for index, place in enumerate(places)}
    renumbered = [
        _ints([number[place] for place in shelf.places])[shelf.columns.place[here]]
        for shelf, here in zip(shelves, rows, strict=True)
    ]
    found["place"] = np.concatenate(renumbered)
    return found


def _fill(new: list[SortedTable], old: list[SortedTable], slots: _Slots, target: Ints, new_row: Ints) -> None:
    """Let the entries of tables follow their rows."""
    keys = np.concatenate([table.keys for table in old])
    beside = np.concatenate([table.beside for table in old])
    owner = np.concatenate([_index(slots, number, table.owner) for number, table in enumerate(old)])
    kept = np.flatnonzero(owner >= 0)
    keys, beside, owner = keys[kept], beside[kept], owner[kept]
    for table, mine in zip(new, _shared_out(target[owner], len(new)), strict=True):
        table.add(keys[mine], new_row[owner[mine]], beside[mine])


def _index(slots: _Slots, number: int, rows: npt.NDArray[np.int32]) -> Ints:
    """Where the rows of a bucket are among all slots; -1 for rows that are empty."""
    start, end = np.searchsorted(slots.bucket, [number, number + 1])
    used = slots.row[start:end]
    at = np.searchsorted(used, rows)
    at[at == len(used)] = 0
    is_used = used[at] == rows if len(used) else np.zeros(len(rows), dtype=bool)
    index: Ints = np.where(is_used, at + start, -1)
    return index


def _shared_out(number: Ints, count: int) -> list[Ints]:
    """The positions of each number below ``count``, in their order."""
    by_number = np.argsort(number, kind="stable")
    return np.split(by_number, np.searchsorted(number[by_number], np.arange(1, count)))


def _ints(values: list[int]) -> Ints:
    return np.array(values, dtype=np.int64)


# ---- what is about no event -------------------------------------------------------------------------------------------


def _books(buckets: Sequence[Bucket], slots: _Slots, target: Ints, count: int) -> list[dict[str, Books]]:
    """What has come to an end stays counted where it was; messages that are still held are counted where their event is."""
    books: list[dict[str, Books]] = [{} for _ in range(count)]
    for number, bucket in enumerate(buckets):
        for broker, found in bucket.state.books.items():
            books[home(number, count)].setdefault(broker, Books()).add(found)
    for index in np.flatnonzero((slots.held > 0) & (slots.bucket % count != target)).tolist():
        number = int(slots.bucket[index])
        shelf = buckets[number].shelf
        broker, _ = shelf.places[int(shelf.columns.place[slots.row[index]])]
        held = int(slots.held[index])
        _count_held(books[home(number, count)].setdefault(broker, Books()), -held)
        _count_held(books[int(target[index])].setdefault(broker, Books()), held)
    return books


def _count_held(books: Books, held: int) -> None:
    books.received += held
    books.enter(Outcome.HELD, MessageReason.HOLDING, held)


def _ending(buckets: Sequence[Bucket], count: int, target_of: Callable[[Address], int]) -> list[dict[Address, int]]:
    """Events that have ended and wait are where their slots are."""
    found: list[dict[Address, int]] = [{} for _ in range(count)]
    for bucket in buckets:
        for at, ended_ms in bucket.state.ending.items():
            found[target_of(at)][at] = ended_ms
    return found


def _filters(buckets: Sequence[Bucket], count: int) -> list[dict[tuple[str, str], Filter]]:
    found: list[dict[tuple[str, str], Filter]] = [{} for _ in range(count)]
    for number, bucket in enumerate(buckets):
        mine = found[home(number, count)]
        for at, counts in bucket.state.filters.items():
            mine[at] = _both(mine[at], counts) if at in mine else replace(counts)
    return found


def _both(one: Filter, other: Filter) -> Filter:
    """The counts of both; an earlier window than the other's is closed first, as the next message would have closed it."""
    late, early = (one, replace(other)) if one.start_ms >= other.start_ms else (other, replace(one))
    if early.start_ms < late.start_ms:
        early.close(early.mode)
    names = [field.name for field in fields(Filter) if field.name not in ("start_ms", "mode")]
    return replace(late, **{name: getattr(late, name) + getattr(early, name) for name in names})
