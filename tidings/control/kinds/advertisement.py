"""The kind `advertisement`: where a topic is published."""

from __future__ import annotations

from dataclasses import dataclass

from tidings.control.kind import Kind
from tidings.control.kinds.broker import DEFAULT_BROKER, strange_broker
from tidings.control.reader import Reader
from tidings.topic import Timing


@dataclass(frozen=True)
class Advertisement:
    """Somebody at a broker will publish on a topic. A topic that is advertised at all is published only where it is."""

    name: str
    broker: str
    topic: str


def _read(r: Reader, _defaults: Timing) -> Advertisement:
    advertisement = Advertisement(r.name, r.text("broker", DEFAULT_BROKER), r.text("topic"))
    r.end()
    return advertisement


ADVERTISEMENT = Kind(
    "advertisement",
    _read,
    advertises=lambda said: ((said.topic, said.broker),),
    doubts=lambda said, snapshot: strange_broker(said.broker, snapshot),
)
