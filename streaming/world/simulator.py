"""An overlay in virtual time: every broker runs the same pipelines as the live service, links have delays, nothing is random."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable, Sequence

from streaming.broker.state import Rules
from streaming.model.books import Books, total
from streaming.model.entry import Origin
from streaming.model.inputs import Arrived, Input
from streaming.model.outputs import Tell
from streaming.wire.message import encode_message
from streaming.world.process import ProcessOutput
from streaming.world.virtual_time import Crossed, Delay, VirtualTime
from tidings import names
from tidings.message import Message
from topology.plan import Plan

__all__ = ["Crossed", "Delay", "Simulator"]


class Simulator(VirtualTime):
    """Each broker is a process of its own."""

    def __init__(self, plan: Plan, delay: Delay, *, rules: Rules | None = None, sizes: bool = False) -> None:
        super().__init__(delay, rules=rules, sizes=sizes)
        self.told: list[tuple[str, Tell]] = []
        self.outputs: list[tuple[str, ProcessOutput]] = []
        self.keep_outputs = False
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

    def _step(self, name: str, happened: Input) -> Sequence[ProcessOutput]:
        outputs = super()._step(name, happened)
        self.told += [(name, output) for output in outputs if isinstance(output, Tell)]
        if self.keep_outputs:
            self.outputs += [(name, output) for output in outputs]
        return outputs

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
