"""The service held to the plain reference over the same log: nothing lost, nothing beside, repeats equal, books the same."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass, field

from audit.comparison import Finding
from audit.inspection import Inspection
from streaming.model.outputs import Outcome
from testing.service import RunningService, wait_for

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
        last[:] = [judge(service.inspect(), published)]
        return not last[0].faults

    with contextlib.suppress(AssertionError):  # the verdict says it better
        wait_for("a verdict without faults", well, 60)
    return last[0]


def judge(inspection: Inspection, published: int) -> ChaosVerdict:
    """What an inspection found. Only a service at rest can pass."""
    found = inspection.comparison
    other = [
        f"an id has other contents than the reference's: {each.text}"
        for each in found.differences
        if each.finding is Finding.OTHER
    ]
    faults = [*inspection.differences, *other, *inspection.received(published), *inspection.counted()]
    return ChaosVerdict(published, len(inspection.written.delivered), found.notifications.repeated, tuple(sorted(faults)))


def _is_settled(service: RunningService, published: int) -> bool:
    books = service.books()
    return books.received >= published and books.total(Outcome.HELD) == 0
