"""Spark's Python processes, as the service sees them: here stand-ins below a stand-in for the Java machine."""

from __future__ import annotations

import contextlib
import signal
import subprocess
import sys
import time
from collections.abc import Iterator

import psutil
import pytest

from service.watch.workers import PythonWorkers
from streaming.spark import DAEMON
from testing.chaos.processes import family, is_alive, kill_family, python_workers
from testing.service import wait_for

# The parent starts a child that looks like the daemon, which forks a worker; the worker spins as long as it is told to.
_DAEMON = """
import os, sys, time
if os.fork() == 0:
    until = time.monotonic() + float(sys.argv[2])
    while time.monotonic() < until: pass
time.sleep(60)
"""
_PARENT = f"""
import subprocess, sys
subprocess.run([sys.executable, "-c", {_DAEMON!r}, "{DAEMON}", sys.argv[1]])
"""


@contextlib.contextmanager
def java_machine(spin_s: float = 0.0) -> Iterator[int]:
    parent = subprocess.Popen([sys.executable, "-c", _PARENT, str(spin_s)], start_new_session=True)
    try:
        wait_for("the worker", lambda: len(python_workers(parent.pid)) == 2, 10)
        yield parent.pid
    finally:
        kill_family(parent.pid)
        parent.wait()


def test_those_at_work_use_time_and_frozen_ones_do_not():
    with java_machine(spin_s=30) as pid:
        workers = PythonWorkers(pid)
        before_s = workers.busy_s()
        time.sleep(0.3)
        assert workers.busy_s() > before_s
        for member in family(pid):
            member.send_signal(signal.SIGSTOP)
        before_s = workers.busy_s()
        time.sleep(0.3)
        assert workers.busy_s() == pytest.approx(before_s, abs=0.011)


def test_frozen_ones_can_be_ended():
    with java_machine() as pid:
        workers = PythonWorkers(pid)
        below = [member for member in family(pid) if member.pid != pid]
        for member in below:
            member.send_signal(signal.SIGSTOP)
        assert workers.end() == 2
        wait_for("their end", lambda: not any(is_alive(member) for member in below), 5)
        assert psutil.pid_exists(pid)
        assert workers.end() == 0


def test_workers_whose_daemon_died_are_remembered():
    with java_machine() as pid:
        workers = PythonWorkers(pid)
        workers.busy_s()
        daemon, worker = sorted((m for m in family(pid) if m.pid != pid), key=lambda m: m.create_time())
        daemon.kill()
        wait_for("the daemon's end", lambda: not is_alive(daemon), 5)
        assert is_alive(worker)
        assert workers.end() == 1
        wait_for("the worker's end", lambda: not is_alive(worker), 5)


def test_nothing_below_nobody():
    process = subprocess.Popen([sys.executable, "-c", ""])
    process.wait()
    assert (PythonWorkers(process.pid).busy_s(), PythonWorkers(process.pid).end()) == (0.0, 0)
