"""Columns of numbers, and lists that stand in one column one after the other."""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
import numpy.typing as npt

Ints: TypeAlias = npt.NDArray[np.int64]
Bools: TypeAlias = npt.NDArray[np.bool_]
Objects: TypeAlias = npt.NDArray[np.object_]


def starts_of(count: Ints) -> Ints:
    """Where each of several lists starts that stand one after the other; one more than there are lists."""
    starts = np.zeros(len(count) + 1, dtype=np.int64)
    np.cumsum(count, out=starts[1:])
    return starts


def slices(starts: Ints, index: Ints) -> Ints:
    """Where the items of these lists stand, list by list."""
    count = starts[index + 1] - starts[index]
    within = np.arange(int(count.sum())) - np.repeat(np.cumsum(count) - count, count)
    found: Ints = np.repeat(starts[index], count) + within
    return found
