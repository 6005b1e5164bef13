"""Spark's Python processes on this machine. Those of a cluster's other machines cannot be seen from here."""

from __future__ import annotations

import contextlib

import psutil

from streaming.spark import DAEMON


class PythonWorkers:
    """The daemon and the workers below one Java machine.

    A process that was seen once is remembered: when the daemon dies, its workers go on, and belong to nobody any more.
    """

    def __init__(self, java_pid: int) -> None:
        self._java_pid = java_pid
        self._seen: dict[int, psutil.Process] = {}

    def busy_s(self) -> float:
        """The processor time that they have used so far."""
        used = 0.0
        for worker in self._living():
            with contextlib.suppress(psutil.Error):
                times = worker.cpu_times()
                used += times.user + times.system
        return used

    def end(self) -> int:
        """Kill them all: only that ends a process which is stopped."""
        ended = 0
        for worker in self._living():
            with contextlib.suppress(psutil.Error):
                worker.kill()
                ended += 1
        return ended

    def _living(self) -> list[psutil.Process]:
        with contextlib.suppress(psutil.Error):
            for child in psutil.Process(self._java_pid).children(recursive=True):
                if _is_python_worker(child):
                    self._seen.setdefault(child.pid, child)
        self._seen = {pid: worker for pid, worker in self._seen.items() if _runs(worker)}
        return list(self._seen.values())


def _is_python_worker(process: psutil.Process) -> bool:
    try:
        return DAEMON in process.cmdline()
    except psutil.Error:
        return False


def _runs(process: psutil.Process) -> bool:
    try:
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.Error:
        return False
