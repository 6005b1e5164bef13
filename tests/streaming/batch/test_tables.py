"""A table of numbers is a dict that is asked a batch at a time."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from streaming.batch.tables import RowTable, SortedTable

ENDS = [-(2**63), 2**63 - 1]
keys = st.integers(-3, 12) | st.sampled_from(ENDS)
rows = st.integers(0, 4)
entries = st.lists(st.tuples(keys, rows, st.integers(0, 2)), max_size=8)
changes = st.one_of(
    st.tuples(st.just("add"), entries),
    st.tuples(st.just("drop"), st.lists(st.integers(0, 6), max_size=3), st.lists(st.integers(0, 2), max_size=2)),
    st.tuples(st.just("renumber"), st.lists(st.booleans(), min_size=5, max_size=5)),
)


def table(*added: tuple[int, int, int]) -> SortedTable:
    made = SortedTable()
    add(made, added)
    return made


def add(to: SortedTable, added: list[tuple[int, int, int]] | tuple[tuple[int, int, int], ...]) -> None:
    to.add(*np.array(added, dtype=np.int64).reshape(-1, 3).T)


def found(asked: SortedTable, *wanted: int) -> list[int | None]:
    """What stands beside each of these keys; None for those that are not there."""
    here, beside = asked.find(np.array(wanted, dtype=np.int64))
    return [number if there else None for there, number in zip(here.tolist(), beside.tolist(), strict=True)]


def content(of: SortedTable) -> dict[int, tuple[int, int]]:
    return dict(zip(of.keys.tolist(), zip(of.owner.tolist(), of.beside.tolist(), strict=True), strict=True))


def applied(model: dict[int, tuple[int, int]], change: tuple) -> dict[int, tuple[int, int]]:
    match change:
        case "add", added:
            return {**{key: (row, beside) for key, row, beside in reversed(added)}, **model}
        case "drop", gone, unless:
            return {key: of for key, of in model.items() if of[0] not in gone or of[1] in unless}
        case "renumber", kept:
            new = {row: number for number, row in enumerate(row for row, stays in enumerate(kept) if stays)}
            return {key: (new[row], beside) for key, (row, beside) in model.items() if row in new}
    raise AssertionError(change)


def apply(to: SortedTable, change: tuple) -> None:
    match change:
        case "add", added:
            add(to, added)
        case "drop", gone, unless:
            to.drop(gone, unless)
        case "renumber", kept:
            to.renumber(np.where(kept, np.cumsum(kept) - 1, -1).astype(np.int32))


@given(st.lists(changes, max_size=12), st.lists(keys, max_size=6))
def test_a_table_is_a_dict_whatever_happens_to_it(story, wanted):
    kept, model = SortedTable(), dict[int, tuple[int, int]]()
    for change in story:
        apply(kept, change)
        model = applied(model, change)
        assert content(kept) == model
        assert len(kept) == len(model)
        assert kept.keys.tolist() == sorted(model)
    assert found(kept, *wanted) == [model[key][1] if key in model else None for key in wanted]
    assert all(kept.has(key, row) == (model.get(key, (None,))[0] == row) for key in wanted for row in range(5))
    for row, beside in {(0, 0), (1, 2), *model.values()}:
        assert kept.of(row, beside).tolist() == sorted(key for key, of in model.items() if of == (row, beside))


def test_an_empty_table_has_nothing():
    assert found(SortedTable(), 0, *ENDS) == [None, None, None]
    assert not SortedTable().has(0, 0)
    assert len(SortedTable()) == 0


def test_nothing_beyond_the_last_key_is_found():
    assert found(table((5, 0, 50)), 4, 5, 6) == [None, 50, None]
    assert not table((5, 0, 50)).has(6, 0)


@pytest.mark.parametrize("again", [(7, 2, 71), (7, 1, 69)])
def test_a_key_that_is_there_stays_as_it_is(again):
    kept = table((7, 1, 70))
    add(kept, [again])
    assert content(kept) == {7: (1, 70)}


def test_of_two_that_are_added_at_once_the_first_counts():
    assert content(table((7, 1, 70), (3, 0, 30), (7, 2, 71))) == {3: (0, 30), 7: (1, 70)}


def test_an_event_that_goes_on_keeps_its_entries_when_another_of_its_row_is_forgotten():
    kept = table((1, 4, 100), (2, 4, 200), (3, 5, 100))
    kept.drop([4], unless=[200])
    assert sorted(content(kept)) == [2, 3]


def test_rows_that_no_table_has_may_be_dropped():
    kept = table((1, 0, 0))
    kept.drop([9])
    assert sorted(content(kept)) == [1]


numbers = st.integers(-3, 12) | st.sampled_from(ENDS)
steps = st.one_of(
    st.tuples(st.just("put"), numbers),
    st.tuples(st.just("add"), st.sets(numbers, max_size=5)),
    st.tuples(st.just("take out"), st.sets(numbers, max_size=5)),
    st.tuples(st.just("settle")),
)


@given(st.lists(steps, max_size=20))
def test_a_table_of_rows_is_a_dict(taken):
    made, kept, row = RowTable(), {}, 0
    for step in taken:
        match step:
            case "put", number if number not in kept:
                made[number] = kept[number] = row
            case "add", several:
                new = {number: kept.get(number, row + n) for n, number in enumerate(several)}
                made.add(np.array(list(new), dtype=np.int64), np.array(list(new.values()), dtype=np.int64))
                kept |= new
            case "take out", several:
                here = [number for number in several if number in kept]
                made.take_out(np.array(here, dtype=np.int64))
                for number in here:
                    del kept[number]
            case ("settle",):
                made.settle()
        row += 10
        asked = [*range(-3, 13), *ENDS]
        assert [made.of(number) for number in asked] == [kept.get(number, -1) for number in asked]
        assert made.all_of(np.array(asked, dtype=np.int64)).tolist() == [kept.get(number, -1) for number in asked]
        assert made.rows().tolist() == sorted(kept.values())
        assert len(made) == len(kept)
