"""MessagePack, with one form for each value."""

from __future__ import annotations

from typing import Any

import msgspec

_encoder = msgspec.msgpack.Encoder(order="deterministic")


def pack(value: Any) -> bytes:
    """A value as MessagePack; equal values give equal bytes."""
    return _encoder.encode(value)
