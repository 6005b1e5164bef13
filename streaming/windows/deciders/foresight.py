"""Foresight: ADOCK, with what the windows so far let one expect, and never much worse than WAD.

ADOCK forwards a range where what is known now has more ranges than items. But the ranges that share its items stay open, and
more items will come to them; if these make them aggregates anyway, nothing is saved by sending the shared items now. With
overlapping windows that is the common case, and a costly one: once items are forwarded the graph looks empty to the next
range, which forwards in turn.

**What is expected.** As in WAD, an item is divided among its ranges, but by claims that are learned (see `shadow`). The mean of
what the last complete windows of a subscription had, times the part of a window that is still to come, is what an open range
may yet expect. Windows that have more than one message's worth are going to be aggregated in the long run, those that have less
to be forwarded; what is over or missing in a whole window counts once more for each range that outlives this one.

**The rule.** A range that a minimum vertex cover of the graph has is aggregated: what comes later does not change that. Else
let Y be the range and those that share an item with it, without those that such a cover has: these will be aggregated anyway.
Let W be the part that Y has in the items of the graph, and N what is yet to come, a Poisson number with the expected mean. If
the range is aggregated, the others cost min(|Y|-1, W+N) later; if its n items are forwarded, min(|Y|-1, W-n+N). So to forward
costs n - 1 more now, and later saves n except for what exceeds |Y|-1: it is better if E min(max(W + N - (|Y|-1), 0), n) < 1.

A single item is forwarded: it costs one message like its aggregate, and serves all its other ranges.

**The bound.** A shadow keeps account of what WAD would have sent. When more than (1 + SLACK) times that and ALLOWANCE was sent,
every range is decided as in WAD's world until the account is in order again. From there on, only the items that have crossed
in WAD's world and not in ours can cost more than in WAD's, each once. So at any time

    sent <= (1 + SLACK) * WAD + ALLOWANCE + the most items that were open at once.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from math import erf, exp, floor, pi, sqrt
from typing import ClassVar

import msgspec

from streaming.windows.deciders.decision import Choice, ChoiceReason, Decision
from streaming.windows.deciders.shadow import Shadow, ShadowState
from streaming.windows.graph import Graph, Group, OpenRange, Range

SLACK = 0.05
ALLOWANCE = 100
NEIGHBOURS = 64
STEPS = 2048
"""At most this many ranges are looked at, and this many of their edges: what a decision costs does not grow with the graph."""
MOST = 2.0
"""A range is not taken to expect more than this."""
NEAR = 1e-9

IN_COVER = Decision(Choice.AGGREGATE, ChoiceReason.IN_COVER)
NOT_IN_COVER = Decision(Choice.FORWARD, ChoiceReason.NOT_IN_COVER)
SINGLE = Decision(Choice.FORWARD, ChoiceReason.SINGLE)
EXPECTED_IN_COVER = Decision(Choice.AGGREGATE, ChoiceReason.EXPECTED_IN_COVER)
EXPECTED_NOT_IN_COVER = Decision(Choice.FORWARD, ChoiceReason.EXPECTED_NOT_IN_COVER)
AS_WAD = {choice: Decision(choice, ChoiceReason.AS_WAD) for choice in Choice}


class Account(msgspec.Struct, array_like=True):
    """What a decider has learned, as bytes."""

    sent: int
    follows: bool
    begins: bool
    shadow: ShadowState


class Foresight:
    """Learns from complete windows only, so an item that comes costs it nothing."""

    name: ClassVar[str] = "foresight"

    def __init__(self) -> None:
        self._shadow = Shadow()
        self._sent = 0
        self._follows = False
        self._begins = True
        self._left = 0
        self._unsure: Range | None = None
        """Up to this range there may be groups that lost a range without being looked at."""

    def arrived(self, _graph: Graph, _item: int, _ranges: Sequence[Range], now: int, /, *, crosses: bool) -> None:
        """The graph has all there is to know but the time, and is read when a range expires."""
        if self._begins and not crosses:
            self._begins = False
            self._shadow.began = now

    def decide(self, graph: Graph, range_: Range, _now: int, /) -> Decision:
        shadow = self._shadow
        spot = graph.ranges.get(range_)
        groups = () if spot is None else spot.groups.keys()
        as_wad = Choice.AGGREGATE if shadow.settle(range_, groups, self._fresh(graph, spot)) else Choice.FORWARD
        shadow.tidy(graph.groups(), range_.end)
        if spot is None:
            return Decision(Choice.AGGREGATE, ChoiceReason.EMPTY)
        items = graph.count_of(range_)
        decision = AS_WAD[as_wad] if self._follows else self._decide(graph, spot, items)
        if decision.choice is Choice.AGGREGATE:
            shadow.aggregated(spot)
            self._sent += 1
        else:
            shadow.forwarded(spot)
            self._sent += items
        self._balance()
        return decision

    def _fresh(self, graph: Graph, spot: OpenRange | None) -> Collection[Group] | None:
        """The groups that have not been looked at, where all that left the graph was decided here, in order: those that have no
        earlier range. None where that is not certain."""
        if graph.left != self._left:
            self._unsure = max(graph.ranges, default=None)
        self._left = graph.left + (spot is not None)
        if spot is None:
            return ()
        sure = (self._unsure is None or spot.range > self._unsure) and graph.first() == spot.range
        return spot.begins if sure else None

    def _balance(self) -> None:
        """Whether to follow WAD from the next range on."""
        over = self._sent - (1 + SLACK) * self._shadow.sent
        if over > ALLOWANCE:
            self._follows = True
        elif over <= ALLOWANCE / 2:
            self._follows = False

    def _decide(self, graph: Graph, spot: OpenRange, items: int) -> Decision:
        essential = graph.matching().essential
        if essential(spot):
            return IN_COVER
        if items == 1:
            return SINGLE
        near = [each for each in _near(spot) if not essential(each)]
        # The order of ranges is their order in time; the clock may have gone on while late items were waited for.
        end = spot.range.end
        if all(each.range.end <= end for each in near):
            return NOT_IN_COVER
        coming = sum(self._expected(each.range, end) for each in near)
        room = len(near) - 1 - self._part(near, essential)
        return EXPECTED_NOT_IN_COVER if excess(coming, room, items) < 1 - NEAR else EXPECTED_IN_COVER

    def _part(self, near: list[OpenRange], essential: Callable[[OpenRange], bool]) -> float:
        """What these ranges have of the items. More than one message's worth for each is as good as one."""
        claim = self._shadow.claim
        whole: dict[Group, float] = {}
        total, steps = 0.0, STEPS
        for spot in near:
            mine = claim(spot.range.subscription)
            for group in spot.groups:
                if group not in whole:
                    whole[group] = sum([claim(each.range.subscription) for each in group.spots if not essential(each)])
                    steps -= len(group.spots)
                total += mine * len(group.items) / whole[group]
                if total > len(near) or steps <= 0:
                    return total
        return total

    def _expected(self, range_: Range, now: int) -> float:
        """What a range may yet expect, with what its subscription has over or lacks in a whole window. What is far more than it
        needs is of no use to the others."""
        if range_.end <= now:
            return 0.0
        mean = self._shadow.mean(range_.subscription)
        return min(mean * (range_.end - now) / (range_.end - range_.start) + mean - 1, MOST)

    def state(self) -> bytes:
        return msgspec.msgpack.encode(Account(self._sent, self._follows, self._begins, self._shadow.remembered()))

    def restore(self, data: bytes) -> None:
        account = msgspec.msgpack.decode(data, type=Account)
        self._sent, self._follows, self._shadow = account.sent, account.follows, Shadow.of(account.shadow)
        self._begins = account.begins


def _near(spot: OpenRange) -> list[OpenRange]:
    """A range that no minimum cover has and those that share an item with it, as far as they are looked at.

    The items of such a range can all be matched, each with a range of its own, so few groups have many ranges.
    """
    near = {spot: None}
    for group in spot.groups:
        near.update(dict.fromkeys(group.spots))
        if len(near) >= NEIGHBOURS:
            break
    return list(near)[:NEIGHBOURS]


def excess(mean: float, room: float, most: int) -> float:
    """E min(max(N - room, 0), most) for a Poisson number N; between whole numbers of room, in a straight line.

    >>> round(excess(1.0, 0, 5), 2), round(excess(1.0, 1, 5), 2), excess(0.0, -3, 2)
    (1.0, 0.37, 2.0)
    """
    below = floor(room)
    part = room - below
    result = _excess(mean, below, most)
    return result + part * (_excess(mean, below + 1, most) - result) if part else result


def _excess(mean: float, room: int, most: int) -> float:
    if room < 0:
        # This many are over already, whatever comes.
        return float(most) if most <= -room else -room + _excess(mean, 0, most + room)
    if mean <= 0:
        return 0.0
    if mean > 50 or room > 100:
        return _beyond(mean, room) - _beyond(mean, room + most)
    at_least = 1.0
    chance = exp(-mean)
    total = 0.0
    for number in range(1, room + most + 1):
        at_least -= chance
        if number > room:
            if at_least < NEAR:
                break
            total += at_least
        chance *= mean / number
    return total


def _beyond(mean: float, room: float) -> float:
    """E max(N - room, 0) for a normal number as wide as the Poisson one."""
    wide = sqrt(mean)
    far = (mean - room) / wide
    return wide * exp(-far * far / 2) / sqrt(2 * pi) + (mean - room) * (1 + erf(far / sqrt(2))) / 2
