"""What is measured, and how: the output topic with its append times, the process tree, the way from publish to notify.

Nothing of it runs inside a peer. A rate is read off the append times of the output: news stands evenly in the input, so when a
third of it was told, a third of the input was read.
"""

from __future__ import annotations

import contextlib
import json
import threading
import time
from bisect import bisect_left
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from statistics import median, quantiles
from typing import Any

import psutil
from confluent_kafka import TopicPartition
from load import TOPIC, Load, encode, record_key

from clients.connection import Connection
from clients.log import read_all, watermarks
from streaming.wire import avro

_SAMPLE_S = 0.25
_WARM_UP = (0.2, 0.4)  # the start is taken between these shares of the news
_AGAIN_S = 0.5

Rates = dict[str, Any]


# ---- the process tree -------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Sample:
    """CPU seconds used so far and memory held now, by a process and all below it."""

    at_s: float
    cpu_s: float
    rss_bytes: int


class Watch:
    """Samples process trees in a thread, until it is left. Shared pages of forked workers are counted in each of them."""

    def __init__(self, pids: Iterable[int]) -> None:
        self.samples: list[Sample] = []
        self._roots = [psutil.Process(pid) for pid in pids]
        # By process, as what an ended one used must stay in the sum.
        self._cpu_s: dict[tuple[int, float], float] = {}
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> Watch:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._stop.is_set():
            self.samples.append(self._sample())
            self._stop.wait(_SAMPLE_S)

    def _sample(self) -> Sample:
        rss = 0
        for root in self._roots:
            with contextlib.suppress(psutil.Error):
                for process in (root, *root.children(recursive=True)):
                    with contextlib.suppress(psutil.Error):
                        used = process.cpu_times()
                        self._cpu_s[process.pid, process.create_time()] = used.user + used.system
                        rss += process.memory_info().rss
        return Sample(time.time(), sum(self._cpu_s.values()), rss)

    def cpu_between_s(self, start_s: float, end_s: float) -> float:
        return self._cpu_at_s(end_s) - self._cpu_at_s(start_s)

    def _cpu_at_s(self, at_s: float) -> float:
        after = bisect_left(self.samples, at_s, key=lambda sample: sample.at_s)
        if after == 0 or after == len(self.samples):
            return self.samples[min(after, len(self.samples) - 1)].cpu_s
        one, two = self.samples[after - 1 : after + 1]
        return one.cpu_s + (two.cpu_s - one.cpu_s) * (at_s - one.at_s) / (two.at_s - one.at_s)

    @property
    def peak_rss_bytes(self) -> int:
        return max((sample.rss_bytes for sample in self.samples), default=0)


# ---- the bulk ---------------------------------------------------------------------------------------------------------


def told(connection: Connection, output: str) -> list[tuple[int, dict[str, Any]]]:
    """Append time and content of all that a peer wrote, in order."""
    return [(record.append_ms, json.loads(record.value or b"null")) for record in read_all(connection, [output])]


def records_in(connection: Connection, kafka_topic: str) -> int:
    """How many records a Kafka topic has."""
    consumer = connection.consumer()
    try:
        return sum(watermarks(consumer, kafka_topic, number)[1] for number in range(connection.topics().get(kafka_topic, 0)))
    finally:
        consumer.close()


def wait_until_silent(count: Callable[[], int], expected: int, limit_s: float, alive: Callable[[], None]) -> bool:
    """Wait until no more comes: briefly if as much as ``expected`` is there.

    False if it still comes ``limit_s`` after the first record.
    """
    seen, changed_s, first_s = 0, time.monotonic(), None
    while True:
        alive()
        now_s, found = time.monotonic(), count()
        if found != seen:
            seen, changed_s, first_s = found, now_s, first_s or now_s
        if first_s is None:
            if now_s - changed_s > 90:
                raise TimeoutError("nothing came out in 90 s")
        elif now_s - first_s > limit_s:
            return False
        elif now_s - changed_s > (4 if seen >= expected else 20):
            return True
        time.sleep(_AGAIN_S)


def rates(output: list[tuple[int, dict[str, Any]]], load: Load, watch: Watch) -> Rates:
    """Messages a second and CPU for each, after the warm-up; and how much of the news was told, and how much more than once."""
    first_ms, repeated = _first_tellings(output)
    least, most = (int(len(first_ms) * share) for share in _WARM_UP)
    if most <= least:
        raise ValueError(f"only {len(first_ms)} facts were told, too few for a rate")
    # A peer that works in batches is measured from the end of a batch: there the silence is longest.
    start = max(range(least, most), key=lambda index: first_ms[index + 1] - first_ms[index])
    start_s, end_s = first_ms[start] / 1000, first_ms[-1] / 1000
    messages = load.n * (len(first_ms) - 1 - start) / load.facts
    return {
        "messages_per_s": round(messages / max(end_s - start_s, 0.001)),
        "cpu_s_per_million": round(watch.cpu_between_s(start_s, end_s) / messages * 1e6, 1),
        "measured_s": round(end_s - start_s, 1),
        "facts_told": round(len(first_ms) / load.facts, 4),
        "facts_told_again": repeated,
        "records_told": len(output),
    }


def _first_tellings(output: list[tuple[int, dict[str, Any]]]) -> tuple[list[int], int]:
    """When each field of each key was told first, in order; and how many fields were told that had been.

    >>> _first_tellings([(1, {"key": "k", "news": {"a": 1}}), (2, {"key": "k", "news": {"a": 1, "b": 2}})])
    ([1, 2], 1)
    """
    known: set[tuple[str, str]] = set()
    first_ms: list[int] = []
    repeated = 0
    for append_ms, content in output:
        for name in content["news"]:
            fact = (content["key"], name)
            if fact in known:
                repeated += 1
            else:
                known.add(fact)
                first_ms.append(append_ms)
    return first_ms, repeated


# ---- live: the proof and the latency ----------------------------------------------------------------------------------


class Listener:
    """Reads an output topic from its end on, in a thread, and notes when each record came."""

    def __init__(self, connection: Connection, output: str) -> None:
        self.heard: list[tuple[float, bytes]] = []
        self._consumer = connection.consumer(**{"auto.offset.reset": "latest", "fetch.wait.max.ms": 10})
        ends = [
            TopicPartition(output, number, watermarks(self._consumer, output, number)[1])
            for number in range(connection.topics()[output])
        ]
        self._consumer.assign(ends)
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> Listener:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()
        self._consumer.close()

    def _run(self) -> None:
        while not self._stop.is_set():
            record = self._consumer.poll(0.2)
            if record is not None and record.error() is None:
                self.heard.append((time.time(), record.value()))

    def since(self, start: int) -> list[dict[str, Any]]:
        return [json.loads(value) for _, value in self.heard[start:]]

    def wait(self, count: int, most_s: float, quiet_s: float = 0.0) -> None:
        """Wait for ``count`` records in all, then for ``quiet_s`` without another; no longer than ``most_s``."""
        deadline = time.monotonic() + most_s
        seen, changed_s = len(self.heard), time.monotonic()
        while time.monotonic() < deadline:
            if len(self.heard) != seen:
                seen, changed_s = len(self.heard), time.monotonic()
            if seen >= count and time.monotonic() - changed_s >= quiet_s:
                return
            time.sleep(0.01)


PROOF: Mapping[str, Mapping[str, str]] = {
    "A": {"what": "fire"},
    "B": {"where": "kitchen"},
    "C": {"what": "fire", "where": "kitchen"},
}
RIGHT: Mapping[str, list[Mapping[str, str]]] = {"A": [{"what": "fire"}], "B": [{"where": "kitchen"}], "C": []}


def prove(connection: Connection, kafka_topic: str, listener: Listener) -> dict[str, list[dict[str, Any]]]:
    """Three sources report one event in pieces: what was told after each report."""
    producer = connection.producer(**{"linger.ms": 0})
    answers = {}
    for source, fields in PROOF.items():
        start = len(listener.heard)
        datum = {"topic": TOPIC, "key": "proof", "fields": fields, "source": source, "id": None, "published_ms": None}
        message = avro.schema("message")
        producer.produce(kafka_topic, message.encode(datum), record_key("proof"))
        producer.flush()
        # What is right to drop is waited for too, as it might be told wrongly. The first may find a peer that is still starting.
        listener.wait(start + 1, {"A": 60, "B": 20, "C": 8}[source], quiet_s=1)
        answers[source] = [content["news"] for content in listener.since(start)]
    return answers


def wrong_in(answers: Mapping[str, list[dict[str, Any]]]) -> str:
    """What a peer got wrong on the proof, in words; empty if nothing.

    >>> wrong_in({"A": [{"what": "fire"}], "B": [{"where": "kitchen"}], "C": [{"what": "fire"}]})
    'C told {"what": "fire"} instead of dropped'
    >>> wrong_in({"A": [{"what": "fire"}], "B": [], "C": []})
    'B dropped instead of told {"where": "kitchen"}'
    """
    return "; ".join(
        f"{source} {_in_words(answers[source])} instead of {_in_words(right)}"
        for source, right in RIGHT.items()
        if answers[source] != right
    )


def _in_words(tellings: Iterable[Mapping[str, str]]) -> str:
    return "told " + " and ".join(json.dumps(dict(news)) for news in tellings) if tellings else "dropped"


def latency(connection: Connection, kafka_topic: str, listener: Listener, per_s: int, seconds: int, warm_up_s: int = 3) -> Rates:
    """Publish fresh news at an even pace and listen for it."""
    start = len(listener.heard)
    producer = connection.producer(**{"linger.ms": 1})
    total, each_s = per_s * (warm_up_s + seconds), 0.01
    began = time.monotonic()
    for number in range(total):
        behind = began + number / per_s - time.monotonic()
        if behind > each_s:
            time.sleep(behind)
        key = f"live-{number:07d}"
        sent_us = time.time_ns() // 1000
        fields: dict[str, str | int] = {"what": "smoke alarm", "where": "server room B", "number": number, "sent_us": sent_us}
        producer.produce(kafka_topic, encode(key, fields), record_key(key))
        producer.poll(0)
    producer.flush()
    listener.wait(start + total, 20)
    took = []
    for came_s, value in list(listener.heard[start:]):
        news = json.loads(value)["news"]
        if "sent_us" in news and int(news["number"]) >= per_s * warm_up_s:
            took.append(came_s - int(news["sent_us"]) / 1e6)
    cuts = quantiles(took, n=100)
    return {"p50_s": round(median(took), 3), "p99_s": round(cuts[98], 3), "untold": per_s * seconds - len(took)}
