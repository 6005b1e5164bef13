"""Windows where several processes serve the brokers: what crosses a link comes to the places beyond by Kafka.

It is offered at the far end by the pipeline of events. So is the word of how far a neighbour is, and that counts once the broker
itself has read all that was appended before.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from streaming.model.items import Item, Through
from streaming.model.outputs import Offer
from streaming.windows.desk import WindowDesk
from streaming.windows.places import extra_ms
from streaming.windows.state import At, NeighbourWindows
from topology.plan import LOCAL

_COUNTED_MS = 1000
"""How often those beyond a link whose windows count publications hear how far it is."""


@dataclass
class SeveralProcesses(WindowDesk):
    """A step in a process that serves some of the brokers."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self.put_in_order()

    def put_in_order(self) -> None:
        self.order = sorted(self.state.links)

    def hear(self, offer: Offer) -> None:
        assert isinstance(offer.item, Through)
        if (links := self.state.links.get((offer.sender, offer.to, offer.topic))) is not None:
            up = links.upstream.setdefault(offer.via or "", NeighbourWindows(0, {}, []))
            up.coming.append((offer.at_ms, offer.item.through_ms, offer.item.since))

    def reached_ms(self, at: At, sender: str) -> int:
        """How far it said it is, as far as this broker has read all that it sent before it said so."""
        links = self.state.links[at]
        up = links.upstream.setdefault(sender, NeighbourWindows(0, {}, []))
        while up.coming and up.coming[0][0] < self.state.clock_ms:
            _, through_ms, since = up.coming.pop(0)
            up.through_ms = max(up.through_ms, through_ms)
            if since:
                up.since.update(since)
                links.whole = None
        return up.through_ms

    def known_since(self, at: At, sender: str) -> Mapping[str, int]:
        return self.state.links[at].upstream.get(sender, NeighbourWindows(0, {}, [])).since

    def say(self, at: At) -> None:
        """Tell the far end how far this link is, if a window there may close by it."""
        if at[1] == LOCAL:
            return
        links = self.state.links[at]
        fresh = links.whole is None
        whole = self.known_to_all(at)
        since = {interest: ms for interest, ms in whole.items() if links.said.get(interest) != ms} if fresh else {}
        if not since and not self._has_boundary(at, links.said_ms, links.through_ms):
            return
        links.said_ms = links.through_ms
        links.said |= since
        self.send(at, Through(links.through_ms, tuple(sorted(since.items()))), links.through_ms)

    def _has_boundary(self, at: At, after_ms: int, until_ms: int) -> bool:
        """Whether a window may close beyond a link, now that it is that far."""
        later_ms = extra_ms(self.plan, at[2])
        for window in self.plan.window_kinds(*at):
            shift, first = (_COUNTED_MS, 0) if window.counted else (window.shift, window.closes_ms(0) + later_ms)
            if (last := (until_ms - first) // shift * shift + first) > after_ms and last >= first:
                return True
        return False

    def hand_on(self, at: At, item: Item, *, crosses: bool) -> None:
        """Whoever hears it from the link offers it."""

    def lead(self, offers: Iterable[Offer]) -> None:
        """Wherever it counts, it was offered there."""
