"""Which places a bucket of the pipeline of windows has. Spark works out the same in the JVM."""

from __future__ import annotations

from dataclasses import dataclass

import xxhash

from streaming.windows.state import At
from streaming.wire.offers import record_key
from tidings.values import signed

_SPARK_SEED = 42


@dataclass(frozen=True, slots=True)
class WindowRules:
    """Which places a bucket has: those of the brokers ``hosted`` whose hash falls on ``index``."""

    service: str
    index: int = 0
    buckets: int = 1
    hosted: frozenset[str] | None = None
    hands_on: bool = False
    """Whether nobody reads what crosses a link."""

    @property
    def name(self) -> str:
        """As it signs what it sends."""
        return f"{self.service}/w{self.index}"

    @property
    def serves_all(self) -> bool:
        """Whether no other process serves any broker. Then a bucket has all places of a topic, and hands on between them."""
        return self.hosted is None

    def has(self, at: At) -> bool:
        """Whether the hash falls on it: what `pmod(xxhash64(…), buckets)` gives, of the topic or of the record's key."""
        dealt_by = at[2].encode() if self.serves_all else record_key(self.service, at)
        return signed(xxhash.xxh64_intdigest(dealt_by, _SPARK_SEED)) % self.buckets == self.index
