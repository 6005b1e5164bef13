"""The papers' workload: bursts of partial, mostly redundant messages about events (Agele, section 6.1).

Pure: the same :class:`Workload` gives the same messages on every machine and in every run.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from random import Random

from msgspec import structs

from tidings.message import Message
from tidings.values import SortKey, Value, sort_key


@dataclass(frozen=True, slots=True)
class SentMessage:
    """A message, who sends it, and when. A retry is sent later and is otherwise the same message."""

    at_ms: int
    publisher: str
    message: Message


@dataclass(frozen=True, slots=True, kw_only=True)
class Workload:
    """What is published. The defaults are Agele's setup (section 6.1), its time unit taken as a second.

    ``messages_per_publisher`` is the mean of the Poisson process over the event's duration. A publisher that publishes
    about an event says something, so the process is conditioned on at least one message.
    ``redundancy`` is the share of all messages, retries included, whose every fact was stated about the event before;
    None leaves it to the uniform drawing of fields, as the paper does.
    """

    events: int = 100
    publishers: int = 100
    publish_share: float = 0.2
    messages_per_publisher: float = 5.0
    fields: int = 20
    stated_min: int = 1
    stated_max: int = 10
    burst_ms: int = 100_000
    spread_ms: int = 600_000
    redundancy: float | None = None
    conflict_rate: float = 0.0
    duplicate_rate: float = 0.0
    topic: str = "workload"
    seed: int = 0

    def __post_init__(self) -> None:
        _require(self.events >= 1, "events", self.events, "at least 1")
        _require(self.publishers >= 1, "publishers", self.publishers, "at least 1")
        _require(0 < self.publish_share <= 1, "publish_share", self.publish_share, "above 0 and at most 1")
        _require(self.publishers_per_event >= 1, "publish_share", self.publish_share, "enough for one publisher")
        mean = self.messages_per_publisher
        _require(0 < mean < math.inf, "messages_per_publisher", mean, "above 0 and finite")
        _require(self.fields >= 2, "fields", self.fields, "at least 2, the key being one")
        _require(1 <= self.stated_min < self.fields, "stated_min", self.stated_min, f"within 1..{self.fields - 1}")
        allowed = f"within {self.stated_min}..{self.fields - 1}"
        _require(self.stated_min <= self.stated_max < self.fields, "stated_max", self.stated_max, allowed)
        _require(self.burst_ms >= 1, "burst_ms", self.burst_ms, "at least 1")
        _require(self.spread_ms >= 0, "spread_ms", self.spread_ms, "at least 0")
        _require(0 <= self.conflict_rate <= 1, "conflict_rate", self.conflict_rate, "within 0..1")
        _require(0 <= self.duplicate_rate < 1, "duplicate_rate", self.duplicate_rate, "at least 0 and below 1")
        _require(self.topic != "", "topic", self.topic, "not empty")
        if self.redundancy is not None:
            low, high = self.redundancy_bounds
            allowed = f"within {low:.3f}..{high:.3f}: these parameters allow no other"
            _require(low <= self.redundancy <= high, "redundancy", self.redundancy, allowed)

    @property
    def publishers_per_event(self) -> int:
        return round(self.publish_share * self.publishers)

    @property
    def messages_per_event(self) -> float:
        """How many messages an event has on average, retries included."""
        mean = self.messages_per_publisher
        return self.publishers_per_event * mean / -math.expm1(-mean) / (1 - self.duplicate_rate)

    @property
    def redundancy_bounds(self) -> tuple[float, float]:
        """What ``redundancy`` can be: an event's first message is news, and only so many fields can be."""
        lowest = max(0.0, self.duplicate_rate, 1 - self.news_max / self.messages_per_event)
        return lowest, 1 - 1 / self.messages_per_event

    @property
    def news_max(self) -> int:
        """How many messages of an event can each bring a field that was not stated before."""
        return self.fields - self.stated_min


def _require(holds: bool, name: str, value: object, allowed: str) -> None:
    if not holds:
        raise ValueError(f"{name} is {value!r}; it must be {allowed}")


@dataclass(slots=True)
class Carry:
    """Turns fractions into whole numbers without drift: what one event could not use, the next gets."""

    owed: float = 0.0

    def take(self, amount: float, least: int, most: int) -> int:
        self.owed += amount
        taken = min(max(round(self.owed), least), most)
        self.owed -= taken
        return taken


def generate(workload: Workload) -> list[SentMessage]:
    """All messages of a workload by time, ties by id, as a broker breaks them. Ids count up within an event."""
    rng = Random(f"{workload.seed}/starts")
    starts = sorted(rng.randint(0, workload.spread_ms) for _ in range(workload.events))
    news, retries = Carry(), Carry()
    sent = [one for event, start_ms in enumerate(starts) for one in _event(workload, event, start_ms, news, retries)]
    return sorted(sent, key=lambda one: (one.at_ms, one.message.message_id))


def dated(publications: Iterable[SentMessage], start_ms: int) -> Iterator[SentMessage]:
    """Moves a run to start at ``start_ms`` and sets ``published_ms``; a retry keeps the time of its first sending."""
    first_ms: dict[tuple[str, str, str], int] = {}
    for published in publications:
        message, at_ms = published.message, published.at_ms + start_ms
        said_ms = first_ms.setdefault((message.topic, message.key, message.message_id), at_ms)
        yield replace(published, at_ms=at_ms, message=structs.replace(message, published_ms=said_ms))


def truth(workload: Workload, event: int) -> dict[str, Value]:
    """What is so about an event, counted from 0 by start time: what every message states when nobody is wrong."""
    return {_name(index): _value(index, writing) for index, writing in enumerate(_writings(workload, event))}


def _writings(workload: Workload, event: int) -> list[int]:
    rng = Random(f"{workload.seed}/truth/{event}")
    return [rng.randrange(1000) for _ in range(workload.fields - 1)]


def _name(index: int) -> str:
    return f"f{index + 1:02d}"


def _value(index: int, writing: int) -> Value:
    """A field's value by its number. The fields take turns over the kinds of values that the wire has."""
    kinds: tuple[Value, ...] = (
        f"{_name(index)} is {writing}",
        writing,
        writing / 10,
        writing % 2 == 1,
        (f"tag-{writing}", f"mark-{writing}"),
    )
    return kinds[index % len(kinds)]


def _event(workload: Workload, event: int, start_ms: int, news: Carry, retries: Carry) -> list[SentMessage]:
    """One event's messages, retries last."""
    rng = Random(f"{workload.seed}/event/{event}")
    duration_ms = rng.randint(1, workload.burst_ms)
    arrivals = sorted(
        (at, publisher)
        for publisher in rng.sample(range(workload.publishers), workload.publishers_per_event)
        for at in _poisson(rng, workload.messages_per_publisher)
    )
    repeats = retries.take(len(arrivals) * workload.duplicate_rate / (1 - workload.duplicate_rate), 0, 2**31)
    teller = _Teller(rng, workload, _writings(workload, event))
    if workload.redundancy is None:
        stated = [teller.draw() for _ in arrivals]
    else:
        wanted = (1 - workload.redundancy) * (len(arrivals) + repeats)
        quota = news.take(wanted, 1, min(len(arrivals), workload.news_max))
        stated = teller.plan(len(arrivals), quota)
    sent = []
    for number, ((at, publisher), fields) in enumerate(zip(arrivals, stated, strict=True)):
        source = f"p-{publisher:04d}"
        message_id = f"{workload.seed}-{event:06d}-{number:06d}"
        message = Message(workload.topic, f"event-{event:06d}", fields, source, message_id)
        sent.append(SentMessage(start_ms + int(at * duration_ms), source, message))
    return sent + resent(rng, sent, repeats, start_ms + duration_ms)


def _poisson(rng: Random, mean: float) -> Iterator[float]:
    """The times of a Poisson process on [0, 1), given that it has at least one.

    The first time is drawn from the exponential distribution cut at 1; from there on the process remembers nothing.
    """
    first = -math.log1p(rng.random() * math.expm1(-mean)) / mean
    at = min(first, math.nextafter(1, 0))  # rounding may reach 1
    while at < 1:
        yield at
        at += rng.expovariate(mean)


def resent(rng: Random, sent: Sequence[SentMessage], count: int, last_ms: int) -> list[SentMessage]:
    """Exact repeats, as a client that saw no acknowledgement makes: the same message, later, by ``last_ms``."""
    return [replace(one, at_ms=rng.randint(one.at_ms, last_ms)) for one in rng.choices(sent, k=count)]


class _Teller:
    """What the messages of one event state, in the order in which they are sent."""

    def __init__(self, rng: Random, workload: Workload, writings: list[int]) -> None:
        self._rng, self._workload, self._writings = rng, workload, writings
        self._said: dict[int, list[int]] = {}

    def _size(self) -> int:
        return self._rng.randint(self._workload.stated_min, self._workload.stated_max)

    def draw(self) -> dict[str, Value]:
        """Uniformly drawn fields (section 6.1): how much of it is redundant is left to chance."""
        return self._state(self._rng.sample(range(len(self._writings)), self._size()))

    def plan(self, messages: int, quota: int) -> list[dict[str, Value]]:
        """``quota`` of the messages, the first among them, bring a field not stated before; the others nothing."""
        bringing = {0, *self._rng.sample(range(1, messages), quota - 1)}
        later = iter(reversed(range(quota)))
        return [self._bring(next(later)) if number in bringing else self._repeat() for number in range(messages)]

    def _bring(self, later: int) -> dict[str, Value]:
        """States something new, and leaves a new field for each of the ``later`` messages that must bring one."""
        unsaid = [index for index in range(len(self._writings)) if index not in self._said]
        room = len(unsaid) - later
        size = self._size()
        # Before anything is known, all that is stated is new.
        new = min(size, room) if not self._said else self._rng.randint(1, min(size, room))
        old = min(size - new, len(self._said))
        return self._state(self._rng.sample(unsaid, new) + self._rng.sample(sorted(self._said), old))

    def _repeat(self) -> dict[str, Value]:
        """Copies random earlier statements, right or wrong: that keeps the share of wrong ones as it was."""
        known = sorted(self._said)
        indexes = self._rng.sample(known, min(self._size(), len(known)))
        return self._write({index: self._rng.choice(self._said[index]) for index in indexes})

    def _state(self, indexes: list[int]) -> dict[str, Value]:
        stated = {}
        for index in indexes:
            wrong = self._rng.random() < self._workload.conflict_rate
            # Odd steps, so that a boolean turns over too.
            stated[index] = self._writings[index] + (self._rng.choice((1, 3)) if wrong else 0)
        return self._write(stated)

    def _write(self, stated: dict[int, int]) -> dict[str, Value]:
        for index, writing in stated.items():
            self._said.setdefault(index, []).append(writing)
        return {_name(index): _value(index, stated[index]) for index in sorted(stated)}


@dataclass(frozen=True, slots=True)
class Summary:
    """What a run holds. ``repeats`` are messages with an id seen before; they count as ``redundant`` too."""

    messages: int
    events: int
    publishers: int
    redundant: int
    repeats: int
    disagreeing: int

    @property
    def redundant_share(self) -> float:
        return self.redundant / self.messages if self.messages else 0.0

    def __str__(self) -> str:
        return (
            f"{self.messages:,} messages from {self.publishers:,} publishers about {self.events:,} events: "
            f"{self.redundant_share:.1%} bring nothing new ({self.repeats:,} exact repeats), "
            f"{self.disagreeing:,} disagree"
        )


def summary(run: Workload | Iterable[SentMessage | Message]) -> Summary:
    """Folds a run in time order (bare messages: in the order given), with nothing but sets of facts.

    A message is redundant when each of its facts was stated about its event before; a list states each of its strings,
    as ``union`` joins them. It disagrees when it states another value than the first that was stated.
    """
    items = generate(run) if isinstance(run, Workload) else list(run)
    items.sort(key=lambda item: item.at_ms if isinstance(item, SentMessage) else 0)
    messages = [item.message if isinstance(item, SentMessage) else item for item in items]
    known: dict[tuple[str, str], set[tuple[str, SortKey]]] = {}
    first: dict[tuple[str, str, str], SortKey] = {}
    redundant = disagreeing = 0
    for message in messages:
        event = (message.topic, message.key)
        facts = {(name, sort_key(part)) for name, value in message.fields.items() for part in _parts(value)}
        before = known.setdefault(event, set())
        redundant += facts <= before
        before |= facts
        single = [(name, fact) for name, fact in facts if not isinstance(fact[1], tuple)]
        disagreeing += sum(first.setdefault((*event, name), fact) != fact for name, fact in single) > 0
    ids = {(message.topic, message.key, message.message_id) for message in messages}
    publishers = {message.source for message in messages}
    return Summary(len(messages), len(known), len(publishers), redundant, len(messages) - len(ids), disagreeing)


def _parts(value: Value) -> Sequence[Value]:
    return [(item,) for item in value] if isinstance(value, tuple) and value else [value]
