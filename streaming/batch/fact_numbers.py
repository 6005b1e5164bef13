"""A number for each fact in Avro, all of a batch at once, which nobody outside can aim at.

A fact of usual length is hashed by multiplications alone, which arrays can do: of a family of functions in which two given facts
have the same number by one member in 2**64, the secret picks one (multilinear hashing: D. Lemire and O. Kaser, Strongly Universal
String Hashing is Fast, 2014, section 3). No number leaves the bucket, so nobody learns which. Long ones, few as they are, are
hashed one by one.
"""

from __future__ import annotations

import hashlib
from functools import lru_cache
from typing import Final

import numpy as np
import numpy.typing as npt
import xxhash

from streaming.batch.arrays import Ints
from streaming.batch.avro_cursor import WORD, Spans

Words = npt.NDArray[np.uint64]

MOST_WORDS: Final = 8
"""Facts of at most so many words of eight bytes are hashed in arrays."""
LEFT: Final[Words] = np.array([2 ** (8 * size) - 1 for size in range(WORD + 1)], dtype=np.uint64)
"""By a number of bytes, what leaves only so many of a word."""
_HALF = np.uint64(32)
_LOW = np.uint64(2**32 - 1)
_HIGH = np.uint64(2**64 - 2**32)


@lru_cache(maxsize=8)
def keys_of(secret: str) -> Words:
    """Two functions of the family: of each, what its sum begins with, what a length counts, and two keys for each word."""
    size = 2 + 2 * MOST_WORDS
    key = hashlib.blake2b(secret.encode()).digest()
    bits = b"".join(hashlib.blake2b(number.to_bytes(8, "big"), key=key).digest() for number in range(2 * size * WORD // 64 + 1))
    return np.frombuffer(bits, dtype=np.uint64)[: 2 * size].reshape(2, size)


def fact_numbers(buffer: bytes, words: Words, facts: Spans, events: Ints, secret: str) -> Ints:
    """A number for each fact. ``words`` has the eight bytes from each position of the buffer on; ``events``, of each message, the
    number of its event, which the numbers of its facts start from."""
    size = facts.stop - facts.start
    found = _multilinear(words, facts.start, size, keys_of(secret)).view(np.int64) ^ events[facts.message]
    if len(long := np.flatnonzero(size > MOST_WORDS * WORD)):
        of = events[facts.message[long]].view(np.uint64).tolist()
        slices = map(slice, facts.start[long].tolist(), facts.stop[long].tolist())
        digests = map(xxhash.xxh3_64_intdigest, map(buffer.__getitem__, slices), of)
        found[long] = np.fromiter(digests, dtype=np.uint64, count=len(long)).view(np.int64)
    return found


def _multilinear(words: Words, start: Ints, size: Ints, keys: Words) -> Words:
    """For each text the high halves of two sums."""
    sums = [key[0] + key[1] * size.astype(np.uint64) for key in keys]
    at, left, live = start, size, None
    for number in range(MOST_WORDS):
        if number:
            live = np.flatnonzero(size > WORD * number)
            if not len(live):
                break
            at, left = start[live] + WORD * number, size[live] - WORD * number
        word = words[at] & LEFT[np.minimum(left, WORD)]
        low, high = word & _LOW, word >> _HALF
        for total, key in zip(sums, keys, strict=True):
            product = (low + key[2 + 2 * number]) * (high + key[3 + 2 * number])
            if live is None:
                total += product
            else:
                total[live] += product
    first, second = sums
    found: Words = first & _HIGH | second >> _HALF
    return found
