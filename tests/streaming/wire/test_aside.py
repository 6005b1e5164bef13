"""What headers say of a record that was put aside, also where somebody else wrote them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streaming.model.entry import Entry, Origin
from streaming.model.outputs import Outcome, PutAside
from streaming.wire.aside import Aside, aside_record, read_aside, topic_of
from streaming.wire.record import MOST_VALUE_BYTES

ORIGINS = st.builds(Origin, st.sampled_from(["publish.b1", "link.b1.b2"]), *[st.integers(0, 2**40)] * 3)
TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)


@given(origin=ORIGINS, reason=TEXTS, detail=TEXTS, merged=st.booleans(), late=st.booleans())
def test_headers_read_as_they_were_written(origin: Origin, reason: str, detail: str, merged: bool, late: bool) -> None:
    outcome = Outcome.LATE if late else Outcome.DEAD_LETTERED
    record = aside_record(PutAside(origin, outcome, reason, detail, merged=merged), Entry(origin, b"k", b"v"))
    assert (record.topic, record.key, record.value) == (topic_of(outcome), b"k", b"v")
    assert read_aside(tuple(record.headers)) == Aside(reason, detail, origin, merged)


@pytest.mark.parametrize(("size", "cut"), [(MOST_VALUE_BYTES - 1, False), (MOST_VALUE_BYTES, True)])
def test_a_value_that_is_as_long_as_can_be_read_is_cut(size: int, cut: bool) -> None:
    origin = Origin("publish.b1", 0, 0, 0)
    record = aside_record(PutAside(origin, Outcome.DEAD_LETTERED, "too-large", ""), Entry(origin, None, bytes(size)))
    assert read_aside(tuple(record.headers)).cut is cut


def test_what_a_stranger_leaves_out_is_empty() -> None:
    assert read_aside(()) == Aside("", "", Origin("", -1, -1, -1))
    assert read_aside((("partition", b"x"), ("offset", "²".encode()), ("time", None))).origin == Origin("", -1, -1, -1)
    assert read_aside((("reason", b"\xff"), ("origin", b"control"))).is_control
