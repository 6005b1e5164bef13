"""Every error Tidings raises on purpose.

TidingsError                 something a person can act on; the command line prints it as one line
├── BadMessage               a publication that cannot be read; carries the reason it is counted under
├── BadControl               a control record that cannot be applied
├── BadPredicate             a `where` that does not parse; carries the position
├── BadAggregate             a function of a window that does not parse; carries the position (in `tidings.aggregate`)
├── BadWindow                a window that cannot be (in `tidings.window`)
├── BadConfig                a setting with a wrong name or value
├── BadOverlay               brokers and links that make no overlay
│   ├── UnknownBroker        a link, or a request, names a broker that is not there
│   ├── DoubleLink           two links between the same pair of brokers
│   └── NotConnected         the overlay falls into parts; says which
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
    """Base of all errors below. ``exit_code`` is what the command line exits with."""

    exit_code = 1


class Unreadable(StrEnum):
    """Why a publication is dead-lettered; the same word is the metric label and the header."""

    NULL_VALUE = "null-value"
    TOO_LARGE = "too-large"
    UNKNOWN_FORMAT = "unknown-format"
    BAD_JSON = "bad-json"
    BAD_AVRO = "bad-avro"
    UNKNOWN_SCHEMA = "unknown-schema"
    BAD_SHAPE = "bad-shape"
    BAD_TEXT = "bad-text"
    NOT_FINITE = "not-finite"
    NUMBER_TOO_LARGE = "number-too-large"
    NESTED_VALUE = "nested-value"
    TOO_MANY_FIELDS = "too-many-fields"
    BAD_KEY = "bad-key"
    BAD_PUBLISHED_MS = "bad-published-ms"
    PUBLISHED_AHEAD = "published-ahead"
    EVENT_FULL = "event-full"
    UNKNOWN_BROKER = "unknown-broker"
    ROUTING_DIFFERS = "routing-differs"
    TOO_MANY_HOPS = "too-many-hops"


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
