"""How far the clock comes is known before time passes."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from streaming.broker.desk import Desk
from streaming.broker.state import BucketState, Rules
from streaming.broker.step import take
from streaming.broker.timers import furthest_clock
from streaming.model.inputs import Marked, Ticked
from tidings.control import Snapshot
from topology.plan import Plan

PARTITIONS = ("clock/0", "publish.b1/0", "publish.b1/1")
times = st.integers(1_000, 1_020)
marks = st.builds(Marked, st.sampled_from(PARTITIONS), times)
ticks = st.builds(Ticked, times, st.just(1), st.sets(st.sampled_from(PARTITIONS)).map(lambda found: tuple(sorted(found))))
steps = st.lists(marks | marks | ticks, max_size=12)


@given(steps, steps)
def test_it_says_how_far_the_clock_comes(before, after):
    plan = Plan(Snapshot(version=1))
    desk = Desk(BucketState(version=1), lambda _: plan, Rules())
    for happened in before:
        take(desk, happened)
    said_ms = furthest_clock(desk.state, after)
    for happened in after:
        take(desk, happened)
    assert desk.state.clock_ms == said_ms
