"""State as bytes: two letters, a format version, a checksum, and MessagePack.

The values of the state are written as they are declared, so a field that is added with a default reads older bytes too.
Damaged bytes and other formats are refused, never guessed at.
"""

from __future__ import annotations

import struct
import zlib
from collections import Counter
from dataclasses import fields
from typing import Any, TypeAlias

import msgspec
from msgspec import Struct

from streaming.broker.state import BucketState, Filter, PlainMemory, Progress, Slot
from streaming.model.address import Address
from streaming.model.books import Books
from streaming.model.event import OpenEvent
from streaming.wire.packing import pack
from tidings.errors import BadState

FORMAT = 3
_HEADER = struct.Struct(">2sBI")
_LETTERS = b"TB"
HEADER_BYTES = _HEADER.size

_Counts: TypeAlias = list[tuple[tuple[str, ...], int]]
BooksDatum: TypeAlias = dict[str, int | _Counts]


class Head(Struct, array_like=True):
    """All of a bucket's state but its slots: small, and written with every batch."""

    version: int
    clock_ms: int
    partitions: tuple[str, ...]
    marks: dict[str, int]
    books: dict[str, BooksDatum]
    sent: list[tuple[tuple[str, str], int]]
    heard: list[tuple[tuple[str, str, str], int]]
    filters: list[tuple[tuple[str, str], Filter]]
    beats: dict[str, int] = {}
    offered: int = 0
    ticked: tuple[int, int] = (0, 0)
    ticks: list[tuple[int, int]] = []
    carried: list[tuple[str, str]] = []
    progress: dict[str, Progress] = {}
    ending: list[tuple[Address, int]] = []
    ways: dict[str, int] = {}
    beats_due: dict[str, list[int]] = {}


class Packed(Struct, array_like=True):
    """A slot with its place."""

    at: Address
    slot: Slot


_head = msgspec.msgpack.Decoder(Head)
_packed = msgspec.msgpack.Decoder(Packed)
_whole = msgspec.msgpack.Decoder(tuple[Head, list[Packed]])


def seal(data: bytes) -> bytes:
    """Data with the header that tells damage."""
    return _HEADER.pack(_LETTERS, FORMAT, zlib.crc32(data)) + data


def unseal(blob: bytes, what: str = "a state blob") -> bytes:
    """The data behind the header; raises `BadState` for damaged bytes or those of another format."""
    if len(blob) < _HEADER.size or blob[:2] != _LETTERS:
        raise BadState(f"{what} does not start like one: the checkpoint is damaged or not ours")
    _, version, checksum = _HEADER.unpack_from(blob)
    if version != FORMAT:
        raise BadState(f"{what} has format {version}, this release reads {FORMAT}: see `tidings state migrate`")
    data = blob[_HEADER.size :]
    if zlib.crc32(data) != checksum:
        raise BadState(f"{what} fails its checksum: the checkpoint is damaged; restore it or start with another --dir")
    return data


def encode(state: BucketState) -> bytes:
    """The whole state as a blob. Equal states give equal bytes."""
    return seal(pack((head_of(state), [Packed(at, slot) for at, slot in state.slots.items()])))


def decode(blob: bytes) -> BucketState:
    """The state in a blob; raises `BadState` for a damaged one or one of another format version."""
    try:
        head, packed = _whole.decode(unseal(blob))
    except msgspec.MsgspecError as error:
        raise BadState(f"a state blob cannot be read: {error}") from None
    state = state_of(head)
    state.slots = PlainMemory((each.at, each.slot) for each in packed)
    state.size = sum(each.slot.size for each in packed)
    return state


def pack_slot(at: Address, slot: Slot) -> bytes:
    """One slot by itself."""
    return pack(Packed(at, slot))


def unpack_slot(data: bytes) -> tuple[Address, Slot]:
    """What `pack_slot` packed."""
    packed = _packed.decode(data)
    return packed.at, packed.slot


def packed_tombstone(packed: bytes, first_ms: int, last_ms: int, forget_ms: int) -> bytes:
    """A slot with nothing but the tombstone of the one event that is open in a packed slot. That the event says nothing of what
    others know, or nobody asks: nothing of it is read but what it is called."""
    at = _PLACE_FROM
    for _ in Address._fields:
        at = _end_of_text(packed, at)
    name_from = at + len(_ONE_OPEN)
    name = packed[name_from : _end_of_text(packed, name_from)]
    return b"".join((packed[:at], _ONE_CLOSED, pack((first_ms, last_ms)), pack(forget_ms), name, _NO_MORE))


_PLACE_FROM = 2
"""In a packed slot: behind the heads of the list of two, and of the texts that its place is."""
_ONE_OPEN = b"\x96\x91" + struct.pack(">BH", 0xDC, len(OpenEvent.__struct_fields__))
"""Of a slot, up to the name of the one event that is open in it."""
_ONE_CLOSED = b"\x96\x90\x91\x95"
_NO_MORE = b"\x80\x80" + b"\x80\x80\x80\x90"


def _end_of_text(packed: bytes, at: int) -> int:
    """Where a text ends that begins there."""
    head = packed[at]
    if head & 0xE0 == 0xA0:
        return at + 1 + (head & 0x1F)
    wide = 1 << head - 0xD9
    return at + 1 + wide + int.from_bytes(packed[at + 1 : at + 1 + wide], "big")


def head_of(state: BucketState) -> Head:
    """All but the slots."""
    return Head(
        version=state.version,
        clock_ms=state.clock_ms,
        partitions=state.partitions,
        marks=state.marks,
        books={broker: books_datum(books) for broker, books in state.books.items()},
        sent=sorted(state.sent.items()),
        heard=sorted(state.heard.items()),
        filters=sorted(state.filters.items()),
        beats=state.beats,
        offered=state.offered,
        ticked=state.ticked,
        ticks=state.ticks,
        carried=sorted(state.carried),
        progress=state.progress,
        ending=sorted(state.ending.items()),
        ways=state.ways,
        beats_due=state.beats_due,
    )


def state_of(head: Head) -> BucketState:
    """A state without slots."""
    return BucketState(
        version=head.version,
        clock_ms=head.clock_ms,
        partitions=head.partitions,
        marks=head.marks,
        books={broker: books_of(datum) for broker, datum in head.books.items()},
        sent=dict(head.sent),
        heard=dict(head.heard),
        filters=dict(head.filters),
        beats=head.beats,
        offered=head.offered,
        ticked=head.ticked,
        ticks=head.ticks,
        carried=set(head.carried),
        progress=head.progress,
        ending=dict(head.ending),
        ways=head.ways,
        beats_due=head.beats_due,
    )


def decode_head(data: bytes) -> Head:
    """What `pack(head)` packed."""
    return _head.decode(data)


def books_datum(books: Books) -> BooksDatum:
    """Every field of the books: a number, or counts by one word or several."""
    return {field.name: _count_datum(getattr(books, field.name)) for field in fields(books)}


def _count_datum(found: int | Counter[Any]) -> int | _Counts:
    if isinstance(found, int):
        return found
    words = ((tuple(map(str, key)) if isinstance(key, tuple) else (str(key),), count) for key, count in found.items())
    return sorted(words)


def books_of(datum: BooksDatum) -> Books:
    known = {field.name for field in fields(Books)}
    return Books(**{name: _count(found) for name, found in datum.items() if name in known})


def _count(found: int | _Counts) -> Any:
    if isinstance(found, int):
        return found
    return Counter({(words if len(words) > 1 else words[0]): count for words, count in found})
