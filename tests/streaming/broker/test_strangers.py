"""What strangers can do: clocks that are wrong by years, and ever new keys. The others lose nothing."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from streaming.broker.state import Rules
from streaming.model.outputs import Outcome
from streaming.world.one_broker import Script
from streaming.world.records import subscription, topic
from tidings.notification import Notification

DAY_MS = 86_400_000
WRONG_MS = {
    "a day ahead": DAY_MS,
    "ten years ahead": 3653 * DAY_MS,
    "in 9999": 253_370_764_800_000,
    "a day behind": -DAY_MS,
    "before all time": -(10**15),
}


def town(seed: int, strangers: tuple[int, ...] = ()) -> Script:
    """Some reports about three corners over some seconds; strangers say something about the same corners in between."""
    script = Script(now_ms=1_800_000_000_000)
    script.control(topic(hold_ms=300, window_ms=4000), subscription("all"), subscription("slow", every_ms=1500))
    for number in range(24):
        script.publish({f"f{number * 7 % 5}": number * seed % 4}, key=f"corner {number % 3}", source=f"s{number % 4}")
        for wrong_ms in strangers:
            script.publish({"stranger": number}, key=f"corner {number % 3}", published_ms=script.now_ms + wrong_ms)
        script.tick(400)
    for _ in range(6):
        script.tick(1000)
    return script


def told(script: Script) -> list[tuple[str, str, object, object]]:
    """What was told to whom about which event, as far as it does not count the reports."""
    return [(n.subscription, n.key, n.reason, dict(n.news)) for n in script.told()]


@pytest.mark.parametrize("wrong_ms", WRONG_MS.values(), ids=WRONG_MS)
def test_a_wrong_clock_harms_only_its_own_messages(wrong_ms: int):
    alone, beside = town(3), town(3, (wrong_ms,))
    assert told(beside) == told(alone)
    books = beside.books()
    assert books.balanced
    assert books.total(Outcome.DEAD_LETTERED) + books.total(Outcome.LATE) == 24
    assert len(beside.put_aside()) == 24


@settings(max_examples=30, deadline=None)
@given(
    seed=st.integers(1, 1000),
    wrong_ms=st.lists(st.integers(300_001, 2**53) | st.integers(-(2**53), -4000), min_size=1, max_size=3),
)
def test_no_clock_that_is_wrong_enough_harms_others(seed: int, wrong_ms: list[int]):
    alone, beside = town(seed), town(seed, tuple(wrong_ms))
    assert told(beside) == told(alone)
    assert beside.books().balanced


# ---- ever new keys ----------------------------------------------------------------------------------------------------

KEYS, BOUND = 20_000, 500


def bomb(keys: int, bound: int) -> Script:
    script = Script(Rules(open_events=bound))
    script.control(topic(window_ms=60_000, hold_ms=30_000), subscription("all"), subscription("late", every_ms=50_000))
    for number in range(keys):
        script.publish({"n": number}, key=f"k{number}", source="one source")
    return script


def test_a_key_bomb_stays_within_the_bound_and_every_event_that_gives_way_is_counted_and_told():
    script = bomb(KEYS, BOUND)
    state, outputs = script.run(cuts=tuple(range(1000, KEYS, 1000)))
    (books,) = state.books.values()
    told = [o.notification for o in outputs if hasattr(o, "notification")]
    assert (state.size, books.evicted) == (BOUND, KEYS - BOUND)
    assert books.balanced
    assert books.total(Outcome.HELD) == BOUND
    # Those that gave way did not go in silence: what was held of them was told.
    assert [n.key for n in told if n.subscription == "all"] == [f"k{number}" for number in range(KEYS - BOUND)]


def test_the_bound_holds_at_every_moment():
    script = bomb(300, 20)
    for cut in range(10, 300, 10):
        state, _ = script.run(cuts=(cut,))
        assert state.size <= 20


def test_an_event_that_gave_way_begins_anew_and_is_told_again():
    """What is lost by giving way is the memory of what was told, and the books say how often that was."""
    script = Script(Rules(open_events=3))
    script.control(topic(), subscription("all"))
    script.publish({"what": "fire"}, key="mine")
    for number in range(3):
        script.wait(1)
        script.publish({"n": number}, key=f"k{number}")
    script.publish({"what": "fire"}, key="mine")
    mine: list[Notification] = [n for n in script.told("all") if n.key == "mine"]
    assert [dict(n.news) for n in mine] == [{"what": "fire"}] * 2
    assert len({n.event for n in mine}) == 2
    assert script.books().evicted == 2
