"""Which Java runs Kafka and Spark.

``JAVA_HOME`` is asked first, as every Java tool does, then the path.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from dataclasses import dataclass, field
from pathlib import Path

from tidings.errors import CannotRun

MINIMUM = 17  # Kafka 4 and Spark 4 both ask for it
LATE_BEST = 10
"""How many times as often as by default a piece of code runs before Java makes the best of it."""
# Java's second compiler takes a processor to itself for half a minute after a start, for code that mostly runs then alone. What
# runs for every message comes to it a second later than else (decision 0021).
COMPILED_LATE = tuple(
    f"-XX:Tier4{name}Threshold={by_default * LATE_BEST}"
    for name, by_default in (("Invocation", 5_000), ("MinInvocation", 600), ("Compile", 15_000), ("BackEdge", 40_000))
)
# For a program that is over in a second: the second compiler would take longer than the program.
COMPILED_ONCE = ("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC")
_VERSION = re.compile(r'version "(?:1\.)?(\d+)[^"]*"')  # "1.8.0_412" was the way to write 8


@dataclass(frozen=True)
class Java:
    """A Java that can be run: where it is, its major version, and what it tells of itself."""

    path: Path
    version: int
    told: str = field(default="", compare=False, repr=False)


def find_java(minimum: int = MINIMUM) -> Java:
    """The Java of ``JAVA_HOME``, else the one on the path; raises ``CannotRun`` if it is missing or older than ``minimum``."""
    home = os.environ.get("JAVA_HOME")
    if home:
        path = Path(home) / "bin" / "java"
        if not os.access(path, os.X_OK):
            raise CannotRun(f"JAVA_HOME is {home}, but there is no java in its bin folder; {_how_to_get(minimum)}")
    else:
        found = shutil.which("java")
        if found is None:
            raise CannotRun(f"Java {minimum} or newer is needed and no java is on the path; {_how_to_get(minimum)}")
        path = Path(found)
    version, told = _version_of(path, minimum)
    if version < minimum:
        raise CannotRun(f"Java {minimum} or newer is needed, {path} is Java {version}; {_how_to_get(minimum)}")
    return Java(path, version, told)


def _version_of(path: Path, minimum: int) -> tuple[int, str]:
    """The major version and all that ``java -version`` tells, on whichever stream it tells it."""
    try:
        done = subprocess.run([path, "-version"], capture_output=True, text=True, errors="replace", timeout=30, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise CannotRun(f"{path} does not run ({_one_line(error)}); {_how_to_get(minimum)}") from error
    told = f"{done.stderr}\n{done.stdout}"
    match = _VERSION.search(told)
    if match is None:
        # macOS ships a java that only says that there is no Java.
        first = next((line.strip() for line in told.splitlines() if line.strip()), "nothing")
        raise CannotRun(f"{path} -version says {first!r}, which names no version; {_how_to_get(minimum)}")
    return int(match.group(1)), told


def _one_line(error: Exception) -> str:
    return " ".join(str(error).split())


def _how_to_get(minimum: int) -> str:
    return (
        f"get one with `apt-get install openjdk-{minimum}-jre-headless` (Debian) or `brew install openjdk@{minimum}` (macOS), "
        "or set JAVA_HOME to one you have"
    )
