"""Windows where one process serves all brokers: what crosses a link is handed on in the same step (decision 0026).

All places of a topic are in one bucket there, so how far a neighbour is can be looked up, and no word about it crosses a link.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from graphlib import TopologicalSorter

from streaming.broker.offering import takers
from streaming.model.books import WindowItem
from streaming.model.items import Item, Publication, Through, Windowed
from streaming.model.links import kind_of
from streaming.model.outputs import MessageReason, Offer, Outcome, Send
from streaming.windows.adopting import adopt, give_up
from streaming.windows.counting import count
from streaming.windows.desk import WindowDesk
from streaming.windows.places import is_carried, place_of_sender, senders
from streaming.windows.state import At


@dataclass
class OneProcess(WindowDesk):
    """A step in a process that serves all brokers."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.state.by_topic:
            self._begin_anew()
        self.put_in_order()

    def _begin_anew(self) -> None:
        """The places of a topic have come to one bucket, from wherever they were: their windows begin anew."""
        self.state.by_topic = True
        for at, links in self.state.links.items():
            give_up(self, at, links)
        self.state.links.clear()
        if self.state.version:
            adopt(self, self.state.version, self.state.clock_ms)

    def put_in_order(self) -> None:
        """Each place comes behind those that send there."""
        sent_from = {at: [place_of_sender(name, at) for name in senders(self.plan, at)] for at in sorted(self.state.links)}
        self.order = tuple(TopologicalSorter(sent_from).static_order())
        for at in self.order:  # each asks those before it, not all the way back
            self.known_to_all(at)

    def reached_ms(self, at: At, sender: str) -> int:
        return self.state.links[place_of_sender(sender, at)].through_ms

    def known_since(self, at: At, sender: str) -> Mapping[str, int]:
        return self.known_to_all(place_of_sender(sender, at))

    def send(self, at: At, item: Windowed, at_ms: int) -> None:
        """What crosses is entered beyond the link, if nobody reads it there."""
        super().send(at, item, at_ms)
        if self.rules.hands_on and not isinstance(item, Through):
            sender, broker, topic = at
            sent = self.outputs[-1]
            assert isinstance(sent, Send)
            books = self.state.books_of(broker)
            books.received += 1
            books.heard[sender, kind_of(sent.record)] += 1
            books.heard_bytes[sender] += len(sent.value or b"")
            taken = takers(self.plan, broker, topic, item, sender)
            books.enter(Outcome.MERGED, MessageReason.WINDOWED if taken else MessageReason.UNWANTED)

    def hand_on(self, at: At, item: Item, *, crosses: bool) -> None:
        """It counts beyond the link, and wherever it crosses from there. A loop, as the way may be long."""
        crossed = deque([(at, crosses)])
        while crossed:
            (sender, broker, topic), crosses = crossed.popleft()
            for to in takers(self.plan, broker, topic, item, sender):
                beyond = broker, to, topic
                self.enter(beyond, WindowItem.OFFERED)
                carried = crosses and is_carried(self.plan, beyond, item)
                if count(self, beyond, item, crosses=carried, again=True):
                    crossed.append((beyond, carried))

    def hear(self, offer: Offer) -> None:
        """It is from before this process served all."""

    def say(self, at: At) -> None:
        """Nobody has to be told."""

    def lead(self, offers: Iterable[Offer]) -> None:
        """It counts where the ways lead that hold, too, as if it had been read in time."""
        newer: dict[tuple[str, str, tuple[str, int, int]], tuple[Publication, set[str]]] = {}
        for offer in offers:
            if isinstance(offer.item, Publication):
                newer.setdefault((offer.sender, offer.topic, offer.item.entered_at), (offer.item, set()))[1].add(offer.to)
        for (sender, topic, _), (item, offered) in newer.items():
            for to in takers(self.plan, sender, topic, item, None):
                if to not in offered:
                    at = sender, to, topic
                    self.enter(at, WindowItem.OFFERED)
                    if count(self, at, item, crosses=False):
                        self.hand_on(at, item, crosses=False)
