"""Reading Avro a batch at once: what is plain is what the codec takes, with the same source, time and facts."""

from __future__ import annotations

import math
import struct
from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from streaming.batch.avro_reader import AvroColumns, read_avro
from streaming.batch.rows import numbers_of
from streaming.wire import avro
from streaming.wire.message import MessageLimits, decode_message, encode_message
from tidings.errors import BadMessage
from tidings.message import Message
from tidings.notification import Encoding

LIMITS = MessageLimits()
HEADER = avro.schema("message").header
names = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=9)
texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=70)
values = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**63), 2**63 - 1),
    st.floats(allow_nan=False, allow_infinity=False),
    texts,
    st.lists(texts, max_size=20).map(tuple),
)
messages = st.builds(
    Message,
    topic=names,
    key=names,
    fields=st.dictionaries(names, values, max_size=6),
    source=st.none() | names,
    id=st.none() | names,
    published_ms=st.none() | st.integers(0, 2**63 - 1),
)


def long(number: int) -> bytes:
    """As Avro has it."""
    bits = (number << 1 ^ number >> 63) & (2**64 - 1)
    found = bytearray()
    while bits > 0x7F:
        found.append(bits & 0x7F | 0x80)
        bits >>= 7
    return bytes((*found, bits))


def text(value: str | bytes) -> bytes:
    data = value.encode() if isinstance(value, str) else value
    return long(len(data)) + data


def message(fields: bytes = long(0), *, topic: bytes = text("t"), key: bytes = text("k"), rest: bytes = long(0) * 3) -> bytes:
    return HEADER + topic + key + fields + rest


def block(*fields: bytes) -> bytes:
    return long(len(fields)) + b"".join(fields) + long(0)


def field(name: str | bytes, kind: int, value: bytes = b"") -> bytes:
    return text(name) + long(kind) + value


def read(*found: bytes, limits: MessageLimits = LIMITS) -> AvroColumns:
    return read_avro(found, np.arange(7, 7 + len(found)), limits, "s")


def facts_of(columns: AvroColumns) -> list[list[int]]:
    ends = np.cumsum(columns.count).tolist()
    return [columns.facts[end - count : end].tolist() for end, count in zip(ends, columns.count.tolist(), strict=True)]


def check(found: Sequence[bytes], limits: MessageLimits = LIMITS) -> AvroColumns:
    """What is plain, the codec takes, and it says the same."""
    columns = read(*found, limits=limits)
    for number, (value, facts) in enumerate(zip(found, facts_of(columns), strict=True)):
        if columns.plain[number]:
            taken = decode_message(value, limits)
            assert (columns.source[number], columns.published_ms[number]) == numbers_of(taken)
            assert len(facts) == len(taken.fields)
        else:
            assert facts == []
    plain = np.flatnonzero(columns.plain)
    taken = [decode_message(found[number], limits) for number in plain.tolist()]
    # As text, too: true is not 1, and fields stay in their order.
    assert (said := columns.texts.messages(plain)) == taken
    assert repr(said) == repr(taken)
    return columns


# ---- laws -------------------------------------------------------------------------------------------------------------


@given(st.lists(messages, max_size=12))
def test_all_that_a_publisher_writes_is_plain(batch: list[Message]) -> None:
    """Unless its fields or items are so many that nobody else keeps step."""
    columns = check([encode_message(each, Encoding.AVRO) for each in batch])
    few = [max((len(v) for v in each.fields.values() if isinstance(v, tuple)), default=0) <= 16 for each in batch]
    assert all(plain for plain, usual in zip(columns.plain.tolist(), few, strict=True) if usual)


@given(st.lists(messages, min_size=1, max_size=5), st.data())
def test_damage_is_never_plain_unless_the_codec_takes_it(batch: list[Message], data: st.DataObject) -> None:
    found = [bytearray(encode_message(each, Encoding.AVRO)) for each in batch]
    for value in found:
        for _ in range(data.draw(st.integers(0, 3))):
            at = data.draw(st.integers(0, len(value)))
            match data.draw(st.integers(0, 3)):
                case 0:
                    del value[at:]
                case 1:
                    value[at:at] = data.draw(st.binary(max_size=12))
                case 2:
                    value[at : at + 1] = data.draw(st.binary(min_size=1, max_size=1))
                case _:
                    del value[at : at + data.draw(st.integers(1, 4))]
    check([bytes(value) for value in found])


@given(st.lists(st.binary(max_size=60), max_size=8))
@example([b""])
@example([HEADER])
def test_so_is_rubbish(batch: list[bytes]) -> None:
    check(batch)
    check([HEADER + each for each in batch])


@given(messages)
def test_cut_off_at_any_byte_it_is_not_plain(cut: Message) -> None:
    whole = encode_message(cut, Encoding.AVRO)
    assert not check([whole[:at] for at in range(len(whole))]).plain.any()


@given(st.lists(messages, min_size=2, max_size=6))
def test_numbers_do_not_depend_on_who_is_read_beside(batch: list[Message]) -> None:
    found = [encode_message(each, Encoding.AVRO) for each in batch]
    together = facts_of(read(*found))
    alone = [facts_of(read_avro([value], np.array([7 + n]), LIMITS, "s"))[0] for n, value in enumerate(found)]
    assert [facts for facts, plain in zip(together, read(*found).plain, strict=True) if plain] == [
        facts for facts, plain in zip(alone, read(*found).plain, strict=True) if plain
    ]


@given(names, values, values)
def test_facts_have_one_number_exactly_if_they_are_the_same(name: str, one: object, other: object) -> None:
    found = [encode_message(Message("t", "k", {name: value}), Encoding.AVRO) for value in (one, other)]  # type: ignore[dict-item]
    columns = read_avro(found, np.array([5, 5]), LIMITS, "s")
    if columns.plain.all():
        first, second = facts_of(columns)
        assert (first == second) == (repr(one) == repr(other))


# ---- cases ------------------------------------------------------------------------------------------------------------

INFINITE = struct.pack("<d", math.inf)


@pytest.mark.parametrize(
    "value",
    [
        pytest.param(message(block(field("a", 2, long(1)), field("a", 2, long(2)))), id="a name twice"),
        pytest.param(message(block(*(field("abcdefgh" + c, 0) for c in "xyx"))), id="a long name twice"),
        pytest.param(message(long(1) + field("a", 0) + block(field("b", 0))), id="two blocks"),
        pytest.param(message(long(-1) + long(4) + field("a", 0) + long(0)), id="a block with its size"),
        pytest.param(message(long(2**62)), id="a huge number of fields"),
        pytest.param(message(long(-(2**63))), id="the least number of fields"),
        pytest.param(message(block(*(field(f"f{n}", 0) for n in range(257)))), id="too many fields"),
        pytest.param(message(block(field("", 0))), id="an empty name"),
        pytest.param(message(block(field("a" * 1025, 0))), id="a long name"),
        pytest.param(message(block(field("a", 6))), id="no kind of the union"),
        pytest.param(message(block(field("a", -1))), id="less than a kind"),
        pytest.param(message(block(field("a", 1, b"\x02"))), id="a boolean of 2"),
        pytest.param(message(block(field("a", 3, INFINITE))), id="infinite"),
        pytest.param(message(block(field("a", 3, struct.pack("<d", math.nan)))), id="not a number"),
        pytest.param(message(block(field("a", 4, text(b"\xff")))), id="not UTF-8"),
        pytest.param(message(block(field("a", 4, text(b"\xed\xa0\x80")))), id="half a surrogate pair"),
        pytest.param(message(block(field("a", 5, block(text(b"\xff"))))), id="not UTF-8 in a list"),
        pytest.param(message(block(field("a", 4, long(-1)))), id="a negative length"),
        pytest.param(message(block(field("a", 4, long(2**62)))), id="a huge length"),
        pytest.param(message(block(field("a", 2, b"\xff" * 10))), id="a number of more than 64 bits"),
        pytest.param(message(block(field("a", 2, b"\x80" * 12 + b"\x00"))), id="a number that does not end"),
        pytest.param(message(topic=text("")), id="an empty topic"),
        pytest.param(message(key=text("")), id="an empty key"),
        pytest.param(message(key=text("k" * 1025)), id="a long key"),
        pytest.param(message(rest=long(1) + text("") + long(0) * 2), id="an empty source"),
        pytest.param(message(rest=long(0) + long(2) + long(0)), id="no branch of the id"),
        pytest.param(message(rest=long(0) * 2 + long(1) + long(-1)), id="published before 1970"),
        pytest.param(message() + b"\x00", id="a byte left over"),
        pytest.param(b"\xc3\x01" + b"\x00" * 8 + message()[10:], id="another fingerprint"),
    ],
)
def test_what_is_odd_is_left_to_the_codec(value: bytes) -> None:
    good = encode_message(Message("t", "k", {"a": 1}), Encoding.AVRO)
    assert check([good, value, good]).plain.tolist() == [True, False, True]


def test_a_large_message_is_not_plain() -> None:
    assert check([message()], MessageLimits(message_bytes=len(message()) - 1)).plain.tolist() == [False]


def test_some_of_what_is_odd_the_codec_takes() -> None:
    """Else the cases above would prove little."""
    taken = 0
    for value in (
        message(block(field("a", 2, long(1)), field("a", 2, long(2)))),
        message(long(1) + field("a", 0) + block(field("b", 0))),
    ):
        taken += bool(decode_message(value, LIMITS).fields)
    with pytest.raises(BadMessage):
        decode_message(message(topic=text("")), LIMITS)
    assert taken == 2


def test_one_with_very_many_fields_is_left_alone_and_many_such_are_not() -> None:
    wide = encode_message(Message("t", "k", {f"f{n}": n for n in range(60)}), Encoding.AVRO)
    assert not check([wide]).plain.any()
    assert check([wide] * 20).plain.all()


def test_nothing() -> None:
    assert len(read_avro([], np.empty(0, dtype=np.int64), LIMITS, "s").plain) == 0
