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

from service.profile.stacks import SeenStacks
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
    used_ms: Callable[[], float] | None = None
    """The processor time that the program has used so far, if its profiler cannot tell work from waiting for a processor."""

    @property
    def words(self) -> Path:
        """What it says."""
        return self.out.with_suffix(".words")


def sampled(
    samplers: Sequence[Sampler], seconds: float, stopping: threading.Event, say: Callable[[str], None]
) -> list[SeenStacks]:
    """Run all of them; returns what each saw. ``stopping`` ends them early, with what they have."""
    before_ms = [sampler.used_ms() if sampler.used_ms else 0.0 for sampler in samplers]
    with contextlib.ExitStack() as exits:
        running = [(sampler, exits.enter_context(_running(sampler))) for sampler in samplers]
        _wait([process for _, process in running], seconds + _GRACE_S, stopping)
    found = []
    for (sampler, process), used_ms in zip(running, before_ms, strict=True):
        with contextlib.suppress(FileNotFoundError):
            used = max(0.0, sampler.used_ms() - used_ms) if sampler.used_ms else None
            found.append(SeenStacks(sampler.program, sampler.out.read_text(errors="replace"), used))
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


def used_ms(pid: int) -> float:
    """The processor time of a process and of its children, those that have ended too; 0 if it is gone."""
    used_s = 0.0
    with contextlib.suppress(psutil.Error):
        process = psutil.Process(pid)
        used_s += sum(process.cpu_times()[:4])
        for child in process.children():
            with contextlib.suppress(psutil.Error):
                used_s += sum(child.cpu_times()[:2])
    return used_s * 1000


def own_ms(pid: int) -> float:
    """The processor time of a process alone; 0 if it is gone."""
    with contextlib.suppress(psutil.Error):
        return sum(psutil.Process(pid).cpu_times()[:2]) * 1000
    return 0.0


def daemons_below(java_pid: int) -> list[int]:
    """Spark's Python daemons on this machine: their children are the workers."""
    found = []
    with contextlib.suppress(psutil.Error):
        for child in psutil.Process(java_pid).children():
            with contextlib.suppress(psutil.Error):
                if DAEMON in child.cmdline():
                    found.append(child.pid)
    return found
