"""The service as `tidings up` runs it: everything started in order, watched, and stopped in reverse order."""

from __future__ import annotations

import contextlib
import hashlib
import logging
import os
import re
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import datetime
from logging.handlers import RotatingFileHandler
from pathlib import Path
from typing import Any

from clients.connection import Connection
from clients.topics import TopicSpec, delivery_specs, ensure_topics, link_specs, partitions_of, publish_specs, service_topics
from service.clock.keeper import ControlKeeper
from service.clock.ownership import check_first, wait_until_free
from service.clock.ticker import Ticker
from service.directory.checkpoint import check_checkpoint
from service.directory.directory import ServiceDirectory
from service.directory.migration import BUCKETS, PARTITIONS, check_made_with, forget_old, starting_offsets
from service.kafka.java import find_java
from service.supervisor import SupervisedQuery
from service.watch.metrics import BooksFollower, MetricsServer, ServiceCollector
from service.watch.redaction import HidingFormatter
from service.watch.spark_logs import stderr_to, write_log_config
from service.watch.workers import PythonWorkers
from streaming.broker.settings import hosted_by, message_limits_of, rules_of, timing_of
from streaming.spark.events import BucketSpec
from streaming.spark.query import QuerySpec, start_query
from streaming.spark.windows import start_window_query
from streaming.wire.clock import TickerIdentity
from tidings import names
from tidings.config import Config, client_properties
from tidings.control import Snapshot
from tidings.errors import CannotRun
from tidings.properties import secrets_in

_WARM_BATCHES = 3
_WARM_S = 45.0


class Service:
    """A running service. ``say`` gets a line for each step, for a person who waits."""

    def __init__(self, config: Config, say: Callable[[str], None]) -> None:
        self.config = config
        self.bootstrap = ""
        self.metrics_address = ""
        self._say = say
        self._exits = contextlib.ExitStack()
        self._ready = False
        self._query: SupervisedQuery | None = None
        self._windows: SupervisedQuery | None = None
        self._start_windows: Callable[[bool], Any] | None = None
        self._kafka: Any = None

    def start(self) -> None:
        """Start everything; when this returns, messages flow."""
        try:
            self._start()
        except BaseException:
            self.stop()
            raise

    def stop(self) -> None:
        """Stop all that was started, last first."""
        self._ready = False
        self._exits.close()

    def watch(self, stopping: threading.Event) -> None:
        """Return when asked to stop; raise when a part of the service has failed."""
        while not stopping.wait(0.25):
            self.check()

    def is_live(self) -> bool:
        return self._query is not None and self._query.is_active

    # ---- starting -----------------------------------------------------------------------------------------------------

    def _start(self) -> None:
        java = find_java()
        os.environ["JAVA_HOME"] = str(java.path.resolve().parent.parent)
        self._directory = self._exits.enter_context(ServiceDirectory.open(Path(self.config.service.dir)))
        self._directory.end_orphans(self._say)
        self._secrets = (self._directory.secret, self._directory.hash_key, *secrets_in(client_properties(self.config)))
        log = _logging_to(self._directory.logs / "service.log", self.config.service.log_level, self._secrets)
        self._exits.enter_context(log)
        connection = self._connect(java)
        self._fix_for_life(connection)
        check_checkpoint(self._directory.checkpoint)
        if self._directory.windows.exists():
            check_checkpoint(self._directory.windows)
        ensure_topics(connection, service_topics(self.config.kafka.partitions, self.config.kafka.replication))
        service = hashlib.sha256(f"service {self._directory.secret}".encode()).hexdigest()[:12]
        identity = TickerIdentity(service, self._directory.secret)
        hosted = hosted_by(self.config)
        wait_until_free(connection, service, hosted, self._say)
        self._ticker = Ticker(connection, identity, self.config.service.tick_ms, hosted, self._read_up_to)
        self._keeper = self._keep_control(connection)
        self._ticker.tick()
        self._ticker.flush()
        check_first(connection, service, hosted)
        self._serve_metrics(connection)
        query = self._run_query(service, connection)
        self._ticker.start()
        self._exits.callback(self._ticker.stop)
        self._keeper.start()
        self._warm_up(query)
        forget_old(self._directory)
        self._ready = True
        self._directory.record_ready(self.bootstrap, os.getpid(), self.metrics_address)

    def _connect(self, java: Any) -> Connection:
        settings = self.config.kafka
        properties = client_properties(self.config)
        if settings.bootstrap_servers:
            self.bootstrap = settings.bootstrap_servers
        else:
            from service.kafka.embedded import EmbeddedKafka

            self._say("starting Kafka")
            self._kafka = EmbeddedKafka.start(
                self._directory.kafka,
                java,
                settings.port,
                settings.heap_mb,
                launched=lambda pid: self._directory.record_process("Kafka", pid),
            )
            self._exits.callback(self._kafka.stop)
            self.bootstrap = self._kafka.bootstrap
        connection = Connection(self.bootstrap, properties)
        connection.check()
        return connection

    def _fix_for_life(self, connection: Connection) -> None:
        spark = self.config.spark
        made = {
            BUCKETS: spark.buckets,
            PARTITIONS: spark.shuffle_partitions,
            "Kafka cluster": connection.cluster_id(),
            "service.brokers": self.config.service.brokers,
        }
        check_made_with(self._directory, made)

    def _keep_control(self, connection: Connection) -> ControlKeeper:
        kafka = self.config.kafka

        def topics_for(snapshot: Snapshot) -> list[TopicSpec]:
            delivered = sorted({s.deliver for s in snapshot.subscriptions.values()})
            return [
                *publish_specs(snapshot.brokers, kafka.partitions, kafka.replication),
                *link_specs(snapshot.links, kafka.replication),
                *delivery_specs(delivered, kafka.replication),
            ]

        read = re.compile(names.input_pattern(hosted_by(self.config)))

        def adopted(snapshot: Snapshot) -> None:
            wanted = [spec.name for spec in topics_for(snapshot) if read.fullmatch(spec.name)]
            self._ticker.adopt(snapshot.version, partitions_of(connection, wanted))

        keeper = ControlKeeper(connection, self._directory.control, timing_of(self.config), topics_for, adopted)
        self._exits.callback(keeper.stop)
        keeper.catch_up()
        return keeper

    def _serve_metrics(self, connection: Connection) -> None:
        follower = BooksFollower(connection, self._directory.path / "books.json")
        follower.start()
        self._exits.callback(follower.stop)
        collector = ServiceCollector(
            follower.by_broker,
            lambda: {"tidings_batch": _progress(self._query), "tidings_windows_batch": _progress(self._windows)},
            lambda: (self._keeper.snapshot.version, self._keeper.rejected, len(self._keeper.problems)),
        )
        port = self.config.service.metrics_port
        try:
            server = MetricsServer(collector, port, self.is_live, lambda: self._ready and self.is_live())
        except CannotRun:
            if port != type(self.config.service).metrics_port:
                raise
            # Nobody asked for this port: a second service on the machine should not fail for it.
            server = MetricsServer(collector, 0, self.is_live, lambda: self._ready and self.is_live())
        self._exits.callback(server.stop)
        self.metrics_address = server.address

    def _run_query(self, service: str, connection: Connection) -> SupervisedQuery:
        from service.kafka.jars import spark_jars
        from streaming.spark.session import start_session, stop_session

        self._say("starting Spark")
        spark_settings = self.config.spark
        logs = self._directory.logs
        log_config = write_log_config(logs)
        jars = spark_jars()
        with stderr_to(logs / "spark.err"):
            spark = start_session(
                spark_settings.master,
                jars,
                shuffle_partitions=spark_settings.shuffle_partitions,
                driver_memory=spark_settings.driver_memory,
                ui=spark_settings.ui,
                log_config=log_config,
                local_dir=self._directory.path / "spark",
                redact=self._secrets,
            )
        self._exits.callback(stop_session, spark)
        java_pid = spark.sparkContext._gateway.proc.pid
        self._directory.record_process("Spark", java_pid)
        settings = self._query_settings(service)

        def partitions() -> dict[str, int]:
            return {name: count for name, count in connection.topics().items() if re.fullmatch(settings.inputs, name)}

        def start(over_gaps: bool) -> Any:
            return start_query(spark, settings, over_gaps=over_gaps, starting=starting_offsets(self._directory, partitions))

        self._query = SupervisedQuery(
            start,
            workers=PythonWorkers(java_pid),
            stall_s=spark_settings.stall_s,
        )
        self._exits.callback(self._query.stop)
        self._start_windows = lambda over_gaps: start_window_query(spark, settings, over_gaps=over_gaps)
        return self._query

    def _query_settings(self, service: str) -> QuerySpec:
        spark = self.config.spark
        return QuerySpec(
            bootstrap_servers=self.bootstrap,
            checkpoint=self._directory.checkpoint,
            windows_checkpoint=self._directory.windows,
            service=service,
            secret=self._directory.hash_key,
            buckets=spark.buckets,
            bucket=BucketSpec(
                ticker=TickerIdentity(service, self._directory.secret),
                control_dir=str(self._directory.control),
                state_dir=str(self._directory.state),
                secret=self._directory.hash_key,
                rules=rules_of(self.config, spark.buckets),
                limits=message_limits_of(self.config),
                timing=timing_of(self.config),
            ),
            trigger_ms=spark.trigger_ms,
            max_offsets_per_trigger=spark.max_offsets_per_trigger,
            kafka_properties=client_properties(self.config),
        )

    def _read_up_to(self) -> Mapping[str, int]:
        """By partition, up to where the query has read, and written what follows from it."""
        return self._query.read_up_to if self._query is not None else {}

    def _warm_up(self, query: SupervisedQuery) -> None:
        """The first batches compile code and start workers: `ready` is said when they are over."""
        self._say("warming up")
        deadline = time.monotonic() + _WARM_S
        seen: set[int] = set()
        while len(seen) < _WARM_BATCHES and time.monotonic() < deadline:
            self.check()
            if progress := query.last_progress:
                seen.add(progress["batchId"])
            time.sleep(0.05)
        self.check()

    # ---- watching -----------------------------------------------------------------------------------------------------

    def check(self) -> None:
        """Say so if something stopped, and start what new control data asks for. To be called again and again."""
        if self._kafka is not None and not self._kafka.is_alive():
            raise CannotRun(f"the embedded Kafka ended; see {self._directory.kafka / 'kafka.log'}")
        if self._keeper.failure is not None:
            raise CannotRun(f"the control data can no longer be read: {self._keeper.failure}")
        if self._query is not None and (cause := self._query.check()):
            raise CannotRun(f"the query stopped: {cause}; see {self._directory.logs}")
        self._check_windows()

    def _check_windows(self) -> None:
        """The side pipeline is started when somebody first subscribes to an aggregate."""
        if self._windows is None:
            if self._start_windows is not None and self._keeper.snapshot.windowed:
                self._windows = SupervisedQuery(self._start_windows)
                self._exits.callback(self._windows.stop)
        elif cause := self._windows.check():
            raise CannotRun(f"the query for windows stopped: {cause}; see {self._directory.logs}")


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
