"""How fast the gatherer is, beside simpler queries over the same stream in the same run.

    python benchmarks/bench.py [--quick]        # or: make bench, make bench-quick

Prints the table, and writes it to docs/benchmarks.md and, with the ratios, to benchmarks/results.json. Seconds, and messages a
second, are those of the machine; the ratios say more.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import latency
import loads
import psutil
import queries
import report
from loads import Stream
from peers.load import Load

from clients.connection import Connection
from service.kafka.embedded import EmbeddedKafka
from service.kafka.jars import spark_jars
from service.kafka.java import find_java
from streaming.spark.session import start_session, stop_session

HERE = Path(__file__).parent
EVENTS = 100_000
_WARM_BATCHES = 2


@dataclass(frozen=True)
class Scale:
    """How much of everything."""

    messages: int
    batch: int
    per_event: int
    many_events: int
    latency_s: int

    @property
    def few_events(self) -> int:
        return 10_000


FULL = Scale(messages=1_200_000, batch=150_000, per_event=40_000, many_events=1_000_000, latency_s=40)
QUICK = Scale(messages=320_000, batch=64_000, per_event=6_000, many_events=160_000, latency_s=12)


@dataclass
class Rate:
    """What a query did in the batches after the first few."""

    query: str
    stream: str
    messages: int
    seconds: float
    batches: int
    python_mb: int = 0
    batch_s: list[float] = field(default_factory=list)

    @property
    def per_s(self) -> float:
        return self.messages / self.seconds


def streams(scale: Scale) -> dict[str, tuple[Stream, Callable[[], Iterator[tuple[bytes, bytes]]]]]:
    """Each stream, and what is written to it."""
    n, mixed, spare = scale.messages, scale.messages // 2, scale.messages // 2

    def even(count: int) -> Iterator[tuple[bytes, bytes]]:
        return iter(Load(count, EVENTS, seed=1, prefix=loads.PREFIX))

    def opened(events: int) -> Iterator[tuple[bytes, bytes]]:
        return loads.opened_then_mixed(events, mixed, redundant=0.95)

    return {
        "even": (Stream("even", n), lambda: even(n)),
        "json": (Stream("json", spare), lambda: loads.in_json(even(spare))),
        "hot": (Stream("hot", spare), lambda: loads.hot(even(spare))),
        "ten": (Stream("ten", spare, subscriptions=10), lambda: even(spare)),
        "tenthousand": (Stream("tenthousand", spare, subscriptions=10_000), lambda: even(spare)),
        "few": (Stream("few", mixed, before=scale.few_events), lambda: opened(scale.few_events)),
        "windows": (Stream("windows", spare, windowed=True), lambda: even(spare)),
        "many": (Stream("many", mixed, before=scale.many_events), lambda: opened(scale.many_events)),
    }


PLAN: tuple[tuple[str, queries.Query, str], ...] = (
    ("decode", queries.decode, "even"),
    ("identity", queries.identity, "even"),
    ("dedup", queries.dedup, "even"),
    ("tidings", queries.tidings, "even"),
    ("identity", queries.identity, "even"),
    ("tidings", queries.tidings, "even"),
    ("json", queries.tidings, "json"),
    ("hot", queries.tidings, "hot"),
    ("ten", queries.tidings, "ten"),
    ("tenthousand", queries.tidings, "tenthousand"),
    ("few", queries.tidings, "few"),
    ("many", queries.tidings, "many"),
    ("windows", queries.windows, "windows"),
    ("per_event", queries.per_event, "even"),
)


def measure(bench: queries.Bench, name: str, query: queries.Query, stream: Stream, folder: Path, most: int) -> Rate:
    """Run a query over a stream, up to ``most`` measured messages."""
    shutil.rmtree(folder, ignore_errors=True)
    running = query(bench, stream, folder)
    found: dict[int, dict[str, Any]] = {}
    try:
        expected = min(stream.before + stream.messages, stream.before + most)
        while sum(each["numInputRows"] for each in found.values()) < expected:
            if not running.isActive:
                raise RuntimeError(f"{name} ended: {running.exception()}")
            found |= {each["batchId"]: each for each in running.recentProgress if each["numInputRows"]}
            time.sleep(0.2)
        memory = _python_mb()
    finally:
        running.stop()
    return _rate(name, stream, [found[number] for number in sorted(found)], memory)


def _rate(name: str, stream: Stream, batches: list[dict[str, Any]], memory: int) -> Rate:
    """Leave out the first batches, those that build up state, and a last one that is not full."""
    read, kept = 0, []
    for number, batch in enumerate(batches):
        if number >= _WARM_BATCHES and read >= stream.before:
            kept.append(batch)
        read += batch["numInputRows"]
    if len(kept) > 2:
        kept.pop()
    if not kept:
        raise RuntimeError(f"{name}: too few batches to measure")
    seconds = [batch["durationMs"]["triggerExecution"] / 1000 for batch in kept]
    rows = sum(batch["numInputRows"] for batch in kept)
    return Rate(name, stream.name, rows, sum(seconds), len(kept), memory, seconds)


def _python_mb() -> int:
    """Memory of the Python workers, not counting twice what they share."""
    total = 0
    for process in psutil.Process().children(recursive=True):
        try:
            if "pyspark" in " ".join(process.cmdline()) and "java" not in process.name():
                total += process.memory_full_info().pss
        except psutil.Error:
            continue
    return total // 2**20


@contextmanager
def session(master: str, folder: Path, **extra: str) -> Iterator[Any]:
    spark = start_session(master, spark_jars(), shuffle_partitions=2, driver_memory="2g", local_dir=folder / "spark", extra=extra)
    spark.sparkContext.setLogLevel("ERROR")
    try:
        yield spark
    finally:
        stop_session(spark)


def run_plan(master: str, bootstrap: str, folder: Path, scale: Scale, only: Iterable[str]) -> list[Rate]:
    chosen = set(only)
    rates = []
    made = streams(scale)
    with session(master, folder) as spark:
        bench = queries.Bench(spark, bootstrap, scale.batch, folder / "control")
        for name, query, stream in PLAN:
            if chosen and name not in chosen:
                continue
            most = scale.per_event if name == "per_event" else made[stream][0].messages
            bench.batch = max(1, scale.per_event // 5) if name == "per_event" else scale.batch
            rates.append(measure(bench, name, query, made[stream][0], folder / "run", most))
            print(f"  {name:12} {rates[-1].per_s:>12,.0f} messages/s  ({rates[-1].batches} batches)", file=sys.stderr, flush=True)
    return rates


def child(master: str, bootstrap: str, folder: Path, quick: bool, only: list[str]) -> list[Rate]:
    """Run measurements in a process of their own: a process has one Spark."""
    out = folder / "rates.json"
    command = [sys.executable, __file__, "--child", master, bootstrap, str(folder), str(out), *(["--quick"] if quick else [])]
    subprocess.run([*command, "--only", ",".join(only)], check=True, env=os.environ)
    return [Rate(**rate) for rate in json.loads(out.read_text())]


def prepare(connection: Connection, folder: Path, scale: Scale, only: set[str]) -> None:
    made = streams(scale)
    needed = {stream for name, _, stream in PLAN if not only or name in only}
    for name in sorted(needed):
        stream, records = made[name]
        version = loads.control(stream, folder / "control" / name)
        start_s = time.monotonic()
        (loads.fill_offers if stream.windowed else loads.fill)(connection, stream, records(), version)
        print(
            f"  wrote {stream.before + stream.messages:,} messages, {name}, in {time.monotonic() - start_s:.0f} s",
            file=sys.stderr,
        )


def run(quick: bool, only: set[str]) -> dict[str, Any]:
    scale = QUICK if quick else FULL
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        kafka = EmbeddedKafka.start(folder / "kafka", find_java(), heap_mb=1024)
        try:
            connection = Connection(kafka.bootstrap)
            prepare(connection, folder, scale, only)
            rates = child("local[2]", kafka.bootstrap, folder, quick, sorted(only))
            if not only or "cluster" in only:
                rates += on_cluster(kafka.bootstrap, folder, quick)
        finally:
            kafka.stop()
        delays = latency.measure(folder / "service", scale.latency_s) if not only or "latency" in only else None
    return report.results(rates, delays, scale=asdict(scale), quick=quick)


def on_cluster(bootstrap: str, folder: Path, quick: bool) -> list[Rate]:
    """The same on a standalone cluster of two workers with one core each."""
    from testing.cluster import StandaloneCluster

    with StandaloneCluster(folder / "cluster", worker_memory="3g") as cluster:
        rates = child(cluster.master, bootstrap, folder, quick, ["tidings"])
    return [Rate(**{**asdict(rate), "query": "cluster"}) for rate in rates]


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--only", default="", help="names of measurements, with commas; nothing is written then")
    parser.add_argument("--child", nargs=4, metavar=("MASTER", "BOOTSTRAP", "FOLDER", "OUT"), help=argparse.SUPPRESS)
    chosen = parser.parse_args()
    only = {name for name in chosen.only.split(",") if name}
    if chosen.child:
        master, bootstrap, folder, out = chosen.child
        rates = run_plan(master, bootstrap, Path(folder), QUICK if chosen.quick else FULL, only)
        Path(out).write_text(json.dumps([asdict(rate) for rate in rates]))
        return
    found = run(chosen.quick, only)
    found["machine"] = f"{os.cpu_count()} cores ({platform.machine()}), Python {platform.python_version()}"
    print(report.table(found))
    if not only:
        report.write(found, HERE / "results.json", HERE.parent / "docs" / "benchmarks.md")


if __name__ == "__main__":
    main()
