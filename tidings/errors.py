"""Every error that a person can act on. Those that one module alone raises are in that module; `docs/errors.md` has the places.

TidingsError                 the command line prints it as one line
├── BadMessage               a publication that cannot be read; carries the reason it is counted under
├── BadControl               a control record that cannot be applied
├── BadPredicate             a `where` that does not parse; carries the position
├── BadAggregate             a function of a window that does not parse; carries the position
├── BadWindow                a window that cannot be
├── BadConfig                a setting with a wrong name or value
├── BadOverlay               brokers and links that make no overlay
│   ├── UnknownBroker        a link, or a request, names a broker that is not there
│   ├── DoubleLink           two links between the same pair of brokers
│   ├── SelfLink             a link from a broker to itself
│   └── NotConnected         the overlay falls into parts; says which
├── BadPlace                 a place in the log that is not there
├── CannotCheck              files that `tidings check` cannot say anything about
├── UnknownDecider           a decider that there is not
├── UnknownExperiment        an experiment that there is not
├── BadState                 a state blob that is damaged or of another version
├── KafkaUnreachable         no broker answered
└── CannotRun                the machine lacks something: Java, a free port, disk space, the network
    ├── AlreadyRunning       another service holds the directory
    └── BrokerTaken          another service serves the same broker
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from enum import StrEnum


class TidingsError(Exception):
    """The base of all of them. ``exit_code`` is what the command line exits with."""

    exit_code = 1


class Unreadable(StrEnum):
    """Why a publication is dead-lettered; the same word is the metric label and the header."""

    NULL_VALUE = "null-value"
    """The record has no value."""
    TOO_LARGE = "too-large"
    """It is larger than `limits.message_bytes`."""
    UNKNOWN_FORMAT = "unknown-format"
    """Its first bytes are neither those of JSON nor those of Avro."""
    BAD_JSON = "bad-json"
    """It is not JSON, or has a name twice in one object."""
    BAD_AVRO = "bad-avro"
    """It begins like Avro, and cannot be decoded."""
    UNKNOWN_SCHEMA = "unknown-schema"
    """It is Avro of another schema than the one this release reads."""
    BAD_SHAPE = "bad-shape"
    """It can be decoded, but is no message: a property is missing, empty, too long or of the wrong type."""
    BAD_TEXT = "bad-text"
    """A text in it is not UTF-8, or has half a surrogate pair."""
    NOT_FINITE = "not-finite"
    """A number in it is infinite or not a number."""
    NUMBER_TOO_LARGE = "number-too-large"
    """An integer in it does not fit in 64 bits."""
    NESTED_VALUE = "nested-value"
    """A field has something deeper than a list of strings."""
    TOO_MANY_FIELDS = "too-many-fields"
    """It has more fields than `limits.fields`."""
    BAD_KEY = "bad-key"
    """Its topic or key is empty, or longer than `limits.key_bytes`."""
    BAD_PUBLISHED_MS = "bad-published-ms"
    """Its `published_ms` is not a whole number of milliseconds, or is negative."""
    PUBLISHED_AHEAD = "published-ahead"
    """Its `published_ms` lies more than `limits.ahead_ms` after the append time."""
    EVENT_FULL = "event-full"
    """With it, its event would have more fields than `limits.event_fields`."""
    UNKNOWN_BROKER = "unknown-broker"
    """It came to a broker that is not in the overlay."""
    ROUTING_DIFFERS = "routing-differs"
    """Spark and Python read different topics or keys in it."""
    TOO_MANY_HOPS = "too-many-hops"
    """It was passed on over so many links that it must have gone round in a circle."""


class BadMessage(TidingsError):
    """A publication that cannot be read. ``reason`` is counted; the text says what was wrong with this one."""

    exit_code = 2

    def __init__(self, reason: Unreadable, detail: str) -> None:
        super().__init__(f"{reason}: {detail}")
        self.reason = reason
        self.detail = detail


class BadControl(TidingsError):
    """A control record that cannot be applied.

    ``about`` names the properties to put right, ``position`` is the place in the text of the one that does not parse. Without
    any, nothing more can be said of the record until it is put right.
    """

    exit_code = 2

    def __init__(self, key: str, detail: str, about: tuple[str, ...] = (), position: int | None = None) -> None:
        super().__init__(f"control record {key!r}: {detail}")
        self.key = key
        self.detail = detail
        self.about = about
        self.position = position


class BadPredicate(TidingsError):
    """A ``where`` text that does not parse; ``position`` is the 0-based offset of the first character that is wrong."""

    exit_code = 2

    def __init__(self, text: str, position: int, detail: str) -> None:
        pointer = " " * position + "^"
        super().__init__(f"{detail} at position {position}\n  {text}\n  {pointer}")
        self.text = text
        self.position = position
        self.detail = detail


class BadConfig(TidingsError):
    """A setting that is unknown or has a value it may not have."""

    exit_code = 2

    def __init__(self, key: str, value: object, allowed: str, where: str) -> None:
        super().__init__(f"{where}: {key} = {value!r} is not allowed; {allowed}")
        self.key = key
        self.value = value
        self.allowed = allowed


class BadOverlay(TidingsError):
    """Brokers and links that make no overlay."""

    exit_code = 2


class UnknownBroker(BadOverlay):
    """A link or a request names a broker that is not in the overlay."""

    def __init__(self, broker: str, said_by: str) -> None:
        super().__init__(f"{said_by} names the broker {broker!r}, which is not in the overlay")
        self.broker = broker


class DoubleLink(BadOverlay):
    """Two links between the same pair of brokers."""

    def __init__(self, first: str, second: str, a: str, b: str) -> None:
        super().__init__(f"the links {first!r} and {second!r} both join {a!r} and {b!r}; one of them must go")
        self.links = (first, second)


class NotConnected(BadOverlay):
    """The overlay falls into parts; ``parts`` are the names of the brokers in each."""

    def __init__(self, parts: Sequence[Iterable[str]]) -> None:
        self.parts = tuple(tuple(sorted(part)) for part in parts)
        named = "; ".join(", ".join(part) for part in self.parts)
        super().__init__(f"the overlay falls into {len(self.parts)} parts: {named}")


class BadState(TidingsError):
    """A state blob that is damaged or was written by another version."""


class KafkaUnreachable(TidingsError):
    """No Kafka broker answered at the given address."""


class CannotRun(TidingsError):
    """The machine lacks something the service needs; the text says what, and how to get it."""


class AlreadyRunning(CannotRun):
    """Another service holds the directory."""


class BrokerTaken(CannotRun):
    """Another service serves the same broker."""

    def __init__(self, brokers: str, service: str) -> None:
        super().__init__(f"the service {service} serves {brokers} already: stop it, or name other brokers with --brokers")
