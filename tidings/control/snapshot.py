"""The control data at one version, and what is looked up in it."""

from __future__ import annotations

import json
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from operator import attrgetter
from pathlib import Path
from typing import Any, TypeVar

from tidings import names
from tidings.control.kind import Kind, nothing
from tidings.control.kinds import KINDS
from tidings.control.kinds.broker import BROKER
from tidings.control.kinds.link import LINK, Link
from tidings.control.reader import Reader, Record, parse
from tidings.errors import BadControl
from tidings.matching import Index
from tidings.subscription import PACE_PROPERTIES, Subscription, interest_of
from tidings.topic import Timing, Topic

_T = TypeVar("_T")
_Said = TypeVar("_Said")


@dataclass(frozen=True)
class Snapshot:
    """The control data at one version. ``records`` is what the wire said, ``since`` the version that first had each."""

    version: int = 0
    records: Mapping[str, Record] = field(default_factory=dict)
    timing: Timing = field(default_factory=Timing)
    since: Mapping[str, int] = field(default_factory=dict)

    def apply(self, version: int, key: str, value: bytes | None) -> Snapshot:
        """The snapshot after one more record; raises `BadControl` when the record cannot be applied."""
        kind, _, name = key.partition("/")
        if kind not in KINDS or not name:
            kinds = ", ".join(sorted(KINDS))
            raise BadControl(key, f"the key must be '<kind>/<name>' with a kind of: {kinds}")
        records, since = dict(self.records), dict(self.since)
        if value is None:
            records.pop(key, None)
            since.pop(key, None)
        else:
            records[key] = parse(key, value)
            KINDS[kind].read(Reader(key, records[key]), self.timing)  # raises if it is not to be taken
            since.setdefault(key, version)
        return Snapshot(version, records, self.timing, since)

    def passing_over(self, version: int) -> Snapshot:
        """The snapshot after a record that could not be applied: only the version moves."""
        return replace(self, version=version)

    # ---- what records of all kinds say --------------------------------------------------------------------------------

    def of(self, kind: Kind[_T]) -> Mapping[str, _T]:
        """The records of a kind by name, in the order of their names."""
        found: Mapping[str, _T] | None = self._of.get(kind.name)
        if found is None:
            prefix = f"{kind.name}/"
            keys = sorted(key for key in self.records if key.startswith(prefix))
            found = {key.removeprefix(prefix): kind.read(Reader(key, self.records[key]), self.timing) for key in keys}
            self._of[kind.name] = found = found or kind.without
        return found

    @cached_property
    def _of(self) -> dict[str, Mapping[str, Any]]:
        return {}

    def _said(self, asks: Callable[[Kind[Any]], Callable[[Any], Iterable[_Said]]]) -> Iterator[tuple[str, _Said]]:
        """What each record says of something, with its key. Kinds that never say anything of it need not be read."""
        for kind in KINDS.values():
            if (says := asks(kind)) is not nothing:
                for name, record in self.of(kind).items():
                    yield from ((f"{kind.name}/{name}", said) for said in says(record))

    @cached_property
    def declared(self) -> dict[str, Topic]:
        """What can be subscribed to and published on, by name, as far as it is declared."""
        return {topic.name: topic for _, topic in self._said(lambda kind: kind.declares)}

    @cached_property
    def subscriptions(self) -> dict[str, Subscription]:
        """By name."""
        found = [replace(s, since=self.since[key]) for key, s in self._said(lambda kind: kind.subscribes)]
        return {s.name: replace(s, interest=interest_of(s)) if s.window else s for s in found}

    @cached_property
    def advertised(self) -> dict[str, frozenset[str]]:
        """Topic to the brokers where it is advertised, for the topics that are."""
        found: dict[str, set[str]] = {}
        for _, (topic, broker) in self._said(lambda kind: kind.advertises):
            found.setdefault(topic, set()).add(broker)
        return {topic: frozenset(brokers) for topic, brokers in found.items()}

    @property
    def kafka_topics(self) -> tuple[names.AskedTopic, ...]:
        """The Kafka topics that have to be there, in the order of the kinds that ask for them."""
        asked = dict.fromkeys(each for _, each in self._said(lambda kind: kind.kafka_topics))
        return tuple(sorted(asked, key=lambda each: (names.FAMILIES.index(each.family), each.name)))

    def doubts(self) -> Iterator[tuple[str, str]]:
        """What the service takes, and somebody may have meant otherwise, in the order of the keys."""
        found = self._said(lambda kind: lambda record: kind.doubts(record, self))
        yield from sorted(found, key=lambda doubt: doubt[0])

    # ---- topics and subscriptions -------------------------------------------------------------------------------------

    def topic(self, name: str) -> Topic:
        """The declaration of a topic, or the defaults."""
        return self.declared.get(name) or Topic(name, timing=self.timing)

    @cached_property
    def shortest_window_ms(self) -> int:
        """Of all topics, declared or not."""
        return min([self.timing.window_ms, *(topic.timing.window_ms for topic in self.declared.values())])

    @cached_property
    def by_topic(self) -> dict[tuple[str, str], tuple[Subscription, ...]]:
        """The subscriptions at a broker on a topic, in order of their names; but for those to aggregates."""
        return self._grouped(lambda subscription: subscription.window is None)

    @cached_property
    def windowed(self) -> dict[tuple[str, str], tuple[Subscription, ...]]:
        """The subscriptions to aggregates, likewise."""
        return self._grouped(lambda subscription: subscription.window is not None)

    def index(self, at: tuple[str, str]) -> Index:
        """Finds the subscriptions at a broker on a topic that an event may concern."""
        index = self._indexes.get(at)
        if index is None:
            index = self._indexes[at] = Index(self.by_topic.get(at, ()))
        return index

    @cached_property
    def _indexes(self) -> dict[tuple[str, str], Index]:
        return {}

    @cached_property
    def asking(self) -> dict[str, dict[tuple[str, str], tuple[Subscription, ...]]]:
        """For each property that asks for a pace: the subscriptions that do, by broker and topic, in order of their names."""
        return {name: self._grouped(attrgetter(name)) for name in PACE_PROPERTIES}

    @cached_property
    def paced(self) -> frozenset[str]:
        """Topics with subscriptions for which something may have to wait after it has left the broker that gathers."""
        paces = [name for name, asked in PACE_PROPERTIES.items() if asked.of_events]
        return frozenset(topic for name in paces for _, topic in self.asking[name])

    @cached_property
    def beating(self) -> tuple[tuple[int, Subscription], ...]:
        """Those that ask for heartbeats, each with a number by which the buckets share them out."""
        asking = [self.subscriptions[name] for name in sorted(self.subscriptions)]
        return tuple((zlib.crc32(each.name.encode()), each) for each in asking if each.heartbeat_ms > 0)

    def _grouped(self, chosen: Callable[[Subscription], bool]) -> dict[tuple[str, str], tuple[Subscription, ...]]:
        found: dict[tuple[str, str], list[Subscription]] = {}
        for name in sorted(self.subscriptions):
            subscription = self.subscriptions[name]
            if chosen(subscription):
                found.setdefault((subscription.broker, subscription.topic), []).append(subscription)
        return {at: tuple(subscriptions) for at, subscriptions in found.items()}

    # ---- the overlay --------------------------------------------------------------------------------------------------

    @cached_property
    def brokers(self) -> tuple[str, ...]:
        """The names of the brokers; without an overlay there is one, `b1`."""
        return tuple(self.of(BROKER))

    @cached_property
    def links(self) -> tuple[Link, ...]:
        return tuple(self.of(LINK).values())

    # ---- as a file ----------------------------------------------------------------------------------------------------

    def to_json(self) -> str:
        return json.dumps({"version": self.version, "records": self.records, "since": self.since}, sort_keys=True)

    @staticmethod
    def from_json(text: str, timing: Timing) -> Snapshot:
        datum = json.loads(text)
        return Snapshot(datum["version"], datum["records"], timing, datum["since"])


def snapshot_path(folder: Path, version: int) -> Path:
    """The file that holds the control data of a version, as `Snapshot.to_json` writes it; it never changes once it is there."""
    return folder / f"{version:012d}.json"
