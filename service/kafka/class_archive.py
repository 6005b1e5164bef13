"""The classes that our Java programs load, kept as Java maps them into memory: with them a start takes half the work.

Java reads, checks and links some ten thousand classes before Kafka or Spark does anything. A program that runs without an archive
notes which. When the service is ready, another Java makes the archive of them (class data sharing), for all later starts. An
archive holds for one Java and one class path: it is named after both, and Java looks once more. One that does not fit, or is
damaged, is left aside by Java without a word, so nothing depends on it but time.
"""

from __future__ import annotations

import contextlib
import hashlib
import logging
import os
import re
import subprocess
import threading
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import psutil

from service.kafka.jars import cache_directory
from service.kafka.java import Java

_log = logging.getLogger("tidings.java")

_KEPT = 3
"""Archives of one program, each 70 to 200 MB: another Java, another folder of packages is another archive."""
_MAKE_S = 600.0
_BUSY_PERCENT = 50.0
# What Java says of archives would else stand on the standard output.
_QUIET = ("-Xlog:disable", "-Xlog:all=warning:stderr")
_SIMPLE = re.compile(r"[\w./@+-]+")
"""In these options Java takes colons and commas for the end of a path."""
_LOADED = re.compile(r"(?P<name>[\w.$]+) source: (?P<source>jrt:/|file:|shared objects file)")
_MADE_AT_RUN_TIME = re.compile(r"\$\$Lambda|/0x|LambdaForm|GeneratedClass|\$Proxy\d|jdk\.internal\.reflect\.Generated")


@dataclass(frozen=True, slots=True)
class ClassArchive:
    """The archive of one program, at ``path``, whether it is there yet or not."""

    name: str
    path: Path
    java: Java

    @classmethod
    def of(cls, name: str, java: Java, jars: Sequence[Path], cache: Path | None = None) -> ClassArchive:
        """The archive for this Java and these jars, or folders of jars, as they are now: Java asks for their times, too."""
        fits = [str(java.path.resolve()), java.told, *(f"{jar} {jar.stat().st_mtime_ns}" for jar in jars)]
        digest = hashlib.sha256("\n".join(fits).encode()).hexdigest()[:16]
        return cls(name, (cache or cache_directory()) / "classes" / f"{name}-{digest}.jsa", java)

    @property
    def _noted(self) -> Path:
        """Where a program of this process notes what it loads."""
        return self.path.with_suffix(f".{os.getpid()}.loaded")

    def options(self) -> list[str]:
        """For the command line of the program: use the archive; or, without one, note what it would hold."""
        if not _SIMPLE.fullmatch(str(self.path)):
            return []
        if self.path.exists():
            return [f"-XX:SharedArchiveFile={self.path}", *_QUIET]
        # A cache that cannot be written is a slower start, no more; but Java does not start at all if it cannot note there.
        with contextlib.suppress(OSError):
            self.path.parent.mkdir(parents=True, exist_ok=True)
        if not os.access(self.path.parent, os.W_OK):
            return []
        return [*_QUIET, f"-Xlog:class+load=info:file={self._noted}:none:filecount=1,filesize=16M"]

    @property
    def is_wanted(self) -> bool:
        """Whether a program of this process has noted its classes, and nobody has made the archive."""
        return self._noted.exists() and not self.path.exists()

    def make(self, class_path: str, stopping: threading.Event) -> bool:
        """Make the archive of what a program with this class path has noted; says whether it is there.

        It takes half a minute of a processor that nobody else wants, and is given up when ``stopping``.
        """
        classes, partial = (self.path.with_suffix(f".{os.getpid()}.{kind}") for kind in ("classes", "partial"))
        try:
            with self._noted.open(errors="replace") as lines:
                classes.write_text("".join(f"{name}\n" for name in class_names(lines)))
            options = ["-Xshare:dump", f"-XX:SharedClassListFile={classes}", f"-XX:SharedArchiveFile={partial}"]
            if _run([str(self.java.path), *options, *_QUIET, "-cp", class_path], stopping):
                partial.replace(self.path)
                self._forget_others()
        except (OSError, subprocess.SubprocessError) as error:
            _log.warning("no archive of the classes of %s, so it starts no faster than now: %s", self.name, error)
        finally:
            self.forget_noted()
        return self.path.exists()

    def forget_noted(self) -> None:
        """Leave nothing behind of what this process noted."""
        for left in self.path.parent.glob(f"{self.path.stem}.{os.getpid()}.*"):
            with contextlib.suppress(OSError):
                left.unlink(missing_ok=True)

    def _forget_others(self) -> None:
        """Keep the youngest; and nothing of programs that were killed before they could make one."""
        made = sorted(self.path.parent.glob(f"{self.name}-*.jsa"), key=lambda path: path.stat().st_mtime, reverse=True)
        for path in [*made[_KEPT:], *self.path.parent.glob(f"{self.path.stem}.*.*")]:
            path.unlink(missing_ok=True)


def class_names(lines: Iterable[str]) -> Iterator[str]:
    """The classes that a program loaded from files, as Java wants them listed.

    >>> list(class_names(["java.lang.Object source: jrt:/java.base", "a.B$$Lambda$7/0x1 source: a.B", "a.B source: file:/a.jar"]))
    ['java/lang/Object', 'a/B']
    """
    for line in lines:
        if (found := _LOADED.match(line)) and not _MADE_AT_RUN_TIME.search(found["name"]):
            yield found["name"].replace(".", "/")


def _run(command: list[str], stopping: threading.Event) -> bool:
    """Run a command in the background of everything else, and say whether it did its work; end it when it is time to stop."""
    nothing = subprocess.DEVNULL
    with subprocess.Popen(command, stdin=nothing, stdout=nothing, stderr=nothing, start_new_session=True) as process:
        with contextlib.suppress(psutil.Error):
            psutil.Process(process.pid).nice(19)
        waited_s = 0.0
        while process.poll() is None:
            if stopping.wait(0.2) or waited_s > _MAKE_S:
                process.kill()
                return False
            waited_s += 0.2
    return process.returncode == 0


class ArchiveMaker(threading.Thread):
    """Makes the archives that are wanted, one after the other, while the service runs and the machine has a processor to spare.

    Even with the lowest priority it would slow down who has work for all of them: it fills caches, and takes memory.
    """

    def __init__(self, programs: Sequence[tuple[ClassArchive, str]], quiet_s: float = 5.0) -> None:
        super().__init__(name="archives", daemon=True)
        self._programs = programs
        self._quiet_s = quiet_s
        self._stopping = threading.Event()

    def run(self) -> None:
        for archive, class_path in self._programs:
            if archive.is_wanted and self._has_room():
                archive.make(class_path, self._stopping)
            archive.forget_noted()

    def _has_room(self) -> bool:
        """Wait until half of the machine has been idle for a while; False when it is time to stop."""
        psutil.cpu_percent()
        while not self._stopping.wait(self._quiet_s):
            if psutil.cpu_percent() < _BUSY_PERCENT:
                return True
        return False

    def stop(self) -> None:
        self._stopping.set()
        if self.is_alive():
            self.join(timeout=10)
