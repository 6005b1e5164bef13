"""The one door to the pipeline of windows: `step(state, inputs, plan_at, rules) -> (state, outputs)`.

Windows close by the clock of the brokers that offer. A link's windows also wait for the neighbours that send to its broker. Where
one process serves all brokers, these are in the same bucket: what crosses a link is handed on at once, and how far a neighbour is
can be looked up. Elsewhere each says how far it is, and that counts once the broker itself has read all that was appended before.
So a window closes when nothing for it can come any more, however the stream was cut into batches. `docs/windows.md` tells all of
it in one place.
"""

from __future__ import annotations

from bisect import insort
from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from graphlib import TopologicalSorter

from streaming.broker.aside import merged_entry
from streaming.broker.offering import takers
from streaming.broker.state import NEVER
from streaming.model.books import WindowItem
from streaming.model.entry import Origin
from streaming.model.items import Aggregated, Item, Publication, Through, Windowed
from streaming.model.links import Stamp, WindowRecord, kind_of
from streaming.model.outputs import MessageReason, Offer, Outcome, PutAside, Send, Tell
from streaming.model.windows import Clocked, Offered, WindowDecided, WindowInput, WindowOutput
from streaming.windows.deciders import decider
from streaming.windows.link import Expired, LinkWindows, asked_by, still_open
from streaming.windows.local import LocalWindows
from streaming.windows.rules import WindowRules
from streaming.windows.state import At, LinkState, NeighbourWindows, OpenWindows, WindowState
from tidings.control import Snapshot
from tidings.subscription import Subscription
from topology.plan import LOCAL, Plan, Role

_COUNTED_MS = 1000
"""How often those beyond a link whose windows count publications hear how far it is."""


def step(
    state: WindowState, inputs: Iterable[WindowInput], plan_at: Callable[[int], Plan], rules: WindowRules
) -> tuple[WindowState, list[WindowOutput]]:
    """Take in what was offered, in its order, and say what is to be done. The state given in is used up."""
    desk = _Desk(state, plan_at, rules)
    for happened in inputs:
        if isinstance(happened, Clocked):
            desk.clocked(happened)
        else:
            desk.offered(happened)
    return state, desk.outputs


@dataclass
class _Desk:
    """A step in progress."""

    state: WindowState
    plan_at: Callable[[int], Plan]
    rules: WindowRules
    outputs: list[WindowOutput] = field(default_factory=list)
    _known: dict[At, Mapping[str, Subscription]] = field(default_factory=dict)
    _order: Sequence[At] = ()
    """All places, each behind those that send there."""
    _handed: deque[tuple[At, Item, bool]] = field(default_factory=deque)

    def __post_init__(self) -> None:
        # Before the first tick there is no control data, and nobody to ask for it.
        self.plan = self.plan_at(self.state.version) if self.state.version else Plan(Snapshot())
        if self.rules.serves_all and not self.state.by_topic:
            self._begin_anew()
        self._put_in_order()

    def _begin_anew(self) -> None:
        """The places of a topic have come to one bucket, from wherever they were: their windows begin anew."""
        self.state.by_topic = True
        for at, links in self.state.links.items():
            self.state.books_of(at[0]).left_out["given-up"] += links.windows.drop(frozenset(links.since))
        self.state.links.clear()
        if self.state.version:
            self._adopt(self.state.version, self.state.clock_ms)

    # ---- what comes in ------------------------------------------------------------------------------------------------

    def offered(self, happened: Offered) -> None:
        offer, state = happened.offer, self.state
        if offer.number <= state.heard.get(happened.bucket, 0):
            return  # it was offered before a crash, too
        state.heard[happened.bucket] = offer.number
        if offer.version > state.version:
            state.early.append(offer)
        else:
            self._take(offer)

    def _take(self, offer: Offer) -> None:
        at = (offer.sender, offer.to, offer.topic)
        links = self.state.links.get(at)
        if links is None:
            if not isinstance(offer.item, Through):
                self._enter(at, WindowItem.LEFT_OUT)  # nobody asks any more
            return
        if isinstance(offer.item, Through):
            if self.rules.serves_all:
                return  # from before that was so
            up = links.upstream.setdefault(offer.via or "", NeighbourWindows(0, {}, []))
            up.coming.append((offer.at_ms, offer.item.through_ms, offer.item.since))
            return
        self._count(at, offer.item, crosses=offer.crosses)

    def _count(self, at: At, item: Item, *, crosses: bool, again: bool = False) -> None:
        """Put something into the windows that it counts in; ``again`` if it comes from another place."""
        links = self.state.links[at]
        if isinstance(item, Publication):
            subscriptions = list(self.plan.window_index(*at).candidates(item.key, item.fields))
        else:
            subscriptions = [found] if (found := self._by_interest(at).get(item.interest)) else []
        wanted = asked_by(subscriptions, item, links.since, extra_ms(self.plan, at[2]))
        asked = still_open(wanted, links.through_ms)
        self._enter(at, WindowItem.COUNTED if asked else WindowItem.LATE if wanted else WindowItem.LEFT_OUT)
        if asked != wanted and not again:
            self._put_aside(at, item, [each.subscription.name for each in wanted if each not in asked])
        if not asked:
            return
        for crossing in links.windows.offer(item, asked, self.state.clock_ms, crosses=crosses):
            self._cross(at, crossing, self.state.clock_ms)
        if crosses:
            self._hand_on(at, item, crosses=True)

    def _cross(self, at: At, item: Item, at_ms: int) -> None:
        """Something crosses a link for windows alone."""
        self._send(at, item, at_ms)
        self._hand_on(at, item, crosses=False)

    def _hand_on(self, at: At, item: Item, *, crosses: bool) -> None:
        """It crossed a link, and counts beyond it: at once, if the far end is here. A loop, as the way may be long."""
        if not self.rules.serves_all:
            return  # whoever hears it from the link offers it
        self._handed.append((at, item, crosses))
        if len(self._handed) > 1:
            return
        while self._handed:
            (sender, broker, topic), item, crosses = self._handed[0]
            for to in takers(self.plan, broker, topic, item, sender):
                self._enter((broker, to, topic), WindowItem.OFFERED)
                goes_on = crosses and to != LOCAL and _is_carried(self.plan, (broker, to, topic), item)
                self._count((broker, to, topic), item, crosses=goes_on, again=True)
            self._handed.popleft()

    def _enter(self, at: At, what: WindowItem) -> None:
        self.state.books_of(at[0]).window_items[at[1], what] += 1

    def _put_aside(self, at: At, item: Item, names: list[str]) -> None:
        """It came after windows had closed without it: from where nobody was said to publish, or after patience had ended."""
        self.state.books_of(at[0]).left_out["window"] += 1
        if isinstance(item, Publication):
            origin = Origin(*item.entered_at, item.entered_ms)
            entry = merged_entry(origin, at[2], item.key, item.id, item.published_ms, item.fields)
            detail = f"it came to {at[0]} after the windows of {', '.join(names)} had closed"
            self.outputs.append(PutAside(origin, Outcome.LATE, MessageReason.WINDOW_CLOSED, detail, entry, merged=True))

    def clocked(self, happened: Clocked) -> None:
        state = self.state
        for version, since_ms in happened.ticks:
            if version > max([state.version, *(known for _, known in state.versions)]):
                insort(state.versions, (since_ms, version))
        state.buckets = happened.of
        state.clocks[happened.index] = max(happened.clock_ms, state.clocks.get(happened.index, 0))
        state.gathered[happened.index] = {(broker, topic): ms for broker, topic, ms in happened.gathered}
        lowest_ms = min((state.clocks.get(index, 0) for index in range(state.buckets)), default=0)
        while state.versions and state.versions[0][0] <= lowest_ms:
            since_ms, version = state.versions.pop(0)
            self._take_early(since_ms)
            self._advance(max(since_ms, state.clock_ms))
            self._adopt(version, since_ms)
        self._take_early(lowest_ms)
        self._advance(lowest_ms)

    def _take_early(self, closing_ms: int) -> None:
        """Take what was offered early, if its control data holds by now, or windows are about to close that may take it.

        A bucket goes by new control data as soon as one partition names it, and only then reads others that lag. What it finds
        there may count in windows that close before that data holds here.
        """
        waited, self.state.early = self.state.early, []
        newer: dict[tuple[str, str, tuple[str, int, int]], tuple[Publication, set[str]]] = {}
        for offer in waited:
            if offer.version <= self.state.version or _begins(offer.item) < closing_ms:
                self._take(offer)
                if offer.version > self.state.version and isinstance(offer.item, Publication):
                    at = offer.sender, offer.topic, offer.item.entered_at
                    newer.setdefault(at, (offer.item, set()))[1].add(offer.to)
            else:
                self.state.early.append(offer)
        if self.rules.serves_all:
            for (sender, topic, _), (item, offered) in newer.items():
                self._lead(sender, topic, item, offered)

    def _lead(self, sender: str, topic: str, item: Publication, offered: Collection[str]) -> None:
        """Newer ways led it elsewhere than those that hold: it counts where these lead, as if it had been read in time."""
        for to in takers(self.plan, sender, topic, item, None):
            if to not in offered:
                self._enter((sender, to, topic), WindowItem.OFFERED)
                self._count((sender, to, topic), item, crosses=False)

    # ---- control data -------------------------------------------------------------------------------------------------

    def _adopt(self, version: int, now_ms: int) -> None:
        """Other control data holds. Windows that are open where the ways of their topic change are given up."""
        before, self.plan = self.plan, self.plan_at(version)
        self._known.clear()
        self.state.version = version
        wanted = set(self._mine())
        for at in self.state.links.keys() - wanted:
            del self.state.links[at]
        for at in sorted(wanted):
            links = self.state.links.get(at)
            if links is None:
                windows: OpenWindows = LocalWindows() if at[1] == LOCAL else LinkWindows(decider(self.plan.decider(*at)))
                links = self.state.links[at] = LinkState(windows, through_ms=self.state.clock_ms)
            elif _ways(before, at) != _ways(self.plan, at):
                given_up = links.windows.drop(frozenset(links.since))
                self.state.books_of(at[0]).left_out["given-up"] += given_up
                links.since, links.upstream, links.said = {}, {}, {}
            if isinstance(links.windows, LinkWindows):
                links.windows.choose(self.plan.decider(at[0], at[1], at[2]))
            links.whole = None
            now = self._by_interest(at).keys()
            gone = links.since.keys() - now
            links.windows.drop(frozenset(gone))
            # Only those that were here: a neighbour may know of others before this broker does.
            for up in links.upstream.values():
                up.since = {interest: ms for interest, ms in up.since.items() if interest not in gone}
            links.since = {interest: links.since.get(interest, now_ms) for interest in sorted(now)}
            links.said = {interest: ms for interest, ms in links.said.items() if interest in now}
        self._put_in_order()

    def _mine(self) -> Iterator[At]:
        hosted = self.plan.overlay.brokers if self.rules.hosted is None else sorted(self.rules.hosted)
        for topic in self.plan.windowed_topics:
            for broker in hosted:
                place = self.plan.place(broker, topic)
                for to in self.plan.windows(broker, topic):
                    # Events come from the broker that gathers, never the other way.
                    if not (place.role is Role.PASSES and to == place.toward) and self.rules.has((broker, to, topic)):
                        yield broker, to, topic

    def _by_interest(self, at: At) -> Mapping[str, Subscription]:
        """The subscriptions there."""
        if at not in self._known:
            subscriptions = self.plan.windows(at[0], at[2]).get(at[1], ())
            self._known[at] = {subscription.interest: subscription for subscription in subscriptions}
        return self._known[at]

    def _put_in_order(self) -> None:
        if self.rules.serves_all:
            senders = {at: [_sending(name, at) for name in _senders(self.plan, at)] for at in sorted(self.state.links)}
            self._order = tuple(TopologicalSorter(senders).static_order())
            for at in self._order:  # each asks those before it, not all the way back
                self._whole(at, self.state.links[at])
        else:
            self._order = sorted(self.state.links)

    # ---- time ---------------------------------------------------------------------------------------------------------

    def _advance(self, clock_ms: int) -> None:
        self.state.clock_ms = max(clock_ms, self.state.clock_ms)
        for at in self._order:
            links = self.state.links[at]
            through_ms = min([self._complete_ms(at), *(self._reached(at, links, name) for name in _senders(self.plan, at))])
            if through_ms > links.through_ms:
                links.through_ms = through_ms
                self._close(at, links)
            if at[1] != LOCAL and not self.rules.serves_all:
                self._say(at, links)

    def _complete_ms(self, at: At) -> int:
        """How far what the broker itself offers is complete: if it gathers, all that entered elsewhere must have come to it."""
        broker, _, topic = at
        if self.plan.place(broker, topic).role is not Role.GATHERS:
            return self.state.clock_ms
        return min(self.state.clock_ms, self.state.gathered_ms(broker, topic))

    def _reached(self, at: At, links: LinkState, sender: str) -> int:
        """How far a neighbour is: as can be seen here, or as far as this broker has read all that it sent before it said so."""
        if self.rules.serves_all:
            return self.state.links[_sending(sender, at)].through_ms
        up = links.upstream.setdefault(sender, NeighbourWindows(0, {}, []))
        while up.coming and up.coming[0][0] < self.state.clock_ms:
            _, through_ms, since = up.coming.pop(0)
            up.through_ms = max(up.through_ms, through_ms)
            if since:
                up.since.update(since)
                links.whole = None
        return up.through_ms

    def _close(self, at: At, links: LinkState) -> None:
        by_interest = self._by_interest(at)
        match links.windows:
            case LinkWindows() as beyond:
                for range_ in beyond.due(links.through_ms):
                    subscription = by_interest.get(range_.subscription)
                    expired = beyond.expire(range_, subscription, links.through_ms)
                    if subscription is not None:
                        self._decided(at, subscription, expired, beyond.decider.name)
            case LocalWindows() as local:
                since = self._whole(at, links)
                for result in local.close(links.through_ms, by_interest, since, extra_ms(self.plan, at[2])):
                    told, subscriber = result.notification, result.subscription
                    self.state.books_of(at[0]).notifications[told.reason] += 1
                    self.outputs.append(Tell(subscriber.deliver, subscriber.encoding, told, result.at_ms))

    def _whole(self, at: At, links: LinkState) -> dict[str, int]:
        """By interest, the time from which every broker that sends here has known of it."""
        if links.whole is None:
            senders = [self._known_since(at, links, name) for name in _senders(self.plan, at)]
            links.whole = {
                interest: max([since_ms, *(known[interest] for known in senders)])
                for interest, since_ms in links.since.items()
                if all(interest in known for known in senders)
            }
        return links.whole

    def _known_since(self, at: At, links: LinkState, sender: str) -> Mapping[str, int]:
        """By interest, the time from which a neighbour sends all that concerns it."""
        if self.rules.serves_all:
            return self._whole(_sending(sender, at), self.state.links[_sending(sender, at)])
        return links.upstream.get(sender, NeighbourWindows(0, {}, [])).since

    def _decided(self, at: At, subscription: Subscription, expired: Expired, decider_name: str) -> None:
        for item in expired.sent:
            self._cross(at, item, expired.range.end)  # whatever crosses for a range bears the time when it expired
        books = self.state.books_of(at[0])
        books.windows[at[1], expired.decision.choice] += 1
        sent = len(expired.sent) + expired.hurried
        books.windows[at[1], "sent"] += sent
        for name, count in expired.would.items():
            books.windows[at[1], f"would-{name}"] += count
        window = subscription.window
        self.outputs.append(
            WindowDecided(
                sender=at[0],
                to=at[1],
                topic=at[2],
                subscription=subscription.name,
                start_ms=expired.range.start,
                end_ms=expired.range.start + (window.size if window else 0),
                decider=decider_name,
                choice=expired.decision.choice,
                reason=expired.decision.reason,
                items=expired.items,
                sent=sent,
                would=expired.would,
            )
        )

    def _say(self, at: At, links: LinkState) -> None:
        """Tell the far end how far this link is, if a window there may close by it."""
        fresh = links.whole is None
        whole = self._whole(at, links)
        since = {interest: ms for interest, ms in whole.items() if links.said.get(interest) != ms} if fresh else {}
        if not since and not self._has_boundary(at, links.said_ms, links.through_ms):
            return
        links.said_ms = links.through_ms
        links.said |= since
        self._send(at, Through(links.through_ms, tuple(sorted(since.items()))), links.through_ms)

    def _has_boundary(self, at: At, after_ms: int, until_ms: int) -> bool:
        later_ms = extra_ms(self.plan, at[2])
        for window in self.plan.window_kinds(*at):
            shift, first = (_COUNTED_MS, 0) if window.counted else (window.shift, window.closes_ms(0) + later_ms)
            if (last := (until_ms - first) // shift * shift + first) > after_ms and last >= first:
                return True
        return False

    def _send(self, at: At, item: Windowed, at_ms: int) -> None:
        sender, to, topic = at
        key = item.key if isinstance(item, Publication) else item.interest if isinstance(item, Aggregated) else ""
        record = WindowRecord(topic, key, item)
        number = self.state.sent[sender, to] = self.state.sent.get((sender, to), 0) + 1
        self.state.books_of(sender).sent[to, kind_of(record)] += 1
        self.outputs.append(Send(sender, to, record, Stamp(self.rules.name, number), at_ms))


def extra_ms(plan: Plan, topic: str) -> int:
    """An event counts when it has ended, so windows of events wait that much longer."""
    return plan.topic(topic).timing.window_ms if plan.route(topic).manner.gathers else 0


def _begins(item: Windowed) -> int:
    """Windows that close by then do not take it. How far a neighbour is may wait: not knowing it, windows close later."""
    if isinstance(item, Publication):
        return item.entered_ms
    return item.start if isinstance(item, Aggregated) else NEVER


def _senders(plan: Plan, at: At) -> list[str]:
    """The neighbours from which a broker gets what it offers there."""
    broker, to, topic = at
    place = plan.place(broker, topic)
    if place.role is Role.PASSES:
        return [place.toward] if place.toward else []
    if place.role is Role.GATHERS:
        return []
    neighbours = plan.route(topic).part_of[broker].tree.get(broker, {})
    return [neighbour for neighbour in neighbours if neighbour != to and plan.publishes_beyond(broker, neighbour, topic)]


def _sending(sender: str, at: At) -> At:
    """Where a neighbour has the windows of all that it sends there."""
    return sender, at[0], at[2]


def _is_carried(plan: Plan, at: At, item: Item) -> bool:
    """Whether a link carries, for subscriptions to events, what came to its broker so. Only costs depend on it."""
    profile = plan.place(at[0], at[2]).links.get(at[1])
    return isinstance(item, Publication) and profile is not None and profile.matches(item.key, item.fields)


def _ways(plan: Plan, at: At) -> object:
    """What of the routing of a topic its open windows depend on."""
    route, topic = plan.route(at[2]), plan.topic(at[2])
    part = route.part_of.get(at[0])
    tree = {broker: tuple(links) for broker, links in part.tree.items()} if part else {}
    return route.manner.gathers, part.hub if part else None, tree, topic.timing.window_ms, topic.gather
