"""`tidings state migrate`: the state of a directory in another number of buckets or shuffle partitions.

The new state is made whole beside the old one, in `state.new`. Then a marker is written, and from there on a migration that is
killed is finished by running it again; before, it has changed nothing. The old state and checkpoint stay beside the new ones
until the service has started on these.

A checkpoint cannot be rewritten, so the query begins a new one. Every bucket has a *seed* to begin with, and the query reads on
from the offsets where the old one ended.
"""

from __future__ import annotations

import json
import os
import re
import shutil
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from clients.connection import Connection
from service.directory.checkpoint import check_checkpoint
from service.directory.directory import ServiceDirectory, replace_text
from service.supervisor import cause_of, words_of
from service.watch.advice import advice_for
from service.watch.spark_logs import logging_option
from streaming.batch.first_note import Seed, write_seed
from streaming.batch.resplit import resplit
from streaming.batch.shuffle import labels_of
from streaming.batch.store import Bucket, read_note, store_of
from streaming.broker.state_codec import FORMAT
from streaming.spark.pipelines import PIPELINES
from tidings.control import Snapshot
from tidings.errors import BadState, CannotRun
from tidings.registers import Bounds
from tidings.topic import Timing

BUCKETS, PARTITIONS, STATE_FORMAT = "spark.buckets", "spark.shuffle_partitions", "state format"
HANDS_ON = "hands on"
COMMAND = "tidings state migrate"
MADE_WITH = "made-with.json"
_OFFSETS = "starting-offsets.json"
_MARKER = "migration.json"
_EARLIEST = -2


@dataclass(frozen=True, slots=True)
class Migration:
    """What a migration does, or did. ``bytes`` is the size of the new state, 0 while it is not written."""

    events: int
    slots: int
    buckets_before: int
    buckets: int
    partitions_before: int
    partitions: int
    bytes: int = 0

    def to_dict(self) -> dict[str, Any]:
        return {
            "events": self.events,
            "slots": self.slots,
            "bytes": self.bytes,
            "buckets": {"before": self.buckets_before, "after": self.buckets},
            "shuffle_partitions": {"before": self.partitions_before, "after": self.partitions},
        }


# ---- at the start of a service ----------------------------------------------------------------------------------------


def check_made_with(directory: ServiceDirectory, now: Mapping[str, Any]) -> None:
    """What a directory was made with cannot change under it: say so instead of reading it wrongly. The first start notes it."""
    if (directory.path / _MARKER).exists():
        raise CannotRun(f"a migration of {directory.path} was interrupted: run `{COMMAND} --dir {directory.path}` to finish it")
    path = directory.path / MADE_WITH
    now = {**now, STATE_FORMAT: FORMAT}
    if not path.exists():
        replace_text(path, json.dumps(now, indent=2) + "\n")
        return
    made = _made_with(directory)
    for name, value in made.items():
        if now.get(name) != value:
            advice = (
                f", or stop every service on it and run `{_command(directory, made, now)}`"
                if name in (BUCKETS, PARTITIONS)
                else ""
            )
            raise CannotRun(
                f"{directory.path} was made with {name} = {value}, not {now.get(name)}; use that, or choose another --dir{advice}"
            )


def hands_on(directory: ServiceDirectory, hosted: frozenset[str] | None) -> bool:
    """Whether what brokers send each other is taken in at once (decision 0028): where one process serves all of them. In a
    directory from before, a bucket has not all that is about a topic and key; it goes on as it was."""
    return bool(_made_with(directory).get(HANDS_ON)) if (directory.path / MADE_WITH).exists() else hosted is None


def _made_with(directory: ServiceDirectory) -> dict[str, Any]:
    """What the directory was made with; `CannotRun` if another release made it, as its state cannot be read then."""
    path = directory.path / MADE_WITH
    try:
        made: dict[str, Any] = json.loads(path.read_text())
        found = int(made.get(STATE_FORMAT, 0))
    except FileNotFoundError:
        raise CannotRun(f"there is nothing to migrate in {directory.path}: no service has run there") from None
    except (ValueError, TypeError, AttributeError):
        raise CannotRun(f"{path} is damaged; put it back or choose another --dir") from None
    if found != FORMAT:
        which = "an earlier" if found < FORMAT else "a later"
        says = f"has format {found}" if found else "has an older format"
        raise CannotRun(
            f"{directory.path} was made by {which} release: its state {says}, this release reads {FORMAT}; "
            "go on with that release, or choose another --dir"
        )
    return made


def _command(directory: ServiceDirectory, made: Mapping[str, Any], now: Mapping[str, Any]) -> str:
    options = {"--buckets": BUCKETS, "--shuffle-partitions": PARTITIONS}
    changed = [f"{option} {now[name]}" for option, name in options.items() if now.get(name) != made.get(name)]
    return " ".join([COMMAND, "--dir", str(directory.path), *changed])


def starting_offsets(directory: ServiceDirectory, connection: Connection, kafka_topics: str) -> str:
    """Where the query starts if its checkpoint is new. ``kafka_topics`` is the pattern of those that it reads.

    Spark wants to be told of exactly the partitions that are there: one that came since is read from its beginning.
    """
    path = directory.state / _OFFSETS
    if not path.exists() or list(_numbers(directory.checkpoint / "offsets")):
        return "earliest"
    read = json.loads(path.read_text())
    return json.dumps(
        {
            topic: {str(number): read.get(topic, {}).get(str(number), _EARLIEST) for number in range(count)}
            for topic, count in connection.topics().items()
            if re.fullmatch(kafka_topics, topic)
        }
    )


def forget_old(directory: ServiceDirectory) -> None:
    """The service runs on the new state: nobody needs the old one any more."""
    for name in ("checkpoint", "state"):
        shutil.rmtree(_old(directory, name), ignore_errors=True)


# ---- migrating --------------------------------------------------------------------------------------------------------


def migrate(directory: ServiceDirectory, buckets: int | None, partitions: int | None, *, dry_run: bool = False) -> Migration:
    """Give the directory another number of buckets or shuffle partitions, or finish what an interrupted migration began."""
    marker = directory.path / _MARKER
    if marker.exists():
        told = json.loads(marker.read_text())
        if not dry_run:
            _move_in(directory, told["made with"])
        return Migration(**told["migration"])
    made = _made_with(directory)
    after = {**made, BUCKETS: buckets or made[BUCKETS], PARTITIONS: partitions or made[PARTITIONS]}
    if after == made:
        raise CannotRun(
            f"{directory.path} has {made[BUCKETS]} buckets and {made[PARTITIONS]} shuffle partitions already: "
            "say with --buckets or --shuffle-partitions what it should have"
        )
    for pipeline in PIPELINES:
        if not pipeline.can_migrate and (directory.path / pipeline.checkpoint).exists():
            raise CannotRun(
                f"{directory.path} has {pipeline.remembers}, which cannot be dealt out anew yet: "
                "go on with the numbers it has, or start with another --dir"
            )
    check_checkpoint(directory.checkpoint)
    offsets = _last_offsets(directory)
    old = _buckets(directory, made)
    new = resplit(old, after[BUCKETS], directory.hash_key, Bounds(), hands_on=bool(made.get(HANDS_ON)))
    slots = sum(len(bucket.shelf) for bucket in new)
    events = sum(1 for bucket in old for _ in bucket.state.events())
    found = Migration(events, slots, len(old), len(new), made[PARTITIONS], after[PARTITIONS])
    return found if dry_run else _write(directory, found, old, new, offsets, after)


def _write(
    directory: ServiceDirectory, found: Migration, old: list[Bucket], new: list[Bucket], offsets: str, made: dict[str, Any]
) -> Migration:
    folder = directory.path / "state.new"
    shutil.rmtree(folder, ignore_errors=True)
    forget_old(directory)
    # The books of buckets that are no more are part of others' now: the first bucket says so to those who read them.
    gone = [(broker, number) for number in range(len(new), len(old)) for broker in sorted(old[number].state.books)]
    size = 0
    for number, bucket in enumerate(new):
        store = store_of(folder, number, directory.hash_key, Bounds())
        note = store.save(bucket)
        size += write_seed(store.folder, Seed(note, [] if number else gone)) + sum(file.size for file in bucket.note.files)
    replace_text(folder / _OFFSETS, offsets)
    found = replace(found, bytes=size)
    replace_text(directory.path / _MARKER, json.dumps({"made with": made, "migration": asdict(found)}, indent=2) + "\n")
    _move_in(directory, made)
    return found


def _move_in(directory: ServiceDirectory, made: Mapping[str, Any]) -> None:
    """Each step is left out if it was done before: so this can be begun again wherever it was interrupted."""
    for name in ("state", "checkpoint"):
        here, old, new = directory.path / name, _old(directory, name), directory.path / f"{name}.new"
        if not old.exists():
            here.rename(old)
        if new.exists():
            new.rename(here)  # an empty folder, made by whoever opened the directory since, gives way
        here.mkdir(exist_ok=True)
    replace_text(directory.path / MADE_WITH, json.dumps(made, indent=2) + "\n")
    _sync(directory.path)
    (directory.path / _MARKER).unlink()


def _old(directory: ServiceDirectory, name: str) -> Path:
    return directory.path / f"{name}.old"


def _sync(folder: Path) -> None:
    """Let the names in a folder last through a power cut."""
    opened = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(opened)
    finally:
        os.close(opened)


# ---- reading what there is --------------------------------------------------------------------------------------------


def _last_offsets(directory: ServiceDirectory) -> str:
    """Up to where the last batch that ended had read."""
    ended, planned = (max(_numbers(directory.checkpoint / log), default=-1) for log in ("commits", "offsets"))
    if ended < 0:
        raise CannotRun(
            f"there is nothing to migrate in {directory.path}: no batch has ended there; start it once, or choose another --dir"
        )
    if planned > ended and _has_links(directory):
        # It would be done again by other buckets, under other numbers: the far ends of links could not tell what came twice.
        raise CannotRun(
            f"the last batch in {directory.path} was cut off, and may have sent something over links already: "
            "start the service as it was and stop it once more, then migrate"
        )
    *_, offsets = (directory.checkpoint / "offsets" / str(ended)).read_text().splitlines()
    json.loads(offsets)
    return offsets


def _numbers(log: Path) -> Iterator[int]:
    return (int(path.name) for path in log.glob("[0-9]*") if path.name.isdecimal())


def _has_links(directory: ServiceDirectory) -> bool:
    newest = max(directory.control.glob("[0-9]*.json"), default=None)
    return newest is not None and bool(Snapshot.from_json(newest.read_text(encoding="utf-8"), Timing()).links)


def _buckets(directory: ServiceDirectory, made: Mapping[str, Any]) -> list[Bucket]:
    """All buckets as the last batch left them."""
    partitions, count = made[PARTITIONS], made[BUCKETS]
    by_label = _notes(directory, partitions)
    if strangers := sorted(by_label.keys() - set(labels_of(count, partitions))):
        raise BadState(f"{directory.checkpoint} has a group {strangers[0]} of {count}: it does not belong to {MADE_WITH}")
    notes = {label % count: note for label, note in by_label.items()}
    stores = [store_of(directory.state, number, directory.hash_key, Bounds()) for number in range(count)]
    return [store.open(read_note(notes[n]) if n in notes else None) for n, store in enumerate(stores)]


def _notes(directory: ServiceDirectory, partitions: int) -> dict[int, bytes]:
    """What Spark's state store has of each bucket, by its label."""
    from streaming.spark.session import start_session, stop_session

    spark = start_session(
        "local[1]",
        [],
        shuffle_partitions=partitions,
        java_options=[logging_option(directory.logs)],
        stderr=directory.logs / "spark.err",
        local_dir=directory.path / "spark",
        redact=[directory.secret, directory.hash_key],
    )
    try:
        directory.record_process("Spark", spark.sparkContext._gateway.proc.pid)
        assert not spark.streams.active  # asking makes the part of Spark that readers of state report to
        stored = spark.read.format("statestore").load(str(directory.checkpoint))
        rows = stored.select("key.bucket", "value.groupState.note").collect()
    except Exception as error:
        text = words_of(error)
        raise CannotRun(
            f"{directory.checkpoint} cannot be read: {advice_for(text) or 'Spark failed'} ({cause_of(text)})"
        ) from None
    finally:
        stop_session(spark)
    return {int(row["bucket"]): bytes(row["note"]) for row in rows}
