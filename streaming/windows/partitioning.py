"""Which bucket has which link. Spark computes the same in the JVM."""

from __future__ import annotations

import xxhash

from streaming.windows.rules import WindowRules
from streaming.windows.state import At
from streaming.wire.offers import record_key
from tidings.values import signed

_SPARK_SEED = 42


def bucket_of(service: str, at: At, buckets: int) -> int:
    """What `pmod(xxhash64(key), buckets)` gives."""
    return signed(xxhash.xxh64_intdigest(record_key(service, at), _SPARK_SEED)) % buckets


def belongs(at: At, rules: WindowRules) -> bool:
    return bucket_of(rules.service, at, rules.buckets) == rules.index
