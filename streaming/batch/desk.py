"""A step in progress, where sources are kept in a table instead of in each event."""

from __future__ import annotations

from dataclasses import dataclass, field

from streaming.batch.hashing import event_hash, salt_of
from streaming.batch.memory import PackedMemory
from streaming.broker.desk import Desk
from streaming.model.event import OpenEvent
from streaming.model.outputs import MessageReason, Outcome, Unsent


@dataclass(kw_only=True)
class BatchDesk(Desk):
    """A step in progress in the engine."""

    shelf: PackedMemory
    noted: dict[int, tuple[int, int]] = field(default_factory=dict)
    """New entries for the table, with row and salt."""

    def note_source(self, event: OpenEvent, source: int) -> None:
        """Count who reported; the digests themselves go to the shelf's table."""
        of = row, salt = self.row_of(event), salt_of(event)
        entry = source ^ salt
        # An event that had to make room may be opened again by the same message, in another row.
        if self.noted.get(entry) == of or self.shelf.sources.has(entry, row):
            return
        if event.source_count < self.rules.sources:
            self.noted[entry] = of
            event.source_count += 1
        else:
            self.books(event.at.broker).left_out["sources"] += 1

    def sources_of(self, event: OpenEvent) -> set[int]:
        of = self.row_of(event), salt_of(event)
        kept = {entry ^ of[1] for entry in self.shelf.sources.of(*of).tolist()}
        return kept | {entry ^ of[1] for entry, owner in self.noted.items() if owner == of}

    def enter_known(self, broker: str, topic: str, count: int) -> None:
        """Enter redundant messages into the books."""
        books = self.books(broker)
        books.received += count
        books.enter(Outcome.REDUNDANT, MessageReason.KNOWN, count)
        for neighbour in self.plan.place(broker, topic).downward:
            books.unsent[neighbour, Unsent.KNOWN] += count

    def row_of(self, event: OpenEvent) -> int:
        return self.shelf.row_of(event_hash(self.shelf.secret, event.at))
