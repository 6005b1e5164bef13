"""The pipelines of a service, under supervision: how they are started, which still have to be, and how the others are."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING, Any

from clients.connection import Connection
from service.clock.ticker import Ticker
from service.directory.directory import ServiceDirectory
from service.directory.migration import starting_offsets
from service.supervisor import Stall, SupervisedQuery
from service.watch.workers import PythonWorkers
from streaming.broker.settings import message_limits_of, timing_of
from streaming.broker.state import Rules
from streaming.spark.events import BucketSpec
from streaming.spark.pipelines import PIPELINES, Pipeline
from streaming.spark.query import QuerySpec, start
from streaming.spark.ways import Ways
from streaming.wire.clock import TickerIdentity
from tidings.config import Config, client_properties
from tidings.control import Snapshot

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def query_spec(
    config: Config, rules: Rules, directory: ServiceDirectory, bootstrap: str, identity: TickerIdentity, ways: Ways
) -> QuerySpec:
    """What the settings say to all pipelines."""
    return QuerySpec(
        bootstrap_servers=bootstrap,
        directory=directory.path,
        bucket=BucketSpec(
            ticker=identity,
            control_dir=str(directory.control),
            state_dir=str(directory.state),
            secret=directory.hash_key,
            rules=rules,
            limits=message_limits_of(config),
            timing=timing_of(config),
            ways=ways,
        ),
        trigger_ms=config.spark.trigger_ms,
        max_offsets_per_trigger=config.spark.max_offsets_per_trigger,
        kafka_properties=client_properties(config),
    )


@dataclass(frozen=True)
class Launcher:
    """Starts pipelines in a session of Spark, each under supervision."""

    spark: SparkSession
    java_pid: int
    spec: QuerySpec
    directory: ServiceDirectory
    connection: Connection
    ticker: Ticker
    stall_s: float
    """How long no batch may end before that counts as a stall; 0 waits for ever."""

    def launch(self, pipeline: Pipeline) -> SupervisedQuery:
        # All have the same workers: one that is known to hang is enough to end them.
        watched = pipeline.reads_ticks and self.stall_s > 0
        stall = Stall(PythonWorkers(self.java_pid), self.stall_s, lambda: self.ticker.unread_s) if watched else None
        return SupervisedQuery(partial(self._begin, pipeline), stall=stall)

    def _begin(self, pipeline: Pipeline, over_gaps: bool) -> Any:
        read = self.spec.bucket.rules.reads
        starting = starting_offsets(self.directory, self.connection, read) if pipeline.can_migrate else "earliest"
        return start(self.spark, pipeline, self.spec, over_gaps=over_gaps, starting=starting)


class Queries:
    """None runs at first. Other threads may ask how they are at any time."""

    def __init__(self, pipelines: Iterable[Pipeline] = PIPELINES) -> None:
        self._pipelines = tuple(pipelines)
        self._running: dict[str, SupervisedQuery] = {}
        self._exits = ExitStack()
        self.ways: Ways = None
        """Where it is counted which way messages go through the engine, when there is a Spark to count."""

    def check(self, snapshot: Snapshot, launch: Callable[[Pipeline], SupervisedQuery]) -> str | None:
        """Start those that this control data asks for, and those again whose time has come.

        Says which one stopped and why, when there is nothing left to try.
        """
        for pipeline in self._pipelines:
            query = self.of(pipeline)
            if query is not None and (cause := query.check()):
                return f"{pipeline.title} stopped: {cause}"
            if query is None and pipeline.starts_when(snapshot):
                query = self._running[pipeline.name] = launch(pipeline)
                self._exits.callback(query.stop)
        return None

    def stop(self) -> None:
        """Stop all that were started, last first."""
        self._exits.close()

    def of(self, pipeline: Pipeline) -> SupervisedQuery | None:
        return self._running.get(pipeline.name)

    @property
    def reading_ticks(self) -> SupervisedQuery | None:
        """The one that tells how far the service is."""
        return next((query for pipeline in self._pipelines if pipeline.reads_ticks and (query := self.of(pipeline))), None)

    def read_up_to(self) -> Mapping[str, int]:
        """For each partition with ticks or marks, the offset up to which all has been read, and what follows from it written."""
        query = self.reading_ticks
        return query.read_up_to if query is not None else {}

    def handled(self) -> dict[str, int]:
        """How many messages went which way since the service started."""
        return dict(self.ways.value) if self.ways is not None else {}

    def are_live(self) -> bool:
        """Whether the one runs that the service lives by."""
        query = self.reading_ticks
        return query is not None and query.is_active

    def progress(self) -> Mapping[str, Mapping[str, float]]:
        """By the beginning of the metric's name, what each says of its last batch."""
        return {pipeline.metric: _progress(self.of(pipeline)) for pipeline in self._pipelines}


def _progress(query: SupervisedQuery | None) -> dict[str, float]:
    """What a query says of its last batch; nothing if there was none."""
    progress = query.last_progress if query is not None else None
    if not progress:
        return {}
    return {
        "id": progress["batchId"],
        "rows": progress["numInputRows"],
        "seconds": progress["durationMs"].get("triggerExecution", 0) / 1000,
        "watermark_timestamp_seconds": _epoch_s(progress["eventTime"].get("watermark")),
    }


def _epoch_s(watermark: str | None) -> float:
    """Spark's watermark, the append time up to which it has read: an operator sees by it how far behind the query is."""
    return datetime.fromisoformat(watermark).timestamp() if watermark else 0.0
