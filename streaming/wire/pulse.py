"""What stands on the Kafka topic `pulse`: that services live, and when their buckets next want the time.

No query reads it, so what stands there costs no batch. Of each key only the last record counts, and only for minutes.
"""

from __future__ import annotations

import json
from typing import NamedTuple

from streaming.wire.clock import Tick, decode_tick, encode_tick
from streaming.wire.record import Outgoing, Record
from tidings import names


class Wish(NamedTuple):
    """A bucket wants a tick at a time, by Kafka's clock."""

    of: str
    """The service and the bucket."""
    wants_ms: int


def wish_record(service: str, bucket: int | str, wants_ms: int) -> Outgoing:
    """A bucket says when it wants the time."""
    return Outgoing(names.PULSE, f"{service}/{bucket}".encode(), json.dumps({"wants_ms": wants_ms}).encode(), [])


def life_record(tick: Tick) -> Outgoing:
    """A service says that it lives: what its last tick said, once more."""
    return Outgoing(names.PULSE, tick.service.encode(), encode_tick(tick), [])


def read_wish(record: Record) -> Wish | None:
    """The wish in a record; None if it is none."""
    try:
        of = (record.key or b"").decode()
        wants_ms = json.loads(record.value or b"")["wants_ms"]
    except (ValueError, KeyError, TypeError, RecursionError):
        return None
    return Wish(of, wants_ms) if "/" in of and type(wants_ms) is int else None


def read_life(record: Record) -> Tick | None:
    """The sign of life in a record; None if it is none."""
    tick = decode_tick(record)
    return tick if tick is not None and record.key == tick.service.encode() else None
