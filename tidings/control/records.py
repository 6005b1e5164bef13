"""The kinds of control records, and how each is read: checked whole, with what is left over known to be unknown."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, TypeAlias

from tidings import names, predicate
from tidings.errors import BadControl, BadPredicate
from tidings.notification import Encoding
from tidings.pace import PaceUnit
from tidings.registers import Join
from tidings.subscription import PACE_PROPERTIES, Subscription
from tidings.topic import Deciding, Filtering, Placement, Timing, Topic
from tidings.window import BadWindow, Window, read_window

DEFAULT_BROKER = "b1"

_MISSING: Any = object()
_PACES_OF_EVENTS = [name for name, asked in PACE_PROPERTIES.items() if asked.of_events]

Record: TypeAlias = Mapping[str, Any]


@dataclass(frozen=True)
class Broker:
    """A broker of the overlay."""

    name: str


@dataclass(frozen=True)
class Link:
    """A link between two brokers, and the topics that may not cross it."""

    name: str
    a: str
    b: str
    cost: float = 1
    forbid: frozenset[str] = frozenset()
    decider: Deciding | None = None
    """For all windows that cross it; None leaves it to their topics."""


@dataclass(frozen=True)
class Advertisement:
    """Somebody at a broker will publish on a topic. A topic that is advertised at all is published only where it is."""

    name: str
    broker: str
    topic: str


def _no_repeated_names(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Two results of a window that have one name would be one, and nobody would say which."""
    names = [name for name, _ in pairs]
    if twice := next((name for name in names if names.count(name) > 1), None):
        raise ValueError(f"the name {twice!r} stands twice in one object")
    return dict(pairs)


def read_record(key: str, value: bytes, timing: Timing) -> Record:
    """The record a value holds, checked whole."""
    try:
        record = json.loads(value, object_pairs_hook=_no_repeated_names)
    except (ValueError, RecursionError) as error:
        raise BadControl(key, f"not JSON: {error}") from None
    if not isinstance(record, dict):
        raise BadControl(key, "the value must be a JSON object")
    kind, _, name = key.partition("/")
    if record.get("kind") != kind or record.get("name") != name:
        raise BadControl(key, f"the record says kind {record.get('kind')!r} and name {record.get('name')!r}")
    READERS[kind](Reader(key, record), timing)
    return record


class Reader:
    """Takes properties out of a record one by one, so that what is left over is known to be unknown."""

    def __init__(self, key: str, record: Record) -> None:
        self.key = key
        self.left = {name: value for name, value in record.items() if name not in ("kind", "name")}
        self.name: str = record["name"]

    def fail(self, detail: str, *about: str, position: int | None = None) -> BadControl:
        return BadControl(self.key, detail, about, position)

    def text(self, name: str, default: Any = _MISSING) -> str:
        value = self.left.pop(name, default)
        if value is _MISSING:
            raise self.fail(f"{name!r} is required", name)
        if not isinstance(value, str) or not value:
            raise self.fail(f"{name!r} must be a string that is not empty, not {value!r}", name)
        return value

    def milliseconds(self, name: str, default: int) -> int:
        value = self.left.pop(name, default)
        if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= 10**12:
            raise self.fail(f"{name!r} must be an integer of milliseconds from 0 to 10^12, not {value!r}", name)
        return value

    def pace(self, name: str, counted: PaceUnit | None) -> Any:
        """A whole number; 0 when it is not said."""
        if counted is None:
            return self.milliseconds(name, 0)
        value = self.left.pop(name, _MISSING)
        if value is _MISSING:
            return 0
        if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= counted.most:
            raise self.fail(f"{name!r} must be an integer of {counted.units} from 1 to {counted.most}, not {value!r}", name)
        return value

    def names(self, name: str) -> frozenset[str] | None:
        value = self.left.pop(name, None)
        if value is None:
            return None
        if not isinstance(value, list) or not all(isinstance(item, str) and item for item in value):
            raise self.fail(f"{name!r} must be a list of names, not {value!r}", name)
        return frozenset(value)

    def flag(self, name: str, default: bool) -> bool:
        value = self.left.pop(name, default)
        if not isinstance(value, bool):
            raise self.fail(f"{name!r} must be true or false, not {value!r}", name)
        return value

    def choice(self, name: str, choices: type[StrEnum], default: str) -> Any:
        value = self.left.pop(name, default)
        allowed = [str(choice) for choice in choices]
        if value not in allowed:
            raise self.fail(f"{name!r} must be one of {', '.join(allowed)}, not {value!r}", name)
        return choices(value)

    def end(self) -> None:
        if self.left:
            unknown = min(self.left)
            raise self.fail(f"unknown property {unknown!r}", unknown)


def _topic(r: Reader, defaults: Timing) -> Topic:
    fields = r.left.pop("fields", {})
    if not isinstance(fields, dict):
        raise r.fail("'fields' must be an object of field name to join", "fields")
    for name, kind in fields.items():
        if kind not in [str(join) for join in Join]:
            raise r.fail(f"field {name!r} must join by one of {', '.join(Join)}, not {kind!r}")
    complete = r.names("complete") or frozenset()
    window_ms = r.milliseconds("window_ms", defaults.window_ms)
    if window_ms == 0:
        raise r.fail("'window_ms' must be at least 1", "window_ms")
    hold_ms = r.milliseconds("hold_ms", min(defaults.hold_ms, window_ms))
    # A default that is the whole window means the whole of this topic's window too.
    default_ms = window_ms if defaults.remember_ms >= defaults.window_ms else max(hold_ms, min(defaults.remember_ms, window_ms))
    remember_ms = r.milliseconds("remember_ms", default_ms)
    if not hold_ms <= remember_ms <= window_ms:
        detail = f"hold_ms <= remember_ms <= window_ms must hold, but they are {hold_ms}, {remember_ms}, {window_ms}"
        raise r.fail(detail, "hold_ms", "remember_ms", "window_ms")
    gather = r.flag("gather", default=True)
    gatherer = r.choice("gatherer", Placement, "centre")
    early = r.flag("early", default=False)
    filtering = r.choice("filter", Filtering, "profile")
    rendezvous = r.text("rendezvous") if "rendezvous" in r.left else None
    if rendezvous and filtering is not Filtering.RENDEZVOUS:
        raise r.fail('\'rendezvous\' names a broker only for "filter": "rendezvous"', "rendezvous")
    decider = r.choice("decider", Deciding, "adock")
    r.end()
    joins = {name: Join(kind) for name, kind in fields.items()}
    timing = Timing(window_ms, hold_ms, remember_ms)
    return Topic(r.name, joins, complete, timing, gather, gatherer, filtering, early, rendezvous, decider)


def _subscription(r: Reader, _defaults: Timing) -> Subscription:
    window = _window(r) if "window" in r.left else None
    subscriber = r.text("subscriber")
    deliver = r.text("deliver", names.notify_topic(subscriber))
    if not names.can_deliver_to(deliver):
        raise r.fail(f"notifications cannot be delivered to the Kafka topic {deliver!r}")
    where = r.left.pop("where", "")
    if not isinstance(where, str):
        raise r.fail(f"'where' must be a string, not {where!r}", "where")
    try:
        parsed = predicate.parse(where)
    except BadPredicate as error:
        detail = f"'where' does not parse: {error.detail} at position {error.position}"
        raise r.fail(detail, "where", position=error.position) from None
    subscription = Subscription(
        name=r.name,
        subscriber=subscriber,
        broker=r.text("broker", DEFAULT_BROKER),
        topic=r.text("topic"),
        deliver=deliver,
        where=parsed,
        missing=r.choice("missing", predicate.Missing, "optimistic"),
        **{name: r.pace(name, asked.counted) for name, asked in PACE_PROPERTIES.items()},
        fields=r.names("fields"),
        encoding=r.choice("encoding", Encoding, "json"),
        window=window,
    )
    r.end()
    return subscription


def _window(r: Reader) -> Window:
    for name in (*_PACES_OF_EVENTS, "fields"):
        if name in r.left:
            # One of the two must go: it is taken to be about the one that stands first.
            first = next(each for each in r.left if each in (name, "window"))
            raise r.fail(f"{name!r} is about single events, and goes with no 'window'", first)
    try:
        return read_window(r.left.pop("window"))
    except BadWindow as error:
        raise r.fail(f"'window': {error.detail}", "window") from None


def _broker(r: Reader, _defaults: Timing) -> Broker:
    # A broker's name becomes part of Kafka topic names, where '.' separates the parts.
    if not names.is_legal(r.name) or "." in r.name or len(r.name) > 80:
        raise r.fail("a broker's name has up to 80 letters, digits, '_' and '-'")
    r.end()
    return Broker(r.name)


def _link(r: Reader, _defaults: Timing) -> Link:
    a, b = r.text("a"), r.text("b")
    if a == b:
        raise r.fail("a link joins two different brokers", "a")
    cost = r.left.pop("cost", 1)
    if isinstance(cost, bool) or not isinstance(cost, int | float) or not 0 <= cost < float("inf"):
        raise r.fail(f"'cost' must be a number from 0 up, not {cost!r}", "cost")
    forbid = r.names("forbid") or frozenset()
    decider = r.choice("decider", Deciding, "") if "decider" in r.left else None
    r.end()
    return Link(r.name, a, b, cost, forbid, decider)


def _advertisement(r: Reader, _defaults: Timing) -> Advertisement:
    advertisement = Advertisement(r.name, r.text("broker", DEFAULT_BROKER), r.text("topic"))
    r.end()
    return advertisement


READERS: dict[str, Callable[[Reader, Timing], Any]] = {
    "topic": _topic,
    "subscription": _subscription,
    "broker": _broker,
    "link": _link,
    "advertisement": _advertisement,
}
