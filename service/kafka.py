"""A real Kafka broker as a child process: one node, KRaft, everything under one directory.

    <directory>/data          topics and metadata
               /broker.properties, log4j2.properties
               /kafka.log     what Kafka logs, a few files of a few megabytes
               /kafka.out     what the Java machine itself prints
               /port          the port clients know; a restart takes it again
"""

from __future__ import annotations

import base64
import contextlib
import logging
import os
import random
import re
import shutil
import signal
import socket
import subprocess
import time
import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Self

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

from service.jars import kafka_jars
from service.java import Java
from tidings.errors import CannotRun

HOST = "127.0.0.1"
LARGEST_MESSAGE_BYTES = 16 * 1024 * 1024
_READY_S = 90.0
_STOP_S = 20.0
_FORMAT_S = 60.0
_PORT_TRIES = 3

# Below the ports that systems hand out for outgoing connections. Within that range, a client that keeps trying to reach a stopped
# broker can be given the broker's own port, connect to itself, and keep the broker from coming back.
_PORTS = range(20_000, 30_000)

# Warnings are kept out of the terminal: clients that wait for a broker are expected to find none at first.
_SILENT = logging.getLogger("tidings.kafka.silent")
_SILENT.addHandler(logging.NullHandler())
_SILENT.propagate = False

_LOGGING = """\
rootLogger.level = INFO
rootLogger.appenderRef.file.ref = file
appender.file.type = RollingFile
appender.file.name = file
appender.file.fileName = kafka.log
appender.file.filePattern = kafka.log.%i
appender.file.layout.type = PatternLayout
appender.file.layout.pattern = [%d{yyyy-MM-dd'T'HH:mm:ss.SSSXXX}] %p %m (%c{1})%n
appender.file.policies.type = Policies
appender.file.policies.size.type = SizeBasedTriggeringPolicy
appender.file.policies.size.size = 8MB
appender.file.strategy.type = DefaultRolloverStrategy
appender.file.strategy.max = 3
"""


@dataclass(frozen=True)
class _Ports:
    broker: int
    controller: int


class EmbeddedKafka:
    """A running broker. ``start`` returns when it answers; ``stop`` when it is gone."""

    def __init__(self, directory: Path, port: int, process: subprocess.Popen[bytes]) -> None:
        self.directory = directory
        self.bootstrap = f"{HOST}:{port}"
        self._process = process

    @classmethod
    def start(cls, directory: Path, java: Java, port: int = 0, heap_mb: int = 512, least_free_mb: int = 500) -> Self:
        """Start a broker on ``directory``, which is formatted the first time and reused after that.

        ``port`` 0 takes the port of the last start if it is free, else any free one. Raises ``CannotRun``.
        """
        jars = kafka_jars()
        directory = directory.absolute()
        _prepare(directory, least_free_mb)
        for tries_left in reversed(range(_PORT_TRIES)):
            ports = _choose_ports(directory, port)
            _write(directory / "broker.properties", _properties(_broker_settings(ports)))
            _format_if_new(directory, java, jars)
            process = _launch(directory, java, jars, heap_mb)
            try:
                _wait_until_ready(process, directory, ports.broker)
            except BaseException as error:
                _end(process, _STOP_S)
                # Somebody took the port between our look and Kafka's; with a port of our own choice, choose again.
                if tries_left and not port and isinstance(error, CannotRun) and "already in use" in str(error):
                    continue
                raise
            _write(directory / "port", f"{ports.broker}\n")
            return cls(directory, ports.broker, process)
        raise AssertionError("unreachable: the last try returns or raises")

    @property
    def pid(self) -> int:
        """The process id of the Java machine."""
        return self._process.pid

    def is_alive(self) -> bool:
        """Whether the process still runs."""
        return self._process.poll() is None

    def stop(self, timeout_s: float = _STOP_S) -> None:
        """End the broker in order; kill it if it takes longer than ``timeout_s``. Does nothing if it is gone."""
        _end(self._process, timeout_s)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.stop()


def _prepare(directory: Path, least_free_mb: int) -> None:
    try:
        (directory / "tmp").mkdir(parents=True, exist_ok=True)
        _write(directory / "log4j2.properties", _LOGGING)
        free_mb = shutil.disk_usage(directory).free // 1_000_000
    except OSError as error:
        raise CannotRun(f"cannot keep Kafka's files in {directory}: {error.strerror or error}") from error
    if free_mb < least_free_mb:
        raise CannotRun(f"only {free_mb} MB are free for Kafka in {directory}, {least_free_mb} MB are needed; make room or choose another --dir")


def _write(path: Path, text: str) -> None:
    """Replace the file in one step: a killed process leaves the old one or the new one."""
    new = path.with_name(f"{path.name}.new")
    new.write_text(text)
    new.replace(path)


def _choose_ports(directory: Path, asked: int) -> _Ports:
    if asked:
        if not _is_free(asked):
            raise CannotRun(f"port {asked} is in use; choose another one, or 0 for any free port, or end the process that listens there")
        broker = asked
    else:
        remembered = _remembered_port(directory)
        broker = remembered if remembered and _is_free(remembered) else _free_port(frozenset())
    return _Ports(broker, _free_port(frozenset({broker})))


def _remembered_port(directory: Path) -> int | None:
    try:
        return int((directory / "port").read_text())
    except (FileNotFoundError, ValueError):
        return None


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        # As Java does: connections of the former broker that linger in TIME_WAIT do not count.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((HOST, port))
            probe.listen(1)
        except OSError:
            return False
    return True


def _free_port(taken: frozenset[int]) -> int:
    # At random, so that two services that start together rarely try the same.
    for port in random.sample(_PORTS, 200):
        if port not in taken and _is_free(port):
            return port
    raise CannotRun(f"no free port between {_PORTS.start} and {_PORTS.stop}; give one with a fixed number")


def _broker_settings(ports: _Ports) -> dict[str, str | int]:
    one = 1  # there is one node, so one copy of everything
    return {
        "process.roles": "broker,controller",
        "node.id": 1,
        "controller.quorum.bootstrap.servers": f"{HOST}:{ports.controller}",
        "listeners": f"PLAINTEXT://{HOST}:{ports.broker},CONTROLLER://{HOST}:{ports.controller}",
        "advertised.listeners": f"PLAINTEXT://{HOST}:{ports.broker}",
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
        "controller.listener.names": "CONTROLLER",
        "inter.broker.listener.name": "PLAINTEXT",
        # Relative to the working directory: commas and backslashes in a path would need quoting that Kafka does not know.
        "log.dirs": "data",
        # Time is Kafka's append time (docs/design.md, "The clock").
        "log.message.timestamp.type": "LogAppendTime",
        "message.max.bytes": LARGEST_MESSAGE_BYTES,
        "replica.fetch.max.bytes": LARGEST_MESSAGE_BYTES,
        # Clients may publish before the service made the topic.
        "auto.create.topics.enable": "true",
        "num.partitions": 1,
        "default.replication.factor": one,
        "min.insync.replicas": one,
        "offsets.topic.replication.factor": one,
        "offsets.topic.num.partitions": 4,
        "transaction.state.log.replication.factor": one,
        "transaction.state.log.min.isr": one,
        "transaction.state.log.num.partitions": 4,
        "share.coordinator.state.topic.replication.factor": one,
        "share.coordinator.state.topic.min.isr": one,
        "share.coordinator.state.topic.num.partitions": one,
        "group.initial.rebalance.delay.ms": 0,
        "log.cleaner.enable": "true",
        "log.cleaner.dedupe.buffer.size": 32 * 1024 * 1024,  # the default of 128 MB is a quarter of the heap
        "num.network.threads": 2,
        "num.io.threads": 4,
    }


def _properties(settings: Mapping[str, str | int]) -> str:
    return "".join(f"{key}={value}\n" for key, value in settings.items())


def _java(java: Java, jars: list[Path], heap_mb: int) -> list[str]:
    return [
        str(java.path),
        f"-Xmx{heap_mb}m",
        "-XX:+ExitOnOutOfMemoryError",  # a broker without memory is worse than none: the service sees that it ended
        "-XX:+PerfDisableSharedMem",  # else a file outside the directory
        "-Djava.io.tmpdir=tmp",
        "-Djava.awt.headless=true",
        "-Djava.net.preferIPv4Stack=true",
        "-Dlog4j2.configurationFile=log4j2.properties",
        "-cp",
        os.pathsep.join(map(str, jars)),
    ]


def _format_if_new(directory: Path, java: Java, jars: list[Path]) -> None:
    """Give the storage its cluster id. Formatting writes ``meta.properties`` last, so a half-made one is made again."""
    if (directory / "data" / "meta.properties").exists():
        return
    cluster = base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")
    command = [*_java(java, jars, 256), "kafka.tools.StorageTool", "format", "--standalone", "--ignore-formatted"]
    command += ["--cluster-id", cluster, "--config", "broker.properties"]
    try:
        with (directory / "kafka.out").open("wb") as out:
            subprocess.run(command, cwd=directory, stdin=subprocess.DEVNULL, stdout=out, stderr=out, timeout=_FORMAT_S, check=True)
    except (OSError, subprocess.SubprocessError) as error:
        raise CannotRun(f"cannot format Kafka's storage in {directory}: {_telling_line(directory)}") from error


def _launch(directory: Path, java: Java, jars: list[Path], heap_mb: int) -> subprocess.Popen[bytes]:
    command = [*_java(java, jars, heap_mb), "kafka.Kafka", "broker.properties"]
    with (directory / "kafka.out").open("wb") as out:
        # A session of its own: Ctrl-C in the terminal must reach the service only, which then stops the broker last.
        return subprocess.Popen(command, cwd=directory, stdin=subprocess.DEVNULL, stdout=out, stderr=out, start_new_session=True)


def _wait_until_ready(process: subprocess.Popen[bytes], directory: Path, port: int) -> None:
    """Wait for an open port, then for an answer: Kafka opens the port before it can serve."""
    deadline = time.monotonic() + _READY_S
    while time.monotonic() < deadline:
        if process.poll() is not None:
            raise CannotRun(f"Kafka did not start: {_telling_line(directory)}")
        if _accepts(port) and _answers(port):
            return
        time.sleep(0.1)
    raise CannotRun(f"Kafka did not answer within {_READY_S:.0f} s; the last of {directory / 'kafka.log'}: {_telling_line(directory)}")


def _accepts(port: int) -> bool:
    try:
        with socket.create_connection((HOST, port), timeout=1):
            return True
    except OSError:
        return False


def _answers(port: int) -> bool:
    settings = {"bootstrap.servers": f"{HOST}:{port}", "log_level": 0, "error_cb": lambda _error: None}
    admin = AdminClient(settings, logger=_SILENT)
    try:
        return bool(admin.list_topics(timeout=2).brokers)
    except KafkaException:
        return False


def _end(process: subprocess.Popen[bytes], timeout_s: float) -> None:
    if process.poll() is not None:
        return
    process.send_signal(signal.SIGTERM)
    try:
        process.wait(timeout_s)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def _telling_line(directory: Path) -> str:
    """The line that says why Kafka ended: its last error, else the last line of anything."""
    lines: list[str] = []
    for name in ("kafka.log", "kafka.out"):
        with contextlib.suppress(FileNotFoundError):
            lines += (directory / name).read_text(errors="replace").splitlines()
    return lines[-1]
