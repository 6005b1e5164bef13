"""What the two pipelines say to each other, as bytes on the Kafka topic `offers`. It has one partition, so one order."""

from __future__ import annotations

import msgspec
from msgspec import Struct

from streaming.model.items import Windowed
from streaming.model.outputs import Offer
from streaming.model.windows import Clocked, Offered, WindowInput
from streaming.wire.packing import pack
from streaming.wire.record import Outgoing
from tidings import names
from tidings.errors import BadState


class _Offer(Struct, array_like=True, tag="offer"):
    bucket: str
    number: int
    via: str | None
    crosses: bool
    at_ms: int
    version: int
    item: Windowed


class _Clock(Struct, array_like=True, tag="clock"):
    index: int
    of: int
    clock_ms: int
    ticks: tuple[tuple[int, int], ...]
    gathered: tuple[tuple[str, str, int], ...] = ()


_decoder = msgspec.msgpack.Decoder(_Offer | _Clock)


def offer_record(service: str, bucket: str, offer: Offer) -> Outgoing:
    """What a bucket offers; the key decides which bucket of links gets it."""
    value = _Offer(bucket, offer.number, offer.via, offer.crosses, offer.at_ms, offer.version, offer.item)
    return Outgoing(names.OFFERS, record_key(service, (offer.sender, offer.to, offer.topic)), pack(value), [])


def clock_record(service: str, clocked: Clocked) -> Outgoing:
    """How far a bucket is; it goes to every bucket of links."""
    value = _Clock(clocked.index, clocked.of, clocked.clock_ms, clocked.ticks, clocked.gathered)
    return Outgoing(names.OFFERS, service.encode(), pack(value), [])


def record_key(service: str, at: tuple[str, str, str]) -> bytes:
    """The Kafka record key of what is offered there. A topic may have a slash in it, the others have none."""
    return f"{service}/{at[0]}/{at[1]}/{at[2]}".encode()


def read_key(key: bytes) -> tuple[str, str, str]:
    """
    >>> read_key(record_key("s", ("b1", "", "a/b")))
    ('b1', '', 'a/b')
    """
    _, sender, to, topic = key.decode().split("/", 3)
    return sender, to, topic


def read(key: bytes, value: bytes) -> WindowInput:
    """What a record says. Only our own service writes there, so what cannot be read is damage."""
    try:
        found = _decoder.decode(value)
        if isinstance(found, _Clock):
            return Clocked(found.index, found.of, found.clock_ms, found.ticks, found.gathered)
        sender, to, topic = read_key(key)
    except (msgspec.MsgspecError, ValueError) as error:
        raise BadState(f"a record on the Kafka topic 'offers' cannot be read: {error}") from None
    said = found.number, found.via, found.crosses, found.at_ms, found.version
    return Offered(found.bucket, Offer(sender, to, topic, found.item, *said))
