"""The pipelines of a service, as a list: all that Spark and the service need to know of each.

Every pipeline reads Kafka topics, deals their records out to buckets, and gives each bucket its rows and its state. What the
function of a bucket yields are Kafka records. `query.start` starts any of them, and a service goes by `PIPELINES`: a new one is
one more entry here, and a room of its own for its logic.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

import pandas as pd
from pyspark.sql import DataFrame

from streaming.spark import events, routing, windows
from streaming.spark.events import BucketSpec
from tidings import names
from tidings.control import Snapshot

BucketFunction: TypeAlias = Callable[[Any, Iterable[pd.DataFrame], Any], Iterator[pd.DataFrame]]
"""Takes the bucket's label, its rows and its state, as `applyInPandasWithState` has it."""


@dataclass(frozen=True)
class Pipeline:
    """One streaming query. The names that it has in files, metrics and messages never change: people rely on them."""

    name: str
    source: Callable[[BucketSpec], Mapping[str, str]]
    """Which Kafka topics it reads, as options of Spark's source."""
    deal: Callable[[DataFrame, BucketSpec, int], DataFrame]
    """Records with the ``bucket`` they go to, for this many shuffle partitions; other columns are up to the logic."""
    logic: Callable[[BucketSpec], BucketFunction]
    state: str
    """The schema of what Spark keeps of a bucket."""
    checkpoint: str
    """The folder in the service's directory."""
    query: str
    """What Spark calls it."""
    metric: str
    """How the names of its metrics begin."""
    title: str
    """What it is called when it fails."""
    remembers: str
    """What its buckets have, in words."""
    can_migrate: bool = False
    """Whether `tidings state migrate` deals out anew what its buckets have, so that it reads on where that says. While there is
    anything that cannot be dealt out anew, nothing is."""
    reads_ticks: bool = False
    """Whether every tick is something to read for it. One pipeline does: a service lives by it and is as far as it is; and if it
    reads nothing, its workers hang."""
    starts_when: Callable[[Snapshot], bool] = lambda _: True
    """The control data that first asks for it. Any does, unless it says otherwise: then it starts with the service."""


EVENTS = Pipeline(
    name="events",
    source=lambda spec: {
        "subscribePattern": spec.rules.reads,
        "includeHeaders": str(spec.headers).lower(),
    },
    deal=routing.deal,
    logic=events.bucket_function,
    state=events.STATE_SCHEMA,
    checkpoint="checkpoint",
    query="tidings",
    metric="tidings_batch",
    title="the query",
    remembers="events",
    can_migrate=True,
    reads_ticks=True,
)

WINDOWS = Pipeline(
    name="windows",
    source=lambda _: {"subscribe": names.OFFERS},
    deal=windows.deal,
    logic=windows.bucket_function,
    state=windows.STATE_SCHEMA,
    checkpoint="checkpoint-windows",
    query="tidings-windows",
    metric="tidings_windows_batch",
    title="the query for windows",
    remembers="windows of aggregate subscriptions",
    starts_when=lambda snapshot: bool(snapshot.windowed),
)

PIPELINES = (EVENTS, WINDOWS)
