"""What the peers need: Python packages in an environment of their own, jars by lock, Java compiled. All under ``.peers``.

python benchmarks/peers/install.py --relock     # write the jar locks anew from the coordinates below
"""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
from pathlib import Path

from service.kafka import jars
from service.kafka.java import Java
from tidings.errors import CannotRun

HERE = Path(__file__).parent
PLACE = HERE.parent.parent / ".peers"

_FLINK = "2.2.0"
# What a root brings along is resolved too; Avro and the logger are named so that one version serves both.
ROOTS = {
    "kafka-streams": (
        "org.apache.kafka:kafka-streams:4.3.1",
        "org.apache.avro:avro:1.12.1",
        "org.slf4j:slf4j-api:1.7.36",
        "org.slf4j:slf4j-simple:1.7.36",
    ),
    "flink": (
        f"org.apache.flink:flink-streaming-java:{_FLINK}",
        f"org.apache.flink:flink-clients:{_FLINK}",
        f"org.apache.flink:flink-connector-base:{_FLINK}",
        f"org.apache.flink:flink-statebackend-rocksdb:{_FLINK}",
        "org.apache.flink:flink-connector-kafka:4.0.1-2.0",
        "org.apache.avro:avro:1.12.1",
        "org.slf4j:slf4j-api:1.7.36",
        "org.slf4j:slf4j-simple:1.7.36",
    ),
}


def python_of_peers() -> Path:
    """The interpreter that has the packages of requirements.txt; installed once for each state of that file."""
    wanted = HERE / "requirements.txt"
    folder = PLACE / "venv"
    python, mark = folder / "bin" / "python", folder / "installed"
    digest = hashlib.sha256(wanted.read_bytes()).hexdigest()
    if not mark.exists() or mark.read_text() != digest:
        _run([sys.executable, "-m", "venv", "--clear", str(folder)], "no virtual environment can be made for the peers")
        pip = [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "-r", str(wanted)]
        _run(pip, "the Python packages of the peers cannot be installed")
        mark.write_text(digest)
    return python


def class_path(lock: str, source: str, java: Java) -> str:
    """The jars of a lock and, before them, the class that ``source`` compiles to."""
    paths = [str(path) for path in jars.install(jars.Lock.read(lock, HERE), PLACE, jars.fetch_with_jgo)]
    classes = PLACE / "classes" / lock
    compiler = java.path.resolve().with_name("javac")
    if not compiler.exists():
        raise CannotRun(f"{lock} is compiled at run time, and beside {java.path} is no javac: install a JDK")
    command = [str(compiler), "-nowarn", "-d", str(classes), "-cp", os.pathsep.join(paths), str(HERE / source)]
    _run(command, f"{source} does not compile")
    return os.pathsep.join([str(classes), *paths])


def _run(command: list[str], what: str) -> None:
    done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
    if done.returncode:
        lines = [line for line in done.stderr.splitlines() if line.strip()]
        telling = next(
            (line for line in lines if "error" in line.lower()), lines[-1] if lines else f"exit code {done.returncode}"
        )
        raise CannotRun(f"{what}: {telling}")


def main() -> None:
    if sys.argv[1:] != ["--relock"]:
        sys.exit(__doc__)
    jars.ROOTS.update(ROOTS)
    for name in ROOTS:
        lock = jars.relock(name, HERE)
        print(f"{name}.lock.json: {len(lock.jars)} jars, {sum(jar.size for jar in lock.jars) / 1e6:.1f} MB")


if __name__ == "__main__":
    main()
