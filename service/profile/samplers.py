"""A minute of several programs at once: each has a profiler of its own, and what one cannot look into costs only itself."""

from __future__ import annotations

import contextlib
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import psutil

from streaming.spark import DAEMON

OF_PYTHON = (
    "run it as root, give the container the capability SYS_PTRACE, or allow it to all of a user's processes: "
    "sysctl kernel.yama.ptrace_scope=0"
)
OF_JAVA = "it must run as the same user, in the same container, and without -XX:+DisableAttachMechanism"
_GRACE_S = 20.0
"""For a profiler to begin and to write."""


@dataclass(frozen=True)
class Sampler:
    """One profiler for one process: what the process is called, how to run the profiler, where it writes."""

    program: str
    command: Sequence[str]
    out: Path
    advice: str
    """What to do if it is not allowed to look."""

    @property
    def words(self) -> Path:
        """What it says."""
        return self.out.with_suffix(".words")


def sampled(
    samplers: Sequence[Sampler], seconds: float, stopping: threading.Event, say: Callable[[str], None]
) -> list[tuple[str, str]]:
    """Run all of them; returns the stacks of each program. ``stopping`` ends them early, with what they have."""
    with contextlib.ExitStack() as exits:
        running = [(sampler, exits.enter_context(_running(sampler))) for sampler in samplers]
        _wait([process for _, process in running], seconds + _GRACE_S, stopping)
    found = []
    for sampler, process in running:
        with contextlib.suppress(FileNotFoundError):
            found.append((sampler.program, sampler.out.read_text(errors="replace")))
        if process.returncode != 0:
            say(f"the profile lacks {sampler.program}: {_first_words(sampler, process.returncode)}; {sampler.advice}")
    return found


@contextlib.contextmanager
def _running(sampler: Sampler) -> Iterator[subprocess.Popen[bytes]]:
    """In a session of its own: Ctrl-C in the terminal is for the service, which ends the profiler."""
    with (
        sampler.words.open("wb") as words,
        subprocess.Popen(
            sampler.command, stdin=subprocess.DEVNULL, stdout=words, stderr=words, start_new_session=True
        ) as process,
    ):
        try:
            yield process
        finally:
            if process.poll() is None:
                process.kill()


def _wait(processes: Sequence[subprocess.Popen[bytes]], seconds: float, stopping: threading.Event) -> None:
    """Until all have ended, or their time is over. When it is time to stop, they are interrupted: both profilers write then."""
    deadline = time.monotonic() + seconds
    interrupted = False
    while any(process.poll() is None for process in processes) and time.monotonic() < deadline:
        if stopping.is_set() and not interrupted:
            interrupted, deadline = True, min(deadline, time.monotonic() + _GRACE_S / 4)
            for process in processes:
                process.send_signal(signal.SIGINT)
        time.sleep(0.3)


def _first_words(sampler: Sampler, code: int) -> str:
    lines = (line.strip() for line in sampler.words.read_text(errors="replace").splitlines())
    said = next((line for line in lines if line and not line.startswith("py-spy>")), f"exit code {code}")
    return f"{Path(sampler.command[0]).name} says {said!r}"


def daemons_below(java_pid: int) -> list[int]:
    """Spark's Python daemons on this machine: their children are the workers."""
    found = []
    with contextlib.suppress(psutil.Error):
        for child in psutil.Process(java_pid).children():
            with contextlib.suppress(psutil.Error):
                if DAEMON in child.cmdline():
                    found.append(child.pid)
    return found
