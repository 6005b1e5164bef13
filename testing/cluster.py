"""A test kit: a real Spark cluster on this machine, one master and some workers with one core each.

<folder>/master.log, worker-<n>.log   what they print
        /work-<n>/                    what a worker keeps: the logs of its executors, the jars they were sent
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
import urllib.request
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import psutil

from service.kafka.java import find_java
from service.kafka.ports import HOST, free_port
from tidings.errors import CannotRun

_READY_S = 60.0
_END_S = 15.0
_DEPLOY = "org.apache.spark.deploy"

ON_THIS_MACHINE: Mapping[str, str] = {"SPARK_LOCAL_IP": HOST, "SPARK_LOCAL_HOSTNAME": HOST}
"""What the environment of a driver says, so that workers on the same machine find it."""


class StandaloneCluster:
    """Give `master` to `tidings up --master`. Used as a context manager, it is there within the block and gone after it."""

    def __init__(self, folder: Path, workers: int = 2, worker_memory: str = "1g") -> None:
        self.folder = folder
        self._workers = workers
        self._worker_memory = worker_memory
        self._port, self._page = free_port(), free_port()
        self._processes: list[subprocess.Popen[bytes]] = []

    @property
    def master(self) -> str:
        return f"spark://{HOST}:{self._port}"

    @property
    def pids(self) -> list[int]:
        """The processes of master and workers; executors are children of workers."""
        return [process.pid for process in self._processes]

    def start(self) -> None:
        """Start all and wait until every worker has reported to the master. Raises ``CannotRun``."""
        self.folder.mkdir(parents=True, exist_ok=True)
        self._launch("master", "master.Master", "--host", HOST, "--port", str(self._port), "--webui-port", str(self._page))
        for number in range(self._workers):
            size = ["--cores", "1", "--memory", self._worker_memory]
            ports = ["--host", HOST, "--port", str(free_port()), "--webui-port", str(free_port())]
            work = ["--work-dir", str(self.folder / f"work-{number}")]
            self._launch(f"worker-{number}", "worker.Worker", *size, *ports, *work, self.master)
        self._wait_until_ready()

    def workers(self) -> list[dict[str, Any]]:
        """The workers that the master counts as alive, in its own words; empty while it does not answer."""
        try:
            with urllib.request.urlopen(f"http://{HOST}:{self._page}/json/", timeout=5) as answer:
                said = json.load(answer)
        except OSError:
            return []
        return [worker for worker in said["workers"] if worker["state"] == "ALIVE"]

    def stop(self) -> None:
        """End workers and master, the last first, with the executors they started."""
        for process in reversed(self._processes):
            _end_with_children(process)
        self._processes.clear()

    def __enter__(self) -> Self:
        try:
            self.start()
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.stop()

    def _launch(self, name: str, role: str, *arguments: str) -> None:
        found = find_spec("pyspark")
        assert found is not None
        assert found.origin is not None
        home = Path(found.origin).parent
        env = {
            **os.environ,
            **ON_THIS_MACHINE,
            "SPARK_HOME": str(home),
            "JAVA_HOME": str(find_java().path.resolve().parent.parent),
            "SPARK_DAEMON_MEMORY": "256m",
            "PYSPARK_PYTHON": sys.executable,
        }
        command = [str(home / "bin" / "spark-class"), f"{_DEPLOY}.{role}", *arguments]
        with (self.folder / f"{name}.log").open("wb") as log:
            started = subprocess.Popen(
                command, cwd=self.folder, env=env, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True
            )
        self._processes.append(started)

    def _wait_until_ready(self) -> None:
        deadline = time.monotonic() + _READY_S
        while len(self.workers()) < self._workers:
            ended = [process.args for process in self._processes if process.poll() is not None]
            if ended or time.monotonic() > deadline:
                raise CannotRun(f"the Spark cluster did not start within {_READY_S:.0f} s; see {self.folder}")
            time.sleep(0.2)


def _end_with_children(process: subprocess.Popen[bytes]) -> None:
    try:
        family = [*psutil.Process(process.pid).children(recursive=True), psutil.Process(process.pid)]
    except psutil.NoSuchProcess:
        family = []
    if process.poll() is None:
        process.terminate()
        try:
            process.wait(_END_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
    # A worker ends its executors when it is asked to end; those that are left would wait for it for ever.
    _, left = psutil.wait_procs([member for member in family if member.pid != process.pid], timeout=_END_S)
    for member in left:
        member.kill()
