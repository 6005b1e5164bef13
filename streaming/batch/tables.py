"""Sorted numbers that can be looked up a batch at a time."""

from __future__ import annotations

from collections.abc import Collection

import numpy as np
import numpy.typing as npt

from streaming.batch.arrays import Bools, Ints


class SortedTable:
    """Numbers, each with the row of the shelf it belongs to and one number beside it."""

    __slots__ = ("beside", "keys", "owner")

    def __init__(self) -> None:
        self.keys: Ints = np.empty(0, dtype=np.int64)
        self.owner: npt.NDArray[np.int32] = np.empty(0, dtype=np.int32)
        self.beside: Ints = np.empty(0, dtype=np.int64)

    def __len__(self) -> int:
        return len(self.keys)

    def find(self, keys: Ints) -> tuple[Bools, Ints]:
        """Which of the keys are here, and what stands beside them (anything where they are not)."""
        if not len(self.keys):
            return np.zeros(len(keys), dtype=bool), np.zeros(len(keys), dtype=np.int64)
        # In their order: a large table is then gone through once, and not at random.
        order = np.argsort(keys)
        at = np.empty(len(keys), dtype=np.int64)
        at[order] = np.searchsorted(self.keys, keys[order])
        at[at == len(self.keys)] = 0
        return self.keys[at] == keys, self.beside[at]

    def has(self, key: int, row: int) -> bool:
        """Whether a key is here, and belongs to this row."""
        at = int(np.searchsorted(self.keys, key))
        return at < len(self.keys) and bool(self.keys[at] == key and self.owner[at] == row)

    def add(self, keys: Ints, owner: Ints, beside: Ints) -> None:
        """Add keys. One that is here already stays as it is."""
        if not len(keys):
            return
        keys, first = np.unique(keys, return_index=True)
        here, _ = self.find(keys)
        keys, first = keys[~here], first[~here]
        at = np.searchsorted(self.keys, keys)
        self.keys = np.insert(self.keys, at, keys)
        self.owner = np.insert(self.owner, at, owner[first].astype(np.int32))
        self.beside = np.insert(self.beside, at, beside[first])

    def drop(self, rows: Collection[int], unless: Collection[int] = ()) -> None:
        """Forget all that belongs to these rows, unless one of these stands beside it."""
        if not rows or not len(self.keys):
            return
        gone = np.zeros(int(max(self.owner.max(), *rows)) + 1, dtype=bool)
        gone[list(rows)] = True
        self._keep(~gone[self.owner] | np.isin(self.beside, list(unless)))

    def of(self, row: int, beside: int) -> Ints:
        """All keys of a row that have this beside them."""
        found: Ints = self.keys[(self.owner == row) & (self.beside == beside)]
        return found

    def renumber(self, new_row: npt.NDArray[np.int32]) -> None:
        """Rows have other numbers from here on; negative ones are gone."""
        self._keep(new_row[self.owner] >= 0)
        self.owner = new_row[self.owner]

    def _keep(self, kept: Bools) -> None:
        if not kept.all():
            self.keys, self.owner, self.beside = self.keys[kept], self.owner[kept], self.beside[kept]
