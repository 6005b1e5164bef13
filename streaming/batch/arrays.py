"""Columns of numbers, and lists that stand in one column one after the other."""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
import numpy.typing as npt

Ints: TypeAlias = npt.NDArray[np.int64]
Bools: TypeAlias = npt.NDArray[np.bool_]
Objects: TypeAlias = npt.NDArray[np.object_]

NOT_SAID = -1
"""Stands for a published time that the publisher did not state; real ones are not negative."""
NO_SOURCE = 0


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


def running_max(values: Ints, new: Bools) -> Ints:
    """The running maximum, beginning anew where ``new`` is true."""
    if not len(values):
        return values
    group = np.cumsum(new)
    # Lift each group above the one before, so that one maximum over all of them cannot reach back.
    low = values.min()
    span = int(values.max() - low) + 1
    if span * int(group[-1]) < 2**62:
        lifted: Ints = np.maximum.accumulate(values - low + group * span) - group * span + low
        return lifted
    return np.concatenate([np.maximum.accumulate(part) for part in np.split(values, np.flatnonzero(new)[1:])])
