"""The values a field may have, when two of them are the same fact, and how they are ordered.

A value is a string, an integer, a number, a boolean, a list of strings, or ``None``: stated as empty, which is not the same
as not stated. ``3`` and ``3.0`` are the same fact; ``True`` and ``1`` are not.
"""

from __future__ import annotations

import hashlib
import json
from functools import lru_cache
from typing import TypeAlias

import msgspec
import xxhash

Value: TypeAlias = str | int | float | bool | tuple[str, ...] | None
"""Lists of strings are held as tuples so that values are hashable and cannot change."""

_canonical_json = msgspec.json.Encoder(order="sorted").encode

INT64_MIN, INT64_MAX = -(2**63), 2**63 - 1

SOURCE_SEED = 42
"""As Spark has it for `xxhash64`."""

_RANK_EMPTY, _RANK_BOOLEAN, _RANK_NUMBER, _RANK_TEXT, _RANK_LIST = range(5)

SortKey: TypeAlias = tuple[int, bool | int | float | str | tuple[str, ...]]


def sort_key(value: Value) -> SortKey:
    """A total order over all values: by kind first, then within the kind. Equal keys mean the same fact.

    >>> sort_key(3) == sort_key(3.0), sort_key(True) == sort_key(1)
    (True, False)
    """
    if value is None:
        return (_RANK_EMPTY, 0)
    if isinstance(value, bool):
        return (_RANK_BOOLEAN, value)
    if isinstance(value, int | float):
        return (_RANK_NUMBER, value)
    if isinstance(value, str):
        return (_RANK_TEXT, value)
    return (_RANK_LIST, value)


def same(a: Value, b: Value) -> bool:
    """Whether two values state the same fact."""
    if type(a) is type(b):
        return a == b
    return sort_key(a) == sort_key(b)


def plain(value: Value) -> object:
    """The value as JSON has it: tuples become lists."""
    return list(value) if isinstance(value, tuple) else value


def _canonical(value: Value) -> object:
    """One writing for each fact, so that digests of the same fact agree."""
    # As far as integers go: an integer and a float that are equal must not differ here.
    if isinstance(value, float) and value.is_integer() and INT64_MIN <= value <= INT64_MAX:
        return int(value)
    return plain(value)


@lru_cache(maxsize=65536, typed=True)  # the same few facts are asked about over and over; `typed`: true is not 1
def fact_digest(value: Value) -> int:
    """63 bits that name the fact a value states.

    >>> fact_digest(3) == fact_digest(3.0), fact_digest(None) == fact_digest("")
    (True, False)
    """
    text = json.dumps(_canonical(value), ensure_ascii=True)
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest(), "big") >> 1


def digest(*parts: object) -> str:
    """A short name for a sequence of parts: the same parts give the same name, on every machine and in every run."""
    return hashlib.blake2b(_canonical_json(parts), digest_size=12).hexdigest()


def source_digest(source: str) -> int:
    """64 bits, with sign, that name a source. Spark's `xxhash64` gives the same."""
    return signed(xxhash.xxh64_intdigest(source.encode(), SOURCE_SEED))


def signed(bits: int) -> int:
    """64 bits as a signed number.

    >>> signed(2**64 - 1)
    -1
    """
    return bits - 2**64 if bits >= 2**63 else bits
