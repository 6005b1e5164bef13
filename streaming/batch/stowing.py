"""Slots as bytes, in the shortest form that each has: in few words if it is of the usual kind, else packed and squeezed."""

from __future__ import annotations

from streaming.batch.brief import brief_of, expanded, is_brief, read_brief, write_brief
from streaming.batch.squeeze import squeeze, unsqueeze
from streaming.broker.state import Slot
from streaming.broker.state_codec import pack_slot, packed_tombstone, unpack_slot
from streaming.model.address import Address
from streaming.model.event import Span, Tombstone


def stow(at: Address, slot: Slot) -> bytes:
    """The bytes of a slot."""
    brief = brief_of(at, slot)
    return squeeze(pack_slot(at, slot)) if brief is None else write_brief(brief)


def unstow(kept: bytes) -> tuple[Address, Slot]:
    """The slot: also of bytes that an earlier release wrote."""
    return expanded(read_brief(kept)) if is_brief(kept) else unpack_slot(unsqueeze(kept))


def stowed_tombstone(kept: bytes, first_ms: int, last_ms: int, forget_ms: int) -> bytes:
    """A slot with nothing but the tombstone of the one event that is open in a slot, and says nothing of what others know."""
    if not is_brief(kept):
        return packed_tombstone(unsqueeze(kept), first_ms, last_ms, forget_ms)
    brief = read_brief(kept)
    return pack_slot(brief.at, Slot([], [Tombstone(Span(first_ms, last_ms), forget_ms, brief.id)]))
