"""A service goes by the list of its pipelines: one more entry is started, watched and measured like the others."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from service.queries import Launcher, Queries
from service.supervisor import SupervisedQuery
from streaming.broker.state import Rules
from streaming.spark.pipelines import EVENTS, PIPELINES, WINDOWS, Pipeline
from streaming.world.records import snapshot, subscription, topic

THIRD = replace(
    WINDOWS,
    name="third",
    checkpoint="checkpoint-third",
    query="tidings-third",
    metric="tidings_third_batch",
    title="the query for thirds",
    starts_when=lambda control: "topic/third" in control.records,
)
BATCH = {
    "batchId": 7,
    "numInputRows": 12,
    "durationMs": {"triggerExecution": 250},
    "eventTime": {"watermark": "1970-01-01T00:00:05.000Z"},
}
AGGREGATE = subscription("w", topic="reading", window={"size_ms": 1000, "of": {"n": "count()"}})


class Query:
    """A query that runs or failed."""

    def __init__(self, failure: str | None = None, progress: dict[str, Any] | None = None) -> None:
        self.isActive = failure is None
        self.lastProgress = progress
        self._failure = failure
        self.stopped = False

    def stop(self) -> None:
        self.stopped = True

    def exception(self) -> Exception | None:
        return Exception(self._failure) if self._failure else None


def running(query: Query) -> SupervisedQuery:
    return SupervisedQuery(lambda _: query)


def started(**found: Query) -> Queries:
    """Three pipelines, of which these were asked for, and started as these queries."""
    queries = Queries([EVENTS, WINDOWS, THIRD])
    asked = [record for name, record in ((WINDOWS.name, AGGREGATE), (THIRD.name, topic("third"))) if name in found]
    queries.check(snapshot(*asked), lambda pipeline: running(found[pipeline.name]))
    return queries


def check(queries: Queries) -> str:
    """What is said when nothing more is asked for."""
    return queries.check(snapshot(), pytest.fail) or ""


def test_each_starts_once_when_it_is_asked_for():
    queries, launched = Queries([EVENTS, WINDOWS, THIRD]), []

    def launch(pipeline: Pipeline) -> SupervisedQuery:
        launched.append(pipeline)
        return running(Query())

    for records in ((), (AGGREGATE,), (AGGREGATE,), (AGGREGATE, topic("third")), ()):
        assert queries.check(snapshot(*records), launch) is None
    assert launched == [EVENTS, WINDOWS, THIRD]
    together = started(events=Query(), windows=Query(), third=Query())
    assert all(together.of(pipeline) is not None for pipeline in (EVENTS, WINDOWS, THIRD))


def test_a_service_lives_by_those_that_start_with_it():
    refused = "java.net.ConnectException: refused"
    assert not Queries([EVENTS, WINDOWS]).are_live()
    assert started(events=Query()).are_live()
    assert started(events=Query(), windows=Query(refused)).are_live()
    assert not started(events=Query(refused)).are_live()


def test_a_service_is_as_far_as_the_pipeline_that_reads_ticks():
    assert Queries([WINDOWS, EVENTS]).read_up_to() == {}
    queries = started(events=Query(progress=BATCH), windows=Query())
    assert queries.reading_ticks is queries.of(EVENTS) is not None


def test_the_one_that_stopped_is_named():
    ours = "tidings.errors.BadState: a state blob fails its checksum"
    assert check(started(events=Query(), third=Query())) == ""
    for name, title in (("third", "the query for thirds"), ("windows", "the query for windows"), ("events", "the query")):
        queries = started(**{"events": Query(), name: Query(ours)})
        assert check(queries).startswith(f"{title} stopped: ")
    both = started(events=Query(ours), third=Query(ours))
    assert check(both).startswith("the query stopped: ")


def test_all_that_were_started_are_stopped():
    found = [Query("gone"), Query("gone")]
    started(events=found[0], windows=found[1]).stop()
    assert [query.stopped for query in found] == [True, True]


def test_only_events_are_read_on_where_a_migration_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    begun: list[tuple[str, bool, str]] = []

    def start(_spark: object, pipeline: Pipeline, _spec: object, *, over_gaps: bool, starting: str) -> Query:
        begun.append((pipeline.name, over_gaps, starting))
        return Query()

    monkeypatch.setattr("service.queries.start", start)
    folders = SimpleNamespace(state=tmp_path, checkpoint=tmp_path / "checkpoint")
    (tmp_path / "starting-offsets.json").write_text('{"publish.b1": {"0": 7}}')
    there = {"publish.b1": 2, "publish.b2": 1, "notify.b1": 1}
    connection = SimpleNamespace(topics=lambda: there)
    spec = SimpleNamespace(bucket=SimpleNamespace(rules=Rules(hosted=frozenset({"b1"}))))
    launcher = Launcher(None, 1, spec, folders, connection, None, 0.0)  # type: ignore[arg-type]
    for pipeline in (EVENTS, WINDOWS):
        launcher.launch(pipeline)
    assert begun == [("events", False, '{"publish.b1": {"0": 7, "1": -2}}'), ("windows", False, "earliest")]


def test_workers_are_watched_for_the_pipeline_that_reads_ticks_unless_there_is_no_limit(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("service.queries.starting_offsets", lambda *_: "earliest")
    monkeypatch.setattr("service.queries.start", lambda *_, **__: Query())
    spec = SimpleNamespace(bucket=SimpleNamespace(rules=Rules()))
    watched = Launcher(None, 1, spec, None, None, None, 60.0)  # type: ignore[arg-type]
    assert watched.launch(EVENTS)._stall is not None
    assert watched.launch(WINDOWS)._stall is None
    assert replace(watched, stall_s=0.0).launch(EVENTS)._stall is None


def test_each_says_of_its_last_batch_under_its_name():
    queries = started(events=Query(progress=BATCH))
    batch = {"id": 7, "rows": 12, "seconds": 0.25, "watermark_timestamp_seconds": 5.0}
    assert queries.progress() == {"tidings_batch": batch, "tidings_windows_batch": {}, "tidings_third_batch": {}}
    queries = started(events=Query(), windows=Query(progress={**BATCH, "eventTime": {}}))
    assert queries.progress()["tidings_windows_batch"] == {**batch, "watermark_timestamp_seconds": 0.0}


def test_no_two_pipelines_share_a_name_that_others_know_them_by():
    for attribute in ("name", "checkpoint", "query", "metric", "title"):
        assert len({getattr(pipeline, attribute) for pipeline in PIPELINES}) == len(PIPELINES), attribute
