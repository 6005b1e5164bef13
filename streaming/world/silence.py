"""Why a subscription is not told of an event, or not of all of it: asked after a dry run, when everything has ended."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum

from streaming.model.address import Address
from streaming.model.event import OpenEvent, Span
from streaming.model.inputs import Arrived
from streaming.notify.pace import PACES
from tidings import event as events
from tidings.predicate import And, Or, Predicate, Truth, Verdict, evaluate, fields_of, render
from tidings.registers import Register
from tidings.subscription import Subscription
from tidings.values import Value, plain, same
from topology.islands import Island
from topology.plan import Plan, Role


class Silence(StrEnum):
    """Why nothing, or nothing more, is said; but for the paces that can keep news back for good, which have a word of their own
    (`streaming.notify.pace.pace.Pace.silence`)."""

    NOTHING_PUBLISHED = "nothing-published"
    """No message is about its topic."""
    ALL_PUT_ASIDE = "all-put-aside"
    """Every message about its topic is late or dead-lettered."""
    NO_SUCH_BROKER = "no-such-broker"
    """It is attached to a broker that is not there."""
    WHERE_FALSE = "where-false"
    """Its `where` does not hold of what is known in the end."""
    WAITS_FOR_FIELD = "waits-for-field"
    """It is patient, and a field that its `where` asks for is never stated."""
    FIELDS_NOT_WANTED = "fields-not-wanted"
    """None of the fields that it wants is stated."""
    CAME_LATER = "came-later"
    """The event was over before the subscription was there."""
    DELETED = "deleted"
    """The subscription was deleted before anything was due."""
    CUT_OFF = "cut-off"
    """No link that the topic may cross leads to its broker."""
    HELD_BACK = "held-back"
    """The pace it asked for left no room before the event was forgotten."""


@dataclass(frozen=True, slots=True)
class SeenEvent:
    """An event as a broker knew it. ``knowledge`` is asked when all is over."""

    event: str
    at: Address
    opened_ms: int
    span: Span
    knowledge: Callable[[], Mapping[str, Register]]

    @staticmethod
    def opened(event: OpenEvent) -> SeenEvent:
        """An open event goes on changing, and what is seen of it changes with it."""
        return SeenEvent(event.id, event.at, event.opened_ms, event.span, lambda: event.knowledge)

    @staticmethod
    def measured(event: str, at: Address, arrived: Arrived, report: Mapping[str, Register]) -> SeenEvent:
        """A measurement: known whole, and over, when it comes."""
        published_ms = arrived.published_ms
        return SeenEvent(event, at, arrived.origin.append_ms, Span(published_ms, published_ms), lambda: report)

    @property
    def facts(self) -> dict[str, Value]:
        return events.facts(self.knowledge())


@dataclass(frozen=True, slots=True)
class Came:
    """A subscription, when it came, and when it went if it was deleted."""

    subscription: Subscription
    since_ms: int
    until_ms: int | None = None


@dataclass(frozen=True, slots=True)
class Untold:
    """What a subscription is not told. ``key`` and ``event`` are None when it is about the whole topic."""

    subscription: str
    topic: str
    why: str
    """A word of `Silence`, or of a pace."""
    detail: str
    key: str | None = None
    event: str | None = None
    fields: tuple[str, ...] = ()
    """The fields it is not told, of those that it wants."""
    partly: bool = False
    """Whether it was told something of the event before."""


def untold(
    plan: Plan, came: Came, seen: Iterable[SeenEvent], told: Iterable[tuple[str, Mapping[str, Value]]], aside: Iterable[str]
) -> Iterator[Untold]:
    """What one subscription is not told, event by event. ``told`` is what it was told of which event, ``aside`` are the topics
    with messages that were put aside."""
    subscription = came.subscription
    topic = subscription.topic
    if not plan.has(subscription.broker):
        detail = f"its broker {subscription.broker!r} is not in the overlay"
        yield Untold(subscription.name, topic, Silence.NO_SUCH_BROKER, detail)
        return
    mine = list(_known_to(plan, subscription, [each for each in seen if each.at.topic == topic]))
    if not mine:
        why, detail = Silence.NOTHING_PUBLISHED, f"no message is about the topic {topic!r}"
        if topic in aside:
            why, detail = Silence.ALL_PUT_ASIDE, f"every message about the topic {topic!r} was late or dead-lettered"
        yield Untold(subscription.name, topic, why, detail)
    if subscription.window is not None:
        if not any(True for _ in told):
            yield from _no_window(plan, came, mine)
        return
    known: dict[str, dict[str, Value]] = {}
    for event, news in told:
        known.setdefault(event, {}).update(news)
    for each in mine:
        if (found := _about(plan, came, each, known.get(each.event))) is not None:
            yield found


def _no_window(plan: Plan, came: Came, seen: Iterable[SeenEvent]) -> Iterator[Untold]:
    """One that is told of windows is told of no single event: what could have counted is named once, if it could not come."""
    for each in seen:
        why, detail = _why(plan, came, each, each.facts)
        if why is Silence.CUT_OFF:
            yield Untold(came.subscription.name, came.subscription.topic, why, detail)
            return


def _known_to(plan: Plan, subscription: Subscription, seen: list[SeenEvent]) -> Iterator[SeenEvent]:
    """Each event once: as the subscription's own broker knows it, else as the broker that knows most knows it."""
    window_ms = plan.topic(subscription.topic).timing.window_ms
    parts = plan.route(subscription.topic).part_of
    taken: dict[str, list[SeenEvent]] = {}
    for each in sorted(seen, key=lambda s: (s.at.broker != subscription.broker, -len(s.knowledge()))):
        spreads = plan.place(each.at.broker, each.at.topic).role is Role.SPREADS
        others = taken.setdefault(each.at.key, [])
        if not any(_same_event(each, other, parts, window_ms if spreads else None) for other in others):
            others.append(each)
    yield from sorted((each for found in taken.values() for each in found), key=lambda s: s.opened_ms)


def _same_event(a: SeenEvent, b: SeenEvent, parts: Mapping[str, Island], window_ms: int | None) -> bool:
    """Of one topic and key. Where nobody gathers for all, there is a window: every broker has an event of its own for the same
    reports. Across a cut the reports are others, and what they say may be known on one side alone."""
    if a.event == b.event:
        return True
    if window_ms is None or a.at.broker == b.at.broker or not a.span.joins(b.span, window_ms):
        return False
    known = b.facts
    return not _apart(parts, a.at.broker, b.at.broker) or all(
        n in known and same(known[n], value) for n, value in a.facts.items()
    )


def _apart(parts: Mapping[str, Island], a: str, b: str) -> bool:
    """Whether no link that the topic may cross leads from one broker to another. One that has gone is nowhere."""
    return a in parts and b in parts and parts[a] is not parts[b]


def _about(plan: Plan, came: Came, seen: SeenEvent, told: Mapping[str, Value] | None) -> Untold | None:
    subscription, facts = came.subscription, seen.facts
    wanted = {name: value for name, value in facts.items() if subscription.wants(name)}
    owed = tuple(sorted(name for name in wanted if not (told and name in told and same(told[name], wanted[name]))))
    if told is not None and not owed:
        return None
    why, detail = _why(plan, came, seen, facts) if wanted else _unwanted(subscription, facts)
    name, (_, topic, key) = subscription.name, seen.at
    return Untold(name, topic, why, detail, key, seen.event, owed, partly=told is not None)


def _unwanted(subscription: Subscription, facts: Mapping[str, Value]) -> tuple[Silence, str]:
    asked = ", ".join(sorted(subscription.fields or ()))
    return Silence.FIELDS_NOT_WANTED, f"it wants {asked}; only {', '.join(sorted(facts)) or 'nothing'} is stated"


def _why(plan: Plan, came: Came, seen: SeenEvent, facts: Mapping[str, Value]) -> tuple[str, str]:
    subscription = came.subscription
    broker, topic, key = seen.at
    parts = plan.route(topic).part_of
    known = {**facts, "key": key}
    match subscription.judge(key, facts):
        case Verdict.DIFFERS:
            return Silence.WHERE_FALSE, "; ".join(falsehoods(subscription.where, known))
        case Verdict.WAITS:
            missing = ", ".join(sorted(fields_of(subscription.where) - known.keys()))
            return Silence.WAITS_FOR_FIELD, f"it is patient, and nobody stated {missing}"
    if came.until_ms is not None:
        return Silence.DELETED, "the subscription was deleted before this was due"
    if came.since_ms > seen.opened_ms:
        return Silence.CAME_LATER, "the event was over when the subscription came"
    if _apart(parts, broker, subscription.broker):
        return Silence.CUT_OFF, f"no link that the topic may cross leads from {broker!r} to {subscription.broker!r}"
    for pace in PACES:
        if pace.silence is not None and pace.asked_by(subscription):
            return pace.silence
    return Silence.HELD_BACK, "the pace that it asked for left no room before the event was forgotten"


def falsehoods(where: Predicate, facts: Mapping[str, Value]) -> list[str]:
    """The terms that make a predicate false, each with what is known instead.

    >>> from tidings.predicate import parse
    >>> falsehoods(parse("severity >= 3 and kind = 'fire'"), {"severity": 2, "kind": "fire"})
    ['severity >= 3 is false: severity is 2']
    """
    match where:
        case And(terms) | Or(terms):
            return [said for term in terms if evaluate(term, facts) is Truth.FALSE for said in falsehoods(term, facts)]
    known = [
        f"{name} is {_shown(facts[name])}" if name in facts else f"{name} is not stated" for name in sorted(fields_of(where))
    ]
    return [f"{render(where)} is false: {', '.join(known)}"]


def _shown(value: Value) -> str:
    return json.dumps(plain(value), ensure_ascii=False)
