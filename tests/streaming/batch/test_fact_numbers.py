"""Numbers of facts, all at once: what they are, and that nobody can aim at one."""

from __future__ import annotations

import random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from streaming.batch.avro_cursor import WORD, Spans
from streaming.batch.fact_numbers import MOST_WORDS, fact_numbers, keys_of

LONGEST = MOST_WORDS * WORD


def numbers(facts: list[bytes], events: list[int] | None = None, secret: str = "s", between: bytes = b"") -> list[int]:
    """Of these facts, standing one after the other in a buffer; each in a message of its own, about event 0 if not said."""
    buffer, spans = b"", []
    for fact in facts:
        spans.append((len(buffer), len(buffer) + len(fact)))
        buffer += fact + between
    buffer += bytes(2 * WORD)
    words = np.ndarray(len(buffer) - WORD + 1, dtype="<u8", buffer=buffer, strides=(1,))
    start, stop = np.array(spans, dtype=np.int64).T
    of = np.array(events or [0] * len(facts), dtype=np.int64)
    return fact_numbers(buffer, words, Spans(np.arange(len(facts)), start, stop), of, secret).tolist()


def one_by_one(fact: bytes, secret: str) -> int:
    """The same by the book: sums of products of a word's halves, each with a key of its own; the high half of two sums."""
    found = 0
    for key in keys_of(secret).tolist():
        total = key[0] + key[1] * len(fact)
        for number in range(-(-len(fact) // 8)):
            word = int.from_bytes(fact[8 * number : 8 * number + 8], "little")
            total += (word % 2**32 + key[2 + 2 * number]) * (word // 2**32 + key[3 + 2 * number])
        found = found << 32 | total % 2**64 >> 32
    return found - 2**64 if found >= 2**63 else found


@given(st.lists(st.binary(min_size=1, max_size=LONGEST), min_size=1, max_size=8), st.text(max_size=3))
def test_they_are_those_of_the_book_and_start_from_the_event(facts: list[bytes], secret: str):
    expected = [one_by_one(fact, secret) for fact in facts]
    assert numbers(facts, secret=secret) == expected
    events = [number * 7_919 - 3 for number in range(len(facts))]
    assert numbers(facts, events, secret) == [fact ^ event for fact, event in zip(expected, events, strict=True)]


@given(st.binary(min_size=1, max_size=2 * LONGEST), st.binary(max_size=20))
def test_what_stands_around_a_fact_does_not_matter(fact: bytes, around: bytes):
    assert len(set(numbers([fact, fact, fact], between=around))) == 1


@pytest.mark.parametrize("size", [1, 7, 8, 9, LONGEST - 1, LONGEST, LONGEST + 1, 3 * LONGEST])
def test_a_bit_more_or_less_is_another_number(size: int):
    fact = bytes(range(1, size % 250 + 1)) * (size // 250 + 1)
    fact = fact[:size].ljust(size, b"x")
    others = [fact + b"\0", fact[:-1] or b"\0"]
    others += [
        bytes(byte ^ (1 << bit) * (n == at) for n, byte in enumerate(fact)) for at in (0, size // 2, size - 1) for bit in range(8)
    ]
    found = numbers([fact, *others])
    assert len(set(found)) == len({fact, *others})


def test_no_two_of_many_facts_are_alike():
    chance = random.Random(1)
    facts = list({chance.randbytes(chance.choice((3, 12, 30))) + b"\x04" for _ in range(50_000)})
    assert len(set(numbers(facts))) == len(facts)
    alike = [f"field{number:05d}".encode() for number in range(50_000)]
    found = numbers(alike)
    assert len(set(found)) == len(alike)
    high = np.array(found).view(np.uint64) >> np.uint64(54)
    assert np.bincount(high.astype(np.int64), minlength=1024).max() < 120, "spread evenly"


def test_another_secret_gives_other_numbers():
    facts = [b"what\x04fire", b"x" * 100]
    assert not set(numbers(facts[:1], secret="s")) & set(numbers(facts[:1], secret="t"))
    assert keys_of("s").shape == (2, 2 + 2 * MOST_WORDS)
    assert len(set(keys_of("s").ravel().tolist())) == keys_of("s").size
