"""What holds the two engines to each other: the same script, by `step` and by the fast one, batch by batch."""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from msgspec import structs

from streaming.batch.desk import BatchDesk, Handling
from streaming.batch.engine import EngineSettings, process
from streaming.batch.memory import PackedMemory
from streaming.batch.rows import rows_of
from streaming.batch.store import Bucket, Store, read_note
from streaming.broker.state import BucketState, Rules
from streaming.model.outputs import Decided, Output, PutAside, Send, Tell, WrittenTell
from streaming.wire.outgoing import written
from streaming.world.buckets import LIMITS, SECRET, TICKER, LogRecord, columns_of, plainly
from streaming.world.one_broker import Script
from tidings.control import Snapshot
from topology.plan import Plan


def fast(
    script: Script, batches: list[list[LogRecord]], restarts: Restarts, ways: Counter[Handling] | None = None
) -> tuple[BucketState, list[Output]]:
    """Every batch by one of two workers, which keep what they had; or by a new one."""
    with TemporaryDirectory() as folder:
        store = Store(Path(folder) / "0", SECRET, script.rules.bounds, restarts.inline, restarts.inline)
        setting = EngineSettings(script.plan_at, script.rules, LIMITS, TICKER)
        outputs: list[Output] = []
        note: bytes | None = None
        workers: dict[int | None, Bucket] = {}
        for number, batch in enumerate(batches):
            worker = restarts.workers[number % len(restarts.workers)]
            bucket = store.open(read_note(note) if note else None, workers.pop(worker, None))
            bucket.state.changed = False
            outputs += process(bucket.state, bucket.shelf, rows_of(columns_of(batch), LIMITS, SECRET), setting, ways)
            bucket.shelf.pack()
            bucket.shelf.validate(script.plan_at(bucket.state.version))
            if bucket.state.changed or note is None:
                note = store.save(bucket)
            if worker is not None:
                workers[worker] = bucket
        last = store.open(read_note(note) if note else None)
        last.shelf.validate(script.plan_at(last.state.version))
        return (last.state if script.inputs else BucketState()), outputs


@dataclass(frozen=True)
class Restarts:
    """Which worker gets each batch, None for a new one; and how much is kept out of files."""

    workers: tuple[int | None, ...] = (1,)
    inline: int = 64 * 1024


def cut(log: list[LogRecord], cuts: list[int]) -> list[list[LogRecord]]:
    bounds = [0, *sorted(n % (len(log) + 1) for n in cuts), len(log)]
    return [log[a:b] for a, b in pairwise(bounds)]


def by_key(outputs: list[Output]) -> dict[Any, list[Any]]:
    """What is delivered, byte for byte and in its order for each event key; link records without their numbers, which count
    across keys."""
    found: dict[Any, list[Any]] = defaultdict(list)
    for output in outputs:
        match output:
            case Tell() | WrittenTell():
                told = written(output) if isinstance(output, Tell) else output
                found["told", told.record_key].append(told)
            case Send():
                found[output.record.about].append((output.sender, output.to, output.record, output.at_ms))
            case PutAside():
                found["aside"].append(output)
            case Decided():
                pass
            case _:
                found["other"].append(output)
    found["aside"].sort(key=lambda aside: aside.origin.offset)
    return found


def remembered(state: BucketState) -> list[Any]:
    """Every slot, in order; with the sources of the fast engine taken out of its table."""
    if isinstance(state.slots, PackedMemory):
        desk = BatchDesk(state, lambda _: Plan(Snapshot()), Rules(), shelf=state.slots)
        return [
            (at, structs.replace(slot, open=[structs.replace(event, sources=desk.sources_of(event)) for event in slot.open]))
            for at, slot in state.slots.items()
        ]
    return list(state.slots.items())


def check(script: Script, batches: list[list[LogRecord]], restarts: Restarts) -> None:
    """Both do the same, and remember the same in the end."""
    state, outputs = plainly(script, batches)
    quick, found = fast(script, batches, restarts)
    assert by_key(found) == by_key(outputs)
    assert {b: books.to_dict() for b, books in quick.books.items()} == {b: books.to_dict() for b, books in state.books.items()}
    assert quick.size == state.size
    assert remembered(quick) == remembered(state)
    assert quick.version == state.version
