"""A real Kafka broker as a child process: one node, KRaft, everything under one directory.

<directory>/data          topics and metadata
           /broker.properties, log4j2.properties
           /kafka.log     what Kafka logs, a few files of a few megabytes
           /kafka.out     what the Java machine itself prints
           /port          the port clients know; a restart takes it again
           /audit.log     who was allowed what; only of a broker with a guard
"""

from __future__ import annotations

import base64
import contextlib
import fcntl
import logging
import os
import re
import signal
import socket
import subprocess
import time
import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

from service.directory.directory import LEAST_FREE_MB, replace_text, require_space
from service.kafka.class_archive import ClassArchive
from service.kafka.jars import kafka_jars
from service.kafka.java import COMPILED_LATE, COMPILED_ONCE, Java
from service.kafka.ports import HOST, free_port, is_free
from service.kafka.secured import AUDIT_LOGGING, Guard
from tidings import names
from tidings.errors import CannotRun

_READY_S = 90.0
_STOP_S = 20.0
_PORT_TRIES = 3

# Warnings are kept out of the terminal: clients that wait for a broker are expected to find none at first.
_SILENT = logging.getLogger("tidings.kafka.silent")
_SILENT.addHandler(logging.NullHandler())
_SILENT.propagate = False

# There is one node, so one copy of everything.
_COPIES = (
    *("default.replication.factor", "min.insync.replicas", "offsets.topic.replication.factor"),
    *("transaction.state.log.replication.factor", "transaction.state.log.min.isr"),
    *("share.coordinator.state.topic.replication.factor", "share.coordinator.state.topic.min.isr"),
)
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
# Kafka prints all its settings twice at each start.
logger.settings.name = org.apache.kafka.common.config.AbstractConfig
logger.settings.level = WARN
"""
_LOGGED_ERROR = re.compile(r"\[[^]]*\] (ERROR|FATAL) ")
_THROWN = re.compile(r"(?:Caused by: )?[\w.$]+(?:Exception|Error): (.+)")


class EmbeddedKafka:
    """A running broker. ``start`` returns when it answers; ``stop`` when it is gone.

    With a guard, ``bootstrap`` is for those with a password and ``certificate_bootstrap`` for those with a certificate.
    """

    def __init__(
        self, directory: Path, port: int, process: subprocess.Popen[bytes], program: _Program, certificate_port: int = 0
    ) -> None:
        self.directory = directory
        self.bootstrap = f"{HOST}:{port}"
        self.certificate_bootstrap = f"{HOST}:{certificate_port}" if certificate_port else ""
        self._process = process
        self._program = program

    @classmethod
    def start(
        cls,
        directory: Path,
        java: Java,
        port: int = 0,
        heap_mb: int = 512,
        least_free_mb: int = LEAST_FREE_MB,
        launched: Callable[[int], None] = lambda _pid: None,
        guard: Guard | None = None,
    ) -> Self:
        """Start a broker on ``directory``, which is formatted the first time and reused after that.

        ``port`` 0 takes the port of the last start if it is free, else any free one. ``launched`` is told the pid at once, as
        a service that is killed before Kafka is ready leaves an orphan too. With a ``guard`` clients must log in and need
        rights. Raises ``CannotRun``.
        """
        program = _Program(java, kafka_jars())
        directory = directory.absolute()
        _prepare(directory, least_free_mb, _LOGGING + AUDIT_LOGGING if guard else _LOGGING)
        for tries_left in reversed(range(_PORT_TRIES)):
            chosen = _choose_port(directory, port)
            controller, certificate = _other_ports(chosen, 2)
            settings = _broker_settings(chosen, controller)
            if guard:
                settings |= guard.settings(chosen, certificate, controller)
            replace_text(directory / "broker.properties", "".join(f"{key}={value}\n" for key, value in settings.items()))
            _format_if_new(directory, program, guard.format_arguments() if guard else [])
            process = _launch(directory, program, heap_mb)
            try:
                launched(process.pid)
                _wait_until_ready(process, directory, certificate if guard else chosen, guard.as_broker() if guard else {})
            except BaseException as error:
                _end(process, _STOP_S)
                # Somebody took a port between our look and Kafka's: choose again, or say which one is taken.
                if tries_left and isinstance(error, CannotRun) and "already in use" in str(error):
                    continue
                raise
            replace_text(directory / "port", f"{chosen}\n")
            return cls(directory, chosen, process, program, certificate if guard else 0)
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

    @property
    def classes(self) -> tuple[ClassArchive, str]:
        """What could make its next start faster, and its class path."""
        return self._program.archive, self._program.class_path

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.stop()


@dataclass(frozen=True)
class _Program:
    """Kafka's Java programs: the broker, and the tool that formats its storage."""

    java: Java
    jars: list[Path]

    @property
    def class_path(self) -> str:
        return os.pathsep.join(map(str, self.jars))

    @property
    def archive(self) -> ClassArchive:
        return ClassArchive.of("kafka", self.java, self.jars)

    def command(self, directory: Path, heap_mb: int, compiled: Sequence[str] = COMPILED_LATE) -> list[str]:
        """All before the name of the program."""
        return [
            str(self.java.path),
            f"-Xmx{heap_mb}m",
            "-XX:+ExitOnOutOfMemoryError",  # a broker without memory is worse than none: the service sees that it ended
            "-XX:+PerfDisableSharedMem",  # else a file outside the directory
            *compiled,
            *self.archive.options(),
            f"-Djava.io.tmpdir={directory / 'tmp'}",
            "-Dlog4j2.configurationFile=log4j2.properties",
            "-cp",
            self.class_path,
        ]


def _prepare(directory: Path, least_free_mb: int, logging_settings: str) -> None:
    try:
        (directory / "tmp").mkdir(parents=True, exist_ok=True)
        replace_text(directory / "log4j2.properties", logging_settings)
        require_space(directory, least_free_mb)
        in_use = _is_in_use(directory / "data" / ".lock")
    except OSError as error:
        raise CannotRun(f"cannot keep Kafka's files in {directory}: {error.strerror or error}") from error
    if in_use:
        raise CannotRun(f"another Kafka broker still runs on {directory}; end that process first")


def _is_in_use(lock: Path) -> bool:
    """Whether a broker holds its lock. Kafka looks itself, but only after it has written to the metadata of the other one."""
    if not lock.exists():
        return False
    with lock.open("r+b") as file:
        try:
            fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
    return False


def _choose_port(directory: Path, asked: int) -> int:
    if asked:
        if not is_free(asked):
            raise CannotRun(f"port {asked} is in use; end the process that listens there, or choose another port, or 0 for any")
        return asked
    with contextlib.suppress(FileNotFoundError, ValueError):
        remembered = int((directory / "port").read_text())
        if is_free(remembered):
            return remembered
    return free_port()


def _other_ports(taken: int, count: int) -> list[int]:
    """Free ports, all different."""
    ports = {taken}
    while len(ports) <= count:
        ports.add(free_port(other_than=taken))
    return sorted(ports - {taken})


def _broker_settings(port: int, controller_port: int) -> dict[str, str | int]:
    return {
        "process.roles": "broker,controller",
        "node.id": 1,
        "controller.quorum.bootstrap.servers": f"{HOST}:{controller_port}",
        "listeners": f"PLAINTEXT://{HOST}:{port},CONTROLLER://{HOST}:{controller_port}",
        "advertised.listeners": f"PLAINTEXT://{HOST}:{port}",
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
        "controller.listener.names": "CONTROLLER",
        # Relative to the working directory: commas and backslashes in a path would need quoting that Kafka does not know.
        "log.dirs": "data",
        # Time is Kafka's append time (docs/state-and-clock.md).
        "log.message.timestamp.type": "LogAppendTime",
        "message.max.bytes": names.LARGEST_RECORD_BYTES,
        "replica.fetch.max.bytes": names.LARGEST_RECORD_BYTES,
        # Clients may publish before the service made the topic.
        "auto.create.topics.enable": "true",
        "num.partitions": 1,
        "offsets.topic.num.partitions": 4,
        "transaction.state.log.num.partitions": 4,
        "share.coordinator.state.topic.num.partitions": 1,
        **dict.fromkeys(_COPIES, 1),
        # After a kill, the new broker may register only when the session of the old one is over (by default 9 s).
        "broker.session.timeout.ms": 4000,
        "broker.heartbeat.interval.ms": 1000,
        "group.initial.rebalance.delay.ms": 0,
        "log.cleaner.dedupe.buffer.size": 32 * 1024 * 1024,  # the default of 128 MB is a quarter of the heap
    }


def _format_if_new(directory: Path, program: _Program, more: list[str]) -> None:
    """Give the storage its cluster id. Formatting writes ``meta.properties`` last, so a half-made one is made again."""
    if (directory / "data" / "meta.properties").exists():
        return
    cluster = base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")
    command = [*program.command(directory, 256, COMPILED_ONCE), "kafka.tools.StorageTool", "format", "--standalone"]
    # In one word: an id may begin with a dash.
    command += ["--ignore-formatted", f"--cluster-id={cluster}", "--config", "broker.properties", *more]
    try:
        with (directory / "kafka.out").open("wb") as out:
            subprocess.run(command, cwd=directory, stdin=subprocess.DEVNULL, stdout=out, stderr=out, timeout=60, check=True)
    except (OSError, subprocess.SubprocessError) as error:
        raise CannotRun(f"cannot format Kafka's storage in {directory}: {_telling_line(directory)}") from error


def _launch(directory: Path, program: _Program, heap_mb: int) -> subprocess.Popen[bytes]:
    if (directory / "kafka.log").exists():
        # A new log, or an old error would be taken for the new one.
        (directory / "kafka.log").replace(directory / "kafka.log.0")
    command = [*program.command(directory, heap_mb), "kafka.Kafka", "broker.properties"]
    with (directory / "kafka.out").open("wb") as out:
        # A session of its own: Ctrl-C in the terminal must reach the service only, which then stops the broker last.
        return subprocess.Popen(command, cwd=directory, stdin=subprocess.DEVNULL, stdout=out, stderr=out, start_new_session=True)


def _wait_until_ready(process: subprocess.Popen[bytes], directory: Path, port: int, login: dict[str, Any]) -> None:
    """Wait for an answer: Kafka opens the port before it can serve."""
    deadline = time.monotonic() + _READY_S
    while time.monotonic() < deadline:
        if process.poll() is not None:
            raise CannotRun(f"Kafka did not start: {_telling_line(directory)} (see {directory / 'kafka.log'})")
        if _answers(port, login):
            return
        time.sleep(0.1)
    raise CannotRun(f"Kafka gave no answer in {_READY_S:.0f} s: {_telling_line(directory)} (see {directory / 'kafka.log'})")


def _answers(port: int, login: dict[str, Any]) -> bool:
    settings = {"bootstrap.servers": f"{HOST}:{port}", "log_level": 0, "error_cb": lambda _error: None, **login}
    try:
        socket.create_connection((HOST, port), timeout=1).close()
        return bool(AdminClient(settings, logger=_SILENT).list_topics(timeout=2).brokers)
    except (OSError, KafkaException):
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
    """Why Kafka ended, in one line: its last error, else what Java printed, else the last thing it logged."""
    log, out = (_lines_of(directory / name) for name in ("kafka.log", "kafka.out"))
    starts = [index for index, line in enumerate(log) if _LOGGED_ERROR.match(line)]
    if starts:
        return _cause_of(log[starts[-1] :])
    return next(iter([*out[-1:], *log[-1:]]), "it said nothing")


def _lines_of(path: Path) -> list[str]:
    try:
        return [line for line in path.read_text(errors="replace").splitlines() if line.strip()]
    except FileNotFoundError:
        return []


def _cause_of(lines: list[str]) -> str:
    """The innermost cause of an error with its stack trace, unless the one around it says the same and more."""
    thrown = [match.group(1) for line in lines if (match := _THROWN.match(line))]
    if not thrown:
        return _LOGGED_ERROR.sub("", lines[0])
    cause = thrown.pop()
    while thrown and cause.rstrip(".") in thrown[-1]:
        cause = thrown.pop()
    return cause
