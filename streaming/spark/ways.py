"""How many messages went which way through the engine: counted by the workers, added up by the driver.

The books cannot say it, as a replay goes another way and must come to the same books. Of a batch that is run again, all is
counted again.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, TypeAlias

from streaming.batch.desk import Handling

if TYPE_CHECKING:
    from pyspark import SparkContext

Ways: TypeAlias = Any
"""An accumulator of Spark, which has no type that says of what: here, of counts by `Handling`."""


class _Counts:
    """How Spark is to add them up, in its own words."""

    def zero(self, _: Counter[str]) -> Counter[str]:
        return Counter()

    def addInPlace(self, value: Counter[str], more: Counter[str]) -> Counter[str]:  # noqa: N802
        value.update(more)
        return value


def ways_in(context: SparkContext) -> Ways:
    """Nothing is counted yet."""
    return context.accumulator(Counter(), _Counts())


def count(ways: Ways, found: Mapping[Handling, int]) -> None:
    """Of a worker: add what a bucket's batch had."""
    if ways is not None and found:
        ways.add(Counter({str(way): number for way, number in found.items() if number}))
