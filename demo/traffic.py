"""What crossed the links for the demo's events, and what would have without a gatherer."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from clients.connection import Connection
from clients.decisions import Way
from clients.log import read_all
from demo.scene import LINKS, RECORDS, broker_of
from producers.workload import SentMessage, dated
from streaming.model.links import LinkKind, kind_of
from streaming.wire.clock import MARK_START
from streaming.wire.link import decode_link
from streaming.wire.message import MessageLimits
from streaming.world.simulator import Crossed, Simulator
from tidings import names
from tidings.control import Snapshot
from topology.plan import Plan

_ABOUT_EVENTS = frozenset({LinkKind.PASSED_ON, LinkKind.EVENT_NEWS, LinkKind.HAND_OVER})
_WAYS = {names.link_topic(*way): way for a, b in LINKS for way in ((a, b), (b, a))}


@dataclass(frozen=True)
class LinkTraffic:
    """What crossed one direction of a link, and what would have without a gatherer, on the same input."""

    sender: str
    to: str
    messages: int
    bytes: int
    baseline_messages: int
    baseline_bytes: int


def traffic(connection: Connection, limits: MessageLimits, run: Iterable[SentMessage]) -> Iterator[LinkTraffic]:
    """For each direction of a link, what crossed it about events; ``run`` is what was published about them."""
    crossed, baseline = _crossed(connection, limits), _baseline(run)
    for sender, to in sorted(_WAYS.values()):
        ours, alone = crossed.get((sender, to), Crossed()), baseline.get((sender, to), Crossed())
        yield LinkTraffic(sender, to, ours.records, ours.bytes, alone.records, alone.bytes)


def about_events(crossed: Counter[tuple[str, str]]) -> int:
    """Records about events, of all that crossed; those for windows are counted apart."""
    return sum(count for (_, kind), count in crossed.items() if kind in _ABOUT_EVENTS)


def _crossed(connection: Connection, limits: MessageLimits) -> dict[Way, Crossed]:
    found: dict[Way, Crossed] = {}
    for record in read_all(connection, _WAYS):
        if record.value is None or record.value.startswith(MARK_START):
            continue
        crossed, _ = decode_link(record.value, limits)
        if kind_of(crossed) in _ABOUT_EVENTS:
            so_far = found.setdefault(_WAYS[record.kafka_topic], Crossed())
            so_far.records += 1
            so_far.bytes += len(record.value)
    return found


def _baseline(run: Iterable[SentMessage]) -> dict[Way, Crossed]:
    """What would cross each link if nobody gathered: every message on its own way to whoever wants it."""
    alone = [{**record, "gatherer": "none"} if record["kind"] == "topic" else record for record in RECORDS]
    snapshot = Snapshot()
    for version, record in enumerate(alone, 1):
        snapshot = snapshot.apply(version, f"{record['kind']}/{record['name']}", json.dumps(record).encode())
    simulator = Simulator(Plan(snapshot), lambda *_: 1, sizes=True)
    for one in dated(run, 0):
        simulator.publish(one.at_ms, broker_of(one), one.message)
    simulator.run()
    return simulator.crossed
