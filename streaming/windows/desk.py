"""A step on windows in progress: what all its parts work on, and what the two ways that windows take differ in."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from streaming.model.books import WindowItem
from streaming.model.items import Aggregated, Item, Publication, Windowed
from streaming.model.links import Stamp, WindowRecord, kind_of
from streaming.model.outputs import Offer, Send
from streaming.model.windows import WindowOutput
from streaming.windows.places import senders
from streaming.windows.rules import WindowRules
from streaming.windows.state import At, WindowState
from streaming.wire.link import encode_link
from tidings.control import Snapshot
from tidings.subscription import Subscription
from topology.plan import Plan


@dataclass
class WindowDesk(ABC):
    """A step in progress. How a place hears of those that send to it, each of the two kinds answers: `OneProcess`, which serves
    all brokers, and `SeveralProcesses`."""

    state: WindowState
    plan_at: Callable[[int], Plan]
    rules: WindowRules
    outputs: list[WindowOutput] = field(default_factory=list)
    order: Sequence[At] = ()
    """All places, in the order in which they close."""
    _known: dict[At, Mapping[str, Subscription]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        # Before the first tick there is no control data, and nobody to ask for it.
        self.plan = self.plan_at(self.state.version) if self.state.version else Plan(Snapshot())

    def turn_to(self, version: int) -> None:
        """Other control data holds."""
        self.state.version, self.plan = version, self.plan_at(version)
        self._known.clear()

    def subscriptions(self, at: At) -> Mapping[str, Subscription]:
        """Those at a place, by interest."""
        if at not in self._known:
            found = self.plan.windows(at[0], at[2]).get(at[1], ())
            self._known[at] = {subscription.interest: subscription for subscription in found}
        return self._known[at]

    def candidates(self, at: At, item: Item) -> Sequence[Subscription]:
        """Those at a place that may ask for an item."""
        if isinstance(item, Publication):
            return list(self.plan.window_index(*at).candidates(item.key, item.fields))
        return [found] if (found := self.subscriptions(at).get(item.interest)) else []

    def enter(self, at: At, what: WindowItem) -> None:
        """Enter what became of an item into the books."""
        self.state.books_of(at[0]).window_items[at[1], what] += 1

    def send(self, at: At, item: Windowed, at_ms: int) -> None:
        """Something crosses a link for windows alone."""
        sender, to, topic = at
        key = item.key if isinstance(item, Publication) else item.interest if isinstance(item, Aggregated) else ""
        record = WindowRecord(topic, key, item)
        number = self.state.sent[sender, to] = self.state.sent.get((sender, to), 0) + 1
        self.state.books_of(sender).sent[to, kind_of(record)] += 1
        stamp = Stamp(self.rules.name, number)
        value = encode_link(record, stamp) if self.rules.hands_on else None
        self.outputs.append(Send(sender, to, record, stamp, at_ms, value))

    def known_to_all(self, at: At) -> dict[str, int]:
        """By interest, the time from which every broker that sends here has known of it."""
        links = self.state.links[at]
        if links.whole is None:
            known_to = [self.known_since(at, sender) for sender in senders(self.plan, at)]
            links.whole = {
                interest: max([since_ms, *(known[interest] for known in known_to)])
                for interest, since_ms in links.since.items()
                if all(interest in known for known in known_to)
            }
        return links.whole

    # ---- what the two ways differ in ----------------------------------------------------------------------------------

    @abstractmethod
    def put_in_order(self) -> None:
        """There are other places now, or other ways between them."""

    @abstractmethod
    def reached_ms(self, at: At, sender: str) -> int:
        """How far a neighbour is that sends to a place."""

    @abstractmethod
    def known_since(self, at: At, sender: str) -> Mapping[str, int]:
        """By interest, the time from which it sends all that concerns it."""

    @abstractmethod
    def hand_on(self, at: At, item: Item, *, crosses: bool) -> None:
        """Something crossed a link, and counts beyond it. It ``crosses`` for subscriptions to events, or for windows alone."""

    @abstractmethod
    def hear(self, offer: Offer) -> None:
        """A neighbour said how far it is."""

    @abstractmethod
    def say(self, at: At) -> None:
        """Time has passed: whoever is beyond a link may have to be told how far it is."""

    @abstractmethod
    def lead(self, offers: Iterable[Offer]) -> None:
        """These counted before the control data holds that they were offered by; by that which does, perhaps elsewhere too."""
