"""Packed slots, squeezed: a slot says its ids and times many times over, and most slots are only kept."""

from __future__ import annotations

import pyarrow as pa

_MARK = b"\xc1"
"""No MessagePack begins with it, so slots of earlier releases, which stand as they are, are told from squeezed ones."""
_BODY_FROM = 5
_codec = pa.Codec("lz4_raw")


def squeeze(packed: bytes) -> bytes:
    """The same in fewer bytes, if it can be."""
    body: bytes = _codec.compress(packed, asbytes=True)
    return b"%b%b%b" % (_MARK, len(packed).to_bytes(_BODY_FROM - 1), body) if len(body) + _BODY_FROM < len(packed) else packed


def unsqueeze(kept: bytes) -> bytes:
    """What was squeezed."""
    if kept[:1] != _MARK:
        return kept
    packed: bytes = _codec.decompress(kept[_BODY_FROM:], int.from_bytes(kept[1:_BODY_FROM]), asbytes=True)
    return packed
