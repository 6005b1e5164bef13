"""An overlay in virtual time: every broker runs the same `step` as the live service, links have delays, nothing is random.

A broker here is one bucket. Its clock is the simulator's: a mark comes exactly when its next timer is due, so silence costs
nothing. Everything that happens at the same time happens in the order in which it was caused.
"""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from itertools import count

from streaming.broker.state import NEVER, BucketState, Rules
from streaming.broker.step import step
from streaming.model.books import Books, total
from streaming.model.entry import Origin
from streaming.model.inputs import Arrived, Heard, Input, Marked, Progressed, Ticked
from streaming.model.links import LinkRecord, PassedOn
from streaming.model.outputs import Output, Send, Tell
from streaming.wire.link import encode_link
from streaming.wire.message import encode_message
from tidings import names
from tidings.message import Message
from topology.plan import Plan

_CLOCK = "simulated"

Delay = Callable[[str, str], int]


@dataclass(slots=True)
class Crossed:
    """What crossed one direction of a link."""

    records: int = 0
    bytes: int = 0
    kinds: Counter[str] = field(default_factory=Counter)


class Simulator:
    """An overlay in virtual time. ``delay`` gives the milliseconds a record takes over a link; ``sizes`` also measures
    the bytes, which takes time."""

    def __init__(self, plan: Plan, delay: Delay, *, rules: Rules | None = None, sizes: bool = False) -> None:
        self.now_ms = 0
        self.told: list[tuple[str, Tell]] = []
        self.outputs: list[tuple[str, Output]] = []
        self.crossed: dict[tuple[str, str], Crossed] = {}
        self.steps = 0
        self._delay = delay
        self._rules = rules or Rules()
        self._rules_of: dict[str, Rules] = {}
        self._sizes = sizes
        self._plans: dict[int, Plan] = {}
        self._states: dict[str, BucketState] = {}
        self._heap: list[tuple[int, int, str, Input | None]] = []
        self._order = count()
        self._woken: dict[str, int] = {}
        self._ready_ms: dict[tuple[str, str], int] = {}
        self._said_ms = 0
        self.keep_outputs = False
        self.adopt(plan)

    # ---- what happens -------------------------------------------------------------------------------------------------

    def adopt(self, plan: Plan, at_ms: int = 0, lag: Callable[[str], int] = lambda _: 0) -> None:
        """From ``at_ms`` on, and a little later where ``lag`` says so, brokers go by this plan."""
        self.plan = plan
        version = max(self._plans, default=0) + 1
        self._plans[version] = plan
        for broker in {*plan.overlay.brokers, *self._states}:
            self._states.setdefault(broker, BucketState())
            time_ms = at_ms + lag(broker)
            self._push(time_ms, broker, Ticked(time_ms, version, (_CLOCK,)))

    def publish(self, at_ms: int, broker: str, message: Message) -> None:
        """A publisher at a broker sends a message."""
        number = next(self._order)
        origin = Origin(names.publish_topic(broker), 0, number, at_ms)
        value = encode_message(message) if self._sizes else None
        heapq.heappush(self._heap, (at_ms, number, broker, Arrived(origin, broker, message, None, value)))

    def run(self, until_ms: int | None = None) -> None:
        """Let time pass until nothing more happens, or until then."""
        heap = self._heap
        while heap and (until_ms is None or heap[0][0] <= until_ms):
            self.now_ms, _, broker, happened = heapq.heappop(heap)
            if happened is None:
                if self._woken.get(broker) != self.now_ms:
                    continue
                del self._woken[broker]
                happened = Marked(_CLOCK, self.now_ms)
            self._step(broker, happened)
        if until_ms is not None:
            self.now_ms = max(self.now_ms, until_ms)

    # ---- what came of it ----------------------------------------------------------------------------------------------

    @property
    def books(self) -> dict[str, Books]:
        """The books of each broker."""
        return {name: total(state.books.values()) for name, state in self._states.items()}

    @property
    def link_messages(self) -> int:
        """How often anything crossed a link."""
        return sum(crossed.records for crossed in self.crossed.values())

    def held(self) -> Iterable[str]:
        """Brokers that still remember something."""
        return [name for name, state in self._states.items() if state.slots]

    # ---- inside -------------------------------------------------------------------------------------------------------

    def _push(self, at_ms: int, broker: str, happened: Input) -> None:
        heapq.heappush(self._heap, (at_ms, next(self._order), broker, happened))

    def _step(self, broker: str, happened: Input) -> None:
        self.steps += 1
        rules = self._rules_of.get(broker)
        if rules is None:
            rules = self._rules_of[broker] = replace(self._rules, hosted=frozenset([broker]))
        state, outputs = step(self._states[broker], (happened,), self._plans.__getitem__, rules)
        for output in outputs:
            if isinstance(output, Send):
                self._send(output)
            elif isinstance(output, Tell):
                self.told.append((broker, output))
            if self.keep_outputs:
                self.outputs.append((broker, output))
        if state.ending and self._said_ms <= self.now_ms:
            self._say_progress()
        wake_ms = max(state.wake_ms, self.now_ms, state.clock_ms + 1)  # a mark that is not later than the last says nothing
        if state.slots and wake_ms < NEVER and self._woken.get(broker, NEVER) > wake_ms:
            self._woken[broker] = wake_ms
            heapq.heappush(self._heap, (wake_ms, next(self._order), broker, None))

    def _say_progress(self) -> None:
        """All that happened before now has been sent: once it has come, brokers that wait for it hear so."""
        self._said_ms = max(self.now_ms, *self._ready_ms.values()) + 1 if self._ready_ms else self.now_ms + 1
        by_version: dict[int, set[str]] = {}
        for broker, state in self._states.items():
            by_version.setdefault(state.version, set()).add(broker)
        for broker, state in self._states.items():
            if state.ending:
                for version, brokers in by_version.items():
                    said = Progressed(self._said_ms, f"{_CLOCK} {version}", frozenset(brokers), self.now_ms, version)
                    self._push(self._said_ms, broker, said)
                self._push(self._said_ms + 1, broker, Marked(_CLOCK, self._said_ms + 1))

    def _send(self, send: Send) -> None:
        link = (send.sender, send.to)
        size = len(encode_link(send.record, send.stamp)) if self._sizes else 0
        crossed = self.crossed.setdefault(link, Crossed())
        crossed.records += 1
        crossed.bytes += size
        crossed.kinds[type(send.record).__name__] += 1
        # A link keeps its order, whatever its delay does meanwhile.
        at_ms = max(self.now_ms + self._delay(*link), self._ready_ms.get(link, 0))
        self._ready_ms[link] = at_ms
        self._push(at_ms, send.to, self._arrival(send, at_ms, size))

    def _arrival(self, send: Send, at_ms: int, size: int) -> Input:
        record: LinkRecord = send.record
        origin = Origin(names.link_topic(send.sender, send.to), 0, next(self._order), at_ms)
        if isinstance(record, PassedOn):
            return Arrived(origin, send.to, record.message, sender=send.sender, passed=record, stamp=send.stamp, size=size)
        return Heard(origin, send.to, send.sender, record, send.stamp, size)
