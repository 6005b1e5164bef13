"""The state of a bucket of links as bytes, under the same header as all state."""

from __future__ import annotations

import msgspec
from msgspec import Struct

from streaming.broker.state_codec import BooksDatum, books_datum, books_of, seal, unseal
from streaming.model.outputs import Offer
from streaming.windows.link import LinkWindows, PackedLink
from streaming.windows.local import LocalWindows, PackedLocal
from streaming.windows.state import At, LinkState, NeighbourWindows, WindowState
from tidings.errors import BadState


class _Links(Struct, array_like=True):
    at: At
    link: PackedLink | None
    here: PackedLocal | None
    since: dict[str, int]
    upstream: dict[str, NeighbourWindows]
    through_ms: int
    said_ms: int
    said: dict[str, int]


class _State(Struct, array_like=True):
    version: int
    clock_ms: int
    clocks: list[tuple[int, int]]
    buckets: int
    versions: list[tuple[int, int]]
    heard: dict[str, int]
    sent: list[tuple[tuple[str, str], int]]
    early: list[Offer]
    links: list[_Links]
    books: dict[str, BooksDatum]
    gathered: list[tuple[int, list[tuple[tuple[str, str], int]]]] = []
    by_topic: bool = False


_encoder = msgspec.msgpack.Encoder()
_decoder = msgspec.msgpack.Decoder(_State)


def encode(state: WindowState) -> bytes:
    links = [_packed(at, links) for at, links in sorted(state.links.items())]
    books = {broker: books_datum(found) for broker, found in state.books.items()}
    sent = sorted(state.sent.items())
    numbers = state.version, state.clock_ms, sorted(state.clocks.items()), state.buckets, state.versions
    gathered = [(index, sorted(found.items())) for index, found in sorted(state.gathered.items())]
    return seal(_encoder.encode(_State(*numbers, state.heard, sent, state.early, links, books, gathered, state.by_topic)))


def decode(data: bytes) -> WindowState:
    """What `encode` encoded; raises `BadState` for damaged bytes or those of another format."""
    try:
        found = _decoder.decode(unseal(data))
    except msgspec.MsgspecError as error:
        raise BadState(f"the state of a bucket of links cannot be read: {error}") from None
    links = {each.at: _unpacked(each) for each in found.links}
    books = {broker: books_of(datum) for broker, datum in found.books.items()}
    return WindowState(
        version=found.version,
        clock_ms=found.clock_ms,
        clocks=dict(found.clocks),
        gathered={index: dict(times) for index, times in found.gathered},
        buckets=found.buckets,
        versions=found.versions,
        heard=found.heard,
        sent=dict(found.sent),
        early=found.early,
        links=links,
        books=books,
        by_topic=found.by_topic,
    )


def _packed(at: At, links: LinkState) -> _Links:
    windows = links.windows
    link = windows.state() if isinstance(windows, LinkWindows) else None
    here = windows.state() if isinstance(windows, LocalWindows) else None
    return _Links(at, link, here, links.since, links.upstream, links.through_ms, links.said_ms, links.said)


def _unpacked(found: _Links) -> LinkState:
    windows = LinkWindows.restored(found.link) if found.link else LocalWindows.restored(found.here or PackedLocal([], {}, [], {}))
    return LinkState(windows, found.since, found.upstream, found.through_ms, found.said_ms, found.said)
