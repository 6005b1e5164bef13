"""The packed memory says when its columns and tables are not those of its slots."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from streaming.batch.columns import Columns
from streaming.batch.hashing import event_hash, salt_of
from streaming.batch.memory import PackedMemory
from streaming.broker.state import Slot
from streaming.model.address import Address
from streaming.model.event import open_event
from streaming.world.records import plan, topic
from tidings.registers import Bounds, Claim, Join, Register

PLAN = plan(topic(window_ms=10_000))
USED, EMPTY = 1, 0


def memory() -> PackedMemory:
    """Two slots, the first of which was emptied; with a fact and two sources known of the other."""
    kept = PackedMemory("secret", Bounds())
    for key in ("gone", "k"):
        at = Address("b1", "incident", key)
        event = open_event(at, f"m-{key}", 1_000, 1_000)
        event.knowledge = {"a": Register(Join.FIRST, (Claim(1, 1_000, "m", None),))}
        event.reports, event.source_count = 2, 2
        kept.setdefault(at, Slot([event]))
    del kept[Address("b1", "incident", "gone")]
    row = np.array([USED])
    salt = np.array([salt_of(kept.take(USED)[1].open[0])])
    kept.add_facts(np.array([5]), row, np.array([1_000]))
    kept.add_sources(np.array([7, 8]), row.repeat(2), salt.repeat(2))
    kept.refresh(PLAN)
    kept.pack()
    return kept


def test_a_memory_is_as_it_should_be_packed_in_hand_and_counted_in():
    kept = memory()
    kept.validate(PLAN)
    kept.columns.more[USED] = 3
    kept.columns.last_ms[USED] += 500
    kept.validate(PLAN)
    _, slot = kept.take(USED)
    assert (slot.open[0].reports, slot.open[0].span.last_ms) == (5, 1_500)
    slot.open[0].span.include(1_700)
    kept.validate(PLAN)  # the columns of a slot that is in hand may lag behind
    kept.refresh(PLAN)
    kept.validate(PLAN)
    kept.pack()
    kept.compact()
    kept.validate(PLAN)
    assert kept.rows().tolist() == [0]


@pytest.mark.parametrize("name", sorted({*Columns.NAMES} - {"more"}))
def test_a_column_that_says_something_else_than_its_slot_is_found(name):
    kept = memory()
    column = getattr(kept.columns, name)
    column[USED] = not column[USED] if name == "plain" else column[USED] + 1
    if name == "place":
        kept.place("b1", "another")
    with pytest.raises(AssertionError):
        kept.validate(PLAN)


@pytest.mark.parametrize("name", ["hash", "salt", "more", "plain", "wake_ms", "next_ms"])
def test_an_empty_row_that_says_something_is_found(name):
    kept = memory()
    getattr(kept.columns, name)[EMPTY] += 1
    with pytest.raises(AssertionError):
        kept.validate(PLAN)


def _unsorted(kept: PackedMemory) -> None:
    kept.sources.keys = kept.sources.keys[::-1]


def _of_nobody(kept: PackedMemory) -> None:
    kept.forget()
    kept.facts.owner[:] = EMPTY


def _a_source_less(kept: PackedMemory) -> None:
    kept.sources.drop([USED])


@pytest.mark.parametrize("damage", [_unsorted, _of_nobody, _a_source_less])
def test_a_table_that_is_not_of_its_slots_is_found(damage: Callable[[PackedMemory], None]):
    kept = memory()
    damage(kept)
    with pytest.raises(AssertionError):
        kept.validate(PLAN)


def test_rows_are_found_by_the_hash_of_their_key():
    kept = memory()
    number = event_hash("secret", Address("b1", "incident", "k"))
    assert kept.row_of(number) == USED
    assert kept.rows_of(np.array([1, number])).tolist() == [-1, USED]
