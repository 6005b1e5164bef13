"""Numbers for events, the same in Python and in Spark (`streaming/spark/routing.py`), and for facts.

They start from a secret, so nobody outside can make two facts look like one.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache

import msgspec
import xxhash

from streaming.model.address import Address
from streaming.model.event import OpenEvent
from tidings.values import Value, signed

_SEED = 42
_text = msgspec.json.Encoder().encode


@lru_cache(maxsize=8192)
def event_hash(secret: str, at: Address) -> int:
    """Which event a message is about: Spark's `xxhash64(secret, broker, topic, key)`."""
    broker, topic, key = at
    return signed(xxhash.xxh64_intdigest(key.encode(), place_bits(secret, broker, topic)))


def place_bits(secret: str, broker: str, topic: str) -> int:
    """What the numbers of all events of a topic at a broker start from."""
    bits = xxhash.xxh64_intdigest(secret.encode(), _SEED)
    for part in (broker, topic):
        bits = xxhash.xxh64_intdigest(part.encode(), bits)
    return bits


def about_hash(secret: str, about: tuple[str, str]) -> int:
    """What chooses the bucket where all brokers' events of a topic and key are in one: Spark's `xxhash64(secret, topic, key)`."""
    bits = xxhash.xxh64_intdigest(secret.encode(), _SEED)
    for part in about:
        bits = xxhash.xxh64_intdigest(part.encode(), bits)
    return signed(bits)


def bucket_of(secret: str, at: Address, buckets: int, *, hands_on: bool) -> int:
    """The bucket that an event is in."""
    return (about_hash(secret, at.about) if hands_on else event_hash(secret, at)) % buckets


def fact_hashes(event: int, fields: Mapping[str, Value]) -> list[int]:
    """A number for each stated fact of a message that was decoded here.

    In Avro a fact has another number (`avro_reader`). That costs one more look at a fact that is stated both ways.
    """
    seed = event % 2**64
    return [signed(xxhash.xxh64_intdigest(_text(fact), seed)) for fact in fields.items()]


def salt_of(event: OpenEvent) -> int:
    """Tells the facts of this opening of an event from those of others under the same key; never 0."""
    return salt_from(event.opening)


@lru_cache(maxsize=8192)
def salt_from(opening: str) -> int:
    """The same, of an event that is not at hand."""
    return signed(xxhash.xxh64_intdigest(opening.encode(), _SEED) | 1)
