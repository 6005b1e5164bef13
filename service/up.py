"""The service as `tidings up` runs it: everything started in order, watched, and stopped in reverse order."""

from __future__ import annotations

import contextlib
import logging
import os
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from logging.handlers import RotatingFileHandler
from pathlib import Path
from typing import TYPE_CHECKING

from clients.connection import Connection
from clients.topics import ensure_topics, service_topics
from service.clock.keeper import ControlKeeper
from service.clock.ownership import check_first, wait_until_free
from service.clock.ticker import Ticker
from service.clock.wishes import WishFollower
from service.directory.checkpoint import check_checkpoint
from service.directory.directory import ServiceDirectory
from service.directory.migration import BUCKETS, HANDS_ON, PARTITIONS, check_made_with, forget_old, hands_on
from service.kafka.class_archive import ArchiveMaker
from service.kafka.java import Java, find_java
from service.queries import Launcher, Queries, query_spec
from service.spark import StartingSpark
from service.watch.metrics import BooksFollower, MetricsServer, ServiceCollector
from service.watch.redaction import HidingFormatter
from streaming.broker.settings import rules_of, timing_of
from streaming.broker.state import Rules
from streaming.spark.pipelines import PIPELINES
from streaming.spark.ways import ways_in
from streaming.wire.clock import TickerIdentity
from tidings.config import Config, client_properties
from tidings.errors import CannotRun
from tidings.properties import secrets_in

if TYPE_CHECKING:
    from service.kafka.embedded import EmbeddedKafka

_WARM_BATCHES = 2
_WARM_S = 45.0


@dataclass(frozen=True)
class StartedService:
    """A service whose parts have all been started, but for its pipelines: ``check`` starts those."""

    bootstrap: str
    metrics_address: str
    directory: ServiceDirectory
    kafka: EmbeddedKafka | None
    keeper: ControlKeeper
    queries: Queries
    launcher: Launcher

    @property
    def java(self) -> dict[str, int]:
        """Its Java machines, by what they are called in a profile."""
        return {"java spark": self.launcher.java_pid} | ({"java kafka": self.kafka.pid} if self.kafka is not None else {})

    def check(self) -> None:
        """Start the pipelines that control data asks for; raise if a part has failed. To be called again and again."""
        if self.kafka is not None and not self.kafka.is_alive():
            raise CannotRun(f"the embedded Kafka ended; see {self.directory.kafka / 'kafka.log'}")
        if self.keeper.failure is not None:
            raise CannotRun(f"the control data can no longer be read: {self.keeper.failure}")
        if failed := self.queries.check(self.keeper.snapshot, self.launcher.launch):
            raise CannotRun(f"{failed}; see {self.directory.logs}")


class Service:
    """A service to be started and stopped. ``say`` gets a line for each step, for a person who waits."""

    def __init__(self, config: Config, say: Callable[[str], None]) -> None:
        self.config = config
        self._say = say
        self._exits = contextlib.ExitStack()
        self._queries = Queries()
        self._ready = False

    def start(self) -> StartedService:
        """Start everything; when this returns, messages flow. To be stopped, whether all could be started or not."""
        java = find_java()
        os.environ["JAVA_HOME"] = str(java.path.resolve().parent.parent)
        directory = self._exits.enter_context(ServiceDirectory.open(Path(self.config.service.dir)))
        directory.end_orphans(self._say)
        secrets = (directory.secret, directory.hash_key, *secrets_in(client_properties(self.config)))
        self._exits.enter_context(_logging_to(directory.logs / "service.log", self.config.service.log_level, secrets))
        spark = StartingSpark(self.config.spark, directory, java, secrets)
        self._exits.callback(spark.stop)
        kafka = None if self.config.kafka.bootstrap_servers else self._start_kafka(java, directory)
        connection = Connection(kafka.bootstrap if kafka else self.config.kafka.bootstrap_servers, client_properties(self.config))
        connection.check()
        rules = rules_of(self.config, self.config.spark.buckets)
        rules = replace(rules, hands_on=hands_on(directory, rules.hosted))
        self._check_unchanged(directory, connection, rules)
        ensure_topics(connection, service_topics(self.config.kafka.partitions, self.config.kafka.replication))
        identity = TickerIdentity(directory.service, directory.secret)
        wait_until_free(connection, directory.service, rules.hosted, self._say)
        ticker = Ticker(connection, identity, self.config.service.tick_ms, rules.hosted, hands_on=rules.hands_on)
        follower = WishFollower(connection, ticker.wish)
        self._exits.callback(follower.stop)
        keeper = ControlKeeper(connection, directory.control, timing_of(self.config), self.config.kafka, ticker)
        self._exits.callback(keeper.stop)
        keeper.catch_up()
        ticker.tick()
        ticker.flush()
        check_first(connection, directory.service, rules.hosted)
        metrics_address = self._serve_metrics(connection, directory, keeper)
        self._say("starting Spark")
        session = spark.wait()
        self._queries.ways = ways_in(session.sparkContext)
        spec = query_spec(self.config, rules, directory, connection.bootstrap, identity, self._queries.ways)
        launcher = Launcher(session, spark.pid, spec, directory, connection, ticker, self.config.spark.stall_s)
        self._exits.callback(self._queries.stop)
        started = StartedService(connection.bootstrap, metrics_address, directory, kafka, keeper, self._queries, launcher)
        started.check()
        ticker.tell_progress(self._queries.read_up_to)
        follower.start()
        self._run(ticker)
        keeper.start()
        self._warm_up(started)
        ticker.rest()
        forget_old(directory)
        self._ready = True
        directory.record_ready(started.bootstrap, os.getpid(), metrics_address)
        self._run(ArchiveMaker([program.classes for program in (kafka, spark) if program is not None]))
        return started

    def stop(self) -> None:
        """Stop all that was started, last first."""
        self._ready = False
        self._exits.close()

    def _run(self, part: BooksFollower | Ticker | ArchiveMaker) -> None:
        """Run a part in its own thread, until the service stops."""
        part.start()
        self._exits.callback(part.stop)

    def _start_kafka(self, java: Java, directory: ServiceDirectory) -> EmbeddedKafka:
        from service.kafka.embedded import EmbeddedKafka

        self._say("starting Kafka")
        kafka = EmbeddedKafka.start(
            directory.kafka,
            java,
            self.config.kafka.port,
            self.config.kafka.heap_mb,
            launched=lambda pid: directory.record_process("Kafka", pid),
        )
        self._exits.callback(kafka.stop)
        return kafka

    def _check_unchanged(self, directory: ServiceDirectory, connection: Connection, rules: Rules) -> None:
        spark = self.config.spark
        made = {
            BUCKETS: spark.buckets,
            PARTITIONS: spark.shuffle_partitions,
            "Kafka cluster": connection.cluster_id(),
            "service.brokers": self.config.service.brokers,
            HANDS_ON: rules.hands_on,
        }
        check_made_with(directory, made)
        for pipeline in PIPELINES:
            check_checkpoint(directory.path / pipeline.checkpoint)

    def _serve_metrics(self, connection: Connection, directory: ServiceDirectory, keeper: ControlKeeper) -> str:
        """Returns where. Whoever asks is answered while the rest starts, too."""
        follower = BooksFollower(connection, directory.path / "books.json")
        self._run(follower)
        collector = ServiceCollector(
            follower.by_broker,
            self._queries.progress,
            lambda: (keeper.snapshot.version, keeper.rejected, len(keeper.problems)),
            self._queries.handled,
        )
        port = self.config.service.metrics_port
        try:
            server = MetricsServer(collector, port, self._queries.are_live, self._is_ready)
        except CannotRun:
            if port != type(self.config.service).metrics_port:
                raise
            # Nobody asked for this port: a second service on the machine should not fail for it.
            server = MetricsServer(collector, 0, self._queries.are_live, self._is_ready)
        self._exits.callback(server.stop)
        return server.address

    def _is_ready(self) -> bool:
        return self._ready and self._queries.are_live()

    def _warm_up(self, started: StartedService) -> None:
        """The first batches compile code and start workers: `ready` is said when they are over."""
        self._say("warming up")
        deadline = time.monotonic() + _WARM_S
        seen: set[int] = set()
        while len(seen) < _WARM_BATCHES and time.monotonic() < deadline:
            started.check()
            if (query := self._queries.reading_ticks) and (progress := query.last_progress):
                seen.add(progress["batchId"])
            time.sleep(0.05)
        started.check()


@contextlib.contextmanager
def _logging_to(path: Path, level: str, secrets: Sequence[str]) -> Iterator[None]:
    handler = RotatingFileHandler(path, maxBytes=10_000_000, backupCount=3)
    handler.setFormatter(HidingFormatter("%(asctime)s %(levelname)s %(name)s %(message)s", secrets))
    logger = logging.getLogger("tidings")
    logger.addHandler(handler)
    logger.setLevel(level.upper())
    logging.raiseExceptions = False  # a disk too full for the log must not fill the terminal with that
    try:
        yield
    finally:
        logger.removeHandler(handler)
        handler.close()
