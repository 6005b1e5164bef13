"""`python -m testing.chaos.soak`: a long mixed run with changes and faults. `make soak` runs it.

The service is killed in the first third only, so that the other two show how the same processes age; workers die and freeze in
all three. The middle third is compared with the last: what grows without end grows there too.
"""

from __future__ import annotations

import argparse
import contextlib
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random
from statistics import median

from service.kafka.java import find_java
from streaming.world.records import subscription
from testing.chaos import processes
from testing.chaos.load import Load
from testing.chaos.scenarios import PromiseBroken
from testing.chaos.stage import Stage, staged, streaming

_SAMPLE_S = 5.0
_CHANGE_S = 15.0
_GROWS = 1.15
_JUDGED_MINUTES = 10
"""Below that a Java machine has not even filled its heap: nothing is said about growth."""

MEASURES = ("driver MiB", "java MiB", "python MiB", "checkpoint MiB", "state MiB")


@dataclass(frozen=True, slots=True)
class Sample:
    """What was measured at one moment. ``sizes`` are in the order of `MEASURES`."""

    at_s: float
    sizes: tuple[float, ...]
    published: int
    received: int


@dataclass(frozen=True, slots=True)
class SoakPlan:
    """How long, and when the service is killed."""

    minutes: float
    seed: int

    @property
    def kills_s(self) -> list[float]:
        """One kill for about five minutes, at least one, all in the first third."""
        third_s = self.minutes * 20
        rng = Random(f"{self.seed}/soak")
        return sorted(rng.uniform(0.1, 0.8) * third_s for _ in range(max(1, round(self.minutes / 5))))


def grown(samples: Sequence[Sample]) -> dict[str, float]:
    """For each measure, the middle of the last third over that of the third before."""
    third = len(samples) // 3
    if not third:
        return {}
    before, after = samples[-2 * third : -third], samples[-third:]
    return {
        name: _middle(after, index) / _middle(before, index) if _middle(before, index) else 1.0
        for index, name in enumerate(MEASURES)
    }


def _middle(samples: Sequence[Sample], index: int) -> float:
    return median(sample.sizes[index] for sample in samples)


def soak(folder: Path, plan: SoakPlan, say: Callable[[str], None]) -> Iterator[str]:
    """Run it; gives what was seen, raises `PromiseBroken` if a promise did not hold."""
    with staged(folder, find_java(), say) as stage, streaming(stage, plan.seed, events=20) as load:
        samples = list(_run(stage, load, plan, say))
        stage.kill()
        stage.up()
        verdict = stage.verdict(load.finish())
    yield str(verdict)
    ratios = grown(samples)
    yield "last third over the one before: " + ", ".join(f"{name} {ratio:.2f}" for name, ratio in ratios.items())
    if verdict.faults:
        raise PromiseBroken(str(verdict))
    if plan.minutes >= _JUDGED_MINUTES and (growing := {name: r for name, r in ratios.items() if r > _GROWS}):
        raise PromiseBroken(f"it grows: {growing}")


def _run(stage: Stage, load: Load, plan: SoakPlan, say: Callable[[str], None]) -> Iterator[Sample]:
    """Faults, changes and samples until the time is over."""
    started_s = time.monotonic()
    kills, rng = plan.kills_s, Random(f"{plan.seed}/faults")
    changed_s = faulted_s = minute = 0.0
    say("minute | " + " | ".join(MEASURES) + " | published | behind | did")
    did: list[str] = []
    while (now_s := time.monotonic() - started_s) < plan.minutes * 60:
        if kills and now_s >= kills[0]:
            kills.pop(0)
            stage.kill()
            stage.up()
            did.append("killed the service")
        if now_s - changed_s >= _CHANGE_S:
            changed_s = now_s
            did.append(_change(stage, rng))
        if now_s - faulted_s >= 60:
            faulted_s = now_s
            did.append(_harm_workers(stage, rng))
        yield (sample := _sample(stage, load, now_s))
        if now_s // 60 >= minute:
            minute = now_s // 60 + 1
            sizes = " | ".join(f"{size:6.1f}" for size in sample.sizes)
            say(f"{now_s / 60:6.1f} | {sizes} | {sample.published} | {sample.published - sample.received} | {', '.join(did)}")
            did = []
        time.sleep(_SAMPLE_S)


def _change(stage: Stage, rng: Random) -> str:
    """One of five guests comes, goes or wants something else."""
    name = f"guest-{rng.randrange(5)}"
    if rng.random() < 0.3:
        stage.service.apply(delete=(f"subscription/{name}",))
        return f"{name} left"
    where = f"severity >= {rng.randrange(1, 5)}"
    every_ms = rng.choice((0, 1000, 3000))
    stage.service.apply(subscription(name, where=where, every_ms=every_ms, deliver="notify.guests"))
    return f"{name} came"


def _harm_workers(stage: Stage, rng: Random) -> str:
    workers = stage.workers()
    if rng.random() < 0.5:
        processes.send(workers[1:], signal.SIGKILL)
        return "killed workers"
    with processes.frozen(workers):
        time.sleep(rng.uniform(1, 5))
    return "froze workers"


def _sample(stage: Stage, load: Load, now_s: float) -> Sample:
    pid = stage.service.process.pid
    java = processes.java_machine(pid)
    bytes_of: Mapping[str, int] = {
        "driver": processes.resident_bytes(processes.family(pid)[:1]),
        "java": processes.resident_bytes([java] if java else []),
        "python": processes.resident_bytes(processes.python_workers(pid)),
        "checkpoint": _size(stage.directory / "checkpoint"),
        "state": _size(stage.directory / "state"),
    }
    return Sample(now_s, tuple(size / 2**20 for size in bytes_of.values()), load.published, stage.service.books().received)


def _size(folder: Path) -> int:
    """What the files take; some may go while they are counted."""
    total = 0
    for path in folder.rglob("*"):
        with contextlib.suppress(FileNotFoundError):
            total += path.stat().st_size
    return total


def main(arguments: Sequence[str] | None = None) -> int:
    """Run it; 1 if a promise did not hold."""
    parser = argparse.ArgumentParser(prog="make soak", description=soak.__doc__)
    parser.add_argument("--minutes", type=float, default=30.0)
    parser.add_argument("--seed", type=int, default=1, help="what is drawn by chance is drawn from this")
    parser.add_argument("--dir", help="where the service runs")
    asked = parser.parse_args(arguments)
    folder = Path(asked.dir or tempfile.mkdtemp(prefix="tidings-soak-"))
    print(f"seed {asked.seed}, {asked.minutes:g} minutes, in {folder}", flush=True)
    try:
        for line in soak(folder, SoakPlan(asked.minutes, asked.seed), lambda line: print(line, flush=True)):
            print(line, flush=True)
    except Exception as error:
        print(f"WRONG: {type(error).__name__}: {error}", flush=True)
        return 1
    print("all held", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
