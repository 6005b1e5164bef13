"""Which messages of a batch provably change nothing but counts: found for all of them at once, from numbers alone.

Such a message is about an open event, states only facts that were stated before by reports published earlier, and fits the
event's window. "Before" may be earlier in the same batch: then it is *pending*, for as long as the report that stated the fact
was joined as usual.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np

from streaming.batch.arrays import NO_SOURCE, NOT_SAID, Bools, Ints, running_max
from streaming.batch.memory import PackedMemory
from streaming.batch.rows import Rows


class SoFar(NamedTuple):
    """By position: how many messages about an event there are, how many of them are the first of their source, and the first and
    last published time of them."""

    reports: Ints
    sources: Ints
    first_ms: Ints
    last_ms: Ints


@dataclass
class Judged:
    """Messages by event, and in the order of the log within each. Positions count in that order."""

    index: Ints
    """Position to the row of the batch."""
    starts: Ints
    """Of each event, the first position; one more than there are events."""
    event: Ints
    """Position to the event."""
    shelf_row: Ints
    """Of each event; -1 for one that is not known yet."""
    append_ms: Ints
    published_ms: Ints
    source: Ints
    new_source: Bools
    """Whether the message is the first of its source about this event."""
    opening: Bools
    """Whether the message is the first about an event that is not known: it opens it, even if it states nothing."""
    ahead: Bools
    """Whether it was published too far in the future."""
    unknown_facts: Ints
    """How many of its facts are new."""

    @cached_property
    def so_far(self) -> SoFar:
        """What there is about the event of each message, up to this one."""
        first = self.starts[:-1][self.event]
        begins = np.zeros(len(self.index), dtype=bool)
        begins[self.starts[:-1]] = True
        sources: Ints = np.cumsum(self.new_source)
        return SoFar(
            reports=np.arange(len(self.index)) - first + 1,
            sources=sources - sources[first] + self.new_source[first],
            first_ms=-running_max(-self.published_ms, begins),
            last_ms=running_max(self.published_ms, begins),
        )


def judge(rows: Rows, lo: int, hi: int, shelf: PackedMemory, ahead_ms: int) -> Judged:
    """Look at the plain messages among the rows from ``lo`` to ``hi``."""
    index = np.flatnonzero(rows.plain[lo:hi]) + lo
    numbers, event = np.unique(rows.event[index], return_inverse=True)
    order = np.argsort(event, kind="stable")
    index, event = index[order], event[order]
    shelf_row = shelf.rows_of(numbers)
    append_ms = rows.append_ms[index]
    said = rows.published_ms[index]
    published_ms = np.where(said == NOT_SAID, append_ms, said)
    starts = np.searchsorted(event, np.arange(len(numbers) + 1))
    opening = np.zeros(len(index), dtype=bool)
    opening[starts[:-1][shelf_row < 0]] = True
    return Judged(
        index=index,
        starts=starts,
        event=event,
        shelf_row=shelf_row,
        append_ms=append_ms,
        published_ms=published_ms,
        source=rows.source[index],
        new_source=_new_sources(rows.source[index], event, shelf_row, shelf),
        opening=opening,
        ahead=published_ms - append_ms > ahead_ms,
        unknown_facts=_unknown_facts(rows, index, event, shelf_row, published_ms, shelf),
    )


def _unknown_facts(rows: Rows, index: Ints, event: Ints, shelf_row: Ints, published_ms: Ints, shelf: PackedMemory) -> Ints:
    """How many facts a message states that were not stated before it."""
    count = rows.starts[index + 1] - rows.starts[index]
    position = np.repeat(np.arange(len(index)), count)
    facts = rows.facts[rows.facts_of(index)]
    row = shelf_row[event[position]]
    stated_ms = published_ms[position]
    here, known_ms = shelf.facts.find(facts ^ shelf.columns.salt[row])
    unknown = ~(here & (row >= 0) & (stated_ms > known_ms))
    left = np.flatnonzero(unknown)
    # Of the facts that are new in this batch, each is stated first by one message; those after it repeat it.
    by_fact = left[np.argsort(facts[left], kind="stable")]
    fact = facts[by_fact]
    first = np.ones(len(by_fact), dtype=bool)
    first[1:] = fact[1:] != fact[:-1]
    starts = np.flatnonzero(first)
    first_ms = np.repeat(stated_ms[by_fact[starts]], np.diff(np.append(starts, len(by_fact))))
    unknown[by_fact[~first & (stated_ms[by_fact] > first_ms)]] = False
    found: Ints = np.bincount(position[unknown], minlength=len(index))
    return found


def _new_sources(source: Ints, event: Ints, shelf_row: Ints, shelf: PackedMemory) -> Bools:
    """Whether a message is the first of its source about its event, here and in this batch."""
    named = np.flatnonzero(source != NO_SOURCE)
    new = np.zeros(len(source), dtype=bool)
    if not len(named):
        return new
    row = shelf_row[event[named]]
    here, _ = shelf.sources.find(source[named] ^ shelf.columns.salt[row])
    named = named[~(here & (row >= 0))]
    pairs = np.lexsort((source[named], event[named]))
    by_pair = named[pairs]
    first = np.ones(len(by_pair), dtype=bool)
    first[1:] = (source[by_pair[1:]] != source[by_pair[:-1]]) | (event[by_pair[1:]] != event[by_pair[:-1]])
    new[by_pair[first]] = True
    return new
