"""Which bucket has which link. Spark computes the same in the JVM."""

from __future__ import annotations

import xxhash

from streaming.windows.state import At
from streaming.windows.values import WindowRules
from tidings.values import signed

_SPARK_SEED = 42


def record_key(service: str, at: At) -> bytes:
    """The Kafka record key of what is offered there. A topic may have a slash in it, the others have none."""
    return f"{service}/{at[0]}/{at[1]}/{at[2]}".encode()


def read_key(key: bytes) -> At:
    """
    >>> read_key(record_key("s", ("b1", "", "a/b")))
    ('b1', '', 'a/b')
    """
    _, sender, to, topic = key.decode().split("/", 3)
    return sender, to, topic


def bucket_of(service: str, at: At, buckets: int) -> int:
    """What `pmod(xxhash64(key), buckets)` gives."""
    return signed(xxhash.xxh64_intdigest(record_key(service, at), _SPARK_SEED)) % buckets


def belongs(at: At, rules: WindowRules) -> bool:
    return bucket_of(rules.service, at, rules.buckets) == rules.index
