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


class RowTable:
    """The row of each number. What was added since the table was last settled stands apart, so that adding one is cheap."""

    __slots__ = ("_asked", "_count", "_keys", "_new", "_rows")

    def __init__(self) -> None:
        self._keys: Ints = np.empty(0, dtype=np.int64)
        self._rows: npt.NDArray[np.int32] = np.empty(0, dtype=np.int32)
        """Negative where a number was taken out."""
        self._new: dict[int, int] = {}
        self._asked: dict[int, int] = {}
        """What was looked up lately among those in order: it will be asked for again."""
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def __setitem__(self, number: int, row: int) -> None:
        """Add a number that is not here."""
        self._new[number] = row
        self._count += 1

    def of(self, number: int) -> int:
        """Its row; -1 if it is not here."""
        if (row := self._new.get(number)) is not None:
            return row
        if (row := self._asked.get(number)) is not None:
            return row
        at = int(self._keys.searchsorted(number))
        return int(self._rows[at]) if at < len(self._keys) and self._keys[at] == number else -1

    def all_of(self, numbers: Ints) -> Ints:
        """Their rows."""
        found = np.full(len(numbers), -1, dtype=np.int64)
        if len(self._keys):
            at = self._keys.searchsorted(numbers)
            at[at == len(self._keys)] = 0
            here = self._keys[at] == numbers
            found[here] = self._rows[at[here]]
        self._asked.update(zip(numbers.tolist(), found.tolist(), strict=True))
        if self._new:
            for place in np.flatnonzero(found < 0).tolist():
                found[place] = self._new.get(int(numbers[place]), -1)
        return found

    def add(self, numbers: Ints, rows: Ints) -> None:
        """Add numbers, some of which may be here."""
        new = self.all_of(numbers) < 0
        self._new.update(zip(numbers[new].tolist(), rows[new].tolist(), strict=True))
        self._count += int(new.sum())
        self.settle()

    def take_out(self, numbers: Ints) -> None:
        """Forget numbers that are here."""
        for number in numbers.tolist():
            if self._new.pop(number, None) is None:
                self._rows[self._keys.searchsorted(number)] = -1
                self._asked.pop(number, None)
        self._count -= len(numbers)

    def settle(self) -> None:
        """Put everything in order."""
        kept = self._rows >= 0
        if not kept.all():
            self._keys, self._rows = self._keys[kept], self._rows[kept]
        if self._new:
            numbers, rows = np.array(sorted(self._new.items()), dtype=np.int64).T
            at = self._keys.searchsorted(numbers)
            self._keys, self._rows = np.insert(self._keys, at, numbers), np.insert(self._rows, at, rows)
            self._new.clear()
        self._asked.clear()

    def rows(self) -> Ints:
        """All of them, in order."""
        old = self._rows[self._rows >= 0].astype(np.int64)
        return np.sort(np.concatenate([old, np.fromiter(self._new.values(), dtype=np.int64, count=len(self._new))]))
