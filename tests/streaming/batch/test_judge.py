"""Which messages of a batch have to be opened, held to a judgement that looks at one message after the other."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from streaming.batch.arrays import NO_SOURCE, NOT_SAID
from streaming.batch.hashing import event_hash, fact_hashes, salt_of
from streaming.batch.judge import judge
from streaming.batch.memory import PackedMemory
from streaming.batch.rows import IS_MESSAGE, Rows
from streaming.batch.texts import no_texts
from streaming.broker.state import Slot
from streaming.model.address import Address
from streaming.model.event import open_event
from tidings.control import Snapshot
from tidings.registers import Bounds
from topology.plan import Plan

AHEAD_MS = 50
NOW_MS = 1_000


@dataclass(frozen=True)
class Said:
    """A message of a batch: what it is about, what it states, when and by whom it was published."""

    key: str = "k"
    facts: str = ""
    at_ms: int = NOT_SAID
    source: int = NO_SOURCE
    plain: bool = True
    append_ms: int = NOW_MS

    @property
    def published_ms(self) -> int:
        return self.append_ms if self.at_ms == NOT_SAID else self.at_ms


@dataclass(frozen=True)
class Known:
    """What is known of an event: facts with the time they were first stated, and who reported."""

    facts: dict[str, int]
    sources: frozenset[int] = frozenset()


class Verdict(NamedTuple):
    open: bool
    unknown: int = 0
    new_source: bool = False


def number_of(key: str) -> int:
    return event_hash("secret", Address("b1", "incident", key))


def numbers(key: str, facts: str) -> list[int]:
    return fact_hashes(number_of(key), dict.fromkeys(facts, 1))


def shelf_of(known: dict[str, Known]) -> PackedMemory:
    shelf = PackedMemory("secret", Bounds())
    for key, of in known.items():
        at = Address("b1", "incident", key)
        event = open_event(at, f"m-{key}", NOW_MS, NOW_MS)
        event.source_count = len(of.sources)
        shelf.setdefault(at, Slot([event]))
        salt, row = salt_of(event), shelf.row_of(number_of(key))
        facts = np.array([n for name in of.facts for n in numbers(key, name)], dtype=np.int64)
        shelf.add_facts(facts ^ salt, np.full(len(facts), row), np.array(list(of.facts.values()), dtype=np.int64))
        sources = np.array(sorted(of.sources), dtype=np.int64)
        shelf.add_sources(sources ^ salt, np.full(len(sources), row), np.full(len(sources), salt))
    shelf.refresh(Plan(Snapshot()))
    shelf.validate(Plan(Snapshot()))
    return shelf


def rows_of(batch: Sequence[Said]) -> Rows:
    count, facts = len(batch), [numbers(each.key, each.facts) for each in batch]
    none = np.full(count, None, dtype=object)
    return Rows(
        kind=np.full(count, IS_MESSAGE),
        kafka_topic=np.full(count, "publish.b1", dtype=object),
        partition=np.zeros(count, dtype=np.int64),
        offset=np.arange(count),
        append_ms=np.array([each.append_ms for each in batch], dtype=np.int64),
        record_key=none,
        value=none,
        plain=np.array([each.plain for each in batch], dtype=bool),
        event=np.array([number_of(each.key) for each in batch], dtype=np.int64),
        source=np.array([each.source for each in batch], dtype=np.int64),
        published_ms=np.array([each.at_ms for each in batch], dtype=np.int64),
        facts=np.array([number for each in facts for number in each], dtype=np.int64),
        starts=np.cumsum([0, *map(len, facts)]),
        message=none,
        text=np.full(count, -1),
        texts=no_texts(),
    )


def judged(batch: Sequence[Said], known: dict[str, Known], lo: int = 0, hi: int | None = None) -> dict[int, Verdict]:
    """By row of the batch."""
    found = judge(rows_of(batch), lo, len(batch) if hi is None else hi, shelf_of(known), AHEAD_MS)
    opened = found.opening | found.ahead | (found.unknown_facts > 0)
    columns = (found.index, opened, found.unknown_facts, found.new_source)
    return {index: Verdict(*of) for index, *of in zip(*(column.tolist() for column in columns), strict=True)}


def one_by_one(batch: Sequence[Said], known: dict[str, Known], lo: int, hi: int) -> dict[int, Verdict]:
    """The same, by going through the batch: what was stated is known from then on, unless it is stated as of no later."""
    verdicts: dict[int, Verdict] = {}
    facts = {(key, name): ms for key, of in known.items() for name, ms in of.facts.items()}
    sources = {(key, source) for key, of in known.items() for source in of.sources}
    stated: dict[tuple[str, str], int] = {}
    events = set(known)
    for index, said in enumerate(batch):
        if not lo <= index < hi or not said.plain:
            continue
        unknown = 0
        for fact in ((said.key, name) for name in said.facts):
            if not any(fact in times and said.published_ms > times[fact] for times in (facts, stated)):
                unknown += 1
                stated.setdefault(fact, said.published_ms)
        new_source = said.source != NO_SOURCE and (said.key, said.source) not in sources
        sources.add((said.key, said.source))
        is_ahead = said.published_ms - said.append_ms > AHEAD_MS
        verdicts[index] = Verdict(unknown > 0 or is_ahead or said.key not in events, unknown, new_source)
        events.add(said.key)
    return verdicts


REPEATED = Known({"a": 900}, frozenset({7}))
CASES = [
    pytest.param([Said(facts="a")], [Verdict(False)], id="a fact that is known changes nothing"),
    pytest.param([Said(facts="ab")], [Verdict(True, 1)], id="one fact of two is new"),
    pytest.param([Said(facts="a", at_ms=900)], [Verdict(True, 1)], id="stated as of the same time, it may come first after all"),
    pytest.param([Said(facts="a", at_ms=899)], [Verdict(True, 1)], id="stated as of an earlier time"),
    pytest.param([Said()], [Verdict(False)], id="about a known event nothing is stated"),
    pytest.param([Said("new")], [Verdict(True)], id="nothing is stated, but the event is new"),
    pytest.param([Said("new"), Said("new")], [Verdict(True), Verdict(False)], id="only the first opens an event"),
    pytest.param([Said("new", "a")], [Verdict(True, 1)], id="a fact that is known of another event is not known"),
    pytest.param([Said(facts="b", at_ms=1_000), Said(facts="b", at_ms=1_001)], [Verdict(True, 1), Verdict(False)], id="pending"),
    pytest.param([Said(facts="b"), Said(facts="b")], [Verdict(True, 1), Verdict(True, 1)], id="stated twice as of the same time"),
    pytest.param([Said(facts="a", at_ms=1_051)], [Verdict(True)], id="published too far ahead"),
    pytest.param([Said(facts="a", at_ms=1_050)], [Verdict(False)], id="published as far ahead as is allowed"),
    pytest.param([Said(source=7)], [Verdict(False)], id="a source that is known"),
    pytest.param([Said(source=8), Said(source=8)], [Verdict(False, 0, True), Verdict(False)], id="a new source is new once"),
    pytest.param([Said(source=8), Said("new", source=8)], [Verdict(False, 0, True), Verdict(True, 0, True)], id="for each event"),
]


@pytest.mark.parametrize(("batch", "verdicts"), CASES)
def test_what_is_judged(batch, verdicts):
    assert judged(batch, {"k": REPEATED}) == dict(enumerate(verdicts))


def test_nothing_is_judged_of_nothing():
    assert judged([], {"k": REPEATED}) == judged([Said()], {}, 1, 1) == {}


def test_only_plain_messages_within_the_bounds_are_looked_at():
    batch = [Said(facts="b", at_ms=990), Said(facts="b", plain=False), Said(facts="b", at_ms=995), Said(facts="b")]
    assert judged(batch, {"k": REPEATED}, 1, 3) == {2: Verdict(True, 1)}


def test_messages_stand_by_event_and_in_the_order_of_the_log_within_each():
    batch = [Said(key) for key in "kxkyxk"]
    found = judge(rows_of(batch), 0, len(batch), shelf := shelf_of({"k": REPEATED}), AHEAD_MS)
    runs = [found.index[start:end].tolist() for start, end in zip(found.starts[:-1], found.starts[1:], strict=True)]
    assert sorted(runs) == [[0, 2, 5], [1, 4], [3]]
    assert found.event.tolist() == [number for number, run in enumerate(runs) for _ in run]
    known = shelf.row_of(number_of("k"))
    assert [row for row in found.shelf_row.tolist() if row >= 0] == [known]
    assert runs[found.shelf_row.tolist().index(known)] == [0, 2, 5]


messages = st.builds(
    Said,
    key=st.sampled_from("klm"),
    facts=st.sampled_from(["", "a", "b", "ab", "abc"]),
    at_ms=st.sampled_from([NOT_SAID, 899, 900, 901, 1_000, 1_060]),
    source=st.sampled_from([NO_SOURCE, 7, 8]),
    plain=st.sampled_from([True, True, True, False]),
    append_ms=st.sampled_from([NOW_MS, NOW_MS + 1]),
)
knowns = st.builds(
    Known,
    st.dictionaries(st.sampled_from("abc"), st.sampled_from([899, 900, 1_000]), max_size=3),
    st.frozensets(st.sampled_from([7, 8])),
)


@given(st.lists(messages, max_size=12), st.dictionaries(st.sampled_from("kl"), knowns), st.integers(0, 12), st.integers(0, 12))
def test_all_at_once_is_judged_as_one_by_one(batch, known, lo, hi):
    lo, hi = min(lo, len(batch)), min(hi, len(batch))
    assert judged(batch, known, lo, max(lo, hi)) == one_by_one(batch, known, lo, max(lo, hi))
