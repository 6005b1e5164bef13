"""A query that fails: started again when that may help, given up when it cannot."""

from __future__ import annotations

import json
import logging
import math
from collections.abc import Callable

import pytest

from service.supervisor import Stall, SupervisedQuery, cause_of, words_of
from service.watch.advice import advice_for


class Query:
    """A query that fails as told."""

    isActive = True  # noqa: N815

    def __init__(self, failure: str | None, progress: dict[str, object] | None = None) -> None:
        self._failure = failure
        self.lastProgress = progress

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
    assert (stage.run() or "").endswith("(a state blob fails its checksum)")
    assert stage.started == 1


def test_too_many_failures_are_final():
    stage = Stage(*["java.net.ConnectException: refused"] * 9)
    assert stage.run() == "java.net.ConnectException: refused"
    assert stage.started == 4


def test_failures_after_a_batch_has_ended_do_not_count():
    """Workers that are killed now and then do not end a service that gets on between."""
    now_s = [0.0]
    started = []

    def start(_over_gaps: bool) -> Query:
        started.append(now_s[0])
        return Query("java.net.SocketException: Connection reset", {"batchId": len(started)})

    query = SupervisedQuery(start, tries=1, now_s=lambda: now_s[0])
    for _ in range(20):
        assert query.check() is None
        now_s[0] += 1
    assert len(started) == 11


def test_what_spark_does_after_a_repeated_batch_does_not_count():
    stage = Stage(*['Cannot invoke "x.map()" because the return value of "scala.Option.get()" is null'] * 5, None)
    assert stage.run(tries=0) is None


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
        (
            "Traceback (most recent call last):\n  File x\nValueError: it\n"
            "Caused by: a.PythonException: Traceback (most recent call last):",
            "ValueError: it",
        ),
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


# ---- before there is a query ------------------------------------------------------------------------------------------


def test_a_start_that_fails_is_a_failure_like_others():
    def start(_over_gaps: bool) -> Query:
        raise RuntimeError("[STREAMING_CHECKPOINT_MISSING_METADATA_FILE] no metadata")

    query = SupervisedQuery(start, tries=0)
    assert not query.is_active
    assert query.last_progress is None
    assert "what the service remembers is damaged" in (query.check() or "")
    query.stop()


def test_a_start_that_fails_once_is_got_over():
    answers: list[Query | None] = [None, Query(None)]

    def start(_over_gaps: bool) -> Query:
        if (answer := answers.pop(0)) is None:
            raise RuntimeError("org.apache.kafka.common.errors.TimeoutException: no answer")
        return answer

    now_s = [0.0]
    query = SupervisedQuery(start, now_s=lambda: now_s[0])
    assert query.check() is None
    now_s[0] = 10
    assert query.check() is None
    assert (query.is_active, answers) == (True, [])


# ---- the words of a failure -------------------------------------------------------------------------------------------


class Captured(Exception):
    """As PySpark has Java's exceptions: what it says, its trace, and its cause."""

    def __init__(self, desc: str, trace: str = "", cause: Captured | None = None) -> None:
        super().__init__("not what counts")
        self._desc, self._stackTrace, self._cause = desc, trace, cause


def test_the_words_of_a_failure_are_those_of_its_causes_without_the_plan():
    plan = "=== Streaming Query ===\nkafka.bootstrap.servers=x, TimeoutException, No space left on device"
    inner = Captured("cannot load", "java.io.IOException: cannot load\n\tat x\nCaused by: java.io.EOFException: the end\n\tat y")
    text = words_of(Captured(f"the job failed\n{plan}", cause=inner))
    assert text.splitlines() == ["the job failed", "cannot load", "Caused by: java.io.EOFException: the end"]
    assert cause_of(text) == "java.io.EOFException: the end"
    assert words_of(RuntimeError("just words")) == "just words"


@pytest.mark.parametrize(
    ("text", "advice"),
    [
        # As Spark 4.1.1 said them when the faults were made on purpose.
        ("[CANNOT_LOAD_STATE_STORE.UNCATEGORIZED] An error occurred during loading state.", "move `checkpoint`"),
        (
            "[CANNOT_LOAD_STATE_STORE.CANNOT_READ_STREAMING_STATE_FILE] Error reading streaming state file of x does not exist.",
            "move `checkpoint`",
        ),
        ("[MALFORMED_LOG_FILE] Log file was malformed: failed to read correct log version", "move `checkpoint`"),
        ("Unexpected end-of-input: was expecting closing quote for a string value", "move `checkpoint`"),
        ("tidings.errors.BadState: a state blob fails its checksum", "move `checkpoint`"),
        ("[CANNOT_LOAD_STATE_STORE.UNCATEGORIZED] x\nCaused by: java.io.IOException: No space left on device", "make room"),
        ("org.apache.kafka.common.errors.TimeoutException: Timed out waiting for a node assignment", "see whether it runs"),
        ("Caused by: java.lang.OutOfMemoryError: Java heap space", "raise spark.driver_memory"),
        ("[KAFKA_DATA_LOSS.COULD_NOT_READ_OFFSET_RANGE] Some data may have been lost: publish.b1-0", "they are lost"),
        ("java.nio.file.AccessDeniedException: x (Permission denied)", "give its user the right"),
    ],
)
def test_known_failures_come_with_advice(text: str, advice: str):
    stage = Stage(*[text] * 3)
    said = stage.run(tries=1) or ""
    assert advice in said
    assert "\n" not in said


@pytest.mark.parametrize(
    "text",
    [
        "java.lang.NullPointerException: null",
        # It says itself what to do.
        "tidings.errors.BadState: the control data of version 3 is missing: 3.json must be in the control folder",
    ],
)
def test_other_failures_come_without_advice(text: str):
    assert advice_for(text) is None


# ---- workers that hang ------------------------------------------------------------------------------------------------


class Crew:
    """Workers that use as much time as told, and die as told."""

    def __init__(self) -> None:
        self.used_s = 0.0
        self.ended = 0

    def busy_s(self) -> float:
        return self.used_s

    def end(self) -> int:
        self.ended += 1
        return 2


class Watch:
    """A query and its workers, second by second."""

    def __init__(self, unread_s: Callable[[], float] = lambda: math.inf) -> None:
        self.crew, self.query, self.now_s = Crew(), Query(None), 0.0
        stall = Stall(self.crew, 10, unread_s, self.now_s)
        self.supervised = SupervisedQuery(lambda _: self.query, now_s=lambda: self.now_s, stall=stall)

    def pass_s(self, seconds: int, *, batches: bool = False, work: float = 0.0) -> None:
        for _ in range(seconds):
            self.now_s += 1
            self.crew.used_s += work
            if batches:
                self.query.lastProgress = {"runId": "r", "batchId": int(self.now_s), "timestamp": "t"}
            assert self.supervised.check() is None


def test_workers_that_do_nothing_while_no_batch_ends_are_ended():
    watch = Watch()
    watch.pass_s(30, batches=True)
    watch.pass_s(9)
    assert watch.crew.ended == 0
    watch.pass_s(1)
    assert watch.crew.ended == 1


def test_they_are_ended_again_if_that_did_not_help():
    watch = Watch()
    watch.pass_s(35)
    assert watch.crew.ended == 3


def test_a_long_batch_with_workers_at_work_is_no_stall():
    watch = Watch()
    watch.pass_s(1000, work=0.3)
    assert watch.crew.ended == 0


def test_a_daemon_that_looks_around_is_not_at_work():
    watch = Watch()
    watch.pass_s(11, work=0.001)
    assert watch.crew.ended == 1


def test_idle_workers_of_a_query_that_goes_on_are_left_alone():
    watch = Watch()
    watch.pass_s(1000, batches=True)
    assert watch.crew.ended == 0


def test_silence_with_nothing_to_read_is_no_stall():
    watch = Watch(unread_s=lambda: 0.0)
    watch.pass_s(1000)
    assert watch.crew.ended == 0


class Progress(dict):
    """What Spark says of a batch: PySpark has its JSON beside what it made of it."""

    def __init__(self, end: object) -> None:
        # PySpark makes text of the offsets, and that text is no JSON.
        super().__init__(sources=[{"endOffset": str(end)}])
        self.json = json.dumps({"sources": [{"endOffset": end}]})


def test_how_far_a_query_has_read_is_what_spark_says():
    query = Query(None, Progress({"publish.b1": {"0": 17, "1": 4}, "clock": {"0": 9}}))
    assert SupervisedQuery(lambda _: query).read_up_to == {"publish.b1-0": 17, "publish.b1-1": 4, "clock-0": 9}
    assert SupervisedQuery(lambda _: Query(None, Progress(None))).read_up_to == {}
    assert SupervisedQuery(lambda _: Query(None)).read_up_to == {}


def test_progress_that_cannot_be_read_is_not_passed_over_in_silence(caplog: pytest.LogCaptureFixture):
    with caplog.at_level(logging.ERROR, "tidings.query"):
        assert SupervisedQuery(lambda _: Query(None, Progress(["no offsets"]))).read_up_to == {}
    assert "nobody is told how far the query is" in caplog.text
