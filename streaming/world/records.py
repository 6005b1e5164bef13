"""Control records as a person would write them, and what follows from them: for worlds in memory, drills and tests."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from tidings.control import Snapshot
from topology.plan import Plan


def subscription(name: str, topic: str = "incident", **more: Any) -> dict[str, Any]:
    """A subscription's control record."""
    return {"kind": "subscription", "name": name, "subscriber": name, "topic": topic, **more}


def topic(name: str = "incident", **more: Any) -> dict[str, Any]:
    """A topic's control record."""
    return {"kind": "topic", "name": name, **more}


def broker(name: str) -> dict[str, Any]:
    """A broker's control record."""
    return {"kind": "broker", "name": name}


def link(a: str, b: str, **more: Any) -> dict[str, Any]:
    """A link's control record."""
    return {"kind": "link", "name": f"{a}-{b}", "a": a, "b": b, **more}


def advertisement(name: str, broker: str, topic: str = "incident") -> dict[str, Any]:
    """An advertisement's control record."""
    return {"kind": "advertisement", "name": name, "broker": broker, "topic": topic}


def snapshot(*records: Mapping[str, Any]) -> Snapshot:
    """The control data that these records make, all of them at once: what two such have in common is the same."""
    made = Snapshot()
    for version, record in enumerate(records, 1):
        made = made.apply(version, f"{record['kind']}/{record['name']}", json.dumps(record).encode())
    return replace(made, since=dict.fromkeys(made.records, 1))


def plan(*records: Mapping[str, Any]) -> Plan:
    """What follows from these control records."""
    return Plan(snapshot(*records))
