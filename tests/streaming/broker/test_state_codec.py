"""The state blob: damaged bytes and other versions are refused, never guessed at."""

from __future__ import annotations

import pytest

from streaming.broker import state_codec
from streaming.broker.state import BucketState
from streaming.broker.step import step
from streaming.model.outputs import PutAside
from streaming.world.one_broker import Script
from streaming.world.records import subscription, topic
from tidings.errors import BadState


@pytest.fixture(scope="module")
def bytes_of_a_state() -> bytes:
    script = Script()
    script.control(topic(fields={"tags": "union", "n": "max"}), subscription("ops", every_ms=5000))
    script.publish({"what": "fire", "floor": None, "n": 2.5, "ok": True, "tags": ("a", "b")}, source="cam-1")
    script.publish({"what": "smoke"}, source="cam-2")
    script.publish({"x": 1}, key="other")
    script.tick(1000)
    return state_codec.encode(script.run()[0])


def test_it_comes_back_whole(bytes_of_a_state):
    state = state_codec.decode(bytes_of_a_state)
    assert state_codec.encode(state) == bytes_of_a_state
    (event,) = state.slots["b1", "incident", "5th and Main"].open
    assert {name: register.value for name, register in event.knowledge.items()} == {
        "what": "fire",
        "floor": None,
        "n": 2.5,
        "ok": True,
        "tags": ("a", "b"),
    }
    assert state.books["b1"].balanced


def test_every_single_flipped_bit_is_noticed(bytes_of_a_state):
    for position in range(len(bytes_of_a_state)):
        damaged = bytearray(bytes_of_a_state)
        damaged[position] ^= 1
        with pytest.raises(BadState):
            state_codec.decode(bytes(damaged))


@pytest.mark.parametrize("cut", [0, 1, 6, 7, 20, -1])
def test_a_truncated_blob_is_noticed(bytes_of_a_state, cut):
    with pytest.raises(BadState):
        state_codec.decode(bytes_of_a_state[:cut])


def test_another_format_is_named(bytes_of_a_state):
    other = bytes_of_a_state[:2] + b"\x09" + bytes_of_a_state[3:]
    with pytest.raises(BadState, match="format 9, this release reads 3"):
        state_codec.decode(other)


def test_what_reports_said_together_has_the_same_bytes_before_and_after_a_restart() -> None:
    script = Script()
    script.control(topic(window_ms=8_000), subscription("w", window={"size_ms": 1_000, "of": {"n": "count()"}}))
    script.publish({"what": "fire", "floor": 3}, published_ms=script.now_ms - 6_000)
    script.publish({"a": 1}, published_ms=script.now_ms - 6_000)
    before = len(script.inputs)
    script.tick(20_000)
    state, outputs = step(BucketState(), script.inputs[:before], script.plan_at, script.rules)
    _, more = step(state_codec.decode(state_codec.encode(state)), script.inputs[before:], script.plan_at, script.rules)
    (aside,) = [output for output in more if isinstance(output, PutAside)]
    assert aside.entry is not None
    assert b'"fields":{"a":1,"floor":3,"what":"fire"}' in (aside.entry.value or b"")
    assert [*outputs, *more] == script.run()[1]
