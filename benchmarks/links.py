"""What links cost within one process: events that are handed on (decision 0028), beside the way of directories from before,
which read the links.

    python benchmarks/links.py [--messages 100000]        # or: make bench-links

Five brokers in a row, one subscription at b5; messages enter at b1. First a backlog, then 20 messages a second with fresh news,
each way in a service of its own, one after the other. Prints the table, and writes it to docs/benchmarks.md.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import sys
import tempfile
import time
from itertools import pairwise
from pathlib import Path
from statistics import median

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE / "peers"))

from load import Load, send  # noqa: E402

from service.directory.migration import MADE_WITH  # noqa: E402
from streaming.broker.state_codec import FORMAT  # noqa: E402
from streaming.world.records import broker, link, subscription, topic  # noqa: E402
from testing.service import RunningService, wait_for  # noqa: E402

START, END = "<!-- links -->\n", "<!-- /links -->\n"
WAYS = {"handed on": {}, "links are read": {"state format": FORMAT}}
"""What the directory says of itself before its first start: nothing, or that it is from before."""
BROKERS = [f"b{number}" for number in range(1, 6)]
_EACH_S, _SECONDS = 0.05, 20


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--messages", type=int, default=100_000)
    messages = parser.parse_args().messages
    found = {}
    for way, made_with in WAYS.items():
        with tempfile.TemporaryDirectory(prefix="tidings-links-") as folder:
            directory = Path(folder) / "dir"
            directory.mkdir()
            if made_with:
                (directory / MADE_WITH).write_text(json.dumps(made_with))
            found[way] = measure(directory, messages)
            print(way, found[way], flush=True)
    table = report(found, messages)
    print(table)
    page = HERE.parent / "docs" / "benchmarks.md"
    before, _, rest = page.read_text(encoding="utf-8").partition(START)
    page.write_text(before + START + table + END + rest.partition(END)[2], encoding="utf-8")


def measure(directory: Path, messages: int) -> tuple[float, float]:
    """Messages a second, by Kafka's clock from the first one in to the last news out; and how long half of paced news takes."""
    with RunningService.start(directory) as service:
        row = [*map(broker, BROKERS), *(link(*ends) for ends in pairwise(BROKERS))]
        service.apply(*row, topic(), subscription("far", broker=BROKERS[-1]))
        load = Load(messages, messages // 10, seed=1)
        send(service.bootstrap, "publish.b1", load)
        wait_for("all that was published", lambda: is_done(service, messages), 600)
        entered = next(record.append_ms for record in service.read("publish.b1") if not (record.value or b"").startswith(b"\0"))
        told = max(record.append_ms for record in service.read("notify.far"))
        return 1000 * messages / (told - entered), paced(service)


def is_done(service: RunningService, messages: int) -> bool:
    """Whether every message has come to its end where it entered, and everything that was sent has been heard."""
    books = service.books()
    return books.received >= messages and sum(books.sent.values()) == sum(books.heard.values())


def paced(service: RunningService) -> float:
    """Seconds from Kafka's clock at b1 to its clock at the subscriber, half of all."""
    producer = service.connection.producer(**{"linger.ms": 0})
    total = int(_SECONDS / _EACH_S)
    for number in range(total):
        fields = {"what": f"alarm {number}"}
        producer.produce("publish.b1", json.dumps({"topic": "incident", "key": f"paced {number}", "fields": fields}))
        producer.poll(0)
        time.sleep(_EACH_S)
    producer.flush()

    def told() -> dict[str, int] | None:
        found = {json.loads(record.value or b"{}").get("key"): record.append_ms for record in service.read("notify.far")}
        found = {key: ms for key, ms in found.items() if key and key.startswith("paced")}
        return found if len(found) == total else None

    came = wait_for("all paced news", told, 60)
    entered = {
        json.loads(record.value)["key"]: record.append_ms
        for record in service.read("publish.b1")
        if record.value and record.value.startswith(b"{")
    }
    return median(came[key] - ms for key, ms in entered.items()) / 1000


def report(found: dict[str, tuple[float, float]], messages: int) -> str:
    """The table as the page has it."""
    said = f"Written by `make bench-links` on {platform.machine()} ({os.cpu_count()} cores), {messages:,} messages."
    lines = [said, "", "| way | messages/s over four links | told, half of all |", "|---|---|---|"]
    return "\n".join([*lines, *(f"| {way} | {rate:,.0f} | {delay_s:.2f} s |" for way, (rate, delay_s) in found.items()), ""])


if __name__ == "__main__":
    main()
