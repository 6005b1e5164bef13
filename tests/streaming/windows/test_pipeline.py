"""What was offered by control data that does not hold yet counts in the windows that close before it does."""

from __future__ import annotations

import pytest

from streaming.model.items import Aggregated, Item, Publication, Through
from streaming.model.outputs import Offer, Tell
from streaming.model.windows import Clocked, Offered, WindowInput
from streaming.windows import state_codec
from streaming.windows.link import partial_of
from streaming.windows.pipeline import step
from streaming.windows.rules import WindowRules
from streaming.windows.state import WindowState
from streaming.world.records import broker, link, plan, subscription, topic
from topology.plan import LOCAL

WINDOW = {"size_ms": 2000, "grace_ms": 0, "of": {"n": "count()"}}
RECORDS = [
    *(broker("b1"), broker("b2"), link("b1", "b2"), topic("reading", gather=False)),
    subscription("here", topic="reading", broker="b1", window=WINDOW),
]
OLD, NEW = 100, 200
PLANS = {
    OLD: plan(*RECORDS),
    NEW: plan(*RECORDS, subscription("new", topic="reading", broker="b1", window=WINDOW, where="a = 1")),
}
(HERE,) = PLANS[OLD].windows("b1", "reading")[LOCAL]
CHANGE_MS = 16_000
"""When the tick came that named the new control data."""


def reading(entered_ms: int) -> Publication:
    return Publication("k", f"m{entered_ms}", entered_ms, entered_ms, ("publish.b1", 0, entered_ms), {"a": 1})


def through(through_ms: int, at_ms: int, number: int) -> Offered:
    item = Through(through_ms, ((HERE.interest, 10_000),))
    return Offered("s/1", Offer("b1", LOCAL, "reading", item, number, via="b2", at_ms=at_ms, version=OLD))


def offered(item: Item, number: int, via: str | None = None) -> Offered:
    """By a bucket that goes by the new control data."""
    return Offered("s/0", Offer("b1", LOCAL, "reading", item, number, via=via, version=NEW))


def clocked(clock_ms: int, *ticks: tuple[int, int]) -> Clocked:
    return Clocked(0, 1, clock_ms, ((OLD, 10_000), *ticks))


def told(*inputs: WindowInput) -> tuple[list[tuple[str, int, int]], WindowState]:
    """By subscription and start, how many publications each window was told with, the state being bytes in between."""
    state, found = WindowState(), []
    for happened in (clocked(10_000), *inputs):
        state, outputs = step(state_codec.decode(state_codec.encode(state)), [happened], PLANS.__getitem__, WindowRules("s"))
        found += [output.notification for output in outputs if isinstance(output, Tell)]
    return [(each.subscription, each.window.start, each.reports) for each in found if each.window], state


LATER = [
    pytest.param(clocked(18_000, (NEW, CHANGE_MS)), id="the clock has passed the change"),
    pytest.param(clocked(CHANGE_MS, (NEW, CHANGE_MS)), id="the clock is at the change"),
    pytest.param(clocked(15_000, (NEW, CHANGE_MS)), id="the change is known, the clock is not there"),
    pytest.param(clocked(15_000), id="a partition had the change, its tick was not read"),
]


@pytest.mark.parametrize("later", LATER)
@pytest.mark.parametrize(
    "item",
    [
        pytest.param(reading(13_000), id="publication"),
        pytest.param(Aggregated(HERE.interest, 12_000, partial_of([reading(13_000)], HERE.window.of)), id="aggregate"),
    ],
)
def test_what_a_partition_that_lags_has_for_a_window_counts_before_the_window_closes(item, later):
    """It is read by a bucket that goes by the new control data, since another partition had that."""
    results, state = told(through(14_000, 14_500, 1), offered(item, 1, via="b2"), later)
    assert results == [("here", 12_000, 1)]
    books = state.books_of("b1")
    assert dict(books.window_items) == {(LOCAL, "counted"): 1}
    assert not books.left_out
    assert not state.early


def test_what_enters_after_the_change_waits_for_it_and_counts_for_who_came_with_it():
    before, after = offered(reading(15_500), 1), offered(reading(18_500), 2)
    results, state = told(before, after, through(18_000, 18_500, 1), clocked(19_000, (NEW, CHANGE_MS)))
    assert results == [("here", 14_000, 1)]
    assert dict(state.books_of("b1").window_items) == {(LOCAL, "counted"): 2}
    new_since = Through(20_000, tuple((each.interest, CHANGE_MS) for each in PLANS[NEW].windows("b1", "reading")[LOCAL]))
    last = Offered("s/1", Offer("b1", LOCAL, "reading", new_since, 2, via="b2", at_ms=20_500, version=NEW))
    state, outputs = step(state, [last, clocked(21_000, (NEW, CHANGE_MS))], PLANS.__getitem__, WindowRules("s"))
    ends = [output.notification for output in outputs if isinstance(output, Tell)]
    assert sorted((each.subscription, each.window.start, each.reports) for each in ends) == [
        ("here", 18_000, 1),
        ("new", 18_000, 1),
    ]
