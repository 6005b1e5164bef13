"""Spark's session, which starts beside Kafka: each takes seconds, and neither needs the other for them."""

from __future__ import annotations

import importlib.util
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING

from service.directory.directory import ServiceDirectory
from service.kafka.class_archive import ClassArchive
from service.kafka.jars import spark_jars
from service.kafka.java import COMPILED_LATE, Java
from service.watch.spark_logs import logging_option
from tidings.config import Spark

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class StartingSpark:
    """A session that is on its way from the moment this is made. To be stopped, whether anybody waited for it or not."""

    def __init__(self, settings: Spark, directory: ServiceDirectory, java: Java, secrets: Sequence[str]) -> None:
        self._settings, self._directory, self._secrets = settings, directory, secrets
        self._jars = spark_jars()
        self._local = settings.master.startswith("local")
        self._archive = ClassArchive.of("spark", java, [spark_home() / "jars", *self._jars])
        executor = ThreadPoolExecutor(1, "spark-start")
        self._session = executor.submit(self._start)
        if self._local:
            executor.submit(self._start_python_daemon)
        executor.shutdown(wait=False)

    def _start(self) -> SparkSession:
        from streaming.spark.session import start_session

        archive = self._archive.options() if self._local else ()
        return start_session(
            self._settings.master,
            self._jars,
            shuffle_partitions=self._settings.shuffle_partitions,
            driver_memory=self._settings.driver_memory,
            ui=self._settings.ui,
            java_options=[*COMPILED_LATE, logging_option(self._directory.logs), *archive],
            stderr=self._directory.logs / "spark.err",
            local_dir=self._directory.path / "spark",
            redact=self._secrets,
        )

    def _start_python_daemon(self) -> None:
        """Have Spark start its Python daemon by a job of nothing: while that imports all it needs, the first batch is planned.

        Nobody waits for this. If it fails, as when the service stops at once, the first batch starts the daemon.
        """
        context = self._session.result().sparkContext
        # As in every query. Spark has a daemon for each environment that its workers ask for.
        context.environment["SPARK_SIMPLIFIED_TRACEBACK"] = "1"
        context.parallelize(range(1), 1).foreach(abs)

    def wait(self) -> SparkSession:
        """The session, when it is there. What went wrong, goes wrong here."""
        session = self._session.result()
        self._directory.record_process("Spark", self.pid)
        return session

    @property
    def pid(self) -> int:
        """The process id of its Java machine; waits for it."""
        return int(self._session.result().sparkContext._gateway.proc.pid)

    def stop(self) -> None:
        """Stop the session, even if it has only just come."""
        if self._session.exception() is None:
            from streaming.spark.session import stop_session

            stop_session(self._session.result())

    @property
    def classes(self) -> tuple[ClassArchive, str]:
        """What could make its next start faster, and its class path, which is known when it has started."""
        from streaming.spark.session import class_path

        return self._archive, class_path(self._session.result())


def spark_home() -> Path:
    """Where pyspark is. It is not imported for that: it would take a second, before anything else starts."""
    found = importlib.util.find_spec("pyspark")
    assert found is not None, "a dependency of this package"
    assert found.origin is not None
    return Path(found.origin).parent
