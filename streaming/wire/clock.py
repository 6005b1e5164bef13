"""The clock of a service: a tick a second on the Kafka topic `clock`, and a mark in every partition that is read.

A tick is JSON: whose it is, which control data holds from here on, which brokers the service serves, and how far it is. A mark
is a line of text, signed, so that nobody else's can name a version.
"""

from __future__ import annotations

import hashlib
import hmac
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from streaming.wire.record import Record

MARK_START: Final = b"\x00tidings mark"
"""WrittenTell into every input partition by the ticker. A publisher who forges one only says what time Kafka already knows."""


@dataclass(frozen=True, slots=True)
class Tick:
    """From here on this version of the control data holds, and these partitions count for the time.

    ``brokers`` are those that the service serves; None for all, and nobody in the last tick of a service that stops.
    """

    service: str
    version: int
    partitions: tuple[str, ...] = ()
    brokers: frozenset[str] | None = None
    ms: int | None = None
    """The ticker's own clock, for people to look at; the last tick does not say it, nor how far the service is."""
    done_ms: int | None = None
    """What was appended before has been read, and all that follows from it written; None if the service does not know."""
    done_version: int = 0
    """Of the control data that it went by then, at least."""
    hands_on: bool = False
    """Whether the service takes in at once what its brokers send each other, and reads no links."""
    append_ms: int = 0
    offset: int = 0
    """Where it stands in Kafka."""

    def serves(self, broker: str) -> bool:
        return self.brokers is None or broker in self.brokers


def encode_tick(tick: Tick) -> bytes:
    """The value on `clock`."""
    progress = {} if tick.ms is None else {"ms": tick.ms, "done_ms": tick.done_ms, "done_version": tick.done_version}
    brokers = None if tick.brokers is None else sorted(tick.brokers)
    ways = {"hands_on": True} if tick.hands_on else {}
    held = {"version": tick.version, "brokers": brokers, **ways, "partitions": tick.partitions}
    datum = {"service": tick.service, **progress, **held}
    return json.dumps(datum).encode()


def decode_tick(record: Record) -> Tick | None:
    """The tick in a record of `clock`; None if it is none, whatever it says of itself."""
    try:
        datum = json.loads(record.value or b"")
        brokers = None if datum.get("brokers") is None else frozenset(map(str, datum["brokers"]))
        return Tick(
            str(datum["service"]),
            int(datum["version"]),
            tuple(map(str, datum["partitions"])),
            brokers,
            datum.get("ms"),
            *_progress(datum),
            hands_on=datum.get("hands_on") is True,
            append_ms=record.append_ms,
            offset=record.offset,
        )
    except (ValueError, KeyError, TypeError, AttributeError, OverflowError, RecursionError):
        return None


def _progress(datum: Mapping[str, Any]) -> tuple[int | None, int]:
    """How far the service is, if it says all of that: for which brokers, and by which control data."""
    done_ms, whole = datum.get("done_ms"), {"brokers", "done_version"} <= datum.keys()
    return (done_ms, int(datum["done_version"])) if type(done_ms) is int and whole else (None, 0)


@dataclass(frozen=True, slots=True)
class TickerIdentity:
    """Whose marks say which control data holds. With the ``secret``, marks that others forged are told apart."""

    service: str | None
    secret: str | None = field(default=None, repr=False)

    def mark(self, version: int) -> bytes:
        """What the ticker writes into every partition."""
        return b" ".join([MARK_START, str(self.service).encode(), str(version).encode(), self._signature(version)])

    def version_in(self, mark: bytes) -> int | None:
        """The version that a mark names; None if it is not this ticker's."""
        words = mark.removeprefix(MARK_START).split()
        if len(words) != 3 or words[0] != str(self.service).encode() or not words[1].isdigit() or len(words[1]) > 18:
            return None
        version = int(words[1])
        return version if self.secret is None or hmac.compare_digest(words[2], self._signature(version)) else None

    def _signature(self, version: int) -> bytes:
        return hmac.new(str(self.secret).encode(), f"mark {version}".encode(), hashlib.sha256).hexdigest()[:16].encode()
