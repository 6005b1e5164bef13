"""A publication as bytes: JSON for people and quick clients, Avro for speed. The same words in both.

A first byte of ``{`` means JSON; Avro's magic bytes mean Avro. Anything else is not ours.
"""

from __future__ import annotations

import json
import math
import re
from dataclasses import dataclass
from functools import lru_cache
from typing import Annotated, Any, NoReturn

import msgspec

from streaming.wire import avro
from tidings.errors import BadMessage, Unreadable
from tidings.message import Message
from tidings.notification import Encoding
from tidings.values import INT64_MAX, INT64_MIN, Value, plain


@dataclass(frozen=True, slots=True)
class MessageLimits:
    """What one message may bring; sizes are checked before anything is decoded."""

    message_bytes: int = 1_048_576
    fields: int = 256
    key_bytes: int = 1_024


def decode_message(value: bytes | None, limits: MessageLimits) -> Message:
    """Read a publication, or raise `BadMessage` with the reason it is dead-lettered under."""
    if value is None:
        raise BadMessage(Unreadable.NULL_VALUE, "a publication needs a value")
    if len(value) > limits.message_bytes:
        raise BadMessage(Unreadable.TOO_LARGE, f"{len(value)} bytes; at most {limits.message_bytes} are allowed")
    if value[:1] == b"{":
        return _quick_json(value, limits) or _message(_parse_json(value), limits)
    if value[:2] == avro.MAGIC:
        return _message(_parse_avro(value), limits)
    raise BadMessage(Unreadable.UNKNOWN_FORMAT, "neither JSON (first byte '{') nor Avro single-object encoding")


def encode_message(message: Message, encoding: Encoding = Encoding.JSON) -> bytes:
    """Write a publication."""
    datum: dict[str, object] = {
        "topic": message.topic,
        "key": message.key,
        "fields": {name: plain(value) for name, value in message.fields.items()},
        "source": message.source,
        "id": message.id,
        "published_ms": message.published_ms,
    }
    if encoding is Encoding.AVRO:
        return avro.schema("message").encode(datum)
    return msgspec.json.encode({name: value for name, value in datum.items() if value is not None})


# ---- reading, strictly ------------------------------------------------------------------------------------------------


@lru_cache(maxsize=8)
def _usual_json(limits: MessageLimits) -> msgspec.json.Decoder[Any]:
    """Reads a publication as nearly all are, and refuses more than the strict reader does."""
    # A text of that many characters has no more bytes than allowed.
    name: Any = Annotated[str, msgspec.Meta(min_length=1, max_length=limits.key_bytes // 4)]
    whole: Any = Annotated[int, msgspec.Meta(ge=INT64_MIN, le=INT64_MAX)]
    time: Any = Annotated[int, msgspec.Meta(ge=0, le=INT64_MAX)]
    fields: Any = dict[name, whole | bool | float | str | tuple[str, ...] | None]
    required = [("topic", name), ("key", name), ("fields", Annotated[fields, msgspec.Meta(max_length=limits.fields)])]
    optional = [("source", name | None, None), ("id", name | None, None), ("published_ms", time | None, None)]
    return msgspec.json.Decoder(msgspec.defstruct("Usual", [*required, *optional]))


_SPACED = re.compile(rb'"\s+:')


def _quick_json(value: bytes, limits: MessageLimits) -> Message | None:
    """A message of the usual kind; None if the strict reader has to look."""
    try:
        found = _usual_json(limits).decode(value)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return None
    names = 3 + len(found.fields) + (found.source is not None) + (found.id is not None) + (found.published_ms is not None)
    # Each name has a colon behind it: if there are no more colons than these, none stands twice. Where texts have colons, too,
    # those right behind a quote are counted: still one for each name at least, if there is no space between.
    if value.count(b":") != names and (value.count(b'":') != names or _SPACED.search(value)):
        return None
    return Message(found.topic, found.key, found.fields, found.source, found.id, found.published_ms)


def _parse_json(value: bytes) -> dict[str, Any]:
    try:
        text = value.decode("utf-8")
    except UnicodeDecodeError as error:
        raise BadMessage(Unreadable.BAD_TEXT, f"not UTF-8: {error.reason} at byte {error.start}") from None
    try:
        datum = json.loads(text, object_pairs_hook=_no_repeated_names, parse_constant=_refuse_constant, parse_int=_parse_int)
    except json.JSONDecodeError as error:
        raise BadMessage(Unreadable.BAD_JSON, f"{error.msg} at character {error.pos}") from None
    except RecursionError:
        raise BadMessage(Unreadable.NESTED_VALUE, "nested too deeply to read") from None
    assert isinstance(datum, dict)  # the first byte is '{'
    return datum


def _no_repeated_names(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    # Readers disagree on which of two equal names counts; routing and decoding must not.
    datum = dict(pairs)
    if len(datum) != len(pairs):
        raise BadMessage(Unreadable.BAD_JSON, "a name stands twice in one object")
    return datum


def _refuse_constant(name: str) -> NoReturn:
    raise BadMessage(Unreadable.NOT_FINITE, f"{name} is not a value")


def _parse_int(digits: str) -> int:
    if len(digits) > 20:
        raise BadMessage(Unreadable.NUMBER_TOO_LARGE, "an integer does not fit 64 bits")
    return int(digits)


def _parse_avro(value: bytes) -> dict[str, Any]:
    schema = avro.schema("message")
    if value[: avro.HEADER_BYTES] != schema.header:
        raise BadMessage(Unreadable.UNKNOWN_SCHEMA, f"fingerprint {value[2 : avro.HEADER_BYTES].hex()} is not ours")
    try:
        return schema.decode(value[avro.HEADER_BYTES :])
    except UnicodeDecodeError as error:
        raise BadMessage(Unreadable.BAD_TEXT, f"not UTF-8: {error.reason}") from None
    except ValueError as error:
        raise BadMessage(Unreadable.BAD_AVRO, str(error)) from None


def _message(datum: dict[str, Any], limits: MessageLimits) -> Message:
    """Check the shape; names that are not ours are passed over, so that a newer client can talk to an older broker."""
    topic = _name(datum, "topic", limits)
    key = _name(datum, "key", limits)
    fields = datum.get("fields")
    if not isinstance(fields, dict):
        raise BadMessage(Unreadable.BAD_SHAPE, "'fields' must be an object")
    if len(fields) > limits.fields:
        raise BadMessage(Unreadable.TOO_MANY_FIELDS, f"{len(fields)} fields; at most {limits.fields} are allowed")
    return Message(
        topic=topic,
        key=key,
        fields={_field_name(name, limits): _value(name, value) for name, value in fields.items()},
        source=_optional_text(datum, "source", limits),
        id=_optional_text(datum, "id", limits),
        published_ms=_published_ms(datum.get("published_ms")),
    )


def _name(datum: dict[str, Any], name: str, limits: MessageLimits) -> str:
    value = datum.get(name)
    if not isinstance(value, str):
        raise BadMessage(Unreadable.BAD_SHAPE, f"{name!r} is required and must be a string")
    if not value:
        raise BadMessage(Unreadable.BAD_KEY, f"{name!r} is empty")
    return _bounded_text(value, name, Unreadable.BAD_KEY, limits)


def _optional_text(datum: dict[str, Any], name: str, limits: MessageLimits) -> str | None:
    value = datum.get(name)
    if value is None:
        return None
    if not isinstance(value, str) or not value:
        raise BadMessage(Unreadable.BAD_SHAPE, f"{name!r} must be a string that is not empty")
    return _bounded_text(value, name, Unreadable.BAD_SHAPE, limits)


def _field_name(name: str, limits: MessageLimits) -> str:
    if not name:
        raise BadMessage(Unreadable.BAD_SHAPE, "a field has an empty name")
    return _bounded_text(name, "a field's name", Unreadable.BAD_SHAPE, limits)


def _bounded_text(value: str, what: str, reason: Unreadable, limits: MessageLimits) -> str:
    if value.isascii() and len(value) <= limits.key_bytes:
        return value
    if (size := len(_utf8(value, what))) > limits.key_bytes:
        raise BadMessage(reason, f"{what} has {size} bytes; at most {limits.key_bytes} are allowed")
    return value


def _utf8(value: str, what: str) -> bytes:
    try:
        return value.encode("utf-8")
    except UnicodeEncodeError:
        raise BadMessage(Unreadable.BAD_TEXT, f"{what} has half a surrogate pair") from None


def _value(name: str, value: Any) -> Value:
    if type(value) is str and value.isascii():
        return value
    match value:
        case None | bool():
            return value
        case int():
            if not INT64_MIN <= value <= INT64_MAX:
                raise BadMessage(Unreadable.NUMBER_TOO_LARGE, f"field {name!r} does not fit 64 bits")
            return value
        case float():
            if not math.isfinite(value):
                raise BadMessage(Unreadable.NOT_FINITE, f"field {name!r} is not a finite number")
            return value
        case str():
            _utf8(value, f"field {name!r}")
            return value
        case list() if all(isinstance(item, str) for item in value):
            for item in value:
                _utf8(item, f"field {name!r}")
            return tuple(value)
        case list() | dict():
            raise BadMessage(Unreadable.NESTED_VALUE, f"field {name!r} may hold a list of strings, nothing deeper")
    raise BadMessage(Unreadable.BAD_SHAPE, f"field {name!r} has a value of no known kind")


def _published_ms(value: Any) -> int | None:
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= INT64_MAX:
        raise BadMessage(Unreadable.BAD_PUBLISHED_MS, "'published_ms' must be an integer of milliseconds, not negative")
    return value
