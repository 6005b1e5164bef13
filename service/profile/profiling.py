"""`tidings up --profile`: when the service is ready, its processes are sampled for a while, and a flame graph of that is written.

Java and Python are on one page, and as wide as the processor time they used, in milliseconds. Whatever goes wrong is said, and
the service goes on.
"""

from __future__ import annotations

import contextlib
import logging
import os
import shutil
import subprocess
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

from service.kafka.jars import profile_jar
from service.kafka.java import find_java
from service.profile.samplers import OF_JAVA, OF_PYTHON, Sampler, daemons_below, own_ms, sampled, used_ms
from service.profile.stacks import collapsed, joined
from service.profile.tools import HERTZ, AsyncProfiler, find_py_spy, page_command, py_spy_command
from tidings.errors import CannotRun, TidingsError

_log = logging.getLogger("tidings.profile")

_PAGE_S = 120.0
_STOP_S = 30.0


@dataclass(frozen=True)
class FlameGraph:
    """What was asked for: a page at ``file``, of so many ``seconds``."""

    file: Path
    seconds: int

    def check(self, say: Callable[[str], None]) -> None:
        """Before anything starts: nobody should wait for a page that cannot be written, or lacks half of what it is for."""
        if not os.access(self.file.absolute().parent, os.W_OK) or self.file.is_dir():
            raise CannotRun(f"cannot write the profile to {self.file}; name a file in a folder that is there")
        profile_jar()
        try:
            find_py_spy()
        except CannotRun as error:
            say(f"the profile will lack Python: {error}")


@contextlib.contextmanager
def profiled(profile: FlameGraph | None, java: Mapping[str, int], folder: Path, say: Callable[[str], None]) -> Iterator[None]:
    """A profile is made meanwhile, if one is asked for."""
    if profile is None:
        yield
        return
    profiling = Profiling(profile, java, folder, say)
    profiling.start()
    try:
        yield
    finally:
        profiling.stop()


class Profiling(threading.Thread):
    """One profile of the processes of a service: its Java machines by name, and this one, which is Spark's driver.

    Has a folder to itself, which is gone afterwards.
    """

    def __init__(self, profile: FlameGraph, java: Mapping[str, int], folder: Path, say: Callable[[str], None]) -> None:
        super().__init__(name="profile", daemon=True)
        self._profile, self._java, self._folder = profile, java, folder
        self._tell = say
        self._stopping = threading.Event()

    def run(self) -> None:
        try:
            shutil.rmtree(self._folder, ignore_errors=True)
            self._folder.mkdir()
            self._record()
        except (TidingsError, OSError, subprocess.SubprocessError) as error:
            self._say(f"there is no profile: {error}")
        finally:
            shutil.rmtree(self._folder, ignore_errors=True)

    def stop(self) -> None:
        """Write what there is by now."""
        self._stopping.set()
        if self.is_alive():
            self.join(_STOP_S)

    def _record(self) -> None:
        jar = profile_jar()
        self._say(f"profiling for {self._profile.seconds} s")
        samplers = [*self._of_java(jar), *self._of_python()]
        start_s = time.monotonic()
        stacks = joined(sampled(samplers, self._profile.seconds, self._stopping, self._say), 1000 / HERTZ)
        if not stacks:
            raise CannotRun("nothing was seen at work; sample for longer (--profile-seconds)")
        self._write_page(jar, stacks, min(self._profile.seconds, time.monotonic() - start_s))

    def _of_java(self, jar: Path) -> list[Sampler]:
        try:
            profiler = AsyncProfiler.unpack(jar, self._folder)
        except CannotRun as error:
            self._say(f"the profile lacks Java: {error}")
            return []
        outs = {name: self._folder / f"{name.replace(' ', '-')}.collapsed" for name in self._java}
        return [
            Sampler(name, profiler.command(pid, self._profile.seconds, outs[name]), outs[name], OF_JAVA)
            for name, pid in self._java.items()
        ]

    def _of_python(self) -> list[Sampler]:
        try:
            program = find_py_spy()
        except CannotRun as error:
            self._say(f"the profile lacks Python: {error}")
            return []
        daemons = [pid for java_pid in self._java.values() for pid in daemons_below(java_pid)]
        found = []
        for name, pid in [("python driver", os.getpid()), *(("python worker", daemon) for daemon in daemons)]:
            out = self._folder / f"python-{pid}.collapsed"
            command = py_spy_command(program, pid, self._profile.seconds, out, with_children=pid in daemons)
            found.append(Sampler(name, command, out, OF_PYTHON, partial(used_ms if pid in daemons else own_ms, pid)))
        return found

    def _write_page(self, jar: Path, stacks: Mapping[str, int], seconds: float) -> None:
        lines, page = self._folder / "all.collapsed", self._folder / "page.html"
        lines.write_text(collapsed(stacks))
        worked = f"{sum(stacks.values()) / 1000:.1f} s of processors"
        title = f"Tidings, {datetime.now(UTC):%Y-%m-%d %H:%M} UTC: {worked} within {seconds:.0f} s"
        done = subprocess.run(
            page_command(find_java(), jar, lines, title, page), capture_output=True, text=True, timeout=_PAGE_S, check=False
        )
        if done.returncode or not page.exists():
            raise CannotRun(f"async-profiler's converter failed: {' '.join(done.stderr.split())[:300]}")
        shutil.move(page, self._profile.file)
        self._say(f"profile of {worked} written to {self._profile.file}")

    def _say(self, line: str) -> None:
        _log.info("%s", line)
        self._tell(line)
