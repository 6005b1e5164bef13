"""When a window closes, case by case. All are about the window from 10 s to 20 s, with a second of grace, at broker b2.

`docs/windows.md` has the rule; laws hold it on streams of any kind (`test_laws.py`, `test_changes_laws.py`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import pytest

from streaming.model.items import Publication, Through, Windowed
from streaming.model.outputs import Offer, Tell
from streaming.model.windows import Clocked, Offered, WindowDecided, WindowInput, WindowOutput
from streaming.windows.pipeline import step
from streaming.windows.rules import WindowRules
from streaming.windows.state import WindowState
from streaming.world.records import advertisement, broker, link, snapshot, subscription, topic
from topology.plan import LOCAL, Plan

ALL = WindowRules("s")
"""One process serves all brokers."""
ONLY_B2 = WindowRules("s", hosted=frozenset({"b2"}))
"""Another one serves b1."""
NAMED_MS = 5000
"""When a tick named the subscription."""
WINDOW = {"size_ms": 10_000, "grace_ms": 1000, "of": {"n": "count()"}}
ALONE = [broker("b2"), topic("reading", gather=False)]
PAIR = [broker("b1"), broker("b2"), link("b1", "b2"), topic("reading", gather=False)]
OUT = [*PAIR, advertisement("only", "b2", "reading")]
"""Nobody publishes but at b2."""
EVENTS = [broker("b2"), topic("reading", window_ms=4000)]
"""Reports are gathered, and their events counted."""


def asks(at: str = "b2", **more: Any) -> list[dict[str, Any]]:
    return [subscription("w", topic="reading", broker=at, window={**WINDOW, **more})]


def reading(entered_ms: int = 12_000, published_ms: int | None = None, to: str = LOCAL, version: int = 1) -> Offered:
    """A publication that b2 offers."""
    published_ms = entered_ms if published_ms is None else published_ms
    item = Publication("k", f"m{entered_ms}", published_ms, entered_ms, ("publish.b2", 0, entered_ms), {})
    return _offered(item, to, version=version)


def b1_is(through_ms: int, appended_ms: int, knows_since_ms: int | None = None) -> Offered:
    """b1 said how far it is, and from when on it has known of the subscription."""
    since = () if knows_since_ms is None else ((INTEREST, knows_since_ms),)
    return _offered(Through(through_ms, since), LOCAL, via="b1", at_ms=appended_ms)


_numbers = iter(range(1, 1_000_000))


def _offered(item: Windowed, to: str, via: str | None = None, at_ms: int = 0, version: int = 1) -> Offered:
    return Offered("s/0", Offer("b2", to, "reading", item, next(_numbers), via, at_ms=at_ms, version=version))


def clock(ms: int, index: int = 0, of: int = 1, gathered_ms: int | None = None) -> Clocked:
    """A bucket of the pipeline of events has offered all that was appended before then."""
    gathered = () if gathered_ms is None else (("b2", "reading", gathered_ms),)
    return Clocked(index, of, ms, ((1, NAMED_MS),), gathered)


INTEREST = snapshot(*asks()).subscriptions["w"].interest


@dataclass(frozen=True)
class Case:
    closes_when: str
    records: Sequence[dict[str, Any]]
    before: Sequence[WindowInput]
    """After all of these it is open."""
    last: WindowInput
    """This closes it."""
    rules: WindowRules = field(default_factory=lambda: ALL)
    places: int = 1


CASES = [
    Case("its end and its grace are over", [*ALONE, *asks()], [reading(), clock(20_999)], clock(21_000)),
    Case("they are, without a grace", [*ALONE, *asks(grace_ms=0)], [reading(), clock(19_999)], clock(20_000)),
    Case(
        "the slowest bucket that offers has come so far",
        [*ALONE, *asks()],
        [reading(), clock(30_000, 0, of=2), clock(20_999, 1, of=2)],
        clock(21_000, 1, of=2),
    ),
    Case(
        "the neighbour that sends here is so far too",
        [*PAIR, *asks()],
        [reading(), clock(40_000), b1_is(20_999, 40_000, NAMED_MS), clock(40_001), b1_is(21_000, 40_001)],
        clock(40_002),
        ONLY_B2,
    ),
    Case(
        "our clock has passed the time at which the neighbour said so",
        [*PAIR, *asks()],
        [reading(), b1_is(21_000, 23_000, NAMED_MS), clock(22_000), clock(23_000)],
        clock(23_001),
        ONLY_B2,
    ),
    Case(
        "the neighbour that sends here is in the same process, and all of that has come so far",
        [*PAIR, *asks()],
        [reading(), clock(20_999)],
        clock(21_000),
    ),
    Case("nobody publishes beyond a neighbour that is silent", [*OUT, *asks()], [reading(), clock(20_999)], clock(21_000)),
    Case(
        "the events that began in it have ended, too",
        [*EVENTS, *asks()],
        [reading(), clock(24_999, gathered_ms=24_999)],
        clock(25_000, gathered_ms=25_000),
    ),
    Case(
        "all that entered elsewhere has come to the broker that gathers",
        [*EVENTS, *asks()],
        [reading(), clock(40_000, gathered_ms=24_999)],
        clock(40_001, gathered_ms=25_000),
    ),
    Case(
        "it is over, for the link to who asks for it",
        [*OUT, *asks(at="b1")],
        [reading(to="b1"), clock(20_999)],
        clock(21_000),
        ONLY_B2,
    ),
    Case(
        "it is over, for the link and for who asks for it beyond",
        [*OUT, *asks(at="b1")],
        [reading(to="b1"), clock(20_999)],
        clock(21_000),
        places=2,
    ),
    Case("it is over, with nothing in it, for who wants to hear so", [*ALONE, *asks(empty=True)], [clock(20_999)], clock(21_000)),
    Case(
        "it holds as many as it counts, and none that entered before can come",
        [*ALONE, subscription("w", topic="reading", broker="b2", window={"size": 2, "of": {"n": "count()"}})],
        [reading(12_000), reading(11_000), clock(12_000)],
        clock(12_001),
    ),
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.closes_when)
def test_a_window_closes_when(case: Case) -> None:
    _, before = run(case.records, [*case.before], rules=case.rules)
    assert closed(before) == []
    _, after = run(case.records, [*case.before, case.last], rules=case.rules)
    assert closed(after) == [0 if "size" in case.records[-1]["window"] else 10_000] * case.places


NEVER_TOLD = [
    ("nothing came, and nobody asked to hear so", [*ALONE, *asks()], []),
    (
        "it began before the subscription was named",
        [*ALONE, *asks()],
        [reading(5500, published_ms=4000)],
    ),
    ("a broker that sends here did not know of it yet", [*PAIR, *asks()], [reading(), b1_is(60_000, 50_000, 10_001)]),
    ("a broker that sends here has not said that it knows", [*PAIR, *asks()], [reading(), b1_is(60_000, 50_000)]),
]


@pytest.mark.parametrize(("because", "records", "offers"), NEVER_TOLD, ids=[case[0] for case in NEVER_TOLD])
def test_a_window_is_never_told_if(because: str, records: list[dict[str, Any]], offers: list[WindowInput]) -> None:
    _, outputs = run(records, [*offers, clock(51_000), clock(61_000)], rules=ONLY_B2)
    assert closed(outputs) == [], because


def test_what_was_offered_by_newer_control_data_waits_until_that_holds_here() -> None:
    """`early`: the bucket that offers may have seen the tick before the others, whose clocks are lower."""
    records = [*ALONE, *asks()]
    state, _ = run(records, [clock(11_000), reading(12_000, version=2)])
    assert len(state.early) == 1
    ticks = ((1, NAMED_MS), (2, 11_500))
    state, outputs = run(records, [Clocked(0, 1, 13_000, ticks), clock(21_000)], state)
    assert state.early == []
    assert [output.notification.reports for output in outputs if isinstance(output, Tell)] == [1]


def run(
    records: Sequence[dict[str, Any]],
    inputs: Sequence[WindowInput],
    state: WindowState | None = None,
    rules: WindowRules = ALL,
) -> tuple[WindowState, list[WindowOutput]]:
    plan = Plan(snapshot(*records))
    return step(state or WindowState(), inputs, lambda _: plan, rules)


def closed(outputs: Sequence[WindowOutput]) -> list[int]:
    """The starts of the windows that were told, or decided for a link."""
    found = []
    for output in outputs:
        if isinstance(output, Tell) and output.notification.window is not None:
            found.append(output.notification.window.start)
        elif isinstance(output, WindowDecided):
            found.append(output.start_ms)
    return found
