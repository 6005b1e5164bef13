"""Who is compared, and how each is started. What a user of it must write is the file named as ``code``."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import psutil
from install import HERE, PLACE, class_path, python_of_peers
from load import PUBLISH

from clients import control
from clients.connection import Connection
from service.kafka.jars import spark_jars
from service.kafka.java import find_java
from service.kafka.ports import free_port
from testing.service import RunningService, launch
from tidings.errors import CannotRun

SCHEMA = HERE.parent.parent / "streaming" / "wire" / "schemas" / "message.avsc"
_STOP_S = 15.0
# Flink reaches into these; its own start script opens them too.
_OPENS = ("java.lang", "java.lang.invoke", "java.net", "java.io", "java.nio", "java.text", "java.time", "java.util")
_FLINK_OPENS = [f"--add-opens=java.base/{package}=ALL-UNNAMED" for package in (*_OPENS, "java.util.concurrent")]


@dataclass(frozen=True)
class Scene:
    """Where a peer runs: which Kafka topics it reads and writes, and where it may keep state."""

    bootstrap: str
    inputs: tuple[str, ...]
    output: str
    folder: Path
    batch: int

    def environ(self, instance: int) -> dict[str, str]:
        """What the user's code of each peer reads."""
        state = self.folder / f"state{instance}"
        state.mkdir(parents=True, exist_ok=True)
        return {
            "BOOTSTRAP": self.bootstrap,
            "TOPICS": ",".join(self.inputs),
            "OUTPUT": self.output,
            "GROUP": self.output,
            "STATE_DIR": str(state),
            "SCHEMA": str(SCHEMA),
            "BATCH": str(self.batch),
        }


class Running(Protocol):
    """A peer at work."""

    pids: list[int]
    bootstrap: str
    output: str
    live_input: str

    def check(self) -> None:
        """Raise `CannotRun` if it ended."""

    def stop(self) -> None: ...


class Processes:
    """One process for each command, each in a group of its own."""

    def __init__(self, scene: Scene, commands: Sequence[Sequence[str]], more: Mapping[str, str]) -> None:
        self.bootstrap, self.output, self.live_input = scene.bootstrap, scene.output, scene.inputs[-1]
        self._log = PLACE / "logs" / f"{scene.output}.log"
        self._log.parent.mkdir(parents=True, exist_ok=True)
        self._log.unlink(missing_ok=True)
        self._processes = []
        scene.folder.mkdir(parents=True, exist_ok=True)
        for instance, command in enumerate(commands):
            env = {**os.environ, **scene.environ(instance), **more}
            with self._log.open("ab") as log:
                process = subprocess.Popen(
                    command, env=env, cwd=scene.folder, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True
                )
            self._processes.append(process)
        self.pids = [process.pid for process in self._processes]

    def check(self) -> None:
        for process in self._processes:
            if process.poll() is not None:
                lines = [line for line in self._log.read_text(errors="replace").splitlines() if line.strip()]
                telling = [line for line in lines if "Error" in line or "Exception" in line]
                raise CannotRun(f"it ended with code {process.returncode}: {(telling or lines or ['it said nothing'])[-1][:200]}")

    def stop(self) -> None:
        """Ask, then kill whatever is left of the trees."""
        family = [psutil.Process(process.pid) for process in self._processes if process.poll() is None]
        below = [child for process in family for child in process.children(recursive=True)]
        for process in self._processes:
            if process.poll() is None:
                process.send_signal(signal.SIGTERM)
        _, left = psutil.wait_procs([*family, *below], _STOP_S)
        for one in left:
            one.kill()
        for process in self._processes:
            process.wait()


class Service:
    """Tidings as its users run it. The control data is there before it starts, like the load."""

    def __init__(self, scene: Scene, *, own_kafka: bool) -> None:
        record = json.loads((HERE / "tidings_subscription.json").read_text())
        settings = {"TIDINGS_SPARK_MAX_OFFSETS_PER_TRIGGER": str(scene.batch), "TIDINGS_SPARK_DRIVER_MEMORY": "2g"}
        if not own_kafka:
            settings["TIDINGS_KAFKA_BOOTSTRAP_SERVERS"] = scene.bootstrap
            control.apply(Connection(scene.bootstrap), [(f"subscription/{record['name']}", record)])
        scene.folder.mkdir(parents=True, exist_ok=True)
        directory = scene.folder / "service"
        if own_kafka:
            self._service = RunningService.start(directory, settings)
            self._service.apply(record)
        else:
            # It is not waited for: by the time it is ready it has read some of the bulk, and that is to be measured.
            settings["TIDINGS_SERVICE_METRICS_PORT"] = "0"
            self._service = RunningService(directory, launch(directory, settings), scene.bootstrap, settings)
        self.pids = [self._service.process.pid]
        self.bootstrap, self.output, self.live_input = self._service.bootstrap, f"notify.{record['subscriber']}", PUBLISH

    def check(self) -> None:
        if self._service.process.poll() is not None:
            lines = self._service.directory.with_suffix(".stderr").read_text(errors="replace").splitlines()
            raise CannotRun(f"the service ended: {(lines or ['it said nothing'])[-1][:200]}")

    def stop(self) -> None:
        self._service.__exit__(None, None, None)
        with contextlib.suppress(FileNotFoundError):
            shutil.copytree(self._service.directory / "logs", PLACE / "logs" / "tidings", dirs_exist_ok=True)


# ---- how each is started ----------------------------------------------------------------------------------------------


def _spark(script: str) -> Callable[[Scene], Running]:
    def start(scene: Scene) -> Running:
        jars = ",".join(str(jar) for jar in spark_jars())
        # The workers must be this Python too.
        more = {"SPARK_JARS": jars, "PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1"}
        return Processes(scene, [[sys.executable, str(HERE / script)]], more)

    return start


def _java(lock: str, name: str, options: Sequence[str] = (), more: Mapping[str, str] | None = None) -> Callable[[Scene], Running]:
    def start(scene: Scene) -> Running:
        java = find_java()
        classes = class_path(lock, f"{name}.java", java)
        quiet = "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn"
        return Processes(scene, [[str(java.path), "-Xmx2g", quiet, *options, "-cp", classes, name]], more or {})

    return start


def _quix(scene: Scene) -> Running:
    return Processes(scene, [[str(python_of_peers()), str(HERE / "quix_merge.py")]] * 2, {})


def _bytewax(scene: Scene) -> Running:
    python = str(python_of_peers())
    recovery = scene.folder / "recovery"
    recovery.mkdir(parents=True)
    subprocess.run([python, "-m", "bytewax.recovery", str(recovery), "2"], check=True, capture_output=True)
    first = free_port()
    addresses = f"127.0.0.1:{first};127.0.0.1:{free_port(other_than=first)}"
    run = [python, "-m", "bytewax.run", "bytewax_merge", "-r", str(recovery), "-s", "10", "-b", "0", "-a", addresses]
    return Processes(scene, [[*run, "-i", str(instance)] for instance in range(2)], {"PYTHONPATH": str(HERE)})


def _faust(scene: Scene) -> Running:
    worker = [str(python_of_peers()), "-m", "faust", "-A", "faust_merge", "worker", "-l", "warn", "--without-web"]
    return Processes(scene, [worker] * 2, {"PYTHONPATH": str(HERE)})


def _tidings(scene: Scene) -> Running:
    return Service(scene, own_kafka=PUBLISH not in scene.inputs)


@dataclass(frozen=True)
class Peer:
    """``largest_batch`` bounds a batch where there are any, so that a slow one still ends some within the time."""

    name: str
    title: str
    code: str
    start: Callable[[Scene], Running]
    largest_batch: int = 200_000

    def lines(self) -> int:
        """What the user writes, without blank lines, comments and the first docstring."""
        return lines_of_code((HERE / self.code).read_text(encoding="utf-8"))


def lines_of_code(text: str) -> int:
    """Lines that are neither blank nor comment.

    >>> lines_of_code('\"\"\"About.\"\"\"\\n\\n# why\\nx = 1\\n/** doc */\\n// so\\ny = 2\\n')
    2
    """
    about = ("#", "//", "/*", "*", '"""')
    return sum(1 for line in text.splitlines() if line.strip() and not line.strip().startswith(about))


# Tidings is last: its clock writes marks into the input, which the others would take for messages.
PEERS = (
    Peer("spark-dedup", "Spark, `dropDuplicatesWithinWatermark`", "spark_dedup.py", _spark("spark_dedup.py")),
    Peer("spark-per-key", "Spark, stateful per key", "spark_per_key.py", _spark("spark_per_key.py"), largest_batch=5_000),
    Peer("kafka-streams", "Kafka Streams", "KafkaStreamsMerge.java", _java("kafka-streams", "KafkaStreamsMerge")),
    Peer(
        "flink", "Flink, state on the heap", "FlinkMerge.java", _java("flink", "FlinkMerge", _FLINK_OPENS, {"STATE": "hashmap"})
    ),
    Peer(
        "flink-rocksdb",
        "Flink, state in RocksDB",
        "FlinkMerge.java",
        _java("flink", "FlinkMerge", _FLINK_OPENS, {"STATE": "rocksdb"}),
    ),
    Peer("quix", "Quix Streams", "quix_merge.py", _quix),
    Peer("bytewax", "Bytewax", "bytewax_merge.py", _bytewax),
    Peer("faust", "Faust", "faust_merge.py", _faust),
    Peer("tidings", "Tidings", "tidings_subscription.json", _tidings),
)
