"""A key bomb: one source names ever new keys. What is remembered stays within its bound, and the others hardly notice."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from statistics import median, median_low

from producers.publisher import Publisher
from service.kafka.java import find_java
from streaming.world.records import subscription
from testing.chaos import processes
from testing.chaos.scenarios import PromiseBroken, Scale
from testing.chaos.stage import Stage, staged
from testing.service import RunningService, wait_for
from tidings.message import Message

_OPEN_EVENTS = 20_000
_PER_S = 2000
_PROBE_S = 0.5
_QUIET_S = 20.0
_TIMES = 2.0
_ROOM_BYTES = 400 * 2**20
"""Memory that the bomb may make the Python workers take beyond what they had, for so many open events, each in as many workers as
have seen it, and for the largest batch. Java's has a bound."""
_GROWTH = 1.2
"""How much more they may take in the last quarter of the bomb than in the second: then all the room is taken."""


def key_bomb(folder: Path, scale: Scale, say: Callable[[str], None]) -> Iterator[str]:
    """Many new keys from one source: memory bounded, evictions counted, the others' delay at most doubled."""
    settings = {"TIDINGS_LIMITS_OPEN_EVENTS": str(_OPEN_EVENTS)}
    with staged(folder, find_java(), say, settings) as stage:
        stage.up().apply(subscription("quiet", topic="quiet"), subscription("bomb", topic="bomb"))
        with _Probes(stage) as probes:
            time.sleep(_QUIET_S)
            calm_s = probes.delay_s()
            before = _memory(stage)
            say(f"{scale.keys:,} new keys at {_PER_S:,} a second")
            taken = _explode(stage, scale.keys)
            wait_for("the bomb to be read", lambda: stage.service.books().received >= scale.keys, 3600)
            loud_s = probes.delay_s()
        most, (second, last) = max(taken), quarters(taken)
        yield f"memory of the Python workers: {before >> 20} MiB before, at most {most >> 20} MiB meanwhile"
        yield f"half of the time under {second >> 20} MiB in the second quarter, {last >> 20} MiB in the last"
        yield f"delay of the others, half of them under: {calm_s:.2f} s in calm, {loud_s:.2f} s under the bomb"
        yield accounted_for(stage.service, scale.keys, probes.sent, _OPEN_EVENTS)
        if most > before + _ROOM_BYTES:
            raise PromiseBroken(f"the workers took {(most - before) >> 20} MiB more")
        if last > _GROWTH * second:
            raise PromiseBroken(f"the workers went on growing, {last / second:.2f} times from the second quarter to the last")
        if loud_s > _TIMES * calm_s:
            raise PromiseBroken(f"the others waited {loud_s / calm_s:.1f} times as long")


def accounted_for(service: RunningService, keys: int, others: int, open_events: int) -> str:
    """See that every key was told once, everybody else all of theirs, and every event that gave way was counted."""
    books = wait_for("the books", lambda: b if (b := service.books()).received >= keys + others else None, 120)
    told = wait_for(
        "all keys to be told", lambda: t if len(t := {n["key"] for n in service.told("notify.bomb")}) >= keys else None, 60
    )
    if len(told) != keys or not books.balanced or books.received != keys + others:
        raise PromiseBroken(f"{keys} keys, {len(told)} told; {books.to_dict()}")
    quiet = wait_for("the others' news", lambda: q if len(q := service.told("notify.quiet")) >= others else None, 60)
    if sorted(n["news"]["n"] for n in quiet) != list(range(others)):
        raise PromiseBroken(f"the others sent {others} and were told {len(quiet)}")
    least = max(0, keys - open_events)
    if not least <= books.evicted <= keys + others:
        raise PromiseBroken(f"{books.evicted} events were counted as evicted, at least {least} were")
    return f"{books.received:,} received, all told, {books.evicted:,} events gave way and are counted"


def quarters(taken: list[int]) -> tuple[int, int]:
    """What was typical in the second quarter, and in the last.

    >>> quarters([1, 2, 3, 4, 9, 9, 5, 6])
    (3, 5)
    """
    quarter = max(1, len(taken) // 4)
    return median_low(taken[quarter : 2 * quarter] or taken), median_low(taken[-quarter:])


def _explode(stage: Stage, keys: int) -> list[int]:
    """Publish the keys; returns the memory that was taken meanwhile."""
    taken, started_s = [], time.monotonic()
    with Publisher(stage.service.connection) as publisher:
        for number in range(keys):
            publisher.publish(Message("bomb", f"k{number}", {"n": number}, "one source"))
            if number % _PER_S == 0:
                taken.append(_memory(stage))
                time.sleep(max(0.0, started_s + number / _PER_S - time.monotonic()))
    return [*taken, _memory(stage)]


def _memory(stage: Stage) -> int:
    return processes.resident_bytes(processes.python_workers(stage.service.process.pid))


class _Probes(threading.Thread):
    """Somebody else's messages, two a second, and how long after their append time they are told."""

    def __init__(self, stage: Stage) -> None:
        super().__init__(name="probes", daemon=True)
        self.sent = 0
        self._service = stage.service
        self._from = 0
        self._stopping = threading.Event()

    def run(self) -> None:
        with Publisher(self._service.connection) as publisher:
            while not self._stopping.wait(_PROBE_S):
                publisher.publish(Message("quiet", f"q{self.sent}", {"n": self.sent}))
                self.sent += 1

    def delay_s(self) -> float:
        """Half of the delays since the last question are below this."""
        records = self._service.read("notify.quiet")
        delays = [(record.append_ms - json.loads(record.value or b"")["first_ms"]) / 1000 for record in records[self._from :]]
        self._from = len(records)
        return median(delays) if delays else 0.0

    def __enter__(self) -> _Probes:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stopping.set()
        self.join(60)
