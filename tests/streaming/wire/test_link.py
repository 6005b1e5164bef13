"""What crosses a link comes over whole, and damaged bytes are refused."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streaming.model.entry import Entry, Origin
from streaming.model.event import Elsewhere, OpenEvent, Span, Tombstone
from streaming.model.items import Aggregated, Publication, Through
from streaming.model.links import EventNews, HandOver, LinkKind, PassedOn, Stamp, WindowRecord, kind_of
from streaming.wire import avro
from streaming.wire.link import decode_link, encode_link
from streaming.wire.message import MessageLimits, encode_message
from tidings.errors import BadMessage
from tidings.message import Message
from tidings.partial import Partial
from tidings.registers import Claim, Join, Register

STAMP = Stamp("service/3", 17)
values = st.none() | st.booleans() | st.integers(-(2**63), 2**63 - 1) | st.text(max_size=5) | st.just(("x", "y")) | st.just(1.5)
times = st.integers(0, 2**45)
spans = st.builds(Span, times, times)
claims = st.builds(Claim, values, times, st.text(max_size=4), st.none() | st.text(max_size=4))
registers = st.builds(Register, st.sampled_from(Join), st.lists(claims, min_size=1, max_size=2).map(tuple))
knowledge = st.dictionaries(st.text(max_size=4), registers, max_size=3)
names = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=8)
origins = st.builds(Origin, st.just("publish.b1"), st.integers(0, 9), times, times)


@st.composite
def passed(draw: st.DrawFn) -> PassedOn:
    message = Message(draw(names), draw(names), {"a": draw(st.integers(0, 9))}, "s", "m1", 5)
    entry = Entry(draw(origins), draw(st.none() | st.binary(max_size=4)), encode_message(message))
    return PassedOn(message, draw(times), entry, draw(st.integers(1, 9)), draw(times))


news = st.builds(EventNews, names, names, st.text(max_size=5), spans, knowledge, times, times, st.booleans(), st.booleans())


@st.composite
def handed(draw: st.DrawFn) -> HandOver:
    topic, key = draw(names), draw(names)
    event = OpenEvent(
        "e1",
        ("", topic, key),
        "o1",
        7,
        draw(spans),
        8,
        draw(knowledge),
        3,
        {17},
        1,
        2,
        {"a"},
        9,
        True,
        elsewhere=Elsewhere(4, 5, True),
    )
    return HandOver(topic, key, (event,), (Tombstone(draw(spans), draw(times), "e0"),), 2, draw(times))


@given(passed() | news | handed())
def test_it_comes_over_whole(record):
    assert decode_link(encode_link(record, STAMP), MessageLimits()) == (record, STAMP)


@given(news, st.data())
def test_damaged_bytes_are_refused_or_read_as_something_whole(record, data):
    value = encode_link(record, STAMP)
    cut = data.draw(st.integers(0, len(value) - 1))
    with pytest.raises(BadMessage):
        decode_link(value[:cut], MessageLimits())


@pytest.mark.parametrize("value", [None, b"", b"{}", b"rubbish", avro.schema("message").header + b"x"])
def test_what_is_no_link_record_is_named(value):
    with pytest.raises(BadMessage):
        decode_link(value, MessageLimits())


def test_a_kind_of_another_release_is_refused():
    schema = avro.schema("link")
    with pytest.raises(BadMessage):
        decode_link(
            schema.encode({"topic": "t", "key": "k", "bucket": "s/1", "number": 1, "kind": "Gossip", "body": b""}),
            MessageLimits(),
        )


def test_the_books_count_records_under_words_that_stay():
    span, item = Span(1, 2), Publication("k", "m1", 1, 1, ("publish.b1", 0, 0), {})
    message = Message("t", "k", {})
    records = {
        "PassedOn": PassedOn(message, 1, Entry(Origin("publish.b1", 0, 0, 1), None, b""), 1),
        "EventNews": EventNews("t", "k", "e", span, {}, 1, 1, False, False),
        "HandOver": HandOver("t", "k", (), (), 1),
        "Publication": WindowRecord("t", "k", item),
        "Aggregated": WindowRecord("t", "k", Aggregated("i", 0, Partial([], []))),
        "Through": WindowRecord("t", "k", Through(1)),
    }
    assert [kind_of(record) for record in records.values()] == list(records) == list(LinkKind)
