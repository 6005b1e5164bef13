"""What a Python worker keeps from one batch to the next: the buckets that it had last.

The function that Spark runs is sent to the worker anew with every task, and what it refers to in its own module comes along, as
it was when it was sent: empty. So what is kept is kept here, by functions of a module that the worker imports once.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, TypeAlias

Bucket: TypeAlias = tuple[str, str, int]
"""A pipeline, the folder of its states, and the number of the bucket."""

_kept: Final[dict[Bucket, tuple[int | None, Any]]] = {}


def take(bucket: Bucket) -> Any:
    """What was kept of a bucket, or None. It is taken away: if a batch fails in the middle, nobody finds what it left."""
    _, found = _kept.pop(bucket, (None, None))
    return found


def keep(bucket: Bucket, partition: int | None, found: Any) -> None:
    """Keep something of a bucket, which belongs to this partition."""
    _kept[bucket] = partition, found


def forget_others(bucket: Bucket, is_elsewhere: Callable[[int | None], bool]) -> None:
    """Forget what is kept of a pipeline's buckets whose partition somebody else looks after: they have gone on without us."""
    of = {partition for other, (partition, _) in _kept.items() if other[:2] == bucket[:2]}
    gone = set(filter(is_elsewhere, of))
    for other, (partition, _) in list(_kept.items()):
        if other[:2] == bucket[:2] and partition in gone:
            del _kept[other]


def forget_all() -> None:
    """As a new worker."""
    _kept.clear()
