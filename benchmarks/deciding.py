"""What deciding for windows costs at one link with 100,000 open items and 10,000 open ranges.

    python benchmarks/deciding.py [--quick]        # or: make bench-deciding

Prints the tables, and writes them to docs/benchmarks.md and benchmarks/deciding.json. Neither Kafka nor Spark takes part: this
is the graph and the deciders of the service, and their CPU time.
"""

from __future__ import annotations

import argparse
import gc
import json
import os
import platform
import random
import sys
from bisect import bisect
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import accumulate
from pathlib import Path
from statistics import mean, median
from time import process_time
from typing import Any

from streaming.windows.deciders import Choice, Decider, decider
from streaming.windows.deciders.decision import Unlearned
from streaming.windows.graph import Graph, Range
from tidings.collection import no_collection

HERE = Path(__file__).parent
DECIDERS = ("adock", "wad", "bat", "foresight")
TICK_MS, MINUTE_MS = 100, 60_000
"""Windows end at ticks only, so that what is done between two of them can be timed as one."""
MINUTES, QUICK_MINUTES = 10, 3
WITHIN_S, BY_WAD, FLAT = 1.0, 1.5, 1.2
"""Goals: CPU seconds for a minute of stream, ADOCK's by WAD's, and the last windows' cost by the first ones'."""
START, END = "<!-- deciding -->\n", "<!-- /deciding -->\n"


@dataclass(frozen=True)
class Load:
    """A steady stream to one link. ``windows`` are sizes and shifts in seconds, given to the subscriptions in turn; an item
    matches ``least`` to ``most`` of these. With ``skewed``, the n-th subscription is chosen n times less often than the first
    (Zipf)."""

    name: str
    says: str
    windows: tuple[tuple[float, float], ...]
    subscriptions: int
    items_a_minute: int
    least: int
    most: int
    skewed: bool = False

    def smaller(self, times: int) -> Load:
        return replace(self, subscriptions=self.subscriptions // times, items_a_minute=self.items_a_minute // times)


KINDS = ((60, 60), (60, 30), (60, 20), (90, 30), (45, 20), (30, 30), (20, 60))
LOADS = (
    Load(
        "mixed",
        "6,200 subscriptions with windows of 60 s every 60, 30 and 20 s, 90 s every 30 s, 45 s every 20 s, 30 s every 30 s and "
        "20 s every 60 s; an item matches one to five of them, chosen by Zipf's law",
        KINDS,
        subscriptions=6_200,
        items_a_minute=110_000,
        least=1,
        most=5,
        skewed=True,
    ),
    Load(
        "woven",
        "1,000 subscriptions with windows of 60 s every 6 s; an item matches any two of them, and so counts in 20 ranges",
        ((60, 6),),
        subscriptions=1_000,
        items_a_minute=105_000,
        least=2,
        most=2,
    ),
    Load(
        "scarce",
        "the same with a tenth of the items: about as many as ranges, where least is certain",
        ((60, 6),),
        subscriptions=1_000,
        items_a_minute=10_500,
        least=2,
        most=2,
    ),
)


# ---- the stream -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Item:
    """What is offered to the link."""

    at_ms: int
    number: int
    key: frozenset[Range]
    ranges: tuple[Range, ...]


@dataclass(frozen=True, slots=True)
class Tick:
    """The ranges that end when it begins, in order, and the items that come in it."""

    due: Sequence[Range]
    items: Sequence[Item]


class Stream:
    """A load, minute by minute: the same for every decider."""

    def __init__(self, load: Load, seed: int = 1) -> None:
        self._load = load
        self._chance = random.Random(seed)
        windows = [load.windows[number % len(load.windows)] for number in range(load.subscriptions)]
        self._sizes_ms = [round(size * 1000) for size, _ in windows]
        self._shifts_ms = [round(shift * 1000) for _, shift in windows]
        self._issued_ms = [self._chance.randrange(0, shift, TICK_MS) for shift in self._shifts_ms]
        # The places are shuffled, or a kind of window would always be the most popular one.
        places = self._chance.sample(range(load.subscriptions), load.subscriptions)
        self._shares = list(accumulate(1 / (1 + place) if load.skewed else 1.0 for place in places))
        self._names = [f"s{number}" for number in range(load.subscriptions)]
        self._known: dict[tuple[int, int], Range] = {}
        self._due: dict[int, list[Range]] = defaultdict(list)
        self._now_ms = 0
        self._number = 0

    def warm_up(self) -> int:
        """After this many minutes the graph is as large as it will be."""
        return -(-max(self._sizes_ms) // MINUTE_MS)

    def minute(self) -> Iterator[Tick]:
        """The next one. A tick is made when it is its turn, so that what waits to be offered takes no room."""
        count, begin_ms = self._load.items_a_minute, self._now_ms
        times_ms = sorted(begin_ms + self._chance.randrange(MINUTE_MS) for _ in range(count))
        at = 0
        for tick_ms in range(begin_ms, begin_ms + MINUTE_MS, TICK_MS):
            items = []
            while at < count and times_ms[at] < tick_ms + TICK_MS:
                if (item := self._item(times_ms[at])) is not None:
                    items.append(item)
                at += 1
            # What opened in this tick ends in a later one.
            yield Tick(sorted(self._due.pop(tick_ms, [])), items)
        self._now_ms += MINUTE_MS
        self._known = {key: range_ for key, range_ in self._known.items() if range_.end > self._now_ms}

    def _item(self, at_ms: int) -> Item | None:
        """None if it matches only subscriptions that sample, between their windows."""
        chance, shares = self._chance, self._shares
        wanted = chance.randint(self._load.least, min(self._load.most, len(shares)))
        matched: set[int] = set()
        while len(matched) < wanted:
            matched.add(bisect(shares, chance.random() * shares[-1], hi=len(shares) - 1))
        ranges = tuple(sorted(range_ for subscription in matched for range_ in self._open(subscription, at_ms)))
        self._number += 1
        return Item(at_ms, self._number, frozenset(ranges), ranges) if ranges else None

    def _open(self, subscription: int, at_ms: int) -> Iterator[Range]:
        size_ms, shift_ms = self._sizes_ms[subscription], self._shifts_ms[subscription]
        last_ms = at_ms - (at_ms - self._issued_ms[subscription]) % shift_ms
        for start_ms in range(last_ms, at_ms - size_ms, -shift_ms):
            range_ = self._known.get((subscription, start_ms))
            if range_ is None:
                range_ = self._known[subscription, start_ms] = Range(start_ms + size_ms, self._names[subscription], start_ms)
                self._due[range_.end].append(range_)
            yield range_


# ---- measuring --------------------------------------------------------------------------------------------------------


@dataclass
class Minute:
    """What one minute of stream took, in CPU seconds, and what was open at its end."""

    taking_s: float = 0.0
    deciding_s: float = 0.0
    windows: int = 0
    aggregated: int = 0
    forwarded: int = 0
    items: int = 0
    ranges: int = 0
    groups: int = 0


def measure(load: Load, name: str, minutes: int) -> list[Minute]:
    """Run one decider over a load, and leave out the minutes in which the graph grows.

    A decider that learns nothing decides only when it is full. To one that knows little, little looks worth aggregating: where
    windows overlap much, ADOCK and WAD forward from the first range on, and the graph never fills.
    """
    stream, graph, decides = Stream(load), Graph(), decider(name)
    first = decider("always-aggregate") if isinstance(decides, Unlearned) else decides
    gc.collect()
    with no_collection():
        for _ in range(stream.warm_up()):
            _run(stream.minute(), graph, first)
        return [_run(stream.minute(), graph, decides) for _ in range(minutes)]


def _run(ticks: Iterable[Tick], graph: Graph, decides: Decider) -> Minute:
    found = Minute()
    for tick in ticks:
        began = process_time()
        for range_ in tick.due:
            if range_ not in graph.ranges:
                continue
            found.windows += 1
            if decides.decide(graph, range_, range_.end).choice is Choice.AGGREGATE:
                graph.aggregated(range_)
                found.aggregated += 1
            else:
                found.forwarded += len(graph.forwarded(range_))
        decided = process_time()
        for item in tick.items:
            graph.add(item.number, item.key)
            decides.arrived(graph, item.number, item.ranges, item.at_ms, crosses=False)
        found.taking_s += process_time() - decided
        found.deciding_s += decided - began
    found.items, found.ranges, found.groups = len(graph), len(graph.ranges), len(graph.groups())
    return found


# ---- results ----------------------------------------------------------------------------------------------------------


def summary(minutes: Sequence[Minute]) -> dict[str, float]:
    """Medians of the minutes; ``flat`` is what a window took in the last third of them by what it took in the first."""
    a_window = [each.deciding_s / max(each.windows, 1) for each in minutes]
    third = max(len(minutes) // 3, 1)
    return {
        "deciding_s": round(median(each.deciding_s for each in minutes), 4),
        "with_taking_s": round(median(each.deciding_s + each.taking_s for each in minutes), 4),
        "window_us": round(median(a_window) * 1e6, 2),
        "flat": round(mean(a_window[-third:]) / mean(a_window[:third]), 3),
        "windows": round(median(each.windows for each in minutes)),
        "aggregated": round(median(each.aggregated for each in minutes)),
        "messages": round(median(each.aggregated + each.forwarded for each in minutes)),
        "items": round(median(each.items for each in minutes)),
        "ranges": round(median(each.ranges for each in minutes)),
        "groups": round(median(each.groups for each in minutes)),
    }


def results(loads: Sequence[Load], minutes: int, *, quick: bool) -> dict[str, Any]:
    found: dict[str, Any] = {"quick": quick, "minutes": minutes, "loads": {}}
    for load in loads:
        by_decider = {}
        for name in DECIDERS:
            taken = measure(load, name, minutes)
            by_decider[name] = {**summary(taken), "by_minute": [asdict(each) for each in taken]}
            print(f"  {load.name:8} {name:10} {by_decider[name]['deciding_s']:.2f} s a minute", file=sys.stderr, flush=True)
        found["loads"][load.name] = {"says": load.says, "items_a_minute": load.items_a_minute, "deciders": by_decider}
    return found


_COLUMNS = (
    *("decider", "deciding, s", "and taking in", "a window, µs", "last by first"),
    *("windows", "aggregated", "open items", "in groups", "open ranges"),
)


def table(found: dict[str, Any]) -> str:
    """All that was measured, in Markdown."""
    lines = []
    for name, load in found["loads"].items():
        lines += [f"**{name.capitalize()}**: {load['says']}. {load['items_a_minute']:,} items come in a minute.", ""]
        lines += [f"| {' | '.join(_COLUMNS)} |"]
        lines += ["|---|---|---|---|---|---|---|---|---|---|"]
        for decider_name, row in load["deciders"].items():
            cells = [f"{row['deciding_s']:.2f}", f"{row['with_taking_s']:.2f}", f"{row['window_us']:.0f}", f"{row['flat']:.2f}"]
            cells += [f"{row[each]:,}" for each in ("windows", "aggregated", "items", "groups", "ranges")]
            lines.append(f"| `{decider_name}` | {' | '.join(cells)} |")
        lines.append("")
    return "\n".join([*lines, *_goals(found)])


def _goals(found: dict[str, Any]) -> list[str]:
    """The goals are about the first load; the others are there to see what is hard."""
    rows = next(iter(found["loads"].values()))["deciders"]
    checks = [(f"`{name}`: deciding for a minute of stream", row["deciding_s"], WITHIN_S, "s") for name, row in rows.items()]
    checks += [(f"`{name}`: the last windows' cost by the first ones'", row["flat"], FLAT, "") for name, row in rows.items()]
    checks.append(("ADOCK's deciding by WAD's", rows["adock"]["deciding_s"] / rows["wad"]["deciding_s"], BY_WAD, ""))
    checks.append(("the same with taking in", rows["adock"]["with_taking_s"] / rows["wad"]["with_taking_s"], BY_WAD, ""))
    lines = [f"| goal, {next(iter(found['loads']))} | measured | at most | |", "|---|---|---|---|"]
    for says, measured, most, unit in checks:
        lines.append(f"| {says} | {measured:.2f} {unit} | {most:.1f} {unit} | {'met' if measured <= most else 'missed'} |")
    return [" ".join(line.split()) for line in lines]


def write(found: dict[str, Any], data: Path, page: Path) -> None:
    """Keep the results; what stands on the page outside the marks stays."""
    data.write_text(json.dumps(found, indent=2) + "\n", encoding="utf-8")
    text = page.read_text(encoding="utf-8")
    command = "make bench-deciding" + (" ARGS=--quick" if found["quick"] else "")
    made = f"Written by `{command}` on {found['machine']}, one core; medians of {found['minutes']} minutes.\n\n{table(found)}\n"
    page.write_text(text[: text.index(START) + len(START)] + made + text[text.index(END) :], encoding="utf-8")


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--quick", action="store_true", help="a tenth of everything, for three minutes of stream")
    parser.add_argument("--only", default="", help="names of loads, with commas; nothing is written then")
    chosen = parser.parse_args()
    only = {name for name in chosen.only.split(",") if name}
    loads = [load.smaller(10) if chosen.quick else load for load in LOADS if not only or load.name in only]
    found = results(loads, QUICK_MINUTES if chosen.quick else MINUTES, quick=chosen.quick)
    found["machine"] = f"{platform.machine()} ({os.cpu_count()} cores), Python {platform.python_version()}"
    print(table(found))
    if not only:
        write(found, HERE / "deciding.json", HERE.parent / "docs" / "benchmarks.md")


if __name__ == "__main__":
    main()
