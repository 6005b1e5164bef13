"""What a batch changed in a bucket, as bytes; and how a bucket is put together from such patches again.

A patch holds the packed slots that were in hand, the numbers of all rows that were counted in, and what went into and out of the
tables. Its name follows from its bytes and from the patch before it, so a chain of patches cannot be put together wrongly.
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec
import numpy as np
import numpy.typing as npt
import xxhash
from msgspec import Struct

from streaming.batch.arrays import Ints
from streaming.batch.columns import Columns
from streaming.batch.memory import PackedMemory
from streaming.batch.tables import SortedTable
from streaming.broker.state import BucketState
from streaming.broker.state_codec import decode_head, head_of, state_of
from streaming.wire.packing import pack
from tidings.errors import BadState

START = 0
"""The name of what was before the first patch."""


class TableChange(Struct, array_like=True):
    """Entries: key, row, and the number beside it."""

    keys: bytes
    owner: bytes
    beside: bytes


class Patch(Struct, array_like=True):
    """What one batch changed in a bucket. ``before`` names the patch it follows; a whole bucket follows nothing,
    and has all rows."""

    before: int
    head: bytes
    rows: int
    size: int
    places: list[tuple[str, str]]
    gone: bytes
    counted: bytes
    """Rows with numbers in ``columns``."""
    columns: list[bytes]
    packed_rows: bytes
    packed: list[bytes]
    forgotten: bytes
    still_open: bytes
    """Salts whose entries stay, although others of their rows are forgotten."""
    facts: TableChange
    sources: TableChange


_decoder = msgspec.msgpack.Decoder(Patch)


def name_of(patch: bytes) -> int:
    """The name that the patch after this one calls it by."""
    return xxhash.xxh3_64_intdigest(patch) >> 1 | 1


def decode(data: bytes) -> Patch:
    try:
        return _decoder.decode(data)
    except msgspec.MsgspecError as error:
        raise BadState(f"a patch of the state cannot be read: {error}") from None


def changes(state: BucketState, shelf: PackedMemory, before: int) -> bytes:
    """The patch for what changed since the last one; the shelf begins to note changes anew."""
    counted = np.unique(np.concatenate([*shelf.counted, np.fromiter(shelf.changed, dtype=np.int64, count=len(shelf.changed))]))
    counted = counted[shelf.columns.hash[counted] != 0]  # emptied since
    packed_rows = sorted(shelf.changed)
    noted = shelf.noted
    patch = _patch(state, shelf, before, counted, packed_rows)
    patch.gone = _ints32(sorted(shelf.gone))
    patch.forgotten = _ints32(noted.forgotten)
    patch.still_open = np.array(noted.still_open, dtype=np.int64).tobytes()
    patch.facts = _change(noted.facts)
    patch.sources = _change(noted.sources)
    shelf.begin_notes()
    return pack(patch)


def whole(state: BucketState, shelf: PackedMemory) -> bytes:
    """The bucket as one patch. Rows that are empty are taken out first."""
    shelf.compact()
    shelf.begin_notes()
    rows = np.arange(len(shelf.packed))
    patch = _patch(state, shelf, START, rows, rows.tolist())
    patch.facts, patch.sources = _table(shelf.facts), _table(shelf.sources)
    return pack(patch)


def _patch(state: BucketState, shelf: PackedMemory, before: int, counted: Ints, packed_rows: list[int]) -> Patch:
    none = TableChange(b"", b"", b"")
    return Patch(
        before=before,
        head=pack(head_of(state)),
        rows=len(shelf.packed),
        size=state.size,
        places=shelf.places,
        gone=b"",
        counted=_ints32(counted),
        columns=[getattr(shelf.columns, name)[counted].tobytes() for name in Columns.NAMES],
        packed_rows=_ints32(packed_rows),
        packed=[shelf.packed[row] or b"" for row in packed_rows],
        forgotten=b"",
        still_open=b"",
        facts=none,
        sources=none,
    )


def apply(shelf: PackedMemory, patches: Iterable[Patch]) -> BucketState | None:
    """Put patches onto a shelf, one after the other. Returns the state with it; None if there were none."""
    last = None
    for patch in patches:
        _apply(shelf, patch)
        last = patch
    if last is None:
        return None
    state = state_of(decode_head(last.head))
    state.slots, state.size = shelf, last.size
    return state


def _apply(shelf: PackedMemory, patch: Patch) -> None:
    shelf.remove(_read32(patch.gone))
    shelf.lay(patch.rows, patch.places)
    rows = _read32(patch.counted)
    # A patch of an earlier release has fewer columns: the last ones are as they are in an empty row.
    for name, data in zip(Columns.NAMES, patch.columns, strict=False):
        column = getattr(shelf.columns, name)
        column[rows] = np.frombuffer(data, dtype=column.dtype)
    for row, packed in zip(_read32(patch.packed_rows).tolist(), patch.packed, strict=True):
        shelf.packed[row] = packed
    shelf.find_rows(rows)
    forgotten = _read32(patch.forgotten).tolist()
    shelf.facts.drop(forgotten)
    shelf.sources.drop(forgotten, np.frombuffer(patch.still_open, dtype=np.int64).tolist())
    _put(shelf.facts, patch.facts)
    _put(shelf.sources, patch.sources)


def _put(table: SortedTable, change: TableChange) -> None:
    keys, beside = np.frombuffer(change.keys, dtype=np.int64), np.frombuffer(change.beside, dtype=np.int64)
    table.add(keys, _read32(change.owner), beside)


def _table(table: SortedTable) -> TableChange:
    return TableChange(table.keys.tobytes(), table.owner.tobytes(), table.beside.tobytes())


def _change(added: list[tuple[Ints, Ints, Ints]]) -> TableChange:
    if not added:
        return TableChange(b"", b"", b"")
    keys, owner, beside = (np.concatenate(column) for column in zip(*added, strict=True))
    return TableChange(keys.tobytes(), _ints32(owner), beside.tobytes())


def _ints32(values: npt.ArrayLike) -> bytes:
    return np.asarray(values, dtype=np.int32).tobytes()


def _read32(data: bytes) -> Ints:
    return np.frombuffer(data, dtype=np.int32).astype(np.int64)
