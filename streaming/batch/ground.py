"""What holds for a topic at a broker under one version of the control data: looked up once, for all messages about it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import lru_cache

import xxhash

from streaming.batch.hashing import place_bits
from streaming.notify.pace import AT_MOST, WATCHING
from tidings.compiled import matcher
from tidings.registers import Join
from tidings.subscription import Subscription
from tidings.values import Value, signed
from topology.plan import Plan, Role


class Ground:
    """A broker and a topic. Everything here follows from the plan."""

    __slots__ = (
        *("alone", "broker", "cut_off", "downward", "gathers", "joins", "name", "quiet", "timing", "topic"),
        *("_bits", "_everybody", "_index", "_matchers"),
    )

    def __init__(self, plan: Plan, secret: str, broker: str, name: str) -> None:
        self.broker, self.name = broker, name
        self.topic = plan.topic(name)
        self.timing, self.joins = self.topic.timing, self.topic.joins
        place, snapshot = plan.place(broker, name), plan.snapshot
        self.gathers = place.role is Role.GATHERS and self.topic.gather
        """Whether its messages become events here."""
        self.cut_off = bool(place.cut_off)
        self.downward = tuple(place.downward)
        self.alone = not place.since
        """Whether no neighbour hears anything of it from here, or tells anything."""
        paces = (*WATCHING, AT_MOST)
        self.quiet = self.alone and not any((broker, name) in snapshot.asking[pace.property] for pace in paces)
        """Whether news concerns subscriptions here alone, and none that asks for more than a cadence."""
        self._bits = place_bits(secret, broker, name)
        self._index = snapshot.index((broker, name))
        self._matchers: dict[str, Callable[[Mapping[str, Value]], bool] | None] = {}
        asking = snapshot.by_topic.get((broker, name), ())
        self._everybody = list(asking) if all(matcher(each) is None for each in asking) else None

    def number(self, key: str) -> int:
        """That of an event: `streaming.batch.hashing.event_hash`."""
        return signed(xxhash.xxh64_intdigest(key.encode(), self._bits))

    def takes(self, names: Iterable[str], conflicts: int) -> bool:
        """Whether a first report of these fields is their value, and a repeat of it says nothing new."""
        if not self.joins:
            return conflicts > 0
        kinds = {self.topic.join_of(name) for name in names}
        return not any(kind.repeats_matter or kind is Join.UNION for kind in kinds) and (conflicts > 0 or Join.FIRST not in kinds)

    def concerned(self, key: str, facts: Mapping[str, Value]) -> list[Subscription]:
        """The subscriptions that match."""
        if self._everybody is not None:
            return self._everybody
        found, known = [], None
        for subscription in self._index.candidates(key, facts):
            name = subscription.name
            if name not in self._matchers:
                self._matchers[name] = matcher(subscription)
            if (matches := self._matchers[name]) is not None:
                if known is None:
                    known = {**facts, "key": key}
                if not matches(known):
                    continue
            found.append(subscription)
        return found


class Grounds:
    """All of a plan, as they are asked for."""

    def __init__(self, plan: Plan, secret: str) -> None:
        self._plan, self._secret = plan, secret
        self._found: dict[tuple[str, str], Ground] = {}
        self.shortest_window_ms = plan.snapshot.shortest_window_ms
        self.brokers = len(plan.overlay.brokers) if plan.overlay.links else 1
        """At how many brokers one key may be remembered because of one message; 1 where no link leads to another."""

    def at(self, broker: str, topic: str) -> Ground:
        found = self._found.get((broker, topic))
        if found is None:
            found = self._found[broker, topic] = Ground(self._plan, self._secret, broker, topic)
        return found


@lru_cache(maxsize=8)
def grounds_of(plan: Plan, secret: str) -> Grounds:
    """Those of a plan outlive a batch, as the plan does."""
    return Grounds(plan, secret)
