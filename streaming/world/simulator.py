"""An overlay in virtual time: brokers run the same pipelines as the live service, links have delays, and nothing is random.

The clock jumps from one thing that happens to the next. Marks come exactly when they are needed, so silence costs nothing.
Everything that happens at the same time happens in the order in which it was caused.
"""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from itertools import count

from streaming.broker.state import NEVER, Rules
from streaming.model.books import Books, total
from streaming.model.entry import Origin
from streaming.model.inputs import Arrived, Heard, Input, Marked, Progressed, Ticked
from streaming.model.links import WindowRecord, kind_of
from streaming.model.outputs import Send, Tell
from streaming.wire.inputs import arrival
from streaming.wire.link import encode_link
from streaming.wire.message import encode_message
from streaming.world.process import Process, ProcessOutput
from streaming.world.versions import Versions
from tidings import names
from tidings.message import Message
from topology.plan import Plan

CLOCK = "virtual"
"""The one partition that marks are read from, and the service that speaks."""
_ALL = ""
_TICK_MS = 1000

Delay = Callable[[str, str], int]


@dataclass(slots=True)
class Crossed:
    """What crossed one direction of a link."""

    records: int = 0
    bytes: int = 0
    kinds: Counter[str] = field(default_factory=Counter)


class VirtualTime:
    """``delay`` gives the milliseconds a record takes over a link; ``sizes`` also measures the bytes, which takes time."""

    def __init__(self, delay: Delay, *, rules: Rules | None = None, sizes: bool = False) -> None:
        self.now_ms = 0
        self.crossed: dict[tuple[str, str], Crossed] = {}
        self.steps = 0
        self.versions = Versions()
        self.processes: dict[str, Process] = {}
        self.told: list[tuple[str, Tell]] = []
        """By which process."""
        self.outputs: list[tuple[str, ProcessOutput]] = []
        """All that was to be done, if that is to be kept."""
        self.keep_outputs = False
        self._delay = delay
        self._rules = rules or Rules()
        self._sizes = sizes
        self._heap: list[tuple[int, int, str, Input | None]] = []
        self._order = count()
        self._woken: dict[str, int] = {}
        self._closing_ms = NEVER
        self._ready_ms: dict[tuple[str, str], int] = {}
        self._said_ms = -1

    def process_of(self, broker: str) -> str:
        """The process that serves a broker: one for each, unless somebody has it otherwise."""
        return broker

    def start(self, name: str, hosted: frozenset[str] | None) -> None:
        """One more process, which serves these brokers; None for all."""
        self.processes[name] = Process(self.versions.plan_at, replace(self._rules, hosted=hosted), CLOCK)

    def tick(self, at_ms: int, name: str, version: int) -> None:
        """From then on a process goes by this version of the control data."""
        self.push(at_ms, name, Ticked(at_ms, version, (CLOCK,)))

    def push(self, at_ms: int, name: str, happened: Input) -> None:
        """Let something happen to a process."""
        heapq.heappush(self._heap, (at_ms, next(self._order), name, happened))

    def run(self, until_ms: int | None = None) -> None:
        """Let time pass until nothing more happens, or until then."""
        heap = self._heap
        while heap and (until_ms is None or heap[0][0] <= until_ms):
            self.now_ms, _, name, happened = heapq.heappop(heap)
            if happened is not None:
                self._step(name, happened)
            elif name == _ALL:
                self._mark_all()
            elif self._woken.get(name) == self.now_ms:
                del self._woken[name]
                self._step(name, Marked(CLOCK, self.now_ms))
        if until_ms is not None:
            self.now_ms = max(self.now_ms, until_ms)

    # ---- a step -------------------------------------------------------------------------------------------------------

    def _step(self, name: str, happened: Input) -> Sequence[ProcessOutput]:
        self.steps += 1
        process = self.processes[name]
        outputs = process.take((happened,))
        for output in outputs:
            if isinstance(output, Send):
                self._send(output)
            elif isinstance(output, Tell):
                self.told.append((name, output))
        if self.keep_outputs:
            self.outputs += [(name, output) for output in outputs]
        self._look_ahead(name, process, happened)
        return outputs

    def _send(self, send: Send) -> None:
        link = (send.sender, send.to)
        size = len(encode_link(send.record, send.stamp)) if self._sizes else 0
        crossed = self.crossed.setdefault(link, Crossed())
        crossed.records += 1
        crossed.bytes += size
        crossed.kinds[kind_of(send.record)] += 1
        # A link keeps its order, whatever its delay does meanwhile.
        at_ms = self._ready_ms[link] = max(self.now_ms + self._delay(*link), self._ready_ms.get(link, 0))
        origin = Origin(names.link_topic(*link), 0, next(self._order), at_ms)
        self.push(at_ms, self.process_of(send.to), arrival(origin, *link, send.record, send.stamp, size))

    # ---- time ---------------------------------------------------------------------------------------------------------

    def _look_ahead(self, name: str, process: Process, happened: Input) -> None:
        """See to it that the marks come, and what others say, that a process waits for from here on."""
        state = process.events
        if state.ending and self._said_ms <= self.now_ms:
            self._say_progress()
        if state.slots:
            self._mark_at(name, max(state.wake_ms, self.now_ms, state.clock_ms + 1))
        if process.windows.buckets:
            self._watch_windows(name, process, happened)

    def _mark_at(self, name: str, at_ms: int) -> None:
        """A process reads a mark then, unless one comes before. A mark that is not later than the last says nothing."""
        if at_ms < NEVER and at_ms < self._woken.get(name, NEVER):
            self._woken[name] = at_ms
            heapq.heappush(self._heap, (at_ms, next(self._order), name, None))

    def _watch_windows(self, name: str, process: Process, happened: Input) -> None:
        """Windows close by the clocks of all processes on the way to them: what lets them close is a mark for all."""
        windows, clock_ms = process.windows, process.events.clock_ms
        if windows.versions or (isinstance(happened, Heard) and isinstance(happened.record, WindowRecord)):
            # What a neighbour said counts, and what a tick named holds, when all before it has been read.
            self._mark_at(name, max(self.now_ms, clock_ms) + isinstance(happened, Heard))
        ends = [links.windows.next_ms for links in windows.links.values()]
        closes_ms = min((end_ms for end_ms in ends if end_ms > clock_ms), default=NEVER)
        if any(end_ms <= clock_ms < end_ms + self._rules.patience_ms + _TICK_MS for end_ms in ends):
            # It waits for somebody to say something, as happens with every tick. What never comes is not waited for.
            if any(windows.gathered.values()) and self._said_ms <= self.now_ms:
                self._say_progress()
            closes_ms = min(closes_ms, (self.now_ms // _TICK_MS + 1) * _TICK_MS)
        if closes_ms < self._closing_ms:
            self._closing_ms = max(closes_ms, self.now_ms)
            heapq.heappush(self._heap, (self._closing_ms, next(self._order), _ALL, None))

    def _mark_all(self) -> None:
        if self._closing_ms == self.now_ms:
            self._closing_ms = NEVER
            for name in list(self.processes):
                self._step(name, Marked(CLOCK, self.now_ms))

    def _say_progress(self) -> None:
        """All that happened before now has been sent: once it has come, processes that wait for it hear so."""
        self._said_ms = max(self.now_ms, *self._ready_ms.values()) + 1 if self._ready_ms else self.now_ms + 1
        by_version: dict[int, list[Process]] = {}
        for process in self.processes.values():
            by_version.setdefault(process.events.version, []).append(process)
        words = [
            Progressed(self._said_ms, f"{CLOCK} {version}", _hosted(going), self.now_ms, version)
            for version, going in by_version.items()
        ]
        for name, process in self.processes.items():
            if process.events.ending or any(process.windows.gathered.values()):
                for said in words:
                    self.push(self._said_ms, name, said)
                self.push(self._said_ms + 1, name, Marked(CLOCK, self._said_ms + 1))


def _hosted(processes: Sequence[Process]) -> frozenset[str] | None:
    """The brokers that these serve."""
    found = [process.rules.hosted for process in processes]
    return None if None in found else frozenset().union(*(each for each in found if each is not None))


class Simulator(VirtualTime):
    """Each broker is a process of its own."""

    def __init__(self, plan: Plan, delay: Delay, *, rules: Rules | None = None, sizes: bool = False) -> None:
        super().__init__(delay, rules=rules, sizes=sizes)
        self.adopt(plan)

    # ---- what happens -------------------------------------------------------------------------------------------------

    def adopt(self, plan: Plan, at_ms: int = 0, lag: Callable[[str], int] = lambda _: 0) -> None:
        """From ``at_ms`` on, and a little later where ``lag`` says so, brokers go by this plan."""
        version = self.versions.add(plan)
        for broker in dict.fromkeys([*plan.overlay.brokers, *self.processes]):
            if broker not in self.processes:
                self.start(broker, frozenset([broker]))
            self.tick(at_ms + lag(broker), broker, version)

    def publish(self, at_ms: int, broker: str, message: Message) -> None:
        """A publisher at a broker sends a message."""
        number = next(self._order)
        origin = Origin(names.publish_topic(broker), 0, number, at_ms)
        value = encode_message(message) if self._sizes else None
        heapq.heappush(self._heap, (at_ms, number, broker, Arrived(origin, broker, message, None, value)))

    # ---- what came of it ----------------------------------------------------------------------------------------------

    @property
    def plan(self) -> Plan:
        """What brokers go by, or are about to."""
        return self.versions.plan

    @property
    def books(self) -> dict[str, Books]:
        """The books of each broker."""
        return {
            name: total([*process.events.books.values(), *process.windows.books.values()])
            for name, process in self.processes.items()
        }

    @property
    def link_messages(self) -> int:
        """How often anything crossed a link."""
        return sum(crossed.records for crossed in self.crossed.values())

    def held(self) -> Iterable[str]:
        """Brokers that still remember something."""
        return [name for name, process in self.processes.items() if process.events.slots]
