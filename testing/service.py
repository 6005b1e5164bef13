"""A test kit: a real service as a child process, to be published to, stopped and killed."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TypeVar

from audit.inspection import Inspection, inspect
from clients import control
from clients.books import read_books
from clients.connection import Connection
from clients.log import read_all
from streaming.broker.settings import message_limits_of, rules_of, timing_of
from streaming.model.books import Books, total
from streaming.wire.record import Record
from tidings.config import load

_READY_S = 120.0
_STOP_S = 60.0

Found = TypeVar("Found")


def wait_for(what: str, look: Callable[[], Found | None], timeout_s: float = 30.0) -> Found:
    """Look until something is found; fail with ``what`` was waited for.

    Looking takes processors away from what is waited for: it is done no more than a third of the time.
    """
    deadline = time.monotonic() + timeout_s
    while True:
        began = time.monotonic()
        if found := look():
            return found
        now = time.monotonic()
        if now > deadline:
            raise AssertionError(f"waited {timeout_s:.0f} s in vain for {what}")
        time.sleep(max(0.1, min(2 * (now - began), 2.0)))


class RunningService:
    """`tidings up` on a directory, with what it printed in `stdout` and `stderr` files beside it."""

    def __init__(self, directory: Path, process: subprocess.Popen[bytes], bootstrap: str, env: Mapping[str, str]) -> None:
        self.directory = directory
        self.process = process
        self.bootstrap = bootstrap
        self.connection = Connection(bootstrap)
        self._env = env

    @classmethod
    def start(
        cls, directory: Path, env: Mapping[str, str] | None = None, timeout_s: float = _READY_S, options: Sequence[str] = ()
    ) -> Self:
        """Start a service and wait until it is ready."""
        settings = {"TIDINGS_SERVICE_METRICS_PORT": "0", **(env or {})}
        process = launch(directory, settings, options)
        stdout = directory.with_suffix(".stdout")

        def ready() -> str | None:
            if process.poll() is not None:
                raise AssertionError(f"the service ended: {directory.with_suffix('.stderr').read_text()}")
            lines = stdout.read_text().splitlines()
            return next((line.removeprefix("ready bootstrap=") for line in lines if line.startswith("ready ")), None)

        return cls(directory, process, wait_for("the service to be ready", ready, timeout_s), settings)

    def restart(self) -> Self:
        """A new service on the same directory."""
        return type(self).start(self.directory, self._env)

    def kill(self) -> None:
        """As a power cut does it."""
        self.process.kill()
        self.process.wait()

    def stop(self, number: signal.Signals = signal.SIGTERM) -> int:
        """Ask it to stop; returns its exit code."""
        if self.process.poll() is None:
            self.process.send_signal(number)
        return self.process.wait(_STOP_S)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        try:
            self.stop()
        except subprocess.TimeoutExpired:
            self.kill()

    # ---- asking it ----------------------------------------------------------------------------------------------------

    def apply(self, *records: Mapping[str, Any], delete: tuple[str, ...] = ()) -> None:
        """Change the control data and wait until the change holds."""
        changes: list[tuple[str, dict[str, Any] | None]] = [(f"{r['kind']}/{r['name']}", dict(r)) for r in records]
        version = control.apply(self.connection, [*changes, *((key, None) for key in delete)])
        assert control.wait_adopted(self.connection, version, 30), "the service did not take up the control records"

    def books(self) -> Books:
        return total(read_books(self.connection).values())

    def read(self, *kafka_topics: str) -> list[Record]:
        return read_all(self.connection, kafka_topics)

    def told(self, kafka_topic: str) -> list[dict[str, Any]]:
        return [json.loads(record.value or b"null") for record in self.read(kafka_topic)]

    def wait_received(self, count: int, timeout_s: float = 60.0) -> Books:
        """The books once ``count`` messages have been received."""
        return wait_for(f"{count} messages", lambda: b if (b := self.books()).received >= count else None, timeout_s)

    def inspect(self) -> Inspection:
        """What it wrote, laid beside what the plain reference makes of the same log."""
        config = load(None, self._env)
        limits, rules, timing = message_limits_of(config), rules_of(config), timing_of(config)
        return inspect(self.connection, limits=limits, rules=rules, timing=timing)

    def wait_as_reference(self, timeout_s: float = 60.0) -> None:
        """Wait until all is told as the reference tells it; fail with what is not."""
        found: list[str] = []

        def look() -> bool:
            found[:] = self.inspect().differences
            return not found

        try:
            wait_for("all to be told as the reference tells it", look, timeout_s)
        except AssertionError as error:
            raise AssertionError("\n".join([f"{error}; {len(found)} differ:", *found[:8]])) from None


def launch(directory: Path, env: Mapping[str, str], options: Sequence[str] = ()) -> subprocess.Popen[bytes]:
    """Start `tidings up` and do not wait."""
    command = [sys.executable, "-m", "tidings", "up", "--dir", str(directory), *options]
    with directory.with_suffix(".stdout").open("wb") as out, directory.with_suffix(".stderr").open("wb") as err:
        return subprocess.Popen(command, stdout=out, stderr=err, env={**os.environ, **env}, start_new_session=True)
