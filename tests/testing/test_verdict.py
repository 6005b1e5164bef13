"""The verdict of chaos: it must see every way in which a service can be wrong."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from msgspec.structs import replace as record_with

from audit.inspection import Inspection
from audit.written import Written
from streaming.model.books import Books
from streaming.world.records import subscription, topic
from testing.chaos.verdict import ChaosVerdict, judge
from testing.logs import HandmadeLog, as_written, decided


class Service:
    """Stands for a service that did exactly what the reference would have."""

    def __init__(self) -> None:
        script = HandmadeLog(records=[topic(), subscription("ops"), subscription("press")])
        script.tick()
        for number in range(5):
            script.publish({f"f{number}": number})
        script.raw(b"rubbish")
        script.tick(70_000)
        self.log = script.log()
        self.replay = decided(self.log)
        written = as_written(self.log)
        self.told, self.dead_letters = list(written.delivered), list(written.dead_letters)
        self.books = Books.from_dict(self.replay.books["b1"].to_dict())

    def verdict(self, published: int) -> ChaosVerdict:
        written = Written(tuple(self.told), (), tuple(self.dead_letters), {"b1": self.books})
        return judge(Inspection.of(self.log, self.replay, written), published)


@pytest.fixture
def service() -> Any:
    return Service()


def test_a_service_that_did_all_is_well(service: Any):
    verdict = service.verdict(6)
    assert (verdict.faults, verdict.told, verdict.repeats) == ((), 10, 0)


def test_equal_repeats_are_counted_and_well(service: Any):
    service.told += service.told[:2]
    verdict = service.verdict(6)
    assert (verdict.faults, verdict.repeats) == ((), 2)


def test_what_was_not_told_is_seen(service: Any):
    service.told.pop(0)
    assert [fault[:8] for fault in service.verdict(6).faults] == ["not told"]


def test_what_was_told_beside_the_reference_is_seen(service: Any):
    first = service.told[0]
    service.told.append(record_with(first, value=first.value.replace(b'"f0"', b'"g0"')))
    faults = service.verdict(6).faults
    assert any(fault.startswith("told beside the reference") for fault in faults)
    assert any("an id has other contents" in fault for fault in faults)


def test_what_a_subscription_was_told_that_should_hear_nothing_is_seen(service: Any):
    silent = replace(service.replay, outputs=())
    service.replay = silent
    assert any(fault.startswith("told beside") for fault in service.verdict(6).faults)


def test_what_was_not_put_aside_is_seen(service: Any):
    service.dead_letters.pop()
    assert [fault[:13] for fault in service.verdict(6).faults] == ["not put aside"]


def test_what_was_put_aside_beside_the_reference_is_seen(service: Any):
    headers = (("origin", b"publish.b1"), ("partition", b"0"), ("offset", b"1"))
    service.dead_letters.append(record_with(service.dead_letters[-1], headers=headers))
    assert [fault[:10] for fault in service.verdict(6).faults] == ["put aside "]


def test_control_records_that_were_put_aside_are_no_messages(service: Any):
    headers = (("origin", b"control"), ("partition", b"0"), ("offset", b"1"))
    service.dead_letters.append(record_with(service.dead_letters[-1], headers=headers))
    assert not service.verdict(6).faults


def test_a_lost_message_is_seen(service: Any):
    assert service.verdict(7).faults == ("7 messages were published, 6 received",)


def test_books_that_do_not_balance_are_seen(service: Any):
    service.books.received += 1
    assert any(fault.startswith("the books do not balance") for fault in service.verdict(7).faults)


def test_books_that_differ_from_the_reference_are_seen(service: Any):
    service.books.evicted += 1
    assert service.verdict(6).faults == ("the books say evicted = 1, the reference 0",)
