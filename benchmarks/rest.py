"""What a service takes while it has nothing to do, and how soon it tells what falls due in silence.

    python benchmarks/rest.py [--seconds 60]        # or: make bench-rest

Prints the table, and writes it to docs/benchmarks.md and benchmarks/rest.json. A service with its own Kafka, as `tidings up`
starts it: one subscription, some open events, nobody who publishes.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import platform
import tempfile
import time
from collections import defaultdict
from pathlib import Path
from statistics import median

import psutil

from producers.publisher import Publisher
from streaming.world.records import subscription, topic
from testing.service import RunningService, wait_for
from tidings.message import Message

HERE = Path(__file__).parent
START, END = "<!-- rest -->\n", "<!-- /rest -->\n"
HOLD_MS = 2_500
CORES, DUE_S = 0.15, 1.5
"""Goals: cores of all processes together; and how long after it is due the slowest is told."""
_WORDS = {"Kafka": "kafka.Kafka", "Spark": "SparkSubmit", "workers": "daemon"}
"""What tells a program by its command line; the driver is the one that is left."""
_SETTLE_S = 20.0
_TRIES = 10


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=int, default=60, help="for how long to watch")
    seconds = parser.parse_args().seconds
    with tempfile.TemporaryDirectory(prefix="tidings-rest-") as folder, RunningService.start(Path(folder) / "dir") as service:
        service.apply(topic("held", hold_ms=HOLD_MS), subscription("ops", topic="held"))
        late_s = late(service)
        time.sleep(_SETTLE_S)
        cores, mb = at_rest(service, seconds)
    found = {"seconds": seconds, "cores": cores, "mb": mb, "late_s": late_s}
    (HERE / "rest.json").write_text(json.dumps(found, indent=2) + "\n")
    table = report(found)
    print(table)
    page = HERE.parent / "docs" / "benchmarks.md"
    before, _, rest = page.read_text(encoding="utf-8").partition(START)
    page.write_text(before + START + table + END + rest.partition(END)[2], encoding="utf-8")


def late(service: RunningService) -> list[float]:
    """How long after it was due each of some reports was told, by Kafka's clock, each after a silence of its own length."""
    found = []
    with Publisher(service.connection) as publisher:
        for number in range(_TRIES):
            publisher.publish(Message("held", f"k{number}", {"what": "fire"}))
            publisher.flush()
            told = wait_for("news", lambda: record if len(record := service.read("notify.ops")) > number else None)  # noqa: B023
            entered = [record for record in service.read("publish.b1") if record.value and record.value.startswith(b"{")]
            due_ms = max(record.append_ms for record in entered) + HOLD_MS
            found.append((max(record.append_ms for record in told) - due_ms) / 1000)
            time.sleep(0.37 * number)
    return found


def at_rest(service: RunningService, seconds: int) -> tuple[dict[str, float], int]:
    """By program, the share of a core it takes; and the memory of all of them."""
    before, began = _used(service), time.monotonic()
    time.sleep(seconds)
    after, took_s = _used(service), time.monotonic() - began
    resident = sum(process.memory_info().rss for process in _processes(service))
    return {name: round((after[name] - before.get(name, 0.0)) / took_s, 3) for name in after}, resident // 1_000_000


def _processes(service: RunningService) -> list[psutil.Process]:
    parent = psutil.Process(service.process.pid)
    return [parent, *parent.children(recursive=True)]


def _used(service: RunningService) -> dict[str, float]:
    found: dict[str, float] = defaultdict(float)
    for process in _processes(service):
        with contextlib.suppress(psutil.Error):  # it has ended meanwhile
            words, used = " ".join(process.cmdline()), process.cpu_times()
            name = next((name for name, word in _WORDS.items() if word in words), "driver")
            found[name] += used.user + used.system
    return found


def report(found: dict[str, object]) -> str:
    """The table as the page has it."""
    cores: dict[str, float] = found["cores"]  # type: ignore[assignment]
    late_s: list[float] = found["late_s"]  # type: ignore[assignment]
    total = sum(cores.values())
    parts = ", ".join(f"{name} {share:.3f}" for name, share in sorted(cores.items(), key=lambda each: -each[1]))
    rows = [
        ("cores at rest, embedded Kafka included", f"{total:.3f} ({parts})", f"at most {CORES}", total <= CORES),
        (
            "told after it was due, half and slowest of ten",
            f"{median(late_s):.2f} s, {max(late_s):.2f} s",
            f"at most {DUE_S} s",
            max(late_s) <= DUE_S,
        ),
    ]
    said = f"Written by `make bench-rest` on {platform.machine()} ({os.cpu_count()} cores), over {found['seconds']} s."
    lines = [said, "", "| what | measured | goal | |", "|---|---|---|---|"]
    lines += [f"| {what} | {measured} | {goal} | {'met' if met else 'missed'} |" for what, measured, goal, met in rows]
    return "\n".join([*lines, f"| memory of all processes | {found['mb']:,} MB | | |", ""])


if __name__ == "__main__":
    main()
