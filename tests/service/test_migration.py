"""A service goes on with other numbers of buckets and shuffle partitions, and nobody notices; or it says what is wrong."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from producers.publisher import Publisher
from service.directory import ServiceDirectory
from service.migration import check_made_with, forget_old, migrate, starting_offsets
from service.testing import RunningService, wait_for
from streaming.testing import subscription, topic
from tidings.errors import CannotRun
from tidings.message import Message
from tidings.notification import Encoding

NOW = {"spark.buckets": 8, "spark.shuffle_partitions": 2, "Kafka cluster": "abc"}


@pytest.fixture
def directory(tmp_path: Path):
    with ServiceDirectory.open(tmp_path / "dir", least_free_mb=0) as opened:
        yield opened


# ---- live -------------------------------------------------------------------------------------------------------------


def settings(buckets: int, partitions: int) -> dict[str, str]:
    return {"TIDINGS_SPARK_BUCKETS": str(buckets), "TIDINGS_SPARK_SHUFFLE_PARTITIONS": str(partitions)}


def publish(service: RunningService, first: int, last: int) -> None:
    """Held, paced and redundant messages in both encodings, some that cannot be read, some too late."""
    with Publisher(service.connection) as publisher:
        for number in range(first, last):
            fields = {"a": 1, f"f{number % 6}": number % 4}
            name = ("held", "paced")[number % 2]
            message = Message(name, f"k{number % 30}", fields, source=f"s{number % 7}")
            publisher.publish(message, Encoding.AVRO if number % 3 else Encoding.JSON)
            if number % 50 == 0:
                publisher.publish_raw(b"rubbish")
                publisher.publish(Message("held", f"k{number % 30}", {"late": number}, published_ms=1))


def run_migrate(directory: Path, *options: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "tidings", "state", "migrate", "--dir", str(directory), *options]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)


@pytest.mark.live
@pytest.mark.timeout(400)
def test_a_service_goes_on_with_other_buckets_and_partitions(tmp_path: Path):
    folder = tmp_path / "dir"
    with RunningService.start(folder, settings(4, 2)) as service:
        service.apply(
            topic("held", hold_ms=20_000),
            subscription("held", topic="held"),
            subscription("paced", topic="paced", every_ms=9_000),
            subscription("beats", topic="paced", heartbeat_ms=4_000),
        )
        publish(service, 0, 200)
        held = service.wait_received(208).to_dict()
        assert held["held"] > 0
        assert "in use by the service" in run_migrate(folder, "--buckets", "6").stderr
    assert "--buckets 6 --shuffle-partitions 3" in refused(folder, settings(6, 3))

    before = {path: path.stat().st_mtime_ns for path in folder.glob("state/**/*")}
    dry = run_migrate(folder, "--buckets", "6", "--shuffle-partitions", "3", "--dry-run")
    assert dry.stdout == "would move 30 open events: 4 buckets -> 6, 2 shuffle partitions -> 3\n", dry.stderr
    assert {path: path.stat().st_mtime_ns for path in folder.glob("state/**/*")} == before
    done = run_migrate(folder, "--buckets", "6", "--shuffle-partitions", "3", "--json")
    assert done.returncode == 0, done.stderr
    moved = json.loads(done.stdout)
    assert (moved["events"], moved["buckets"]) == (30, {"before": 4, "after": 6})
    assert moved["bytes"] > 10_000
    assert (folder / "checkpoint.old" / "commits").exists()

    with RunningService.start(folder, settings(6, 3)) as service:
        assert not (folder / "checkpoint.old").exists()
        publish(service, 200, 400)
        service.wait_received(416)
        wait_for("all to be told as the reference tells it", lambda: not service.differences(), 60)
    # Fewer buckets: the books of those that are no more are counted once, by another.
    assert run_migrate(folder, "--buckets", "1").returncode == 0
    with RunningService.start(folder, settings(1, 3)) as service:
        publish(service, 400, 420)
        service.wait_received(437)
        wait_for("all to be told as the reference tells it", lambda: not service.differences(), 60)
        wait_for("nothing to be held", lambda: not service.books().to_dict()["held"], 60)
        books, expected = service.books().to_dict(), service.reference().books().to_dict()
        assert books["balanced"]
        for name in ("received", "told", "merged", "redundant", "late", "dead_lettered", "reasons", "conflicts"):
            assert books[name] == expected[name], name


def refused(folder: Path, env: dict[str, str]) -> str:
    with pytest.raises(AssertionError) as error:
        RunningService.start(folder, env)
    return str(error.value)
