"""Slots as bytes: in few words where that is all there is to say, and the same slot again in any case."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

from streaming.batch.brief import brief_of, is_brief, read_brief, write_brief
from streaming.batch.columns import end_of
from streaming.batch.squeeze import squeeze
from streaming.batch.stowing import stow, stowed_tombstone, unstow
from streaming.broker.state import Slot
from streaming.broker.state_codec import pack_slot
from streaming.model.address import Address
from streaming.model.entry import Entry, Origin
from streaming.model.event import Elsewhere, OpenEvent, Span, Tombstone
from streaming.model.ledger import Cap, Ledger
from tidings.registers import Claim, Join, Register
from tidings.topic import Timing, Topic
from tidings.values import fact_digest

AT = Address("b1", "incident", "5th and Main")
FIRST = Origin("publish.b1", 1, 77, 1_000)
values = (
    st.none() | st.booleans() | st.integers(-(2**63), 2**63 - 1) | st.floats(allow_nan=False) | st.text() | st.tuples(st.text())
)
claims = st.builds(Claim, values, st.integers(0, 3), st.sampled_from(["m1", "m2"]), st.sampled_from([None, "ann"]))
registers = st.one_of(
    st.builds(Register, st.just(Join.FIRST), st.lists(claims, min_size=1, max_size=3).map(tuple)),
    st.builds(Register, st.sampled_from([Join.MIN, Join.MAX]), claims.map(lambda claim: (claim,))),
)
times = st.none() | st.integers(1_000, 90_000)


@st.composite
def events(draw: st.DrawFn) -> OpenEvent:
    knowledge = draw(st.dictionaries(st.sampled_from("abcde"), registers, max_size=4))
    ledgers = {}
    for name in draw(st.sets(st.sampled_from(["ops", "late"]))):
        told = draw(st.sets(st.sampled_from(sorted(knowledge)))) if knowledge else set()
        digests = {field: fact_digest(knowledge[field].value) for field in told}
        ledgers[name] = Ledger(digests, draw(st.integers(0, 3)), 1_500, draw(st.booleans()), draw(times))
    return OpenEvent(
        *("e", AT, "e", 1_000, Span(900, 1_200), 1_300, knowledge, draw(st.integers(1, 9)), set(), draw(st.integers(0, 3))),
        *(draw(st.integers(0, 2)), draw(st.sets(st.sampled_from("abc"))), draw(times), draw(st.booleans()), ledgers),
        first=FIRST,
    )


@given(events())
def test_an_event_of_the_usual_kind_comes_back_as_it_was(event):
    slot = Slot([event])
    kept = stow(AT, slot)
    assert is_brief(kept)
    assert unstow(kept) == (AT, slot)
    assert unstow(write_brief(read_brief(kept))) == (AT, slot)


@given(events(), st.sampled_from([10_000, 60_000]), st.sampled_from([5_000, 60_000]))
def test_in_few_words_it_says_when_it_is_due(event, window_ms, remember_ms):
    timing = Timing(window_ms=window_ms, remember_ms=remember_ms)
    slot, brief = Slot([event]), brief_of(AT, Slot([event]))
    assert brief is not None
    assert brief.timers(timing) == (slot.next_ms(Topic("incident", timing=timing)), end_of(slot))


USUAL = OpenEvent(
    "e", AT, "e", 1_000, Span(900, 1_200), knowledge={"a": Register(Join.FIRST, (Claim(1, 900, "m"),))}, first=FIRST
)
UNUSUAL = {
    "two events": Slot([USUAL, USUAL]),
    "a tombstone": Slot([USUAL], [Tombstone(Span(1, 2), 9)]),
    "nothing open": Slot([], [Tombstone(Span(1, 2), 9)]),
    "a cap": Slot([USUAL], caps={"ops": Cap("k")}),
    "repeats": Slot([USUAL], seen={"m": 3}),
    "an event that has ended": Slot([structs.replace(USUAL, ended_ms=5)]),
    "an event that had ended": Slot([structs.replace(USUAL, wait_ms=5)]),
    "an event from elsewhere": Slot([structs.replace(USUAL, elsewhere=Elsewhere(1))]),
    "an event that somebody else opened": Slot([structs.replace(USUAL, opening="f")]),
    "an event of an earlier release": Slot([structs.replace(USUAL, first=None)]),
    "an event that crossed a link": Slot([structs.replace(USUAL, links={"b2": Ledger()})]),
    "an event that is kept": Slot([structs.replace(USUAL, kept=[Entry(FIRST, None, b"")])]),
    "a field that keeps the last value": Slot(
        [structs.replace(USUAL, knowledge={"a": Register(Join.LAST, (Claim(1, 9, "m"),))})]
    ),
    "a value that was told and is not so any more": Slot([structs.replace(USUAL, ledgers={"ops": Ledger({"a": 1})})]),
    "somebody who wants it settled": Slot([structs.replace(USUAL, ledgers={"ops": Ledger(true_ms=5)})]),
    "somebody who waits for a place": Slot([structs.replace(USUAL, ledgers={"ops": Ledger(capped=True)})]),
}


@pytest.mark.parametrize("slot", UNUSUAL.values(), ids=UNUSUAL)
def test_what_is_unusual_is_packed_whole(slot):
    kept = stow(AT, slot)
    assert not is_brief(kept)
    assert unstow(kept) == (AT, slot)


@pytest.mark.parametrize(
    "form", [pack_slot, lambda at, slot: squeeze(pack_slot(at, slot)), stow], ids=["packed", "squeezed", "brief"]
)
def test_every_form_that_there_was_leaves_the_same_tombstone(form):
    left = stowed_tombstone(form(AT, Slot([USUAL])), 900, 1_200, 5_000)
    assert unstow(left) == (AT, Slot([], [Tombstone(Span(900, 1_200), 5_000, "e")]))
