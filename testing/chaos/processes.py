"""Who belongs to a service, and what can be done to them: killing and freezing, as a power cut or an overloaded machine does."""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections.abc import Iterable, Iterator

import psutil

from streaming.spark import DAEMON

_GONE_S = 10.0


def family(pid: int) -> list[psutil.Process]:
    """A process, everything below it, and what is left of its session: Spark's workers outlive the daemon that forked them."""
    found = {member.pid: member for member in [*_line(pid), *_session(pid)]}
    return [member for member in found.values() if is_alive(member)]


def _line(pid: int) -> list[psutil.Process]:
    try:
        eldest = psutil.Process(pid)
        return [eldest, *eldest.children(recursive=True)]
    except psutil.NoSuchProcess:
        return []


def _session(pid: int) -> Iterator[psutil.Process]:
    for member in psutil.process_iter():
        with contextlib.suppress(OSError):
            if os.getsid(member.pid) == pid:
                yield member


def java_machine(pid: int) -> psutil.Process | None:
    """The Java process that a service runs Spark in."""
    return next((member for member in family(pid) if _runs(member, "org.apache.spark.deploy.SparkSubmit")), None)


def python_workers(pid: int) -> list[psutil.Process]:
    """Spark's Python processes of a service: the daemon first, if it lives, then the workers that it forked."""
    found = [member for member in family(pid) if _runs(member, DAEMON)]
    return sorted(found, key=lambda member: member.create_time())


def kill_family(pid: int, spare: int | None = None) -> int:
    """`kill -9` for a process and everything below it but ``spare``; returns how many that were."""
    # The eldest first: it could start new ones while the others die.
    members = [member for member in family(pid) if member.pid != spare]
    send(members, signal.SIGKILL)
    deadline = time.monotonic() + _GONE_S
    while any(is_alive(member) for member in members) and time.monotonic() < deadline:
        time.sleep(0.02)
    return len(members)


def send(processes: Iterable[psutil.Process], number: signal.Signals) -> None:
    """A signal for each that is still there."""
    for process in processes:
        with contextlib.suppress(psutil.NoSuchProcess):
            process.send_signal(number)


@contextlib.contextmanager
def frozen(processes: Iterable[psutil.Process]) -> Iterator[None]:
    """They get no processor time in this block."""
    members = list(processes)
    send(members, signal.SIGSTOP)
    try:
        yield
    finally:
        send(members, signal.SIGCONT)


def resident_bytes(processes: Iterable[psutil.Process]) -> int:
    """The memory that they take together. Pages that forks share count for each of them."""
    taken = 0
    for process in processes:
        with contextlib.suppress(psutil.NoSuchProcess):
            taken += process.memory_info().rss
    return taken


def is_alive(process: psutil.Process) -> bool:
    try:
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def _runs(process: psutil.Process, module: str) -> bool:
    """Whether its command line has this word; a setting that only names it does not count."""
    try:
        return module in process.cmdline()
    except (psutil.NoSuchProcess, psutil.ZombieProcess):
        return False
