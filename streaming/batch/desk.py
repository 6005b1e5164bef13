"""A step in progress, where sources are kept in a table instead of in each event."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from enum import StrEnum

import numpy as np

from streaming.batch.columns import Ends
from streaming.batch.ground import grounds_of
from streaming.batch.hashing import event_hash, salt_of
from streaming.batch.memory import PackedMemory
from streaming.broker.desk import Desk
from streaming.broker.progress import waits
from streaming.model.event import OpenEvent
from streaming.model.outputs import MessageReason, Outcome, Unsent


class Handling(StrEnum):
    """The way that a message of a publisher went in the end."""

    COUNTED = "counted"
    """From numbers alone."""
    AT_ONCE = "at-once"
    """With all that the batch says of its event, which is of the usual kind."""
    QUICK = "quick"
    """One by one, by a short way."""
    OPENED = "opened"
    """As `step` takes it in."""


@dataclass(kw_only=True)
class BatchDesk(Desk):
    """A step in progress in the engine."""

    shelf: PackedMemory
    noted: dict[int, tuple[int, int]] = field(default_factory=dict)
    """New entries for the table, with row and salt."""
    ways: Counter[Handling] = field(default_factory=Counter)
    """How many messages went which way."""

    def end_quietly(self, now_ms: int) -> None:
        """As `streaming.broker.timers` does, of all such events at once."""
        shelf = self.shelf
        gone = shelf.quiet_rows(now_ms, Ends.FORGOTTEN)
        ended = shelf.quiet_rows(now_ms, Ends.QUIETLY)
        if len(ended):
            quiet, window_ms, slack_ms = np.array([self._ending(place) for place in shelf.places], dtype=np.int64).T
            place = shelf.columns.place[ended]
            ended, place = ended[quiet[place] != 0], place[quiet[place] != 0]
            # An event that is forgotten before its window ends leaves nothing; of one that is long over, nothing is left.
            is_over = shelf.columns.next_ms[ended] >= shelf.columns.entered_ms[ended] + window_ms[place]
            forget_ms = shelf.columns.first_ms[ended] + 2 * window_ms[place] + slack_ms[place]
            is_left = is_over & (forget_ms > now_ms)
            shelf.bury(ended[is_left], forget_ms[is_left])
            gone = np.concatenate([gone, ended[~is_left]])
        shelf.empty_all(gone)
        self.state.size -= len(gone)
        self.state.changed = self.state.changed or len(ended) + len(gone) > 0

    def _ending(self, at: tuple[str, str]) -> tuple[bool, int, int]:
        """Whether nobody beyond a place has to know that an event ends there; how long its window is, and how long it may be
        that what entered elsewhere is on its way to it."""
        plan = self.plan
        ground = grounds_of(plan, self.shelf.secret).at(*at)
        alone = not plan.overlay.links and not waits(plan, at)
        is_quiet = alone and ground.quiet and ground.gathers and not ground.cut_off and at[1] not in plan.windowed_topics
        return is_quiet, ground.timing.window_ms, self.slack_ms(at)

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
