"""What is squeezed comes out as it was, and slots of earlier releases are taken as they are."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from streaming.batch.squeeze import squeeze, unsqueeze
from streaming.broker.state import Slot
from streaming.broker.state_codec import pack_slot
from streaming.model.address import Address
from streaming.model.event import open_event
from tidings.registers import Claim, Join, Register

AT = Address("b1", "incident", "campus-2026-0004008")


def packed(key: str, fields: int) -> bytes:
    at = AT._replace(key=key)
    event = open_event(at, "m", 1_000, 1_000)
    event.knowledge = {f"f{n}": Register(Join.FIRST, (Claim(n, 1_000, event.id, None),)) for n in range(fields)}
    return pack_slot(at, Slot([event]))


@given(st.text(max_size=100), st.integers(0, 20))
def test_what_is_squeezed_comes_out_as_it_was(key, fields):
    slot = packed(key, fields)
    assert unsqueeze(squeeze(slot)) == slot
    assert unsqueeze(slot) == slot, "as an earlier release kept it"


def test_a_slot_takes_much_less_room():
    slot = packed("k", 5)
    assert len(squeeze(slot)) < 0.7 * len(slot)


def test_what_cannot_be_squeezed_stands_as_it_is():
    assert squeeze(b"\x93abc") == b"\x93abc"
    assert unsqueeze(b"") == b""
