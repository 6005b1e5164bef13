"""A bucket's engine: the same as `streaming.broker.step`, for a batch of rows at once.

A batch is cut where the control data changes. For each such part a plan is made (`planner`): most messages are counted, the
others are opened for a reason. Then it is carried out (`segment`): what is opened, and all that is no message of a publisher,
goes one by one, in the order of the log; news of the usual kind by a short way, the rest through the functions that `step` is
made of. Before one of those is about an event, the run of counted messages before it is entered, so every notification says what
it would have said.
"""

from __future__ import annotations

from collections import Counter
from itertools import pairwise

import numpy as np

from streaming.batch.desk import BatchDesk
from streaming.batch.memory import PackedMemory
from streaming.batch.planner import Handling
from streaming.batch.rows import IS_MESSAGE, Rows
from streaming.batch.segment import EngineSettings, Segment
from streaming.broker.state import BucketState
from streaming.broker.step import start
from streaming.model.inputs import Input, Marked, Ticked
from streaming.model.outputs import Output
from streaming.wire.inputs import read


def process(
    state: BucketState, shelf: PackedMemory, rows: Rows, setting: EngineSettings, ways: Counter[Handling] | None = None
) -> list[Output]:
    """Take in a batch, and say what is to be done. ``state`` has the shelf for its slots.

    ``ways`` takes down how many messages went which way.
    """
    timed = np.flatnonzero(rows.kind != IS_MESSAGE).tolist()
    inputs = {index: read(rows.record(index), setting.limits, setting.ticker) for index in timed}
    start(state, (happened for found in inputs.values() for happened in found))
    desk = BatchDesk(state, setting.plan_at, setting.rules, shelf=shelf)
    bounds = [0, *_changes(state.version, inputs), len(rows)]
    for lo, hi in pairwise(bounds):
        if lo < hi:
            part = Segment(desk, rows, lo, hi, inputs, setting)
            part.run()
            if ways is not None:
                ways.update(part.ways)
    return desk.outputs


def _changes(version: int, inputs: dict[int, list[Input]]) -> list[int]:
    """The rows with which another version of the control data begins to hold."""
    found = []
    for index, happened in inputs.items():
        for each in happened:
            if isinstance(each, Ticked | Marked) and each.version is not None and each.version > version:
                version = each.version
                found.append(index)
    return sorted(set(found) - {0})
