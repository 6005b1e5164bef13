"""What went into the tables of a bucket and out of them, for the patch that is written next."""

from __future__ import annotations

from collections.abc import Collection

import numpy as np

from streaming.batch.arrays import Ints


class Notes:
    """What went into and out of the tables since the last patch. What goes out goes first."""

    __slots__ = ("facts", "forgotten", "sources", "still_open")

    def __init__(self) -> None:
        self.forgotten: list[int] = []
        self.still_open: list[int] = []
        self.facts: list[tuple[Ints, Ints, Ints]] = []
        self.sources: list[tuple[Ints, Ints, Ints]] = []

    def forget(self, rows: Collection[int], still_open: list[int]) -> None:
        """Entries that were added in the same batch, and are forgotten in it, must not come back."""
        gone = list(rows)
        self.facts = [_without(added, gone, []) for added in self.facts]
        self.sources = [_without(added, gone, still_open) for added in self.sources]
        self.forgotten += gone
        self.still_open += still_open


def _without(added: tuple[Ints, Ints, Ints], rows: list[int], still_open: list[int]) -> tuple[Ints, Ints, Ints]:
    kept = ~np.isin(added[1], rows) | np.isin(added[2], still_open)
    return added[0][kept], added[1][kept], added[2][kept]
