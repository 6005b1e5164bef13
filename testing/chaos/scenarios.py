"""What is done to a service, and what must hold afterwards. A scenario says in lines what was seen, or raises `PromiseBroken`."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from random import Random
from types import MappingProxyType

from producers.publisher import Publisher
from service.kafka.java import find_java
from testing.chaos import processes
from testing.chaos.damage import WAYS, newest
from testing.chaos.moments import moments
from testing.chaos.stage import Stage, staged, streaming
from testing.chaos.verdict import ChaosVerdict
from testing.service import RunningService, wait_for
from tidings.message import Message

_DAY_MS = 86_400_000
BAD_CLOCKS_MS = MappingProxyType(
    {"a day ahead": _DAY_MS, "ten years ahead": 3653 * _DAY_MS, "in 9999": 253_370_764_800_000, "negative": -(10**15)}
)
"""What is added to the right time."""


class PromiseBroken(AssertionError):
    """A promise did not hold."""


@dataclass(frozen=True, slots=True)
class Scale:
    """How much of it."""

    seed: int = 1
    kills: int = 30
    keys: int = 1_000_000
    pause_s: float = 30.0


def killed(folder: Path, scale: Scale, say: Callable[[str], None]) -> Iterator[str]:
    """`kill -9` of the whole service at seeded moments of one stream: running, starting and stopping; now and then with Kafka."""
    with staged(folder, find_java(), say) as stage, streaming(stage, scale.seed, windows=True) as load:
        for number, moment in enumerate(moments(scale.kills, scale.seed), 1):
            say(f"kill {number} of {scale.kills}: {moment}")
            stage.kill_at(moment)
        stage.ensure_up()
        yield str(_well(stage.verdict(load.finish())))


def workers_killed(folder: Path, scale: Scale, say: Callable[[str], None]) -> Iterator[str]:
    """Spark's Python processes killed, frozen for a while, and frozen for good."""
    rng = Random(f"{scale.seed}/workers")
    with (
        staged(folder, find_java(), say, {"TIDINGS_SPARK_STALL_S": "10"}) as stage,
        streaming(stage, scale.seed, windows=True) as load,
    ):
        for number in range(8):
            _wait_further(stage)
            time.sleep(rng.uniform(0, 2))
            # The daemon is the first: without it, no worker can be replaced.
            victims = stage.workers()[number % 2 :]
            say(f"killing {len(victims)} Python processes")
            processes.send(victims, signal.SIGKILL)
        for _ in range(3):
            _wait_further(stage)
            pause_s = rng.uniform(1, 6)
            say(f"freezing the Python processes for {pause_s:.1f} s")
            with processes.frozen(stage.workers()):
                time.sleep(pause_s)
        _wait_further(stage)
        say("freezing them for good")
        stuck = stage.workers()
        processes.send(stuck, signal.SIGSTOP)
        _wait_further(stage)
        if left := [worker.pid for worker in stuck if processes.is_alive(worker)]:
            raise PromiseBroken(f"the frozen workers {left} were left behind")
        yield str(_well(stage.verdict(load.finish())))


def _wait_further(stage: Stage) -> None:
    """Until a batch or two have ended: a service that gets on may be hurt as often as one likes."""
    before = stage.service.books().received
    wait_for("results", lambda: stage.service.books().received > before + 20, 90)


def kafka_away(folder: Path, scale: Scale, say: Callable[[str], None]) -> Iterator[str]:
    """Kafka stopped, killed, and paused; and brought back."""
    with staged(folder, find_java(), say) as stage, streaming(stage, scale.seed, windows=True) as load:
        time.sleep(3)
        say("Kafka is stopped, and started again")
        stage.kafka.stop()
        time.sleep(5)
        stage.restart_kafka()
        time.sleep(5)
        say("Kafka is killed, and started again")
        stage.kill_kafka()
        stage.restart_kafka()
        time.sleep(5)
        say(f"Kafka is paused for {scale.pause_s:.0f} s")
        with processes.frozen(processes.family(stage.kafka.pid)):
            time.sleep(scale.pause_s)
        time.sleep(5)
        if stage.service.process.poll() is not None:
            raise PromiseBroken(f"the service did not outlive it: {stage.stderr}")
        yield str(_well(stage.verdict(load.finish())))


def disk_full(folder: Path, scale: Scale, say: Callable[[str], None]) -> Iterator[str]:
    """The disk under the service's directory fills up in the middle of a stream; then there is room again."""
    if os.geteuid() != 0:
        yield "left out: mounting a small disk needs root"
        return
    with _small_disk(folder / "dir", 700), staged(folder, find_java(), say) as stage, streaming(stage, scale.seed) as load:
        time.sleep(5)
        say("filling the disk")
        filler = _fill(stage.directory)
        line = stage.last_line(stage.service.process)
        yield f"it said: {line}"
        if "the disk is full" not in line:
            raise PromiseBroken(f"no word of the full disk: {line}")
        filler.unlink()
        stage.up()
        yield str(_well(stage.verdict(load.finish())))


# ---- damage -----------------------------------------------------------------------------------------------------------

PARTS: Mapping[str, tuple[str, int]] = MappingProxyType(
    {
        "state": ("checkpoint/state/[0-9]*/[0-9]*/*.delta", 2),
        "snapshot": ("checkpoint/state/[0-9]*/[0-9]*/*.snapshot", 2),
        "own state": ("state/**/*", 2),
        "offsets": ("checkpoint/offsets/*", 1),
        "commits": ("checkpoint/commits/*", 1),
        "metadata": ("checkpoint/metadata", 1),
        "state metadata": ("checkpoint/state/[0-9]*/_metadata/**/*", 1),
        "control": ("control/*.json", 1),
    }
)
"""What can be damaged: which files, and how many of the newest, one for each shuffle partition."""
RARE = frozenset({"snapshot"})
"""Made now and then: a short run may not have any."""


def damaged(folder: Path, scale: Scale, say: Callable[[str], None]) -> Iterator[str]:
    """Each kind of file damaged in each way: the service recovers, or stops with one line. Then its advice is followed."""
    with staged(folder, find_java(), say) as stage:
        # Enough of it that the buckets do not fit into their notes: then there are files of our own too.
        with streaming(stage, scale.seed, events=150) as load:
            time.sleep(15)
            published = load.finish()
            stage.kill()
        kept = folder / "kept"
        shutil.copytree(stage.directory, kept)
        for part in PARTS:
            for way in WAYS:
                yield damage_once(stage, kept, part, way, published, scale.seed)
        stage.say("following the advice")
        move_memory_away(stage.directory)
        stage.up()
        yield str(_well(stage.verdict(published)))


def damage_once(stage: Stage, kept: Path, part: str, way: str, published: int, seed: int) -> str:
    """One damage to a copy of the directory ``kept``; says what came of it."""
    shutil.rmtree(stage.directory)
    shutil.copytree(kept, stage.directory)
    files = newest(stage.directory, *PARTS[part])
    if not files and part not in RARE:
        raise PromiseBroken(f"{part}: there are no such files, so nothing was damaged")
    if not files:
        return f"{part}: there are no such files yet"
    for path in files:
        WAYS[way](path, Random(f"{seed}/{part}/{way}"))
    stage.say(f"{part} {way}")
    said = stage.up_or_refused()
    if said is None:
        verdict = _well(stage.verdict(published))
        stage.kill()
        return f"{part} {way}: recovered; {verdict}"
    if "this should not have happened" in said:
        raise PromiseBroken(f"{part} {way}: no advice: {said}")
    return f"{part} {way}: stopped: {said}"


def move_memory_away(directory: Path) -> None:
    """What the service advises when its memory is damaged."""
    for name in ("checkpoint", "state"):
        with contextlib.suppress(FileNotFoundError):
            (directory / name).rename(directory / f"{name}.damaged")


# ---- strangers --------------------------------------------------------------------------------------------------------


def bad_clocks(folder: Path, scale: Scale, say: Callable[[str], None]) -> Iterator[str]:
    """Publishers whose clocks are wrong, beside the stream: they harm their own messages only."""
    with staged(folder, find_java(), say) as stage, streaming(stage, scale.seed) as load:
        count = publish_with_bad_clocks(stage.service, "incident")
        time.sleep(8)
        published = load.finish() + count
        yield str(_well(stage.verdict(published)))
        dead = stage.service.books().to_dict()["dead_lettered"]
        if dead != count:
            raise PromiseBroken(f"{count} messages with bad clocks were sent, {dead} dead-lettered")
        yield f"{dead} messages with bad clocks dead-lettered, nobody else's"


def publish_with_bad_clocks(service: RunningService, topic: str) -> int:
    """Messages of wrong times, some about an event that others report; returns how many."""
    now_ms = time.time_ns() // 1_000_000
    with Publisher(service.connection) as publisher:
        for name, wrong_ms in BAD_CLOCKS_MS.items():
            for key in ("1st and Main", name):
                publisher.publish(Message(topic, key, {"what": name}, name, published_ms=now_ms + wrong_ms))
    return 2 * len(BAD_CLOCKS_MS)


def _well(verdict: ChaosVerdict) -> ChaosVerdict:
    if verdict.faults:
        raise PromiseBroken(str(verdict))
    return verdict


@contextlib.contextmanager
def _small_disk(at: Path, size_mb: int) -> Iterator[None]:
    at.mkdir(parents=True, exist_ok=True)
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size_mb}m", "tidings-chaos", str(at)], check=True)
    try:
        yield
    finally:
        subprocess.run(["umount", "--lazy", str(at)], check=True)


def _fill(folder: Path) -> Path:
    """A file that takes all the room there is."""
    path = folder / "filler"
    with path.open("wb") as file, contextlib.suppress(OSError):
        while True:
            file.write(bytes(1024 * 1024))
            file.flush()
    with path.open("ab", buffering=0) as file, contextlib.suppress(OSError):
        while file.write(bytes(512)):
            pass
    return path
