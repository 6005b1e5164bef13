"""The pipelines of a service that run, under supervision: which are still to be started, and how the others are."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime

from service.supervisor import SupervisedQuery
from streaming.spark.pipelines import PIPELINES, Pipeline
from tidings.control import Snapshot


class Queries:
    """None runs at first. Other threads may ask how they are at any time."""

    def __init__(self, pipelines: Iterable[Pipeline] = PIPELINES) -> None:
        self._pipelines = tuple(pipelines)
        self._running: dict[str, SupervisedQuery] = {}

    def add(self, pipeline: Pipeline, query: SupervisedQuery) -> None:
        """A pipeline has been started."""
        self._running[pipeline.name] = query

    def of(self, pipeline: Pipeline) -> SupervisedQuery | None:
        return self._running.get(pipeline.name)

    @property
    def at_once(self) -> list[Pipeline]:
        """Those that start with the service."""
        return [pipeline for pipeline in self._pipelines if pipeline.starts_when is None]

    def asked_for(self, snapshot: Snapshot) -> list[Pipeline]:
        """Those that do not run yet, and are asked for by this control data."""
        waiting = [pipeline for pipeline in self._pipelines if self.of(pipeline) is None]
        return [pipeline for pipeline in waiting if pipeline.starts_when is not None and pipeline.starts_when(snapshot)]

    @property
    def are_live(self) -> bool:
        """Whether those that start with the service run."""
        return all((query := self.of(pipeline)) is not None and query.is_active for pipeline in self.at_once)

    def check(self) -> str | None:
        """Start those again whose time has come; says which one stopped and why, when there is nothing left to try."""
        for pipeline in self._pipelines:
            query = self.of(pipeline)
            if query is not None and (cause := query.check()):
                return f"{pipeline.title} stopped: {cause}"
        return None

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
