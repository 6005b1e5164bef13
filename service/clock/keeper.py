"""Keeps the control data: reads the `control` Kafka topic, writes a snapshot file for every version, names it in the next tick.

A version is the offset up to which the control topic was read, so the same version is the same data wherever it is made.
A record that cannot be applied is dead-lettered with its reason and changes nothing.
"""

from __future__ import annotations

import logging
import threading
import time
from pathlib import Path

from confluent_kafka import OFFSET_BEGINNING, KafkaException, Message, TopicPartition

from clients.connection import PATIENT, Connection
from clients.log import to_record
from clients.topics import TopicSpec, asked_specs, ensure_topics, partitions_of
from service.clock.ticker import Ticker
from service.directory.snapshots import newest_snapshot, write_snapshot
from streaming.wire.aside import control_aside_record
from streaming.wire.record import Record
from tidings import names
from tidings.config import Kafka
from tidings.errors import BadControl, CannotRun, TidingsError
from tidings.topic import Timing
from topology.overlay import Problem
from topology.plan import Plan

_log = logging.getLogger("tidings.keeper")
_KEEP = 100
"""Snapshot files kept. A replayed batch needs the last few at most."""

_LOOK_S = 3.0
"""How often to look whether the Kafka topics are still there."""

_PUT_RIGHT = 20
"""After this many looks their settings are put right too."""

_SETTLE_S = 0.05
"""Records that arrive together become one version."""


class ControlKeeper(threading.Thread):
    """``ticker`` names each new version, when all that the version needs is there; ``kafka`` says how Kafka topics are made."""

    def __init__(
        self,
        connection: Connection,
        folder: Path,
        timing: Timing,
        kafka: Kafka,
        ticker: Ticker,
    ) -> None:
        super().__init__(name="control-keeper", daemon=True)
        self.rejected = 0
        self._looks = 0
        self._looked_s = 0.0
        self.problems: tuple[Problem, ...] = ()
        self._connection = connection
        self._folder = folder
        self._kafka = kafka
        self._ticker = ticker
        self._stopping = threading.Event()
        self._producer = connection.producer()
        self._consumer = connection.consumer(**PATIENT)
        self.snapshot = newest_snapshot(folder, timing)
        self.failure: BaseException | None = None

    def catch_up(self) -> None:
        """Read the control topic to its end; the service starts with what it says."""
        start = self.snapshot.version or OFFSET_BEGINNING
        partition = TopicPartition(names.CONTROL, 0, start)
        _, end = self._consumer.get_watermark_offsets(partition, timeout=30)
        if end < self.snapshot.version:
            raise CannotRun(
                f"the control topic of this Kafka ends at {end}, but {self._folder} knows {self.snapshot.version}: "
                "it belongs to another cluster; choose another --dir"
            )
        self._consumer.assign([partition])
        while self.snapshot.version < end:
            self._take(self._consumer.consume(num_messages=500, timeout=1))
        self._announce()

    def run(self) -> None:
        unannounced = False
        self._looked_s = time.monotonic()
        while not self._stopping.is_set():
            try:
                unannounced = self._restore_topics() or unannounced
                if first := self._consumer.consume(num_messages=1, timeout=0.2):
                    self._take([*first, *self._consumer.consume(num_messages=500, timeout=_SETTLE_S)])
                    unannounced = True
                if unannounced:
                    self._announce()
                    unannounced = False
            except (KafkaException, TidingsError) as error:
                _log.warning("the control data cannot be read or announced now: %s", error)
                self._stopping.wait(1)
            except Exception as error:  # the service looks at `failure` and stops with it
                self.failure = error
                _log.exception("the control keeper failed")
                return

    def _restore_topics(self) -> bool:
        """Look now and then whether somebody deleted Kafka topics, which are to be made anew: the service writes to them."""
        if time.monotonic() - self._looked_s <= _LOOK_S:
            return False
        self._looked_s = time.monotonic()
        specs = self._wanted_topics()
        there = self._connection.topics()
        missing = [spec.name for spec in specs if spec.name not in there]
        self._looks += 1
        if self._looks % _PUT_RIGHT == 0:
            ensure_topics(self._connection, specs)  # a Kafka that makes topics by itself does not know what we promise
        if missing:
            _log.error("somebody deleted %s; what was unread there is lost, and it is made anew", ", ".join(missing))
        return bool(missing)

    def stop(self) -> None:
        self._stopping.set()
        if self.is_alive():
            self.join(timeout=10)
        self._consumer.close()
        self._producer.flush(5)

    def _take(self, messages: list[Message]) -> None:
        for message in messages:
            if message.error():
                _log.warning("reading the control topic: %s", message.error())  # librdkafka tries again by itself
                continue
            record = to_record(message)
            try:
                self.snapshot = self.snapshot.apply(record.offset + 1, (record.key or b"").decode(errors="replace"), record.value)
            except BadControl as error:
                self._put_aside(record, error)
        self._producer.flush()

    def _put_aside(self, record: Record, error: BadControl) -> None:
        """A record that cannot be applied changes nothing but the version."""
        _log.warning("%s", error)
        self.rejected += 1
        aside = control_aside_record(record, error.detail)
        self._producer.produce(aside.topic, key=aside.key, value=aside.value, headers=aside.headers)
        self.snapshot = self.snapshot.passing_over(record.offset + 1)

    def _announce(self) -> None:
        """First the Kafka topics, then the file, then the tick: what a version names is there before anyone sees it."""
        specs = self._wanted_topics()
        ensure_topics(self._connection, specs)
        if self.snapshot.version:
            write_snapshot(self._folder, self.snapshot, _KEEP)
        _log.info("control data is at version %d", self.snapshot.version)
        self._name_problems()
        self._ticker.adopt(self.snapshot.version, partitions_of(self._connection, [spec.name for spec in specs]))

    def _wanted_topics(self) -> list[TopicSpec]:
        """The Kafka topics that the control data asks for."""
        return asked_specs(self.snapshot.kafka_topics, self._kafka.partitions, self._kafka.replication)

    def _name_problems(self) -> None:
        problems = Plan(self.snapshot).problems
        for problem in problems:
            if problem not in self.problems:
                _log.warning("%s", problem.text)
        if self.problems and not problems:
            _log.info("the overlay is in order again")
        self.problems = problems
