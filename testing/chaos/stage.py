"""A Kafka, a service on it and a stream to it: what a scenario does its harm to.

Kafka is not the service's child here, unless it is asked for, so that each of the two can die alone. Its port and directory stay.
"""

from __future__ import annotations

import contextlib
import json
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from subprocess import Popen

import psutil

from service.kafka.embedded import EmbeddedKafka
from service.kafka.java import Java
from testing.chaos import processes
from testing.chaos.load import AGGREGATES, CONTROL, Load
from testing.chaos.moments import Moment, Phase, Victims
from testing.chaos.verdict import ChaosVerdict, settle
from testing.service import RunningService, launch, wait_for

_ENDS_S = 180.0


class Stage:
    """``say`` gets a line for each thing done; ``settings`` are environment variables of the service."""

    def __init__(
        self, folder: Path, java: Java, say: Callable[[str], None], settings: Mapping[str, str], *, embedded: bool
    ) -> None:
        self.folder = folder
        self.say = say
        self._java = java
        self._settings = settings
        self._service: RunningService | None = None
        self._kafka = None if embedded else EmbeddedKafka.start(folder / "kafka", java)

    @property
    def directory(self) -> Path:
        """The directory of the service."""
        return self.folder / "dir"

    @property
    def service(self) -> RunningService:
        """The service that runs, or ran last."""
        assert self._service is not None, "no service has been started yet"
        return self._service

    @property
    def stderr(self) -> str:
        """What the service that was started last said."""
        return self.directory.with_suffix(".stderr").read_text()

    @property
    def kafka(self) -> EmbeddedKafka:
        assert self._kafka is not None, "this Kafka is the service's own"
        return self._kafka

    @property
    def _env(self) -> dict[str, str]:
        settings = {"TIDINGS_SERVICE_METRICS_PORT": "0", **self._settings}
        return settings if self._kafka is None else {"TIDINGS_KAFKA_BOOTSTRAP_SERVERS": self._kafka.bootstrap, **settings}

    # ---- the service --------------------------------------------------------------------------------------------------

    def up(self) -> RunningService:
        """Start the service and wait until it is ready."""
        self._service = RunningService.start(self.directory, self._env)
        return self._service

    def ensure_up(self) -> RunningService:
        """The service that runs, or a new one."""
        running = self._service is not None and self._service.process.poll() is None
        return self.service if running else self.up()

    def up_or_refused(self) -> str | None:
        """Start the service: None when it is ready, the one line that it said when it ended with exit code 1."""
        process = launch(self.directory, self._env)
        stdout = self.directory.with_suffix(".stdout")
        try:
            wait_for("ready, or an end", lambda: process.poll() is not None or stdout.read_text(), _ENDS_S)
        except BaseException:
            processes.kill_family(process.pid)
            raise
        if process.poll() is not None:
            return self.last_line(process)
        bootstrap = stdout.read_text().strip().removeprefix("ready bootstrap=")
        self._service = RunningService(self.directory, process, bootstrap, self._env)
        return None

    def last_line(self, process: Popen[bytes]) -> str:
        """The one line of a service that ends with exit code 1."""
        wait_for("the service to give up", lambda: process.poll() is not None, _ENDS_S)
        said = [line for line in self.stderr.splitlines() if line.startswith("tidings: ")]
        assert process.returncode == 1, f"exit code {process.returncode}: {self.stderr}"
        assert len(said) == 1, f"not one line: {self.stderr}"
        assert "Traceback" not in self.stderr, self.stderr
        return said[0].removeprefix("tidings: ")

    def kill(self) -> None:
        """`kill -9` for the whole service: driver, Java machine, Python workers; and its own Kafka if it has one."""
        processes.kill_family(self.service.process.pid)
        self.service.process.wait()

    def kill_at(self, moment: Moment) -> None:
        """Bring the service into a phase, and kill it there. It need not run before, and does not run afterwards."""
        if moment.phase is Phase.STARTING:
            self.kill()
            process = launch(self.directory, self._env)
        else:
            process = self.ensure_up().process
        if moment.phase is Phase.STOPPING:
            process.terminate()
        time.sleep(moment.after_ms / 1000)
        self._kill(process, moment.victims)

    def _kill(self, process: Popen[bytes], victims: Victims) -> None:
        if victims is Victims.DRIVER:
            process.kill()
        elif victims is Victims.SERVICE:
            processes.kill_family(process.pid, spare=self._kafka_pid())
        else:
            processes.kill_family(process.pid)
            if self._kafka is not None:
                self.kill_kafka()
                self.restart_kafka()
        process.wait()

    def workers(self) -> list[psutil.Process]:
        """Spark's Python processes: a daemon and at least one worker."""

        def look() -> list[psutil.Process] | None:
            found = processes.python_workers(self.service.process.pid)
            return found if len(found) > 1 else None

        return wait_for("Python workers", look, 60)

    # ---- Kafka --------------------------------------------------------------------------------------------------------

    def kill_kafka(self) -> None:
        processes.kill_family(self.kafka.pid)

    def restart_kafka(self) -> None:
        """The same Kafka again: its port, its data."""
        port = int(self.kafka.bootstrap.rpartition(":")[2])
        self.kafka.stop()
        self._kafka = EmbeddedKafka.start(self.folder / "kafka", self._java, port)

    def _kafka_pid(self) -> int | None:
        """Kafka, if it is the service's own child."""
        try:
            started = json.loads((self.directory / "processes.json").read_text())
        except FileNotFoundError:
            return None
        return next((int(each["pid"]) for each in started if each["role"] == "Kafka"), None)

    # ---- the end ------------------------------------------------------------------------------------------------------

    def verdict(self, published: int) -> ChaosVerdict:
        """How it ended. The service must run."""
        return settle(self.service, published)

    def close(self) -> None:
        """End all that is left."""
        if self._service is not None:
            processes.kill_family(self._service.process.pid)
        if (pid := self._kafka_pid()) is not None:
            processes.kill_family(pid)
        if self._kafka is not None:
            self._kafka.stop()


@contextlib.contextmanager
def staged(
    folder: Path, java: Java, say: Callable[[str], None], settings: Mapping[str, str] | None = None, *, embedded: bool = False
) -> Iterator[Stage]:
    """A stage, cleared afterwards."""
    folder.mkdir(parents=True, exist_ok=True)
    stage = Stage(folder, java, say, settings or {}, embedded=embedded)
    try:
        yield stage
    finally:
        stage.close()


@contextlib.contextmanager
def streaming(stage: Stage, seed: int, *, windows: bool = False, **more: int) -> Iterator[Load]:
    """Start the service, teach it what the stream is about, and let the stream flow. With ``windows``, aggregates too."""
    stage.up().apply(*CONTROL, *(AGGREGATES if windows else ()))
    with Load(stage.service.connection, seed, **more) as load:
        yield load
