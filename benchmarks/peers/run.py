"""The same job by Tidings and by what people use today, on the same input and machine.

    python benchmarks/peers/run.py [--messages N] [--only NAME,...] [--quick]
    python benchmarks/peers/run.py --table      # print the table of the last results

Starts a Kafka broker, fills its input once, and runs each peer in turn, alone. Writes results.json beside this file; what a
peer got in an earlier run with the same settings stays there. Unless it was quick, the page of benchmarks gets the table and a
picture. How each is set up and what is measured: README.md.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import measure
import page
from contenders import PEERS, Peer, Running, Scene
from load import PUBLISH, Load, fill, make_topic

from clients.connection import Connection
from service.kafka.embedded import EmbeddedKafka
from service.kafka.java import find_java

ROOT = Path(__file__).resolve().parent.parent.parent
RESULTS = Path(__file__).parent / "results.json"
EVENTS = 100_000
MESSAGES, QUICK_MESSAGES = 1_000_000, 200_000
PER_S = 1_000
PARTITIONS = 2


def main() -> None:
    asked = arguments()
    results = previous(asked)
    if not asked.table:
        with (
            tempfile.TemporaryDirectory(prefix="peers-") as folder,
            EmbeddedKafka.start(Path(folder) / "kafka", find_java()) as kafka,
        ):
            compare(asked, kafka.bootstrap, Path(folder), results)
    print(table(results))
    if not asked.table and not asked.quick:
        page.write(results, table(results))


def compare(asked: argparse.Namespace, bootstrap: str, folder: Path, results: dict[str, Any]) -> None:
    """Fill the input, then measure one peer after the other; each is written down at once."""
    began = time.monotonic()
    load = fill(bootstrap, PUBLISH, asked.messages, EVENTS, partitions=PARTITIONS)
    results["events"] = load.opened
    per_s = load.n / (time.monotonic() - began)
    say(f"{load.n:,} messages about {load.opened:,} events, {load.redundant / load.n:.0%} redundant, written at {per_s:,.0f}/s")
    for peer in PEERS:
        if peer.name in asked.only:
            began = time.monotonic()
            row = run_peer(peer, bootstrap, folder / peer.name, load, asked.quick)
            results["peers"][peer.name] = {"title": peer.title, "lines": peer.lines(), **row}
            RESULTS.write_text(json.dumps(results, indent=2) + "\n", encoding="utf-8")
            say(f"{peer.name}: {json.dumps(row)} ({time.monotonic() - began:.0f} s)")


def arguments() -> argparse.Namespace:
    names = [peer.name for peer in PEERS]
    parser = argparse.ArgumentParser(description="Compare Tidings with its peers.", epilog=f"names: {', '.join(names)}")
    parser.add_argument("--messages", type=int, help=f"in the bulk; {MESSAGES:,}, or {QUICK_MESSAGES:,} with --quick")
    parser.add_argument("--only", default=",".join(names), help="names with commas")
    parser.add_argument("--quick", action="store_true", help="a smaller bulk, and shorter times")
    parser.add_argument("--table", action="store_true", help="measure nothing, print the last results")
    asked = parser.parse_args()
    asked.only = asked.only.split(",")
    if unknown := set(asked.only) - set(names):
        parser.error(f"no such peer: {', '.join(sorted(unknown))}; there are {', '.join(names)}")
    asked.messages = asked.messages or (QUICK_MESSAGES if asked.quick else MESSAGES)
    return asked


def previous(asked: argparse.Namespace) -> dict[str, Any]:
    """The results to add to: those there are, unless they were got with other settings."""
    machine = f"{os.cpu_count()} cores ({platform.machine()}), Python {platform.python_version()}, Java {find_java().version}"
    settings = {"machine": machine, "messages": asked.messages, "quick": asked.quick}
    found = json.loads(RESULTS.read_text(encoding="utf-8")) if RESULTS.exists() else {}
    if asked.table or all(found.get(name) == value for name, value in settings.items()):
        return {"peers": {}, **found}
    return {**settings, "peers": {}}


def run_peer(peer: Peer, bootstrap: str, folder: Path, load: Load, quick: bool) -> dict[str, Any]:
    """The row of one peer; if it cannot be installed or started, or fails, the row says why."""
    try:
        return Trial(peer, bootstrap, folder, load, quick).run()
    except Exception as error:  # whatever it is, the next peer is still to be measured
        return {"error": f"{type(error).__name__}: {error}".splitlines()[0].replace(str(ROOT), "…").replace(str(folder), "…")}


class Trial:
    """The bulk, then the proof and the latency: in the same process, warm and with its state, if it got through the bulk."""

    def __init__(self, peer: Peer, bootstrap: str, folder: Path, load: Load, quick: bool) -> None:
        self._peer, self._load, self._folder = peer, load, folder
        self._bootstrap = bootstrap
        self._limit_s, self._live_s = (40, 8) if quick else (120, 20)
        self._live = f"live.{peer.name}"
        make_topic(bootstrap, self._live, PARTITIONS)

    def run(self) -> dict[str, Any]:
        running = self._start("bulk", (PUBLISH, self._live))
        try:
            row = self._bulk(running)
            if row["complete"]:
                return row | self._live_part(running)
        finally:
            running.stop()
        # It would be busy with the bulk for long: the rest is asked of a new one that knows nothing.
        running = self._start("live", (self._live,))
        try:
            return row | self._live_part(running)
        finally:
            running.stop()

    def _start(self, part: str, inputs: tuple[str, ...]) -> Running:
        output = f"out.{self._peer.name}.{part}"
        make_topic(self._bootstrap, output, 1)
        batch = min(max(self._load.n // 10, 1000), self._peer.largest_batch)
        return self._peer.start(Scene(self._bootstrap, inputs, output, self._folder / part, batch))

    def _bulk(self, running: Running) -> dict[str, Any]:
        connection = Connection(running.bootstrap)
        expected = self._load.novel - self._load.conflicts
        with measure.Watch(running.pids) as watch:
            silent = measure.wait_until_silent(
                lambda: measure.records_in(connection, running.output), expected, self._limit_s, running.check
            )
        rates = measure.rates(measure.told(connection, running.output), self._load, watch)
        complete = silent and rates["facts_told"] == 1
        return {**rates, "complete": complete, "peak_rss_mb": round(watch.peak_rss_bytes / 2**20)}

    def _live_part(self, running: Running) -> dict[str, Any]:
        connection = Connection(running.bootstrap)
        with measure.Listener(connection, running.output) as listener:
            answers = measure.prove(connection, running.live_input, listener)
            running.check()
            latency = measure.latency(connection, running.live_input, listener, PER_S, self._live_s)
        return {"proof": answers, "wrong": measure.wrong_in(answers), "latency": latency}


# ---- the table --------------------------------------------------------------------------------------------------------

COLUMNS: tuple[tuple[str, str, bool], ...] = (
    ("messages/s", "messages_per_s", True),
    ("CPU s per million", "cpu_s_per_million", False),
    ("latency, half", "p50_s", False),
    ("latency, 99 %", "p99_s", False),
    ("peak memory, MB", "peak_rss_mb", False),
    ("lines to write", "lines", False),
)


def table(results: Mapping[str, Any]) -> str:
    """The results as Markdown, the best of each column in bold, and a line for each column that says who leads."""
    rows = {name: {**row, **row.get("latency", {})} for name, row in results["peers"].items()}
    working = {name: row for name, row in rows.items() if "error" not in row}
    best = {field: (max if most else min)(row[field] for row in working.values()) for _, field, most in COLUMNS if working}
    lines = [
        f"{results.get('messages', 0):,} messages about {results.get('events', 0):,} keys; {results.get('machine', '')}; "
        "Kafka, the peer and the measuring share them.",
        "",
        "| | " + " | ".join(title for title, _, _ in COLUMNS) + " | facts told again | wrong on A, B, C |",
        "|---" * (len(COLUMNS) + 3) + "|",
    ]
    in_order = [rows[peer.name] for peer in PEERS if peer.name in rows]
    lines += [f"| {row['title']} | " + " | ".join(_cells(row, best)) + " |" for row in in_order]
    leaders = [f"- {title}: {_leaders(working, field, best[field], most)}" for title, field, most in COLUMNS if working]
    return "\n".join([*lines, "", "Who leads:", "", *leaders, *_incomplete(working)])


def _cells(row: Mapping[str, Any], best: Mapping[str, float]) -> list[str]:
    if "error" in row:
        return [f"did not run: {row['error']}", *[""] * (len(COLUMNS) + 1)]
    shown = [f"{row[field]:,}" for _, field, _ in COLUMNS]
    bold = [f"**{text}**" if row[field] == best[field] else text for text, (_, field, _) in zip(shown, COLUMNS, strict=True)]
    return [*bold, f"{row['facts_told_again']:,}", row["wrong"] or "nothing"]


def _leaders(rows: Mapping[str, Mapping[str, Any]], field: str, best: float, most: bool) -> str:
    names = ", ".join(row["title"] for row in rows.values() if row[field] == best)
    ours = rows.get("tidings")
    if ours is None or ours[field] == best:
        return names
    factor = best / ours[field] if most else ours[field] / best if best else float("inf")
    return f"{names}; Tidings is {factor:.1f} times behind"


def _incomplete(rows: Mapping[str, Mapping[str, Any]]) -> list[str]:
    slow = [
        f"- {row['title']} did not get through the bulk in the time given: it told {row['facts_told']:.0%} of the news. "
        "Its latency is that of a new start without state."
        for row in rows.values()
        if not row["complete"]
    ]
    return ["", "Not complete:", "", *slow] if slow else []


def say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


if __name__ == "__main__":
    main()
