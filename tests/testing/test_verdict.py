"""The verdict of chaos: it must see every way in which a service can be wrong."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from audit.replay import Replay
from clients.log import Record
from streaming.model.books import Books, total
from streaming.model.outputs import PutAside, Tell
from streaming.wire.codec import encode_notification
from streaming.world.one_broker import Script
from streaming.world.records import subscription, topic
from testing.chaos.soak import MEASURES, Sample, SoakPlan, grown
from testing.chaos.verdict import judge
from tidings import names


class Service:
    """Stands for a service that did exactly what the reference would have."""

    def __init__(self) -> None:
        script = Script()
        script.control(topic(), subscription("ops"), subscription("press"))
        for number in range(5):
            script.publish({f"f{number}": number})
        script.refuse()
        script.tick(70_000)
        state, outputs = script.run()
        control = script.snapshots[max(script.snapshots)]
        self.replay = Replay({}, tuple(script.inputs), tuple(outputs), dict(state.books), control)
        self.totals = Books.from_dict(total(state.books.values()).to_dict())
        self.records = [*map(_told, self.replay.told), *map(_aside, self.replay.put_aside.values())]

    def reference(self) -> Replay:
        return self.replay

    def books(self) -> Books:
        return self.totals

    def read(self, *kafka_topics: str) -> list[Record]:
        return [record for record in self.records if record.kafka_topic in kafka_topics]


def _told(tell: Tell) -> Record:
    return Record(tell.kafka_topic, 0, 0, tell.at_ms, None, encode_notification(tell.notification, tell.encoding))


def _aside(aside: PutAside) -> Record:
    at = aside.origin
    headers = {"origin": at.kafka_topic, "partition": str(at.partition), "offset": str(at.offset)}
    return Record(names.DEAD_LETTER, 0, 0, at.append_ms, None, b"", tuple((k, v.encode()) for k, v in headers.items()))


@pytest.fixture
def service() -> Any:
    return Service()


def test_a_service_that_did_all_is_well(service: Any):
    verdict = judge(service, 6)
    assert (verdict.faults, verdict.told, verdict.repeats) == ((), 10, 0)


def test_equal_repeats_are_counted_and_well(service: Any):
    service.records += service.records[:2]
    verdict = judge(service, 6)
    assert (verdict.faults, verdict.repeats) == ((), 2)


def test_what_was_not_told_is_seen(service: Any):
    service.records.pop(0)
    assert [fault[:8] for fault in judge(service, 6).faults] == ["not told"]


def test_what_was_told_beside_the_reference_is_seen(service: Any):
    first = service.records[0]
    service.records.append(replace(first, value=first.value.replace(b'"f0"', b'"g0"')))
    faults = judge(service, 6).faults
    assert any(fault.startswith("told beside the reference") for fault in faults)
    assert any("has 2 contents" in fault for fault in faults)


def test_what_a_subscription_was_told_that_should_hear_nothing_is_seen(service: Any):
    silent = replace(service.replay, outputs=())
    service.replay = silent
    assert any(fault.startswith("told beside") for fault in judge(service, 6).faults)


def test_what_was_not_put_aside_is_seen(service: Any):
    service.records.pop()
    assert [fault[:13] for fault in judge(service, 6).faults] == ["not put aside"]


def test_what_was_put_aside_beside_the_reference_is_seen(service: Any):
    headers = (("origin", b"publish.b1"), ("partition", b"0"), ("offset", b"1"))
    service.records.append(replace(service.records[-1], headers=headers))
    assert [fault[:10] for fault in judge(service, 6).faults] == ["put aside "]


def test_control_records_that_were_put_aside_are_no_messages(service: Any):
    headers = (("origin", b"control"), ("partition", b"0"), ("offset", b"1"))
    service.records.append(replace(service.records[-1], headers=headers))
    assert not judge(service, 6).faults


def test_a_lost_message_is_seen(service: Any):
    assert judge(service, 7).faults == ("7 messages were published, 6 received",)


def test_books_that_do_not_balance_are_seen(service: Any):
    service.totals.received += 1
    assert any(fault.startswith("the books do not balance") for fault in judge(service, 7).faults)


def test_books_that_differ_from_the_reference_are_seen(service: Any):
    service.totals.evicted += 1
    assert judge(service, 6).faults == ("the books say evicted = 1, the reference 0",)


# ---- the soak ---------------------------------------------------------------------------------------------------------


def samples(*java_mib: float) -> list[Sample]:
    return [Sample(float(n), (100.0, size, 100.0, 1.0, 0.0), n, n) for n, size in enumerate(java_mib)]


def test_growth_is_that_of_the_last_third_over_the_one_before():
    flat = grown(samples(300, 500, 600, 600, 601, 600, 605, 600, 599))
    assert flat == {**dict.fromkeys(MEASURES, 1.0)}
    assert grown(samples(1, 2, 3, 400, 400, 400, 500, 500, 500))["java MiB"] == 1.25
    assert grown(samples(1, 2)) == {}


def test_the_service_is_killed_in_the_first_third_only():
    for seed in range(20):
        plan = SoakPlan(minutes=30, seed=seed)
        assert len(plan.kills_s) == 6
        assert all(0 < at_s < 600 for at_s in plan.kills_s)
    assert len(SoakPlan(minutes=2, seed=1).kills_s) == 1
