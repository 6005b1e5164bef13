"""What is read and written: everything accepted round-trips, everything else has a reason."""

from __future__ import annotations

import contextlib
import json
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streaming.wire import avro
from streaming.wire.message import MessageLimits, _message, _parse_json, decode_message, encode_message
from testing.json_texts import json_messages
from tidings.errors import BadMessage, Unreadable
from tidings.message import Message
from tidings.notification import Encoding

LIMITS = MessageLimits()
names = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=8)
texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
values = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**63), 2**63 - 1),
    st.floats(allow_nan=False, allow_infinity=False),
    texts,
    st.lists(texts, max_size=3).map(tuple),
)
messages = st.builds(
    Message,
    topic=names,
    key=names,
    fields=st.dictionaries(names, values, max_size=4),
    source=st.none() | names,
    id=st.none() | names,
    published_ms=st.none() | st.integers(0, 2**63 - 1),
)


@given(messages, st.sampled_from(Encoding))
def test_messages_round_trip(message, encoding):
    assert decode_message(encode_message(message, encoding), LIMITS) == message


@given(messages)
def test_both_encodings_say_the_same(message):
    json_id = decode_message(encode_message(message, Encoding.JSON), LIMITS).message_id
    assert json_id == decode_message(encode_message(message, Encoding.AVRO), LIMITS).message_id


def raw(**changes: object) -> bytes:
    datum = {"topic": "t", "key": "k", "fields": {"a": 1}, **changes}
    return json.dumps({name: value for name, value in datum.items() if value is not ...}).encode()


GOOD = Message("t", "k", {"a": 1})
AVRO = encode_message(GOOD, Encoding.AVRO)


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        (None, Unreadable.NULL_VALUE),
        (b"", Unreadable.UNKNOWN_FORMAT),
        (b"hello", Unreadable.UNKNOWN_FORMAT),
        (b" {}", Unreadable.UNKNOWN_FORMAT),
        (b"[1]", Unreadable.UNKNOWN_FORMAT),
        (b"{", Unreadable.BAD_JSON),
        (b'{"topic": "t", "key": "k", "fields": {}} x', Unreadable.BAD_JSON),
        (b'{"topic": "t", "topic": "u", "key": "k", "fields": {}}', Unreadable.BAD_JSON),
        (b'{"topic": "t", "key": "k", "fields": {"a": 1, "a": 2}}', Unreadable.BAD_JSON),
        (b"{" + b'"a":{' * 100_000, Unreadable.NESTED_VALUE),
        (b'{"topic": "\xff", "key": "k", "fields": {}}', Unreadable.BAD_TEXT),
        (b'{"topic": "t", "key": "\\ud800", "fields": {}}', Unreadable.BAD_TEXT),
        (b'{"topic": "t", "key": "k", "fields": {"a": "\\ud800"}}', Unreadable.BAD_TEXT),
        (b'{"topic": "t", "key": "k", "fields": {"\\ud800": 1}}', Unreadable.BAD_TEXT),
        (b'{"topic": "t", "key": "k", "fields": {"a": ["\\ud800"]}}', Unreadable.BAD_TEXT),
        (b'{"topic": "t", "key": "k", "fields": {"a": NaN}}', Unreadable.NOT_FINITE),
        (b'{"topic": "t", "key": "k", "fields": {"a": -Infinity}}', Unreadable.NOT_FINITE),
        (b'{"topic": "t", "key": "k", "fields": {"a": 1e999}}', Unreadable.NOT_FINITE),
        (raw(fields={"a": 2**63}), Unreadable.NUMBER_TOO_LARGE),
        (b'{"topic": "t", "key": "k", "fields": {"a": ' + b"9" * 5000 + b"}}", Unreadable.NUMBER_TOO_LARGE),
        (raw(fields={"a": {"b": 1}}), Unreadable.NESTED_VALUE),
        (raw(fields={"a": ["x", ["y"]]}), Unreadable.NESTED_VALUE),
        (raw(fields={"a": [1]}), Unreadable.NESTED_VALUE),
        (raw(fields={str(n): n for n in range(257)}), Unreadable.TOO_MANY_FIELDS),
        (raw(fields={str(n): n for n in range(10_000)}), Unreadable.TOO_MANY_FIELDS),
        (raw(fields=...), Unreadable.BAD_SHAPE),
        (raw(fields=[1]), Unreadable.BAD_SHAPE),
        (raw(fields={"": 1}), Unreadable.BAD_SHAPE),
        (raw(topic=...), Unreadable.BAD_SHAPE),
        (raw(key=7), Unreadable.BAD_SHAPE),
        (raw(source=7), Unreadable.BAD_SHAPE),
        (raw(id=""), Unreadable.BAD_SHAPE),
        (raw(topic=""), Unreadable.BAD_KEY),
        (raw(key=""), Unreadable.BAD_KEY),
        (raw(key="k" * 10_000), Unreadable.BAD_KEY),
        (raw(published_ms=-1), Unreadable.BAD_PUBLISHED_MS),
        (raw(published_ms="now"), Unreadable.BAD_PUBLISHED_MS),
        (raw(published_ms=True), Unreadable.BAD_PUBLISHED_MS),
        (raw(published_ms=1.5), Unreadable.BAD_PUBLISHED_MS),
        (raw(fields={"a": "x" * 2_000_000}), Unreadable.TOO_LARGE),
        (AVRO[:2] + bytes(8) + AVRO[10:], Unreadable.UNKNOWN_SCHEMA),
        (AVRO[:5], Unreadable.UNKNOWN_SCHEMA),
        (AVRO[:-1], Unreadable.BAD_AVRO),
        (AVRO[:11], Unreadable.BAD_AVRO),
        (AVRO + b"\x00", Unreadable.BAD_AVRO),
        (avro.schema("message").encode({"topic": "t", "key": "k", "fields": {"a": math.nan}}), Unreadable.NOT_FINITE),
    ],
    ids=lambda value: repr(value)[:40],
)
def test_what_cannot_be_read_has_a_reason(value, reason):
    with pytest.raises(BadMessage) as error:
        decode_message(value, LIMITS)
    assert error.value.reason is reason
    assert "\n" not in str(error.value)


@given(st.binary(max_size=60))
def test_no_bytes_raise_anything_else(noise):
    for value in (noise, b"{" + noise, AVRO[:10] + noise):
        with contextlib.suppress(BadMessage):
            decode_message(value, LIMITS)


def test_names_that_are_not_ours_are_passed_over():
    assert decode_message(raw(trace="x"), LIMITS) == GOOD


def test_the_default_id_is_a_digest_of_what_was_said():
    same = Message("t", "k", {"a": 1.0})
    assert GOOD.message_id == Message("t", "k", {"a": 1}).message_id
    assert GOOD.message_id != Message("t", "k", {"a": 2}).message_id
    assert same.message_id != Message("t", "k", {"a": 2.0}).message_id


def test_the_fingerprint_is_the_one_of_the_avro_specification():
    from fastavro.schema import fingerprint

    # The specification's table: the 64-bit fingerprint of the schema "null", little-endian on the wire.
    assert bytes.fromhex(fingerprint('"null"', "CRC-64-AVRO")) == (0x63DD24E7CC258F8A).to_bytes(8, "little")
    assert avro.schema("message").header[:2] == b"\xc3\x01"


# ---- two readers of JSON, one answer ----------------------------------------------------------------------------------

_VALUES = ["1", "1.0", "-0.0", "1e3", "1e999", "true", "null", '"x"', '"é"', '"a:b"', '["x"]', "[]", "[1]", "{}", "NaN"]
_VALUES += ["9223372036854775807", "9223372036854775808"]
_space = st.sampled_from(["", "", "", " ", "\n"])


@st.composite
def objects(draw: st.DrawFn, names: list[str], values: st.SearchStrategy[str]) -> str:
    """JSON as somebody may write it: spaces anywhere, names twice."""
    pairs = draw(st.lists(st.tuples(st.sampled_from(names), _space, _space, values), max_size=5))
    return "{" + ",".join(f'{space}"{name}"{space}:{more}{value}' for name, space, more, value in pairs) + "}"


usual = st.sampled_from(['"t"', '"k"', "7", '""', "null"])
fields = objects(["a", "b", "é"], st.sampled_from(_VALUES))
others = objects(["source", "id", "published_ms", "fields", "key", "new"], usual)


@given(fields, others, st.sampled_from(['"key":"k"', '"key" :"k"', '"key":"k","key":"l"', '"key" :"k","key":"l"']))
def test_the_quick_reader_says_what_the_strict_one_says(fields: str, others: str, key: str):
    text = '{"topic":"t",' + key + f',"fields":{fields}' + ("," + others[1:] if others != "{}" else "}")
    value = text.encode()

    check_quick(value)


@given(json_messages())
def test_so_it_does_of_what_is_odd_or_damaged(value: bytes):
    check_quick(value)


@pytest.mark.parametrize(
    "field", ['"a":"12:30"', '"a:b":1', '"a":": :"', '"a":1,"a":2', '"a":1,"a" :2', '"a":1, "b" :": "', '"a":":","a":2']
)
def test_colons_in_texts_and_names_that_stand_twice(field: str):
    check_quick(b'{"topic":"t","key":"k","fields":{%b}}' % field.encode())


@pytest.mark.parametrize(
    "text", [r"\ud83d\ude00", r"\ud83d", r"\ude00", r"\ud83d\u0041", r"\u00e9\n\/", r"\":1,\"a\":", r"a\":", r"\x", "\\"]
)
@pytest.mark.parametrize("field", ['"%s":1', '"a":"%s"', '"a":["%s"]', '"\\u0061":"%s","a":1', '"a":"%s","b" :1'])
def test_escapes(text: str, field: str):
    check_quick(b'{"topic":"t","key":"k","fields":{%b}}' % (field % text).encode())


def check_quick(value: bytes) -> None:
    """Both readers say the same, or refuse it for the same reason."""

    def read(decode):
        try:
            return repr(decode())
        except BadMessage as error:
            return error.reason, error.detail

    assert read(lambda: decode_message(value, LIMITS)) == read(lambda: _message(_parse_json(value), LIMITS))
