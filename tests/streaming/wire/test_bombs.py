"""Small messages that claim to be huge: refused in no time and no memory, whatever they claim."""

from __future__ import annotations

import contextlib
import time
import tracemalloc
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streaming.wire import avro
from streaming.wire.message import MessageLimits, decode_message, encode_message
from streaming.wire.notification import decode_notification
from tidings.errors import BadMessage, Unreadable
from tidings.message import Message
from tidings.notification import Encoding

LIMITS = MessageLimits()
CLAIMS = [2**20, 2**30, 2**31, 2**40, 2**62, -1, -(2**30), -(2**40), -(2**62)]
"""How many are claimed to follow; Avro writes a negative count when the size of the block follows too."""


def number(value: int) -> bytes:
    """A long as Avro writes it."""
    value = (value << 1) ^ (value >> 63)
    out = bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    return bytes([*out, value])


def text(value: bytes, claimed: int | None = None) -> bytes:
    return number(len(value) if claimed is None else claimed) + value


def message(fields: bytes, topic: bytes | None = None) -> bytes:
    return avro.schema("message").header + (topic or text(b"t")) + text(b"k") + fields + bytes(3)


FIELD = text(b"a") + number(2) + number(5)
BOMBS: dict[str, Callable[[int], bytes]] = {
    "fields": lambda claim: message(number(claim) + FIELD + number(0)),
    "items of a list": lambda claim: message(number(1) + text(b"a") + number(5) + number(claim) + text(b"x") + bytes(2)),
    "bytes of a topic": lambda claim: message(bytes(1), topic=text(b"t", claim)),
    "bytes of a field's name": lambda claim: message(number(1) + text(b"a", claim) + bytes(2)),
    "bytes of a value": lambda claim: message(number(1) + text(b"a") + number(4) + text(b"x", claim) + bytes(1)),
}


def refused(value: bytes, limits: MessageLimits = LIMITS) -> Unreadable:
    """Why it is refused; it must not take a second or ten megabytes to find out."""
    tracemalloc.start()
    started_s = time.monotonic()
    try:
        with pytest.raises(BadMessage) as caught:
            decode_message(value, limits)
        assert tracemalloc.get_traced_memory()[1] < 10_000_000
    finally:
        tracemalloc.stop()
    assert time.monotonic() - started_s < 1
    return caught.value.reason


@pytest.mark.parametrize("claim", CLAIMS)
@pytest.mark.parametrize("bomb", BOMBS.values(), ids=BOMBS)
def test_avro_that_claims_more_than_it_holds(bomb: Callable[[int], bytes], claim: int):
    assert refused(bomb(claim)) is Unreadable.BAD_AVRO


def test_the_bombs_are_bombs():
    """With a true claim, each of them is a message: they are refused for what they claim, and not for how they are made."""
    for name in ("fields", "items of a list", "bytes of a topic", "bytes of a field's name", "bytes of a value"):
        assert decode_message(BOMBS[name](1), LIMITS).key == "k", name


@pytest.mark.parametrize("claim", CLAIMS)
def test_the_size_of_a_block_is_a_hint_that_nobody_follows(claim: int):
    """It is for readers that pass over blocks; this one reads them, as the JVM does."""
    assert decode_message(message(number(-1) + number(claim) + FIELD + number(0)), LIMITS).fields == {"a": 5}


@pytest.mark.parametrize("member", [6, 7, 2**31, 2**40])
def test_a_value_of_a_kind_that_the_schema_does_not_have(member: int):
    assert refused(message(number(1) + text(b"a") + number(member) + bytes(2))) is Unreadable.BAD_AVRO


@pytest.mark.parametrize("claim", CLAIMS)
def test_notifications_that_claim_more_than_they_hold(claim: int):
    start = avro.schema("notification").header + b"".join(text(b"x") for _ in range(6)) + number(1) + text(b"first")
    for news in (number(claim) + FIELD, number(1) + FIELD + bytes(1) + number(1) * 4 + number(1) + text(b"a") + number(claim)):
        with pytest.raises(ValueError, match=r"truncated or damaged|left over"):
            decode_notification(start + news)


@given(st.binary(max_size=200), st.integers(-(2**63), 2**63 - 1), st.data())
def test_no_bytes_do_anything_but_be_read_or_refused(noise: bytes, claim: int, data: st.DataObject):
    """Noise in the middle of a message, and numbers that claim something."""
    whole = encode_message(Message("t", "k", {"a": ("x", "y"), "b": 1}, source="s"), Encoding.AVRO)
    cut = data.draw(st.integers(avro.HEADER_BYTES, len(whole)))
    for value in (whole[:cut] + noise, whole[:cut] + number(claim) + noise + whole[cut:]):
        with contextlib.suppress(BadMessage):
            decode_message(value, LIMITS)


# ---- JSON -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("opened", [b'{"a":', b'{"fields":[', b"[", b'{"fields":{"a":['])
@pytest.mark.parametrize("depth", [1_000, 100_000])
def test_json_nested_without_end(opened: bytes, depth: int):
    assert refused(b'{"topic":"t","key":"k","fields":' + opened * depth) in {Unreadable.NESTED_VALUE, Unreadable.TOO_LARGE}


@pytest.mark.parametrize("digits", [21, 5_000, 1_000_000])
def test_numbers_with_very_many_digits(digits: int):
    value = b'{"topic":"t","key":"k","fields":{"a":' + b"9" * digits + b"}}"
    assert refused(value) is Unreadable.NUMBER_TOO_LARGE


def test_a_fraction_with_very_many_digits_is_just_a_number():
    value = b'{"topic":"t","key":"k","fields":{"a":0.' + b"3" * 100_000 + b"}}"
    assert decode_message(value, LIMITS).fields == {"a": 1 / 3}


@pytest.mark.parametrize("start", [b"{", avro.schema("message").header, b"rubbish", b""])
def test_sizes_are_looked_at_before_anything_is_decoded(start: bytes):
    assert refused(start.ljust(LIMITS.message_bytes + 1, b'"')) is Unreadable.TOO_LARGE
