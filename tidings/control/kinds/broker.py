"""The kind `broker`: a broker of the overlay."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tidings import names
from tidings.control.kind import Kind
from tidings.control.reader import Reader
from tidings.topic import Timing

if TYPE_CHECKING:
    from tidings.control.snapshot import Snapshot

DEFAULT_BROKER = "b1"


@dataclass(frozen=True)
class Broker:
    """A broker of the overlay."""

    name: str


def _read(r: Reader, _defaults: Timing) -> Broker:
    # A broker's name becomes part of Kafka topic names, where '.' separates the parts.
    if not names.is_legal(r.name) or "." in r.name or len(r.name) > 80:
        raise r.fail("a broker's name has up to 80 letters, digits, '_' and '-'")
    r.end()
    return Broker(r.name)


BROKER = Kind(
    "broker",
    _read,
    kafka_topics=lambda broker: (names.AskedTopic(names.publish_topic(broker.name), names.PUBLICATIONS),),
    without={DEFAULT_BROKER: Broker(DEFAULT_BROKER)},
)


def strange_broker(name: str, snapshot: Snapshot) -> Iterator[str]:
    """The doubt about any record that names a broker which nobody has declared."""
    if name not in snapshot.of(BROKER):
        yield f"names the broker {name!r}, which is not in the overlay"
