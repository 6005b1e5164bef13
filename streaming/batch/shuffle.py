"""What Spark groups buckets by, so that each shuffle partition gets as many as the others."""

from __future__ import annotations

_SEED = 42


def labels_of(buckets: int, partitions: int) -> list[int]:
    """A label for each bucket: Spark puts them into one partition after the other.

    By the numbers of the buckets themselves, one partition would have twice as many of them as another. A label's remainder by
    the number of buckets is the bucket.

    >>> labels_of(4, 2)
    [4, 1, 2, 3]
    """
    found = []
    for bucket in range(buckets):
        label = bucket
        while partition_of(label, partitions) != bucket % partitions:
            label += buckets
        found.append(label)
    return found


def partition_of(label: int, partitions: int) -> int:
    """The shuffle partition that Spark puts a group with this number into: Murmur3, as its hash partitioning has it."""
    mixed = _rotated(label * 0xCC9E2D51, 15) * 0x1B873593 % 2**32
    bits = (_rotated(_SEED ^ mixed, 13) * 5 + 0xE6546B64) % 2**32
    bits ^= 4  # bytes of an integer
    bits = (bits ^ bits >> 16) * 0x85EBCA6B % 2**32
    bits = (bits ^ bits >> 13) * 0xC2B2AE35 % 2**32
    bits ^= bits >> 16
    return (bits - 2**32 if bits >= 2**31 else bits) % partitions


def _rotated(value: int, left: int) -> int:
    bits = value % 2**32
    return (bits << left | bits >> 32 - left) % 2**32
