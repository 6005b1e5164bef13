"""The directory of ``tidings up --dir DIR``: who owns it, what it holds, what a killed run left behind.

DIR/kafka/  checkpoint/  state/  control/  logs/
    service.lock      held by the running service; the kernel lets go of it when the service dies
    processes.json    what the service started, to find what outlived it
    service.json      where the running service can be reached
    made-with.json    what cannot change for the life of the directory
    books.json        the books as they were last, for when Kafka is gone too
    spark/            Spark's scratch files
    checkpoint-…/     that of each pipeline that is started when it is first asked for (`streaming/spark/pipelines.py`)
    secret            decides which bucket a key is in; as old as the checkpoint
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import json
import os
import re
import secrets
import shutil
import time
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass
from pathlib import Path
from types import TracebackType
from typing import Self

import psutil

from tidings.errors import AlreadyRunning, CannotRun

LEAST_FREE_MB = 500
_FOLDERS = ("kafka", "checkpoint", "state", "control", "logs")
_END_S = 10.0
_SAME_START_S = 1.0  # the system derives the start from its clock, which may have been set since


@dataclass(frozen=True)
class ChildProcess:
    """A process and its start: the number alone may belong to another one by now."""

    role: str
    pid: int
    created_s: float


@dataclass(frozen=True)
class Ready:
    """Where a running service can be reached."""

    bootstrap: str
    process: ChildProcess
    metrics: str | None


class ServiceDirectory:
    """A directory that this process owns until ``close`` or its end."""

    def __init__(self, path: Path, lock: int) -> None:
        self.path = path
        self.kafka, self.checkpoint, self.state, self.control, self.logs = (path / name for name in _FOLDERS)
        self._lock: int | None = lock

    @classmethod
    def open(cls, path: Path, least_free_mb: int = LEAST_FREE_MB) -> Self:
        """Take ``path`` for this process, making what is missing. Raises ``AlreadyRunning`` or ``CannotRun``."""
        path = path.expanduser().absolute()
        try:
            for name in _FOLDERS:
                (path / name).mkdir(parents=True, exist_ok=True)
            require_space(path, least_free_mb)
            lock = _take_lock(path / "service.lock")
        except OSError as error:
            raise CannotRun(f"cannot use {path}: {error.strerror or error}; choose another --dir") from error
        # What a killed service said of itself is no longer true.
        (path / "service.json").unlink(missing_ok=True)
        return cls(path, lock)

    @property
    def secret(self) -> str:
        """32 random bytes in hex, made once."""
        path = self.path / "secret"
        if not path.exists():
            if any(self.checkpoint.iterdir()) or any(self.state.iterdir()):
                # With another secret, keys would move to other buckets, away from what is known of them.
                raise CannotRun(
                    f"{path} is gone, and {self.checkpoint} cannot be read without it; put it back or choose another --dir"
                )
            replace_text(path, secrets.token_hex(32) + "\n", mode=0o600)
        text = path.read_text().strip()
        if not re.fullmatch(r"[0-9a-f]{64}", text):
            raise CannotRun(f"{path} is damaged: it should hold 64 hexadecimal digits; put it back or choose another --dir")
        return text

    @property
    def service(self) -> str:
        """What others know this service by; it gives nothing of the secret away."""
        return hashlib.sha256(f"service {self.secret}".encode()).hexdigest()[:12]

    @property
    def hash_key(self) -> str:
        """What hashes of keys and facts start from. It stands in Spark's plan, so it is not the secret itself."""
        return hashlib.blake2b(b"hashes", key=self.secret.encode(), digest_size=16).hexdigest()

    def record_process(self, role: str, pid: int) -> None:
        """Remember a process this service started, so that the next run can end it if this one cannot."""
        recorded = [*self._recorded(), ChildProcess(role, pid, psutil.Process(pid).create_time())]
        self._record(process for process in recorded if _living(process))

    def end_orphans(self, log: Callable[[str], None]) -> list[ChildProcess]:
        """End what a former, killed run left running, with its children; return what was ended."""
        # The newest first: Spark before the Kafka it reads from.
        orphans = [(process, alive) for process in reversed(self._recorded()) if (alive := _living(process))]
        for process, alive in orphans:
            log(f"ending {process.role} (pid {process.pid}), left over from a run that was killed")
            _end_with_children(alive)
        self._record(())
        return [process for process, _ in orphans]

    def record_ready(self, bootstrap: str, pid: int, metrics: str | None = None) -> None:
        """Say where the service can be reached; ``locate`` reads it."""
        ready = Ready(bootstrap, ChildProcess("service", pid, psutil.Process(pid).create_time()), metrics)
        replace_text(self.path / "service.json", json.dumps(asdict(ready), indent=2) + "\n")

    @staticmethod
    def ready(path: Path) -> Ready | None:
        """What the service running on ``path`` said of itself; None if none runs or it is not ready. Takes no lock."""
        try:
            said = json.loads((path.expanduser() / "service.json").read_bytes())
            ready = Ready(said["bootstrap"], ChildProcess(**said["process"]), said["metrics"])
        except (OSError, ValueError, KeyError, TypeError):
            return None
        return ready if _living(ready.process) else None

    @staticmethod
    def locate(path: Path) -> str | None:
        """The bootstrap servers of the service running on ``path``."""
        ready = ServiceDirectory.ready(path)
        return ready.bootstrap if ready else None

    def close(self) -> None:
        """Let go of the directory."""
        if self._lock is not None:
            (self.path / "service.json").unlink(missing_ok=True)
            os.close(self._lock)
            self._lock = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    def _recorded(self) -> list[ChildProcess]:
        try:
            return [ChildProcess(**line) for line in json.loads((self.path / "processes.json").read_bytes())]
        except FileNotFoundError:
            return []
        except (ValueError, TypeError) as error:
            raise CannotRun(
                f"{self.path / 'processes.json'} is damaged; look for processes that still run there, then remove it"
            ) from error

    def _record(self, processes: Iterable[ChildProcess]) -> None:
        replace_text(self.path / "processes.json", json.dumps([asdict(process) for process in processes], indent=2) + "\n")


def require_space(path: Path, least_free_mb: int) -> None:
    """Raise ``CannotRun`` unless that much is free where ``path`` lies."""
    free_mb = shutil.disk_usage(path).free // 1_000_000
    if free_mb < least_free_mb:
        raise CannotRun(f"only {free_mb} MB are free in {path}, {least_free_mb} MB are needed; make room or choose another --dir")


def replace_text(path: Path, text: str, mode: int = 0o644) -> None:
    """Replace a file in one step: whatever happens, there is the old one or the new one."""
    new = path.with_name(f"{path.name}.new")
    new.unlink(missing_ok=True)
    with os.fdopen(os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode), "w") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    new.replace(path)


def _take_lock(path: Path) -> int:
    """Lock the file and write our pid into it. Python opens files close-on-exec, so no child process holds the lock on."""
    lock = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        os.ftruncate(lock, 0)
        os.pwrite(lock, f"{os.getpid()}\n".encode(), 0)
    except BlockingIOError as error:
        pid = os.pread(lock, 20, 0).decode().strip()
        os.close(lock)
        holder = f"the service with pid {pid}" if pid else "another service"
        raise AlreadyRunning(f"{path.parent} is in use by {holder}; stop it first or choose another --dir") from error
    except BaseException:
        os.close(lock)
        raise
    return lock


def _living(recorded: ChildProcess) -> psutil.Process | None:
    """The process, if it still runs and is the one that was recorded and not another with its number."""
    try:
        process = psutil.Process(recorded.pid)
        same = abs(process.create_time() - recorded.created_s) < _SAME_START_S
        return process if same and _runs(process) else None
    except psutil.Error:
        return None


def _end_with_children(process: psutil.Process) -> None:
    """Ask it and all below it to end, then make them."""
    family = [process]
    with contextlib.suppress(psutil.Error):
        family += process.children(recursive=True)  # Spark's Java machine has Python workers
    for member in family:
        with contextlib.suppress(psutil.Error):
            member.terminate()
    stubborn = _left_after(_END_S, family)
    for member in stubborn:
        with contextlib.suppress(psutil.Error):
            member.kill()
    _left_after(_END_S, stubborn)


def _left_after(seconds: float, family: list[psutil.Process]) -> list[psutil.Process]:
    """Wait for their end; return those that still run when the time is over."""
    deadline = time.monotonic() + seconds
    while (left := [member for member in family if _runs(member)]) and time.monotonic() < deadline:
        time.sleep(0.05)
    return left


def _runs(process: psutil.Process) -> bool:
    try:
        # A zombie has ended; in a container there may be nobody who ever collects it.
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False
