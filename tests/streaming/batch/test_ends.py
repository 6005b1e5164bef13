"""Events that nobody is owed anything of end in columns: as `step` ends them, and nothing else does."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from streaming.batch.columns import Ends, end_of
from streaming.broker.state import Ahead, Slot
from streaming.broker.state_codec import pack_slot, packed_tombstone
from streaming.model.address import Address
from streaming.model.entry import Entry, Origin
from streaming.model.event import OpenEvent, Span, Tombstone, open_event
from streaming.model.ledger import Cap, Ledger
from streaming.world.buckets import log_of
from streaming.world.one_broker import Script
from streaming.world.records import broker, link, subscription, topic
from testing.engines import Restarts, check, cut
from tidings.message import Message
from tidings.registers import Claim, Join, Register

AT = Address("b1", "incident", "k")
ORIGIN = Origin("publish.b1", 0, 7, 1_000)

timings = st.sampled_from(
    [
        {"window_ms": 10_000},
        {"window_ms": 10_000, "remember_ms": 3_000},
        {"window_ms": 10_000, "hold_ms": 2_000, "remember_ms": 3_000},
        {"window_ms": 10_000, "hold_ms": 9_000},
    ]
)
asked = st.sets(
    st.sampled_from(
        [
            (("where", "a = 1"),),
            (("where", "not b = 1"), ("missing", "patient")),
            (("fields", ("c",)),),
            (("every_ms", 2_500),),
            (("every_ms", 30_000),),
            (("settle_ms", 1_500),),
            (("at_most", 1),),
            (("heartbeat_ms", 60_000),),
        ]
    ),
    max_size=2,
)
others = st.sampled_from(["nobody", "nobody", "a neighbour", "a window"])
reports = st.tuples(
    st.sampled_from(["k1", "k2"]),
    st.dictionaries(st.sampled_from("abc"), st.sampled_from([1, 1, 2]), max_size=2),
    st.sampled_from([None, 0, -1, -4_000]),
    st.sampled_from([None, "s1"]),
    st.sampled_from([0, 1, 3_000, 6_000]),
    st.sampled_from([None, 0, 9_000, 12_000, 25_000]),
)


def ending(timing: dict[str, Any], asked: Iterable[tuple], others: str, reports: list[tuple]) -> Script:
    """Time passes between reports, and much of it in the end."""
    script = Script()
    script.control(topic(**timing), *(subscription(f"s{n}", **dict(each)) for n, each in enumerate(sorted(asked, key=str))))
    if others == "a neighbour":
        script.control(broker("b1"), broker("b2"), link("b1", "b2"))
    elif others == "a window":
        script.control(subscription("counts", window={"size_ms": 5_000, "shift_ms": 5_000, "of": {"n": "count()"}}))
    for key, stated, drift, source, pause_ms, tick_ms in reports:
        script.publish(stated, key, published_ms=None if drift is None else script.now_ms + drift, source=source)
        script.wait(pause_ms)
        if tick_ms is not None:
            script.tick(tick_ms)
    for later_ms in (10_000, 5_000, 10_000):
        script.tick(later_ms)
    return script


endings = st.builds(ending, timings, asked, others, st.lists(reports, min_size=1, max_size=8))


@settings(max_examples=5 * settings.default.max_examples)
@given(endings, st.lists(st.integers(0, 20), max_size=3))
def test_events_end_as_they_do_by_step(script, cuts):
    check(script, cut(log_of(script), cuts), Restarts())


def event(**says: Any) -> OpenEvent:
    found = open_event(AT, "m", 1_000, 1_000, ORIGIN)
    for name, value in says.items():
        setattr(found, name, value)
    return found


KNOWN = {"a": Register(Join.FIRST, (Claim(1, 1_000, "m", None),))}
ENTRY = Entry(ORIGIN, None, b"")
GRAVE = Tombstone(Span(1_000, 1_000), 21_000, "e")


QUIET = [{}, {"knowledge": KNOWN, "released": True}, {"released": True, "ledgers": {"s": Ledger()}}]


@pytest.mark.parametrize("says", QUIET, ids=str)
def test_an_event_that_owes_nothing_ends_quietly(says):
    assert end_of(Slot([event(**says)])) is Ends.QUIETLY


@pytest.mark.parametrize(
    "says",
    [
        {"knowledge": KNOWN},
        {"held": 1},
        {"release_ms": 2_000},
        {"links": {"b2": Ledger()}},
        {"kept": [ENTRY]},
        {"owed": {"a"}},
        {"ended_ms": 3_000},
        {"ledgers": {"s": Ledger(due_ms=2_000)}},
        {"ledgers": {"t": Ledger(), "s": Ledger(capped=True)}},
    ],
    ids=str,
)
def test_an_event_that_owes_something_is_looked_at(says):
    assert end_of(Slot([event(**says)])) is Ends.LOUDLY


def test_only_a_slot_with_nothing_else_in_it_ends_by_itself():
    ahead = Ahead(ORIGIN, 9_000, "b2", Message("incident", "k"), 1_000, ENTRY, 1, 2)
    assert end_of(Slot([], [GRAVE])) is Ends.FORGOTTEN
    both, two, buried = Slot([event()], [GRAVE]), Slot([event(), event()]), Slot([], [GRAVE, GRAVE])
    more = [both, two, buried, Slot(), *(Slot([event()], **{n: {"m": 1}}) for n in ("seen", "spread"))]
    more += [Slot([event()], caps={"s": Cap("k")}), Slot([event()], ahead=[ahead]), Slot([], [GRAVE], ahead=[ahead])]
    assert {end_of(slot) for slot in more} == {Ends.LOUDLY}


@given(st.text(max_size=300), st.integers(0, 2**62), st.integers(0, 2**40), st.integers(0, 2**63 - 1))
def test_a_packed_tombstone_is_what_the_open_event_leaves(key, first_ms, longer_ms, forget_ms):
    at = Address("b1", "incident", key)
    here = open_event(at, "m", 1, 2)
    span = Span(first_ms, first_ms + longer_ms)
    left = packed_tombstone(pack_slot(at, Slot([here])), span.first_ms, span.last_ms, forget_ms)
    assert left == pack_slot(at, Slot([], [Tombstone(span, forget_ms, here.id)]))
