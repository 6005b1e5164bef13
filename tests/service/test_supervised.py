"""A query that fails: started again when that may help, given up when it cannot."""

from __future__ import annotations

import pytest

from service.supervised import SupervisedQuery, cause_of


class Query:
    """A query that fails as told."""

    isActive = True  # noqa: N815
    lastProgress = None  # noqa: N815

    def __init__(self, failure: str | None) -> None:
        self._failure = failure

    def exception(self) -> Exception | None:
        return Exception(self._failure) if self._failure else None


class Stage:
    """Starts one query after the other, on a clock moved by hand."""

    def __init__(self, *failures: str | None) -> None:
        self.left = list(failures)
        self.started = 0
        self.now_s = 0.0
        self.over_gaps: list[bool] = []

    def start(self, over_gaps: bool) -> Query:
        self.started += 1
        self.over_gaps.append(over_gaps)
        return Query(self.left.pop(0))

    def run(self, tries: int = 3) -> str | None:
        query = SupervisedQuery(self.start, tries=tries, within_s=100, now_s=lambda: self.now_s)
        for _ in range(50):
            if cause := query.check():
                return cause
            self.now_s += 1
        return None


def test_a_passing_failure_is_got_over():
    stage = Stage("java.lang.NullPointerException: null", None)
    assert stage.run() is None
    assert stage.started == 2


def test_our_own_errors_are_final():
    stage = Stage("Traceback\ntidings.errors.BadState: a state blob fails its checksum", None)
    assert stage.run() == "a state blob fails its checksum"
    assert stage.started == 1


def test_too_many_failures_are_final():
    stage = Stage(*["java.net.ConnectException: refused"] * 9)
    assert stage.run() == "java.net.ConnectException: refused"
    assert stage.started == 4


def test_failures_long_ago_do_not_count():
    stage = Stage("A.Error: one", "A.Error: two", None)
    query = SupervisedQuery(stage.start, tries=1, within_s=100, now_s=lambda: stage.now_s)
    assert query.check() is None
    stage.now_s = 200
    assert query.check() is None  # starts the second
    assert query.check() is None  # which fails, but the first is forgotten
    stage.now_s = 300
    query.check()
    assert stage.started == 3


@pytest.mark.parametrize(
    ("text", "cause"),
    [
        ("org.apache.spark.SparkException: a\nCaused by\njava.io.IOException: disk full", "java.io.IOException: disk full"),
        ("x\ntidings.errors.BadState: b\njava.lang.Error: c", "b"),
        ("just words", "just words"),
        ("", "no reason given"),
    ],
)
def test_the_cause_is_one_line(text, cause):
    assert cause_of(text) == cause


def test_a_gap_in_a_link_is_got_over_and_one_in_what_publishers_sent_is_not() -> None:
    lost = "[KAFKA_DATA_LOSS.COULD_NOT_READ_OFFSET_RANGE] Some data may have been lost: {}-0"
    stage = Stage(lost.format("link.b1.b2"), None)
    assert stage.run() is None
    assert stage.over_gaps == [False, True]
    stage = Stage(*[lost.format("publish.b1")] * 4)
    assert stage.run() is not None
    assert True not in stage.over_gaps
