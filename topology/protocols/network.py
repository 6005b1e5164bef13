"""A network in memory, to run protocols between brokers that only know their neighbours.

A node is a state machine without input or output of its own: a message in, messages to neighbours out. The network
carries them, in order on each link, counts them, and loses what is under way on a link that goes down. In which order
the links are served is up to a schedule: in that of sending, at random (to find what depends on the order), or by delays.
"""

from __future__ import annotations

import random
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator
from heapq import heappop, heappush
from typing import Generic, NamedTuple, Protocol, TypeVar

from tidings.errors import UnknownBroker

M = TypeVar("M")


class NotANeighbour(ValueError):
    """A node sent to one it was never linked to: it acts on more than it can know."""

    def __init__(self, sender: str, receiver: str) -> None:
        super().__init__(f"{sender!r} sent to {receiver!r}, which is not its neighbour")


class Restless(RuntimeError):
    """More was delivered than the protocol should need."""

    def __init__(self, limit: int, by_kind: Counter[str]) -> None:
        kinds = ", ".join(f"{count} {kind}" for kind, count in by_kind.most_common())
        super().__init__(f"not at rest after {limit} deliveries; sent so far: {kinds}")


class Node(Protocol[M]):
    """What takes part: it answers a message with those it sends, each with the neighbour it goes to."""

    def received(self, sender: str, message: M, /) -> list[tuple[str, M]]: ...


class Flight(NamedTuple, Generic[M]):
    """A message under way. ``link`` numbers the making of the link, so that one made again does not carry old messages."""

    sender: str
    receiver: str
    link: int
    message: M


class Schedule(Protocol[M]):
    """Which of the messages under way arrives next; never one before an earlier one of the same sender and receiver."""

    def push(self, flight: Flight[M], /) -> None: ...

    def pop(self) -> Flight[M]: ...

    def __len__(self) -> int: ...


class InOrder(Generic[M]):
    """First sent, first delivered, over all links."""

    def __init__(self) -> None:
        self._queue: deque[Flight[M]] = deque()
        self.push = self._queue.append
        self.pop = self._queue.popleft

    def __len__(self) -> int:
        return len(self._queue)


class AnyOrder(Generic[M]):
    """Each time, one of the busy links is picked at random: a slow link may be overtaken by all others."""

    def __init__(self, chance: random.Random) -> None:
        self._chance = chance
        self._busy: list[tuple[str, str]] = []
        self._queues: dict[tuple[str, str], deque[Flight[M]]] = {}

    def push(self, flight: Flight[M], /) -> None:
        ends = flight.sender, flight.receiver
        if ends not in self._queues:
            self._queues[ends] = deque()
            self._busy.append(ends)
        self._queues[ends].append(flight)

    def pop(self) -> Flight[M]:
        at = self._chance.randrange(len(self._busy))
        ends = self._busy[at]
        flight = self._queues[ends].popleft()
        if not self._queues[ends]:
            del self._queues[ends]
            self._busy[at] = self._busy[-1]
            self._busy.pop()
        return flight

    def __len__(self) -> int:
        return len(self._busy)


class Timed(Generic[M]):
    """Each message takes the delay of its link, from sender to receiver. ``now`` is when the last one taken arrived."""

    def __init__(self, delay: Callable[[str, str], float]) -> None:
        self.now = 0.0
        self._delay = delay
        self._heap: list[tuple[float, int, Flight[M]]] = []
        self._pushed = 0
        self._arrival: dict[tuple[str, str], float] = {}

    def push(self, flight: Flight[M], /) -> None:
        ends = flight.sender, flight.receiver
        delay = self._delay(*ends)
        if not delay >= 0:
            raise ValueError(f"the delay from {flight.sender!r} to {flight.receiver!r} is {delay}; it must be 0 or more")
        # A delay may differ from call to call; the order on a link stays.
        self._arrival[ends] = arrival = max(self.now + delay, self._arrival.get(ends, 0.0))
        heappush(self._heap, (arrival, self._pushed, flight))
        self._pushed += 1

    def pop(self) -> Flight[M]:
        self.now, _, flight = heappop(self._heap)
        return flight

    def __len__(self) -> int:
        return len(self._heap)


class Network(Generic[M]):
    """Nodes by name and the links between them. ``messages``, ``by_kind`` and ``by_link`` count what was sent, lost or not."""

    def __init__(self, schedule: Schedule[M] | None = None) -> None:
        self.lost = 0
        self.by_kind: Counter[str] = Counter()
        self.by_link: Counter[tuple[str, str]] = Counter()
        self._nodes: dict[str, Node[M]] = {}
        self._links: dict[tuple[str, str], int] = {}
        self._made = 0
        self._schedule: Schedule[M] = InOrder() if schedule is None else schedule

    @property
    def messages(self) -> int:
        return self.by_kind.total()

    def add(self, name: str, node: Node[M]) -> None:
        """Put a node in, without links."""
        if name in self._nodes:
            raise ValueError(f"there is a node {name!r} already")
        self._nodes[name] = node

    def remove(self, name: str) -> None:
        """Take a node out; its links go down. Whether its neighbours are told is up to the owner, as with ``cut``."""
        del self._nodes[name]
        for sender, receiver in list(self._links):
            if name in (sender, receiver):
                self.cut(sender, receiver)

    def connect(self, a: str, b: str) -> None:
        """Make a link, in both directions. The nodes are told by the owner."""
        for end in (a, b):
            if end not in self._nodes:
                raise UnknownBroker(end, f"the link {a}–{b}")
        self._made += 1
        self._links[a, b] = self._links[b, a] = self._made

    def cut(self, a: str, b: str) -> None:
        """Take a link down: what is under way on it is lost, and so is what an end still sends that has not noticed."""
        if (a, b) not in self._links:
            raise NotANeighbour(a, b)
        self._links[a, b] = self._links[b, a] = 0

    def inject(self, name: str, outputs: Iterable[tuple[str, M]]) -> None:
        """Send what a node said, asked by its owner or in answer to a message."""
        by_kind, by_link, links = self.by_kind, self.by_link, self._links
        for receiver, message in outputs:
            ends = name, receiver
            link = links.get(ends)
            if link is None:
                raise NotANeighbour(name, receiver)
            by_kind[type(message).__name__] += 1
            by_link[ends] += 1
            if link:
                self._schedule.push(Flight(name, receiver, link, message))
            else:
                self.lost += 1

    def step(self) -> Flight[M] | None:
        """Deliver one message and send the answers; None if nothing is under way."""
        while self._schedule:
            flight = self._schedule.pop()
            sender, receiver, link, message = flight
            if self._links[sender, receiver] == link:
                self.inject(receiver, self._nodes[receiver].received(sender, message))
                return flight
            self.lost += 1
        return None

    def deliveries(self, limit: int) -> Iterator[Flight[M]]:
        """Deliver until nothing is under way. Raises ``Restless`` when it takes more than ``limit`` deliveries."""
        delivered = 0
        while (flight := self.step()) is not None:
            delivered += 1
            if delivered > limit:
                raise Restless(limit, self.by_kind)
            yield flight

    def run(self, limit: int = 1_000_000) -> int:
        """Deliver until nothing is under way, and say how much it was. Raises ``Restless`` beyond ``limit``."""
        return sum(1 for _ in self.deliveries(limit))
