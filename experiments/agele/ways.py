"""Agele's set-up without simulating every broker: what happens between brokers is a matter of distances.

A message takes a time unit for each link on its way to the gatherer, and so does what the gatherer lets go on its way to those
who want it. So it is enough to ask `step` what the gatherer does with what comes to it, in one go: every timer fires at its own
time, whoever asks for it. That comes to the same as simulating the whole overlay, message by message
(`tests/experiments/agele/test_setup.py` holds it to that), in a small part of the time: it is what allows the many seeds of the
figures. Where brokers on the way decide something too (``early``), only `measure` will do.

In Siena, without a gatherer, each message takes its own way through the routing tree; there, nothing has to run at all.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import numpy as np
from msgspec import structs
from numpy.typing import NDArray

from experiments.agele.setup import (
    TOPIC,
    UNIT_MS,
    AgeleSetup,
    Outcomes,
    Times,
    first_times,
    gatherer_of,
    interests,
    last_times,
    overlay_of,
    planned,
    publications,
    publisher_of,
)
from producers.workload import SentMessage
from streaming.broker.state import BucketState, Rules
from streaming.broker.step import step
from streaming.model.books import Books
from streaming.model.entry import Origin
from streaming.model.inputs import Arrived, Input, Marked, Ticked
from streaming.model.outputs import MessageReason, Outcome, Tell
from tidings.names import publish_topic
from topology.overlay import Overlay

Matrix: TypeAlias = NDArray[Any]

_CLOCK = "clock"
"""The one partition that marks are read from."""
_OVER_MS = 10**12
"""Long after all has ended."""


@dataclass(frozen=True, slots=True)
class Ways:
    """The routing tree of an overlay. A broker is its number in the overlay."""

    tree: Mapping[str, Sequence[str]]
    hops: Matrix
    """The links between any two brokers."""
    gatherer: int
    wanted: Mapping[str, Sequence[int]]
    """The key of each event that somebody subscribes to, with the brokers of the subscribers."""

    @property
    def eccentricities(self) -> Matrix:
        """For each broker the links to the farthest other."""
        farthest: Matrix = self.hops.max(axis=1)
        return farthest


@dataclass(frozen=True, slots=True)
class Siena:
    """What the same input comes to without a gatherer."""

    times: Times
    link_messages: int


def ways_of(setup: AgeleSetup, overlay: Overlay | None = None) -> Ways:
    """The ways of a set-up with a gatherer. They are the same whatever its thresholds are."""
    overlay = overlay or overlay_of(setup)
    # All take part, whatever each of them wants: so the tree is the same if all want everything, and is found sooner.
    plan = planned(setup, overlay, {broker: {} for broker in overlay.brokers})
    tree = {broker: sorted(links) for part in plan.route(TOPIC).parts for broker, links in part.tree.items()}
    number = {broker: at for at, broker in enumerate(overlay.brokers)}
    wanted: dict[str, list[int]] = defaultdict(list)
    for broker, key in interests(setup, overlay).items():
        wanted[key].append(number[broker])
    return Ways(tree, _hops(tree, number), number[gatherer_of(plan)], wanted)


def _hops(tree: Mapping[str, Sequence[str]], number: Mapping[str, int]) -> Matrix:
    start = min(number)
    hops = np.zeros((len(number), len(number)), dtype=np.int32)
    reached, parents = [number[start]], {start: start}
    for broker in (order := [start]):
        for neighbour in tree.get(broker, ()):
            if neighbour not in parents:
                # Whatever was reached before is one link farther from here than from the parent.
                here, parents[neighbour] = number[neighbour], broker
                hops[here, reached] = hops[reached, here] = hops[number[broker], reached] + 1
                reached.append(here)
                order.append(neighbour)
    return hops


# ---- with a gatherer --------------------------------------------------------------------------------------------------


def gathered(setup: AgeleSetup, ways: Ways) -> Outcomes:
    """What `measure` says of this set-up."""
    if setup.early:
        raise ValueError("with `early`, brokers on the way decide too: only `measure` can tell")
    published, hops = publications(setup), ways.hops[ways.gatherer]
    books, told = _gathering(setup, published, ways)
    releases = Counter(tell.notification.key for tell in told)
    down = {key: int(_between(ways.hops, [ways.gatherer, *brokers]).sum()) - 1 for key, brokers in ways.wanted.items()}
    first_ms = first_times(published)

    def mean(left_ms: Mapping[tuple[str, str], int]) -> float:
        return _mean([ms - first_ms[key] + hops[ways.wanted[key]] * UNIT_MS for (_, key), ms in left_ms.items()])

    return Outcomes(
        messages=len(published),
        duplicates=books.total(Outcome.REDUNDANT) / len(published),
        merged=books.outcomes[Outcome.MERGED, MessageReason.JOINED] / len(published),
        times=Times(*(mean(left_ms) for left_ms in last_times(told))),
        link_messages=int(hops[[publisher_of(one) for one in published]].sum())
        + sum(count * down[key] for key, count in releases.items()),
    )


def _gathering(setup: AgeleSetup, published: Sequence[SentMessage], ways: Ways) -> tuple[Books, list[Tell]]:
    """The gatherer alone: what others publish arrives after all of its way, and one subscriber stands for all of an event."""
    wants = {key: {"broker": "b1", "where": f"key = '{key}'"} for key in ways.wanted}
    alone = planned(replace(setup, gatherer="centre", rendezvous=None), Overlay(("b1",)), wants)
    hops = ways.hops[ways.gatherer].tolist()
    arriving = [(one.at_ms + hops[publisher_of(one)] * UNIT_MS, hops[publisher_of(one)], one) for one in published]
    happened: list[Input] = [Ticked(0, 1, (_CLOCK,))]
    # At the same time, what has the shorter way comes first: it could be sent on while the other was still on its way.
    for number, (at_ms, _, one) in enumerate(sorted(arriving, key=lambda arrival: arrival[:2])):
        origin = Origin(publish_topic("b1"), 0, number, at_ms)
        happened.append(Arrived(origin, "b1", structs.replace(one.message, published_ms=one.at_ms)))
    state, outputs = step(BucketState(), [*happened, Marked(_CLOCK, _OVER_MS)], {1: alone}.__getitem__, Rules())
    return state.books["b1"], [output for output in outputs if isinstance(output, Tell)]


# ---- each message by itself -------------------------------------------------------------------------------------------


def siena(setup: AgeleSetup, ways: Ways) -> Siena:
    """The times and the load of the links when every message passes on by itself."""
    sent = _by_event(setup)
    crossed = sum(_crossed(sent[key], ways.hops, brokers) for key, brokers in ways.wanted.items())
    return Siena(_unheld(setup, ways, ways.hops), crossed)


def detour(setup: AgeleSetup, ways: Ways) -> Times:
    """The times when every message goes by the gatherer, which neither holds nor drops any: those of T_m = T_r = 0."""
    return _unheld(setup, ways, ways.hops[:, [ways.gatherer]] + ways.hops[[ways.gatherer]])


def _by_event(setup: AgeleSetup) -> Mapping[str, Sequence[SentMessage]]:
    sent: dict[str, list[SentMessage]] = defaultdict(list)
    for one in publications(setup):
        sent[one.message.key].append(one)
    return sent


def _unheld(setup: AgeleSetup, ways: Ways, hops: Matrix) -> Times:
    sent = _by_event(setup)
    times = [_arrivals(sent[key], hops[:, brokers]) for key, brokers in ways.wanted.items()]
    return Times(*(_mean(either) for either in zip(*times, strict=True)))


def _arrivals(messages: Sequence[SentMessage], hops: Matrix) -> tuple[Matrix, Matrix]:
    """For each subscriber, when the last message arrived, and the last field that it had not seen before."""
    sources = [publisher_of(one) for one in messages]
    arrives = np.array([one.at_ms for one in messages])[:, None] + hops[sources] * UNIT_MS
    fields = sorted({name for one in messages for name in one.message.fields})
    states = np.array([[name in one.message.fields for name in fields] for one in messages])
    first = np.array([arrives[states[:, at]].min(axis=0) for at in range(len(fields))])
    return arrives.max(axis=0) - messages[0].at_ms, first.max(axis=0) - messages[0].at_ms


def _crossed(messages: Sequence[SentMessage], hops: Matrix, wanted: Sequence[int]) -> int:
    """A message crosses the links between those who want it, once each, and those on its way there."""
    between = _between(hops, wanted)
    way_there = hops[:, between].min(axis=1)
    return int(way_there[[publisher_of(one) for one in messages]].sum()) + len(messages) * (int(between.sum()) - 1)


def _between(hops: Matrix, brokers: Sequence[int]) -> Matrix:
    """Which brokers are on the ways between these, themselves included: the smallest part of the tree that holds them."""
    start = brokers[0]
    on_the_way: Matrix = (hops[start][:, None] + hops[:, brokers] == hops[start, brokers]).any(axis=1)
    return on_the_way


def _mean(parts: Sequence[Matrix]) -> float:
    return float(np.concatenate(parts).mean()) / UNIT_MS
