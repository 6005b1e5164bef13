"""A service goes by the list of its pipelines: one more entry is started, watched and measured like the others."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from service.queries import Queries
from service.supervisor import SupervisedQuery
from streaming.spark.pipelines import EVENTS, PIPELINES, WINDOWS
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

    def exception(self) -> Exception | None:
        return Exception(self._failure) if self._failure else None


def running(query: Query) -> SupervisedQuery:
    return SupervisedQuery(lambda _: query)


def test_each_starts_once_when_it_is_asked_for():
    queries = Queries([EVENTS, WINDOWS, THIRD])
    assert queries.at_once == [EVENTS]
    queries.add(EVENTS, running(Query()))
    assert queries.asked_for(snapshot()) == []
    assert queries.asked_for(snapshot(AGGREGATE)) == [WINDOWS]
    assert queries.asked_for(snapshot(AGGREGATE, topic("third"))) == [WINDOWS, THIRD]
    queries.add(WINDOWS, running(Query()))
    assert queries.asked_for(snapshot(AGGREGATE)) == []


def test_a_service_lives_by_those_that_start_with_it():
    queries = Queries([EVENTS, WINDOWS])
    assert not queries.are_live
    queries.add(EVENTS, running(Query()))
    assert queries.are_live
    queries.add(WINDOWS, running(Query("java.net.ConnectException: refused")))
    assert queries.are_live
    queries.add(EVENTS, running(Query("java.net.ConnectException: refused")))
    assert not queries.are_live


def test_the_one_that_stopped_is_named():
    ours = "tidings.errors.BadState: a state blob fails its checksum"
    queries = Queries([EVENTS, WINDOWS, THIRD])
    assert queries.check() is None
    queries.add(EVENTS, running(Query()))
    queries.add(THIRD, running(Query(ours)))
    assert (queries.check() or "").startswith("the query for thirds stopped: ")
    queries.add(WINDOWS, running(Query(ours)))
    assert (queries.check() or "").startswith("the query for windows stopped: ")
    queries.add(EVENTS, running(Query(ours)))
    assert (queries.check() or "").startswith("the query stopped: ")


def test_each_says_of_its_last_batch_under_its_name():
    queries = Queries([EVENTS, WINDOWS])
    queries.add(EVENTS, running(Query(progress=BATCH)))
    batch = {"id": 7, "rows": 12, "seconds": 0.25, "watermark_timestamp_seconds": 5.0}
    assert queries.progress() == {"tidings_batch": batch, "tidings_windows_batch": {}}
    queries.add(WINDOWS, running(Query(progress={**BATCH, "eventTime": {}})))
    assert queries.progress()["tidings_windows_batch"] == {**batch, "watermark_timestamp_seconds": 0.0}


def test_no_two_pipelines_share_a_name_that_others_know_them_by():
    for attribute in ("name", "checkpoint", "query", "metric", "title"):
        assert len({getattr(pipeline, attribute) for pipeline in PIPELINES}) == len(PIPELINES), attribute
