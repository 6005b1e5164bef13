"""Faults on purpose, in a short form: `make chaos` has the long one. The oracle is the plain reference over the same log."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from producers.publisher import Publisher
from service.kafka.java import Java
from streaming.world.records import subscription, topic
from testing.chaos import damage, processes
from testing.chaos.__main__ import SCENARIOS, main
from testing.chaos.load import stream
from testing.chaos.moments import Phase, Victims, moments
from testing.chaos.scenarios import BAD_CLOCKS_MS, publish_with_bad_clocks
from testing.chaos.stage import staged, streaming
from testing.service import RunningService, wait_for
from tidings.message import Message

pytestmark = pytest.mark.timeout(500)

SEED = 6
"""Killed while stopping, while starting and while running: the driver alone, the whole service, and Kafka with it."""


def test_killed_three_times_in_one_stream_and_then_damaged(java: Java, tmp_path: Path):
    """The service has a Kafka of its own here, as `tidings up` has: what outlives a kill is ended by the next start."""
    chosen = moments(3, SEED)
    assert {moment.phase for moment in chosen} == set(Phase)
    assert {moment.victims for moment in chosen} == set(Victims)
    with staged(tmp_path, java, print, embedded=True) as stage:
        with streaming(stage, SEED) as load:
            for moment in chosen:
                print(f"seed {SEED}: {moment}")
                stage.kill_at(moment)
            stage.up()
            published = load.finish()
        verdict = stage.verdict(published)
        assert not verdict.faults, str(verdict)
        assert published > 100
        pid = stage.service.process.pid
        os.killpg(pid, signal.SIGTERM)  # to Spark as well, as a service manager does it
        assert stage.service.process.wait(60) == 0
        assert not processes.family(pid)

        (newest,) = damage.newest(stage.directory, "checkpoint/offsets/*")
        damage.flipped(newest, Random(SEED))
        said = stage.up_or_refused() or "it started"
        assert f"offsets/{newest.name} is not what was written" in said
        assert "move `checkpoint`" in said


def test_workers_killed_and_frozen_in_the_middle_of_a_batch(service_up: RunningService):
    service_up.apply(topic("workers"), subscription("workers", topic="workers"))
    pid = service_up.process.pid
    rng = Random(SEED)
    with Publisher(service_up.connection) as publisher:
        for number in range(40):
            publisher.publish(Message("workers", f"k{number % 5}", {f"f{number}": number}))
            time.sleep(0.1)
            if number in (10, 20):
                processes.send(processes.python_workers(pid)[number // 20 :], signal.SIGKILL)
            elif number == 30:
                with processes.frozen(processes.python_workers(pid)):
                    time.sleep(rng.uniform(1, 2))

    def said() -> list[str]:
        return sorted(name for told in service_up.told("notify.workers") for name in told["news"])

    expected = sorted(f"f{number}" for number in range(40))
    wait_for("all news", lambda: len(set(said())) == 40, 90)
    assert sorted(set(said())) == expected
    service_up.wait_as_reference(30)


def test_bad_clocks_harm_nobody_else(service_up: RunningService):
    service_up.apply(topic("clocks"), subscription("clocks", topic="clocks"))
    before = service_up.books().to_dict()["dead_lettered"]
    with Publisher(service_up.connection) as publisher:
        publisher.publish(Message("clocks", "1st and Main", {"first": 1}))
        publisher.flush()
        count = publish_with_bad_clocks(service_up, "clocks")
        publisher.publish(Message("clocks", "1st and Main", {"second": 2}))
    assert count == 2 * len(BAD_CLOCKS_MS)

    def news() -> dict | None:
        found: dict = {}
        for told in service_up.told("notify.clocks"):
            found |= told["news"]
        return found if len(found) >= 2 else None

    assert wait_for("the others' news", news) == {"first": 1, "second": 2}
    wait_for("the dead letters", lambda: service_up.books().to_dict()["dead_lettered"] == before + count)


# ---- the tools --------------------------------------------------------------------------------------------------------


@given(count=st.integers(1, 60), seed=st.integers(0, 10**6))
def test_moments_are_drawn_from_the_seed_alone(count: int, seed: int):
    drawn = moments(count, seed)
    assert (len(drawn), drawn) == (count, moments(count, seed))
    assert all(moment.after_ms >= 0 for moment in drawn)
    assert len({moment.phase for moment in drawn}) >= min(count, 3)


def test_thirty_moments_have_all_kinds_in_them():
    drawn = moments(30, 1)
    assert {moment.phase for moment in drawn} == set(Phase)
    assert {moment.victims for moment in drawn} == set(Victims)


def test_a_stream_is_drawn_from_the_seed_alone_and_goes_on():
    first, again, other = (stream(seed, events=3, witnesses=4) for seed in (1, 1, 2))
    taken = [next(first) for _ in range(300)]
    assert taken == [next(again) for _ in range(300)]
    assert taken != [next(other) for _ in range(300)]
    assert taken[-1].at_ms > 10_000
    assert len({(one.message.key, one.message.message_id) for one in taken}) > 250


@pytest.mark.parametrize("way", damage.WAYS)
def test_damage_is_done(tmp_path: Path, way: str):
    path = tmp_path / "file"
    path.write_bytes(bytes(range(1, 200)))
    damage.WAYS[way](path, Random(1))
    assert not path.exists() or path.read_bytes() != bytes(range(1, 200))


def test_the_newest_files_are_found(tmp_path: Path):
    for number, name in enumerate(["a.log", "b.log", "c.log", ".c.log.crc"]):
        (tmp_path / name).write_bytes(b"x")
        os.utime(tmp_path / name, (number, number))
    assert [path.name for path in damage.newest(tmp_path, "*", 2)] == ["b.log", "c.log"]


def test_an_unknown_scenario_is_refused(capsys: pytest.CaptureFixture[str]):
    with pytest.raises(SystemExit):
        main(["--only", "kills,nonsense"])
    assert "there is no nonsense; there are " + ", ".join(SCENARIOS) in capsys.readouterr().err
