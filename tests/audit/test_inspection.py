"""A service at rest, held to the reference without any allowance: what is said of each way to be wrong."""

from __future__ import annotations

from dataclasses import replace

import pytest
from msgspec.structs import replace as record_with

from audit.comparison import CompareScope
from audit.inspection import Inspection
from audit.proof import conclude
from audit.written import Written
from streaming.wire.notification import decode_notification, encode_notification
from streaming.wire.record import Record
from streaming.world.records import subscription, topic
from testing.logs import RULES, HandmadeLog, as_written, decided
from tidings.notification import Encoding, Reason
from tidings.topic import Timing


@pytest.fixture
def log() -> HandmadeLog:
    script = HandmadeLog(records=[topic(), subscription("ops", heartbeat_ms=2000)])
    script.tick()
    script.publish({"a": 1})
    script.raw(b"rubbish")
    for _ in range(5):
        script.tick()
    return script


def inspected(script: HandmadeLog, written: Written) -> Inspection:
    log = script.log()
    return Inspection.of(log, decided(log), written)


def test_who_did_all_is_well(log: HandmadeLog):
    found = inspected(log, as_written(log.log()))
    assert (found.differences, found.received(2), found.counted()) == ([], [], [])
    assert found.comparison.notifications.same > 1


def test_what_was_not_told_is_named_as_the_reference_has_it_and_what_was_told_beside_by_its_bytes(log: HandmadeLog):
    written = as_written(log.log())
    first = next(r for r in written.delivered if decode_notification(r.value or b"").reason is Reason.FIRST)
    note = decode_notification(first.value or b"")
    others = tuple(record for record in written.delivered if record is not first)
    assert inspected(log, replace(written, delivered=others)).differences == [f"not told: {note}"]
    wrong = record_with(first, value=encode_notification(replace(note, reports=9), Encoding.JSON))
    beside = f"told beside the reference: {wrong.value!r}"
    assert inspected(log, replace(written, delivered=(*others, wrong))).differences == [f"not told: {note}", beside]
    assert inspected(log, replace(written, delivered=(*written.delivered, wrong))).differences == [beside]


def test_a_lost_heartbeat_is_seen_here_and_left_out_of_a_proof(log: HandmadeLog):
    written = as_written(log.log())
    beat = next(r for r in written.delivered if decode_notification(r.value or b"").reason is Reason.HEARTBEAT)
    without = replace(written, delivered=tuple(record for record in written.delivered if record is not beat))
    assert len(inspected(log, without).differences) == 1
    whole = log.log()
    assert conclude(whole, decided(whole), without, scope=CompareScope(), rules=RULES, timing=Timing()).same


def test_what_comes_after_the_last_tick_gets_no_allowance(log: HandmadeLog):
    written = as_written(log.log())
    first = written.delivered[0]
    note = replace(decode_notification(first.value or b""), id="made up")
    later = record_with(first, append_ms=log.now_ms + 60_000, value=encode_notification(note, Encoding.JSON))
    found = inspected(log, replace(written, delivered=(*written.delivered, later)))
    assert found.differences == [f"told beside the reference: {later.value!r}"]


def test_bytes_that_nobody_can_read_are_told_beside(log: HandmadeLog):
    written = as_written(log.log())
    foreign = Record("notify.ops", 0, 99, log.now_ms, b"", b"hello")
    found = inspected(log, replace(written, delivered=(*written.delivered, foreign)))
    assert found.differences == ["told beside the reference: b'hello'"]


def test_a_dead_letter_with_another_reason_lacks_and_is_beside(log: HandmadeLog):
    written = as_written(log.log())
    [letter] = written.dead_letters
    headers = tuple((name, b"whim" if name == "reason" else value) for name, value in letter.headers)
    found = inspected(log, replace(written, dead_letters=(record_with(letter, headers=headers),)))
    at = "publish.b1, partition 0, offset 2: "
    lacking, beside = found.differences
    assert lacking.startswith(f"not put aside: {at}")
    assert beside.startswith(f"put aside beside the reference: {at}whim, ")
