"""The workloads: deterministic for a seed, within the paper's parameters, and as redundant as asked."""

from __future__ import annotations

import os
import subprocess
import sys
from collections import defaultdict
from dataclasses import replace
from itertools import pairwise
from statistics import mean, variance
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from producers.incidents import incidents
from producers.workload import SentMessage, Summary, Workload, dated, generate, summary, truth
from tidings.message import Message
from tidings.values import same


@st.composite
def workloads(draw: st.DrawFn) -> Workload:
    fields = draw(st.integers(2, 20))
    stated_min = draw(st.integers(1, fields - 1))
    publishers = draw(st.integers(1, 12))
    base = Workload(
        events=draw(st.integers(1, 6)),
        publishers=publishers,
        publish_share=draw(st.integers(1, publishers)) / publishers,
        messages_per_publisher=draw(st.floats(0.1, 6)),
        fields=fields,
        stated_min=stated_min,
        stated_max=draw(st.integers(stated_min, fields - 1)),
        burst_ms=draw(st.integers(1, 5000)),
        spread_ms=draw(st.integers(0, 5000)),
        conflict_rate=draw(st.sampled_from([0.0, 0.1, 1.0])),
        duplicate_rate=draw(st.sampled_from([0.0, 0.2, 0.6])),
        seed=draw(st.integers(0, 1000)),
    )
    low, high = base.redundancy_bounds
    if low > high or draw(st.booleans()):
        return base
    return replace(base, redundancy=draw(st.floats(low, high)))


def by_event(run: list[SentMessage]) -> dict[str, list[SentMessage]]:
    events: dict[str, list[SentMessage]] = defaultdict(list)
    for published in run:
        events[published.message.key].append(published)
    return events


# --- laws -----------------------------------------------------------------------------------------------------------


@given(workloads())
def test_a_run_keeps_to_its_parameters(workload: Workload) -> None:
    run = generate(workload)
    assert [published.at_ms for published in run] == sorted(published.at_ms for published in run)
    events = by_event(run)
    assert len(events) == workload.events
    for published in run:
        assert workload.stated_min <= len(published.message.fields) <= workload.stated_max
        assert published.message.topic == workload.topic
        assert published.message.source == published.publisher
        assert published.message.published_ms is None
    for sent in events.values():
        assert sent[-1].at_ms - sent[0].at_ms <= workload.burst_ms
        assert sent[0].at_ms >= 0
        assert sent[-1].at_ms <= workload.spread_ms + workload.burst_ms
        assert len({published.publisher for published in sent}) == workload.publishers_per_event


@given(workloads())
@settings(max_examples=30, deadline=None)
def test_the_seed_decides_everything(workload: Workload) -> None:
    assert generate(workload) == generate(workload)
    assert generate(workload) != generate(replace(workload, seed=workload.seed + 1))


@given(workloads())
def test_an_id_names_one_message_and_a_repeat_comes_after_it(workload: Workload) -> None:
    first: dict[str, SentMessage] = {}
    for published in generate(workload):
        original = first.setdefault(published.message.message_id, published)
        assert published.message == original.message
        assert published.publisher == original.publisher
        assert published.at_ms >= original.at_ms


@given(workloads())
def test_without_conflicts_every_message_states_the_truth(workload: Workload) -> None:
    workload = replace(workload, conflict_rate=0.0)
    events = by_event(generate(workload))
    for event, key in enumerate(sorted(events)):
        expected = truth(workload, event)
        assert len(expected) == workload.fields - 1
        for published in events[key]:
            assert all(same(expected[name], value) for name, value in published.message.fields.items())
    assert summary(workload).disagreeing == 0


def test_the_output_does_not_depend_on_the_hash_seed_of_the_process() -> None:
    code = (
        "from producers.workload import *; from producers.incidents import incidents;"
        "print(generate(Workload(events=3, redundancy=0.9, conflict_rate=0.1, duplicate_rate=0.1)));"
        "print(incidents(3, 20, 1, 1000, 1000))"
    )
    outputs = {
        subprocess.run(
            [sys.executable, "-c", code], env={**os.environ, "PYTHONHASHSEED": seed}, capture_output=True, check=True
        ).stdout
        for seed in ("1", "2")
    }
    assert len(outputs) == 1


# --- the shares that were asked for ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("asked", "tolerance"),
    [
        pytest.param({"redundancy": 0.82}, 0.005, id="almost every field comes alone"),
        pytest.param({"redundancy": 0.9}, 0.005, id="the middle"),
        pytest.param({"redundancy": 0.985}, 0.005, id="almost only first messages are news"),
        pytest.param({"redundancy": 0.9, "duplicate_rate": 0.3}, 0.005, id="repeats count as redundant"),
        pytest.param({"redundancy": 0.9, "conflict_rate": 0.1}, 0.005, id="wrong values are repeated too"),
        pytest.param({"redundancy": 0.9, "stated_min": 5, "stated_max": 5}, 0.005, id="messages of one size"),
        pytest.param({"redundancy": 0.3, "messages_per_publisher": 1.0, "publish_share": 0.05}, 0.02, id="small events"),
        pytest.param({"redundancy": 0.0, "messages_per_publisher": 0.1, "publish_share": 0.05}, 0.02, id="all is news"),
    ],
)
def test_redundancy_is_as_asked(asked: dict[str, Any], tolerance: float) -> None:
    workload = Workload(**{"events": 40, **asked})
    assert summary(workload).redundant_share == pytest.approx(workload.redundancy, abs=tolerance)


def test_uniform_drawing_gives_what_the_fields_give() -> None:
    """With one field a message, each of the 19 is news once an event and redundant ever after."""
    workload = Workload(events=30, stated_max=1, messages_per_publisher=10)
    found = summary(workload)
    assert found.messages - found.redundant == 19 * 30


@pytest.mark.parametrize("rate", [0.05, 0.3])
def test_duplicates_are_as_asked(rate: float) -> None:
    found = summary(Workload(events=40, duplicate_rate=rate))
    assert found.repeats / found.messages == pytest.approx(rate, abs=0.005)


@pytest.mark.parametrize("redundancy", [None, 0.9])
@pytest.mark.parametrize("rate", [0.05, 0.5, 1.0])
def test_conflicts_are_as_asked_however_redundant(rate: float, redundancy: float | None) -> None:
    workload = Workload(events=60, publishers=50, conflict_rate=rate, redundancy=redundancy, seed=3)
    events = by_event(generate(workload))
    right = [
        same(truth_of[name], value)
        for truth_of, key in ((truth(workload, event), key) for event, key in enumerate(sorted(events)))
        for published in events[key]
        for name, value in published.message.fields.items()
    ]
    # Repeats copy what was said first, so with a redundancy asked the share varies more.
    assert 1 - mean(right) == pytest.approx(rate, abs=0.02 if redundancy is None else 0.05)


# --- timing ---------------------------------------------------------------------------------------------------------


def test_each_publisher_sends_a_poisson_number_of_messages() -> None:
    workload = Workload(events=50, messages_per_publisher=8)
    counts: dict[tuple[str, str], int] = defaultdict(int)
    for published in generate(workload):
        counts[published.message.key, published.publisher] += 1
    assert mean(counts.values()) == pytest.approx(8, rel=0.05)
    assert variance(counts.values()) == pytest.approx(8, rel=0.15)
    assert sum(counts.values()) / 50 == pytest.approx(workload.messages_per_event, rel=0.05)


def test_the_time_between_messages_is_spread_as_in_a_poisson_process() -> None:
    """Exponential gaps: the deviation is as large as the mean. (Regular sending would have none.)"""
    run = generate(Workload(events=1, publishers=10, messages_per_publisher=500, burst_ms=100_000_000))
    gaps = [after.at_ms - before.at_ms for before, after in pairwise(run)]
    assert variance(gaps) ** 0.5 / mean(gaps) == pytest.approx(1, abs=0.1)


def test_a_rare_publisher_still_says_something() -> None:
    found = summary(Workload(events=10, publishers=10, publish_share=1, messages_per_publisher=1e-9))
    assert found.messages == 10 * 10


def test_durations_vary_within_the_burst() -> None:
    spans = [sent[-1].at_ms - sent[0].at_ms for sent in by_event(generate(Workload(events=60, burst_ms=1000))).values()]
    assert max(spans) <= 1000
    assert min(spans) < 300 < 700 < max(spans)


def test_dated_moves_a_run_and_a_repeat_keeps_its_first_time() -> None:
    run = generate(Workload(events=3, duplicate_rate=0.4))
    first: dict[str, int] = {}
    for before, after in zip(run, dated(run, 1_000_000), strict=True):
        assert after.at_ms == before.at_ms + 1_000_000
        said_ms = first.setdefault(after.message.message_id, after.at_ms)
        assert after.message.published_ms == said_ms


# --- what is refused ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("events", 0),
        ("publishers", 0),
        ("publish_share", 0),
        ("publish_share", 1.1),
        ("publish_share", 0.001),
        ("messages_per_publisher", 0),
        ("messages_per_publisher", float("nan")),
        ("messages_per_publisher", float("inf")),
        ("fields", 1),
        ("stated_min", 0),
        ("stated_max", 0),
        ("stated_max", 20),
        ("burst_ms", 0),
        ("spread_ms", -1),
        ("redundancy", -0.1),
        ("redundancy", 1.1),
        ("redundancy", 0.2),
        ("conflict_rate", 1.5),
        ("duplicate_rate", 1.0),
        ("topic", ""),
    ],
)
def test_a_bad_parameter_is_named(name: str, value: object) -> None:
    with pytest.raises(ValueError, match=f"^{name} is "):
        Workload(**{name: value})  # type: ignore[arg-type]


def test_redundancy_cannot_be_less_than_the_repeats() -> None:
    with pytest.raises(ValueError, match=r"redundancy is 0\.85; it must be within 0\.900"):
        Workload(redundancy=0.85, duplicate_rate=0.9, messages_per_publisher=1, publish_share=0.05)


# --- the summary ----------------------------------------------------------------------------------------------------


def _said(fields: dict[str, Any], id: str, source: str = "cam-1", key: str = "k") -> Message:
    return Message("incident", key, fields, source, id)


@pytest.mark.parametrize(
    ("messages", "expected"),
    [
        pytest.param([], Summary(0, 0, 0, 0, 0, 0), id="nothing"),
        pytest.param([_said({"a": 1}, "1"), _said({"a": 1}, "1")], Summary(2, 1, 1, 1, 1, 0), id="an exact repeat"),
        pytest.param([_said({"a": 1}, "1"), _said({"a": 1.0}, "2", "b")], Summary(2, 1, 2, 1, 0, 0), id="the same fact"),
        pytest.param([_said({"a": 1}, "1"), _said({"a": True}, "2")], Summary(2, 1, 1, 0, 0, 1), id="another fact"),
        pytest.param([_said({"a": ""}, "1"), _said({"a": None}, "2")], Summary(2, 1, 1, 0, 0, 1), id="stated as empty"),
        pytest.param(
            [_said({"a": 1}, "1"), _said({"b": 2}, "2"), _said({"a": 1, "b": 2}, "3")],
            Summary(3, 1, 1, 1, 0, 0),
            id="already told in pieces",
        ),
        pytest.param([_said({"a": 1}, "1"), _said({"a": 1}, "2", key="l")], Summary(2, 2, 1, 0, 0, 0), id="two events"),
        pytest.param(
            [_said({"t": ("x", "y")}, "1"), _said({"t": ("y",)}, "2"), _said({"t": ("z",)}, "3")],
            Summary(3, 1, 1, 1, 0, 0),
            id="lists are joined",
        ),
        pytest.param(
            [_said({"a": 1, "b": 1}, "1"), _said({"a": 2, "b": 2}, "2"), _said({"a": 2}, "3")],
            Summary(3, 1, 1, 1, 0, 2),
            id="a wrong value is news once, and disagrees each time",
        ),
    ],
)
def test_summary_of(messages: list[Message], expected: Summary) -> None:
    assert summary(messages) == expected


def test_summary_folds_in_time_order_and_reads_well() -> None:
    late = SentMessage(2, "cam-1", _said({"a": 1}, "2"))
    early = SentMessage(1, "cam-1", _said({"a": 1, "b": 2}, "1"))
    found = summary([late, early])
    assert found.redundant == 1
    assert str(found) == ("2 messages from 1 publishers about 1 events: 50.0% bring nothing new (0 exact repeats), 0 disagree")
    assert summary([]).redundant_share == 0


# --- incidents ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("witnesses", [10, 20, 40, 80])
@pytest.mark.parametrize("seed", [1, 2])
def test_most_witnesses_say_nothing_new(witnesses: int, seed: int) -> None:
    found = summary(incidents(20, witnesses, seed, 60_000, 20_000))
    assert 0.85 <= found.redundant_share <= 0.92
    assert found.events == 20
    assert 0 < found.repeats < 0.05 * found.messages
    assert 0 < found.disagreeing < 0.1 * found.messages


@given(st.integers(1, 12), st.integers(1, 30), st.integers(0, 99), st.integers(0, 2000), st.integers(1, 2000))
def test_incidents_keep_to_their_arguments(count: int, witnesses: int, seed: int, spread_ms: int, burst_ms: int) -> None:
    run = incidents(count, witnesses, seed, spread_ms, burst_ms)
    assert run == incidents(count, witnesses, seed, spread_ms, burst_ms)
    assert run != incidents(count, witnesses, seed + 1, spread_ms, burst_ms)
    assert [published.at_ms for published in run] == sorted(published.at_ms for published in run)
    events = by_event(run)
    assert len(events) == count
    for sent in events.values():
        assert len({published.publisher for published in sent}) == witnesses
        assert sent[-1].at_ms - sent[0].at_ms <= burst_ms
        assert all(published.message.fields for published in sent)
        assert {"what", "where"} <= sent[0].message.fields.keys()


def test_incidents_disagree_only_on_what_happened() -> None:
    stated: dict[tuple[str, str], set[object]] = defaultdict(set)
    for published in incidents(50, 40, 1, 60_000, 20_000):
        for name, value in published.message.fields.items():
            if name != "tags":
                stated[published.message.key, name].add(value)
    assert {name for (_, name), values in stated.items() if len(values) > 1} == {"what"}
    assert {"what", "where", "when", "severity", "floor", "injured", "road_closed"} <= {name for _, name in stated}


def test_a_large_town_has_a_corner_for_every_incident() -> None:
    assert summary(incidents(2000, 1, 1, 1000, 1000)).events == 2000


def test_witnesses_are_cameras_phones_and_patrols() -> None:
    kinds = {published.publisher.partition("-")[0] for published in incidents(2, 40, 1, 1000, 1000)}
    assert kinds == {"cam", "phone", "patrol"}


@pytest.mark.parametrize(
    ("name", "value"),
    [("count", 0), ("witnesses", 0), ("spread_ms", -1), ("burst_ms", 0), ("mistaken_share", 2), ("retry_share", -1)],
)
def test_a_bad_argument_is_named(name: str, value: Any) -> None:
    arguments: dict[str, Any] = {"count": 1, "witnesses": 1, "seed": 1, "spread_ms": 0, "burst_ms": 1, name: value}
    with pytest.raises(ValueError, match=f"^{name} is "):
        incidents(**arguments)
