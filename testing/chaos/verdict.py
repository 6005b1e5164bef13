"""The service held to the plain reference over the same log: nothing lost, nothing beside, repeats equal, books the same."""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field

from streaming.model.books import total
from streaming.model.outputs import Outcome
from streaming.wire.aside import read_aside
from streaming.wire.notification import decode_notification, encode_notification
from streaming.wire.record import Record
from testing.service import RunningService, wait_for
from tidings import names

_SHOWN = 5


@dataclass(frozen=True, slots=True)
class ChaosVerdict:
    """``faults`` says in words what is wrong; empty is well. ``repeats`` are records that came once more, with equal bytes."""

    published: int
    told: int
    repeats: int
    faults: tuple[str, ...] = field(default=())

    def __str__(self) -> str:
        said = f"{self.published:,} messages, {self.told:,} notifications, {self.repeats:,} of them repeated with equal bytes"
        return said if not self.faults else f"{said}; WRONG: " + "; ".join(self.faults[:_SHOWN])


def settle(service: RunningService, published: int, timeout_s: float = 120.0) -> ChaosVerdict:
    """Wait until all that was published came to its end and was told, then judge. Gives the last verdict when time is up."""
    wait_for("all messages to be settled", lambda: _is_settled(service, published), timeout_s)
    last: list[ChaosVerdict] = []

    def well() -> bool:
        last[:] = [judge(service, published)]
        return not last[0].faults

    with contextlib.suppress(AssertionError):  # the verdict says it better
        wait_for("a verdict without faults", well, 60)
    return last[0]


def judge(service: RunningService, published: int) -> ChaosVerdict:
    """Compare what Kafka holds now with what the reference makes of it. Only a service at rest can pass."""
    reference = service.reference()
    expected = Counter((t.kafka_topic, encode_notification(t.notification, t.encoding)) for t in reference.told)
    told = service.read(*sorted({s.deliver for s in reference.control.subscriptions.values()} | {at for at, _ in expected}))
    delivered = Counter((record.kafka_topic, record.value or b"") for record in told)
    faults = [f"not told: {value!r}" for _, value in expected.keys() - delivered.keys()]
    faults += [f"told beside the reference: {value!r}" for _, value in delivered.keys() - expected.keys()]
    faults += _unequal_repeats(told)
    aside = {(o.kafka_topic, o.partition, o.offset) for o in reference.put_aside}
    found = {_origin(record) for record in service.read(names.LATE, names.DEAD_LETTER)} - {None}
    faults += [f"not put aside: {at}" for at in aside - found]
    faults += [f"put aside beside the reference: {at}" for at in found - aside]
    books, right = service.books(), total(reference.books.values())
    if not books.balanced:
        faults.append(f"the books do not balance: {books.to_dict()}")
    if books.received != published:
        faults.append(f"{published} messages were published, {books.received} received")
    faults += [
        f"the books say {name} = {value}, the reference {right.to_dict()[name]}"
        for name, value in books.to_dict().items()
        if right.to_dict()[name] != value
    ]
    repeats = sum(delivered.values()) - len(delivered)
    return ChaosVerdict(published, len(told), repeats, tuple(sorted(faults)))


def _is_settled(service: RunningService, published: int) -> bool:
    books = service.books()
    return books.received >= published and books.total(Outcome.HELD) == 0


def _unequal_repeats(told: Iterable[Record]) -> list[str]:
    """Ids that stand for more than one content."""
    values: dict[str, set[bytes]] = {}
    for record in told:
        value = record.value or b""
        values.setdefault(decode_notification(value).id, set()).add(value)
    return [f"the id {number} has {len(found)} contents" for number, found in values.items() if len(found) > 1]


def _origin(record: Record) -> tuple[str, int, int] | None:
    """Where a record that was put aside stands; control records are no messages."""
    aside = read_aside(record.headers)
    origin = aside.origin
    return None if aside.is_control else (origin.kafka_topic, origin.partition, origin.offset)
