"""What was measured, as ratios, as a table and as a page."""

from __future__ import annotations

import json
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any

import latency

if TYPE_CHECKING:
    from bench import Rate

GOALS = {
    "vs_identity": 0.6,
    "vs_dedup": 1.2,
    "vs_decode": 0.4,
    "vs_per_event": 30.0,
    "json_vs_avro": 0.5,
    "hot_key": 0.5,
    "cluster_vs_local": 0.7,
    "million_vs_ten_thousand_events": 1 / 1.3,
    "ten_thousand_vs_ten_subscriptions": 1 / 1.3,
    "windows_vs_gatherer": 0.5,
}
_PAIRS = {
    "vs_identity": ("tidings", "identity"),
    "vs_dedup": ("tidings", "dedup"),
    "vs_decode": ("tidings", "decode"),
    "vs_per_event": ("tidings", "per_event"),
    "json_vs_avro": ("json", "tidings"),
    "hot_key": ("hot", "tidings"),
    "cluster_vs_local": ("cluster", "tidings"),
    "million_vs_ten_thousand_events": ("many", "few"),
    "ten_thousand_vs_ten_subscriptions": ("tenthousand", "ten"),
    "windows_vs_gatherer": ("windows", "tidings"),
}
_SAYS = {
    "decode": "`from_avro` and nothing else",
    "identity": "the gatherer's columns through `mapInArrow` and back",
    "dedup": "`dropDuplicatesWithinWatermark` on topic, key and a hash of the fields, the same state store",
    "tidings": "Tidings: 100,000 events, 1,000 subscriptions, 80 % redundant, to Kafka",
    "json": "Tidings, the same messages in JSON",
    "hot": "Tidings, 90 % of the messages about one key",
    "ten": "Tidings with 10 subscriptions",
    "tenthousand": "Tidings with 10,000 subscriptions",
    "few": "Tidings with 10,000 open events, 95 % redundant",
    "many": "Tidings with {many:,} open events, 95 % redundant",
    "windows": "Tidings' pipeline of windows: averages over 10 s every 5 s for 1,000 subscriptions beyond twelve links",
    "per_event": "a group for each event (`applyInPandasWithState`, no buckets)",
    "cluster": "Tidings on a standalone cluster, two workers with one core each",
}


def results(rates: list[Rate], delays: latency.Delays | None, *, scale: dict[str, Any], quick: bool) -> dict[str, Any]:
    """Rates by query (the median where one ran more than once), and the ratios between them."""
    per_s: dict[str, float] = {}
    for name in dict.fromkeys(rate.query for rate in rates):
        per_s[name] = median(rate.per_s for rate in rates if rate.query == name)
    found: dict[str, Any] = {
        "quick": quick,
        "scale": scale,
        "messages_per_s": {name: round(rate) for name, rate in per_s.items()},
        "ratios": {
            name: round(per_s[one] / per_s[other], 3) for name, (one, other) in _PAIRS.items() if one in per_s and other in per_s
        },
    }
    memory = {rate.query: rate.python_mb for rate in rates}
    if {"few", "many"} <= memory.keys():
        more_mb, more_events = memory["many"] - memory["few"], scale["many_events"] - 10_000
        found["memory_bytes_per_open_event"] = round(more_mb * 2**20 / more_events)
    if delays is not None:
        p50, p99 = latency.half(delays.told), latency.ninety_nine(delays.told)
        found["ratios"]["latency_s"] = {"p50": round(p50, 3), "p99": round(p99, 3)}
        plain = latency.half(delays.passed_on), latency.ninety_nine(delays.passed_on)
        found["ratios"]["latency_vs_passing_on"] = {"p50": round(p50 / plain[0], 2), "p99": round(p99 / plain[1], 2)}
        found["passed_on_s"] = {"p50": round(plain[0], 3), "p99": round(plain[1], 3)}
        found["plain_hop_s"] = round(median(delays.hops), 4)
    return found


def table(found: dict[str, Any]) -> str:
    """All that was measured, in Markdown."""
    rates, ratios = found["messages_per_s"], found["ratios"]
    lines = ["| query | messages/s |", "|---|---|"]
    lines += [f"| {_SAYS[name].format(many=found['scale']['many_events'])} | {rate:,} |" for name, rate in rates.items()]
    lines += ["", "| ratio | measured | goal | |", "|---|---|---|---|"]
    for name, goal in GOALS.items():
        if name in ratios:
            lines.append(
                f"| `{name}` | {ratios[name]:.2f} | at least {goal:.2f} | {'met' if ratios[name] >= goal else 'missed'} |"
            )
    if delay := ratios.get("latency_s"):
        plain, passed = ratios["latency_vs_passing_on"], found["passed_on_s"]
        for name, goal in (("p50", 0.4), ("p99", 1.0)):
            met = "met" if delay[name] < goal else "missed"
            lines.append(f"| `latency_s`, {name}, at 1,000 messages/s | {delay[name]:.2f} s | under {goal} s | {met} |")
            met = "met" if plain[name] <= 1.5 else "missed"
            lines.append(
                f"| {name} by that of a query of Spark that only passes messages on ({passed[name]:.2f} s) | {plain[name]:.1f} "
                f"| at most 1.5 | {met} |"
            )
        lines.append(f"| a plain hop through the same Kafka | {found['plain_hop_s'] * 1000:.0f} ms | | |")
    if "memory_bytes_per_open_event" in found:
        lines.append(f"| memory for each open event, all workers | {found['memory_bytes_per_open_event']:,} bytes | | |")
    return "\n".join(lines)


def write(found: dict[str, Any], data: Path, page: Path) -> None:
    """Keep the results; what stands on the page outside the marks stays."""
    data.write_text(json.dumps(found, indent=2) + "\n", encoding="utf-8")
    start, end = "<!-- bench -->\n", "<!-- /bench -->\n"
    text = page.read_text(encoding="utf-8")
    command = "make bench-quick" if found["quick"] else "make bench"
    made = (
        f"Written by `{command}` on {found['machine']}; Kafka, Spark, publishers and subscribers share them.\n\n{table(found)}\n"
    )
    page.write_text(text[: text.index(start) + len(start)] + made + text[text.index(end) :], encoding="utf-8")
