"""A service at rest, held to the reference without any allowance: what the demo, the live tests and chaos ask."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Self

from audit.accounts import received_differences, totals_differences
from audit.comparison import NOTIFICATION, WITHOUT_ALLOWANCE, Comparison, compare
from audit.replay import Log, Replay, decide, read_log
from audit.written import Written, read_written
from clients.connection import Connection
from streaming.broker.state import Rules
from streaming.wire.message import MessageLimits
from tidings.topic import Timing


@dataclass(frozen=True, slots=True)
class Inspection:
    """What the reference makes of a log, what the service wrote, and how the two compare."""

    reference: Replay
    written: Written
    comparison: Comparison

    @classmethod
    def of(cls, log: Log, reference: Replay, written: Written) -> Self:
        """Lay what was written beside what the reference made of the log."""
        return cls(reference, written, compare(log, reference, written, WITHOUT_ALLOWANCE))

    @property
    def differences(self) -> list[str]:
        """What was told or put aside and what was not, in words: first what is missing, then what should not be there."""
        return [*self._lacking(), *self._beside()]

    def received(self, published: int) -> list[str]:
        """Whether the service counts all that was published, in words if not."""
        return received_differences(self.written.books, published)

    def counted(self) -> list[str]:
        """Where the books do not balance or are not the reference's, in words."""
        return totals_differences(self.reference.books, self.written.books)

    def _lacking(self) -> Iterator[str]:
        for each in self.comparison.differences:
            if each.lacking is not None:
                yield f"{'not told' if each.what == NOTIFICATION else 'not put aside'}: {each.lacking}"

    def _beside(self) -> Iterator[str]:
        for each in self.comparison.differences:
            if each.extra is not None:
                yield f"{'told' if each.what == NOTIFICATION else 'put aside'} beside the reference: {each.extra}"
        for record in self.comparison.foreign:
            yield f"told beside the reference: {record.value!r}"


def inspect(connection: Connection, *, limits: MessageLimits, rules: Rules, timing: Timing) -> Inspection:
    """Decide the log again, and lay all that the service has written beside it. While it works, something will be missing."""
    log = read_log(connection, limits=limits, timing=timing)
    reference = decide(log, service=None, limits=limits, rules=rules, timing=timing)
    return Inspection.of(log, reference, read_written(connection, log))
