"""Makes time pass: a tick on `clock`, and a mark in every partition the query reads, whenever somebody wants the time.

A mark read means that everything before it in its partition was read. So time moves in silence, and never past a backlog. Every
tick costs a batch; so when nothing is due there are hardly any, and that the service lives stands on `pulse`.
"""

from __future__ import annotations

import logging
import re
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from confluent_kafka import TIMESTAMP_LOG_APPEND_TIME, KafkaError, KafkaException, Message

from clients.connection import Connection
from service.clock.wishes import Wishes
from streaming.wire.clock import Tick, TickerIdentity, encode_tick
from streaming.wire.pulse import life_record
from streaming.wire.record import Outgoing
from tidings import names

_log = logging.getLogger("tidings.ticker")

_LIFE_S = 2.0
"""How often a service says that it lives."""
_LOOK_S = 0.1
"""How often to look whether the last tick has been read, while somebody waits for the next."""
_DELIVERY_S = 1.0
_MOST_WRITTEN = 3600
"""Ticks whose marks have not been read yet. If the query is further behind than that, it says nothing of how far it is."""


@dataclass(slots=True)
class _Written:
    """Where the marks of one tick stand: by partition, the offset and the append time; and the version that they named."""

    version: int
    count: int
    at_s: float = field(default_factory=time.monotonic)
    marks: dict[str, tuple[int, int]] = field(default_factory=dict)
    late_ms: int = 0
    """How much later it was here than there when the last of them was written; negative if Kafka's clock is ahead."""

    def delivered(self, error: KafkaError | None, message: Message) -> None:
        kind, append_ms = message.timestamp()
        offset, topic, partition = message.offset(), message.topic(), message.partition()
        if error is None and kind == TIMESTAMP_LOG_APPEND_TIME and offset is not None and topic and partition is not None:
            self.marks[names.partition_name(topic, partition)] = (offset, append_ms)
            self.late_ms = _now_ms() - append_ms

    @property
    def lowest_ms(self) -> int | None:
        """The earliest time among them; None if one is not written."""
        return min(append_ms for _, append_ms in self.marks.values()) if len(self.marks) == self.count else None

    def is_read(self, ends: Mapping[str, int]) -> bool:
        """Whether a query that has read up to these offsets has read all of them."""
        return len(self.marks) == self.count and all(offset < ends.get(at, 0) for at, (offset, _) in self.marks.items())


class Ticker(threading.Thread):
    """``adopt`` names the version and the partitions that the next tick tells."""

    def __init__(
        self,
        connection: Connection,
        identity: TickerIdentity,
        tick_ms: int,
        brokers: frozenset[str] | None = None,
        *,
        hands_on: bool = False,
    ) -> None:
        super().__init__(name="ticker", daemon=True)
        self._identity = identity
        self._brokers = brokers
        self._hands_on = hands_on
        self._reads = re.compile(names.input_pattern(brokers, links=not hands_on))
        self._read_up_to: Callable[[], Mapping[str, int]] = dict
        self._written: deque[_Written] = deque(maxlen=_MOST_WRITTEN)
        self._done: tuple[int | None, int] = (None, 0)
        self._told_version = -1
        self._wishes = Wishes(tick_ms)
        self._late_ms = 0
        self._lived_s = 0.0
        self._at_once = False
        self._adoption: tuple[int, dict[str, int]] = (0, {})
        self._lock = threading.Lock()
        self._last: Tick | None = None
        self._stopping = threading.Event()
        self._wanted = threading.Event()
        self._producer = connection.producer(**{"linger.ms": 0})

    def adopt(self, version: int, kafka_topics: Mapping[str, int]) -> None:
        """From the next tick on, this version holds. Of these Kafka topics, each with its partitions, some may be read here."""
        self._adoption = (version, {name: count for name, count in kafka_topics.items() if self._reads.fullmatch(name)})
        self._at_once = True
        self._wanted.set()

    def tell_progress(self, read_up_to: Callable[[], Mapping[str, int]]) -> None:
        """From now on, ticks say how far this service is, so that others know when nothing more comes from here.

        ``read_up_to`` gives, by partition, the offset up to which all has been read, and all that follows from it written.
        """
        self._read_up_to = read_up_to

    def wish(self, of: str, wants_ms: int) -> None:
        """Somebody wants a tick at that time, by Kafka's clock."""
        with self._lock:
            self._wishes.wish(of, wants_ms)
        self._wanted.set()

    def rest(self) -> None:
        """The service has started: from now on a tick comes when somebody wants one."""
        self._wishes.hurry = False

    @property
    def unread_s(self) -> float:
        """For how long the oldest tick has not been read."""
        ends = self._read_up_to()
        return next((time.monotonic() - each.at_s for each in list(self._written) if not each.is_read(ends)), 0.0)

    def tick(self) -> None:
        """Write the marks, then the tick.

        Whoever sees a version on the clock can rely on it: all that is published from then on stands after a mark of it.
        """
        version, kafka_topics = self._adoption
        partitions = [(topic, number) for topic, count in sorted(kafka_topics.items()) for number in range(count)]
        self._look_how_far()
        read = tuple(names.partition_name(*at) for at in [(names.CLOCK, 0), *partitions])
        told = _now_ms(), *self._done, self._hands_on
        tick = Tick(str(self._identity.service), version, read, self._brokers, *told)
        written = _Written(version, len(partitions) + 1)
        try:
            for topic, number in partitions:
                self._producer.produce(topic, self._identity.mark(version), partition=number, on_delivery=written.delivered)
            if version != self._told_version:
                self._producer.flush()
                self._told_version = version
            self._producer.produce(names.CLOCK, encode_tick(tick), partition=0, on_delivery=written.delivered)
            self._written.append(written)
            self._last = tick
        except (BufferError, KafkaException) as error:
            _log.warning("a tick was left out: %s", error)
        self._producer.poll(0)

    def _look_how_far(self) -> None:
        """Of the ticks that have been read in all partitions, the last; all before its marks was read, too."""
        if not self._written:
            return
        ends = self._read_up_to()
        for number, written in reversed(list(enumerate(self._written))):
            if written.is_read(ends):
                self._done = min(append_ms for _, append_ms in written.marks.values()), written.version
                for _ in range(number + 1):
                    self._written.popleft()
                return

    def flush(self, timeout_s: float = 10) -> None:
        self._producer.flush(timeout_s)

    def run(self) -> None:
        while not self._stopping.is_set():
            if self._at_once or self._wait_s <= 0:
                self._at_once = False
                with self._lock:
                    self._wishes.ticked(self._kafkas_ms)
                self.tick()
                self._note_wishes_met()
            if time.monotonic() - self._lived_s >= _LIFE_S:
                self._live()
            self._wait()

    def _wait(self) -> None:
        """Until a tick or a sign of life is due. A new version does not wait for that, nor does a wish that is for earlier."""
        most_s = _LOOK_S if self._is_held_back() else _LIFE_S
        if self._wanted.wait(timeout=min(max(0.0, self._wait_s), most_s)):
            self._wanted.clear()

    def _is_held_back(self) -> bool:
        """Whether somebody wants a tick, and the last one has not been read: whoever reads it may change that any moment."""
        if self._wishes.is_held_back and self.unread_s == 0.0:
            self._wishes.read = True
        return self._wishes.is_held_back

    @property
    def _wait_s(self) -> float:
        with self._lock:
            return (self._wishes.next_ms - self._kafkas_ms) / 1000

    @property
    def _kafkas_ms(self) -> int:
        """The time by Kafka's clock, as far as it is known here."""
        return _now_ms() - self._late_ms

    def _note_wishes_met(self) -> None:
        """Wishes are for Kafka's time, which is known when it has written the marks of the last tick."""
        self.flush(_DELIVERY_S)
        written = self._written[-1] if self._written else None
        if written is not None and (lowest_ms := written.lowest_ms) is not None:
            self._late_ms = written.late_ms
            with self._lock:
                self._wishes.met(lowest_ms)

    def _live(self) -> None:
        """Say that the service lives. No query reads that."""
        self._lived_s = time.monotonic()
        if self._last is not None:
            self._write(life_record(self._last))

    def _write(self, record: Outgoing) -> None:
        try:
            self._producer.produce(record.topic, record.value, record.key, partition=0)
        except (BufferError, KafkaException) as error:
            _log.warning("no sign of life: %s", error)
        self._producer.poll(0)

    def stop(self) -> None:
        self._stopping.set()
        self._wanted.set()
        if self.is_alive():
            self.join(timeout=10)
        self._leave()
        self.flush(5)

    def _leave(self) -> None:
        """A last tick that serves nobody: whoever wants to serve these brokers next need not wait."""
        tick = Tick(str(self._identity.service), self._adoption[0], brokers=frozenset())
        self._write(life_record(tick))
        try:
            self._producer.produce(names.CLOCK, encode_tick(tick), partition=0)
        except (BufferError, KafkaException) as error:
            _log.warning("no goodbye on the clock: %s", error)


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
