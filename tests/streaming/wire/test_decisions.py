"""Choices read as they were written."""

from __future__ import annotations

import json

from hypothesis import given
from hypothesis import strategies as st

from streaming.model.outputs import FilterDecided
from streaming.model.windows import WindowDecided
from streaming.wire.decisions import AnyDecided, decision_dict, decision_record, read_decision

COUNTS = st.integers(0, 10**6)
TIMES = st.integers(0, 10**13)
TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
WINDOWS = st.builds(
    WindowDecided,
    sender=st.sampled_from(["b1", "b2", "b-3"]),
    to=st.sampled_from(["b1", "b2", "b-3"]),
    topic=TEXTS,
    subscription=TEXTS,
    start_ms=TIMES,
    end_ms=TIMES,
    decider=TEXTS,
    choice=st.sampled_from(["forward", "aggregate"]),
    reason=TEXTS,
    items=COUNTS,
    sent=COUNTS,
    would=st.dictionaries(st.sampled_from(["forward", "aggregate", "wad", "adock"]), COUNTS),
)
FILTERS = st.builds(
    FilterDecided,
    sender=TEXTS,
    topic=TEXTS,
    start_ms=TIMES,
    end_ms=TIMES,
    choice=TEXTS,
    reason=TEXTS,
    offered=COUNTS,
    sent=COUNTS,
    would=st.dictionaries(TEXTS, COUNTS),
)


@given(decided=WINDOWS | FILTERS)
def test_what_the_service_writes_reads_back_and_is_shown_in_the_same_words(decided: AnyDecided) -> None:
    value = decision_record(decided).value or b""
    assert read_decision(value) == decided
    assert decision_dict(decided) == json.loads(value)


@given(decided=WINDOWS | FILTERS)
def test_what_a_newer_service_adds_does_no_harm(decided: AnyDecided) -> None:
    assert read_decision(json.dumps(decision_dict(decided) | {"more": {"a": 1}}).encode()) == decided
