"""The set-up of Agele's experiments (section 6.1), and what is measured in it.

What the paper leaves open is fixed here once, for all figures: a link takes one time unit, random overlays have a mean degree of
four, there are ten events, a publisher of an event sends one message about it on average (a Poisson process with at least
one), and every broker subscribes to one event, drawn uniformly.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from random import Random
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from experiments.simulator import Simulator
from producers.workload import Published, Workload, generate
from streaming.broker.books import total
from streaming.broker.values import Outcome, Tell, Why
from tidings.control import Snapshot
from tidings.predicate import Verdict
from topology.generators import generate as generate_overlay
from topology.overlay import Overlay, to_records
from topology.plan import Plan

UNIT_MS = 1000
TOPIC = "workload"

Matrix: TypeAlias = NDArray[Any]


@dataclass(frozen=True, slots=True)
class Setup:
    """One point of a figure. Times are in the paper's time units."""

    seed: int
    brokers: int = 500
    overlay: str = "random"
    merge: float = 4
    """T_m"""
    redundant: float = 10
    """T_r; None of the paper's: at least T_b remembers for the whole window."""
    burst: float = 100
    """T_b"""
    events: int = 10
    messages_per_publisher: float = 1.0
    gatherer: str = "centre"
    rendezvous: str | None = None


@dataclass(frozen=True, slots=True)
class Outcomes:
    """What came of a run: shares of the messages that were published, and the mean time until an event was fully known."""

    messages: int
    suppressed: float
    duplicates: float
    merged: float
    event_time: float
    link_messages: int
    steps: int


def overlay_of(setup: Setup) -> Overlay:
    return generate_overlay(setup.overlay, setup.brokers, setup.seed)


def publications(setup: Setup) -> list[Published]:
    """What is published, the same whatever is done with it."""
    workload = Workload(
        events=setup.events,
        publishers=setup.brokers,
        messages_per_publisher=setup.messages_per_publisher,
        burst_ms=round(setup.burst * UNIT_MS),
        spread_ms=round(6 * setup.burst * UNIT_MS),
        topic=TOPIC,
        seed=setup.seed,
    )
    return generate(workload)


def plan_of(setup: Setup, overlay: Overlay) -> Plan:
    """Every broker subscribes once, to an event drawn uniformly."""
    rng = Random(f"{setup.seed}/subscriptions")
    window = 4 * setup.burst
    declared = {
        "kind": "topic",
        "name": TOPIC,
        "window_ms": round(window * UNIT_MS),
        "hold_ms": round(setup.merge * UNIT_MS),
        "remember_ms": round(min(setup.redundant, window) * UNIT_MS),
        "complete": [f"f{number:02d}" for number in range(1, 20)],
        "gatherer": setup.gatherer,
    }
    if setup.rendezvous:
        declared |= {"filter": "rendezvous", "rendezvous": setup.rendezvous}
    wants = [
        {
            "kind": "subscription",
            "name": f"at-{broker}",
            "subscriber": broker,
            "broker": broker,
            "topic": TOPIC,
            "where": f"key = 'event-{rng.randrange(setup.events):06d}'",
        }
        for broker in overlay.brokers
    ]
    records = {f"{record['kind']}/{record['name']}": record for record in (*to_records(overlay), declared, *wants)}
    return Plan(Snapshot(1, records, since=dict.fromkeys(records, 1)))


def simulate(setup: Setup, overlay: Overlay | None = None, *, sizes: bool = False) -> Simulator:
    """The run itself."""
    overlay = overlay or overlay_of(setup)
    simulator = Simulator(plan_of(setup, overlay), lambda *_: UNIT_MS, sizes=sizes)
    for one in publications(setup):
        simulator.publish(one.at_ms, overlay.brokers[int(one.publisher.removeprefix("p-"))], one.message)
    simulator.run()
    return simulator


def measure(setup: Setup, overlay: Overlay | None = None) -> Outcomes:
    """Run a set-up and read its books."""
    simulator = simulate(setup, overlay)
    books = total(simulator.books.values())
    published = publications(setup)
    gatherer = simulator.books[gatherer_of(simulator)] if setup.gatherer != "none" else books
    messages = len(published)
    duplicates = gatherer.total(Outcome.REDUNDANT)
    merged = gatherer.outcomes[Outcome.MERGED, Why.JOINED]
    return Outcomes(
        messages=messages,
        suppressed=(duplicates + merged) / messages,
        duplicates=duplicates / messages,
        merged=merged / messages,
        event_time=event_time(published, (tell for _, tell in simulator.told)),
        link_messages=simulator.link_messages,
        steps=simulator.steps,
    )


def gatherer_of(simulator: Simulator) -> str:
    """The broker that gathers."""
    return next(part.gatherer for part in simulator.plan.route(TOPIC).parts if part.gatherer)


def event_time(published: Iterable[Published], told: Iterable[Tell]) -> float:
    """The mean time from an event's first publication until a subscriber knows all that is ever published about it.

    In time units, over subscribers and events. A fact that is told again is not waited for.
    """
    first_ms: dict[str, int] = {}
    for one in published:
        first_ms.setdefault(one.message.key, one.at_ms)
    known: dict[tuple[str, str], set[str]] = defaultdict(set)
    last_ms: dict[tuple[str, str], int] = {}
    for tell in told:
        at = (tell.notification.subscription, tell.notification.key)
        if tell.notification.news.keys() - known[at]:
            known[at].update(tell.notification.news)
            last_ms[at] = tell.at_ms
    times = [(ms - first_ms[key]) / UNIT_MS for (_, key), ms in last_ms.items()]
    return sum(times) / len(times)


def siena_event_time(setup: Setup, overlay: Overlay | None = None) -> float:
    """The same time without a gatherer, each message on its own way through the routing tree.

    Computed from the distances in the tree, which is what the simulator comes to as well, message by message.
    """
    overlay = overlay or overlay_of(setup)
    plan = plan_of(replace(setup, gatherer="none", rendezvous=None), overlay)
    number, hops = _distances({broker: links for part in plan.route(TOPIC).parts for broker, links in part.tree.items()})
    sent: dict[str, list[Published]] = defaultdict(list)
    for one in publications(setup):
        sent[one.message.key].append(one)
    wanted: dict[str, list[int]] = defaultdict(list)
    for subscription in plan.snapshot.subscriptions.values():
        key = next(key for key in sent if subscription.judge(key, {}) is Verdict.MATCHES)
        wanted[key].append(number[subscription.broker])
    times = [_siena_times(sent[key], overlay, number, hops[:, at]) for key, at in wanted.items()]
    return float(np.concatenate(times).mean())


def _siena_times(messages: list[Published], overlay: Overlay, number: Mapping[str, int], hops: Matrix) -> Matrix:
    """For each subscriber, when the last field arrived that it had not seen before."""
    sources = [number[overlay.brokers[int(one.publisher.removeprefix("p-"))]] for one in messages]
    sent_at = np.array([one.at_ms for one in messages])[:, None] / UNIT_MS
    arrives = sent_at + hops[sources]
    fields = sorted({name for one in messages for name in one.message.fields})
    states = np.array([[name in one.message.fields for name in fields] for one in messages])
    first = np.array([arrives[states[:, at]].min(axis=0) for at in range(len(fields))])
    result: Matrix = first.max(axis=0) - messages[0].at_ms / UNIT_MS
    return result


def _distances(tree: Mapping[str, Mapping[str, object]]) -> tuple[dict[str, int], Matrix]:
    """A number for each broker of a tree, and the hops between any two."""
    start = min(tree)
    number, parents = {start: 0}, [0]
    for broker in (order := [start]):
        for neighbour in sorted(tree[broker]):
            if neighbour not in number:
                number[neighbour] = len(order)
                parents.append(number[broker])
                order.append(neighbour)
    hops = np.zeros((len(order), len(order)))
    for here in range(1, len(order)):
        hops[here, :here] = hops[:here, here] = hops[parents[here], :here] + 1
    return number, hops
