"""A service goes on with other numbers of buckets and shuffle partitions, and nobody notices; or it says what is wrong."""

from __future__ import annotations

import json
import subprocess
import sys
import tarfile
from pathlib import Path
from types import SimpleNamespace

import pytest

from clients.connection import Connection
from producers.publisher import Publisher
from service.directory import migration
from service.directory.directory import ServiceDirectory
from service.directory.migration import Migration, check_made_with, forget_old, hands_on, migrate, starting_offsets
from streaming.batch.store import Store, read_note
from streaming.broker.state_codec import FORMAT
from streaming.model.books import total
from streaming.spark.pipelines import PIPELINES, Pipeline
from streaming.world.buckets import SECRET, described
from streaming.world.records import broker, link, snapshot, subscription, topic
from testing.service import RunningService, wait_for
from tidings.errors import CannotRun
from tidings.message import Message
from tidings.notification import Encoding
from tidings.registers import Bounds

FIXTURES = Path(__file__).parent / "fixtures"
NOW = {"spark.buckets": 8, "spark.shuffle_partitions": 2, "Kafka cluster": "abc"}


@pytest.fixture
def directory(tmp_path: Path):
    with ServiceDirectory.open(tmp_path / "dir", least_free_mb=0) as opened:
        yield opened


# ---- refused ----------------------------------------------------------------------------------------------------------


def test_the_first_start_notes_what_cannot_change(directory: ServiceDirectory):
    check_made_with(directory, NOW)
    assert json.loads((directory.path / "made-with.json").read_text()) == {**NOW, "state format": FORMAT}
    check_made_with(directory, NOW)


@pytest.mark.parametrize("hosted", [None, frozenset({"b1"})])
def test_who_serves_all_hands_on_in_a_new_directory_and_for_its_life(directory: ServiceDirectory, hosted: frozenset[str] | None):
    alone = hosted is None
    assert hands_on(directory, hosted) == alone
    check_made_with(directory, {**NOW, "hands on": alone})
    assert hands_on(directory, None) == alone
    assert hands_on(directory, frozenset({"b2"})) == alone


def test_a_directory_from_before_goes_on_reading_links(directory: ServiceDirectory):
    check_made_with(directory, NOW)
    assert not hands_on(directory, None)
    check_made_with(directory, {**NOW, "hands on": False})


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"spark.buckets": 16}, "made with spark.buckets = 8, not 16;.* run `tidings state migrate --dir .*dir --buckets 16`"),
        (
            {"spark.buckets": 16, "spark.shuffle_partitions": 4},
            "made with spark.buckets = 8.*`tidings state migrate --dir .*dir --buckets 16 --shuffle-partitions 4`",
        ),
        ({"spark.shuffle_partitions": 1}, "run `tidings state migrate --dir .*dir --shuffle-partitions 1`"),
        ({"Kafka cluster": "xyz"}, "made with Kafka cluster = abc, not xyz; use that, or choose another --dir$"),
    ],
)
def test_what_was_changed_is_named_with_what_to_do(directory: ServiceDirectory, changed: dict, said: str):
    check_made_with(directory, NOW)
    with pytest.raises(CannotRun, match=said):
        check_made_with(directory, {**NOW, **changed})


@pytest.mark.parametrize(
    ("made", "said"),
    [
        (NOW, "made by an earlier release: its state has an older format, this release reads"),
        ({**NOW, "state format": FORMAT - 1}, f"made by an earlier release: its state has format {FORMAT - 1}"),
        ({**NOW, "state format": FORMAT + 1}, f"made by a later release: its state has format {FORMAT + 1}"),
        ([], "made-with.json is damaged"),
    ],
)
def test_a_directory_of_another_release_is_refused(directory: ServiceDirectory, made: object, said: str):
    (directory.path / "made-with.json").write_text(json.dumps(made))
    with pytest.raises(CannotRun, match=said):
        check_made_with(directory, NOW)
    with pytest.raises(CannotRun, match=said):
        migrate(directory, 16, None)


def test_there_must_be_something_to_migrate(directory: ServiceDirectory):
    with pytest.raises(CannotRun, match="no service has run there"):
        migrate(directory, 16, None)
    check_made_with(directory, NOW)
    with pytest.raises(CannotRun, match="has 8 buckets and 2 shuffle partitions already"):
        migrate(directory, 8, None)
    with pytest.raises(CannotRun, match="no batch has ended there"):
        migrate(directory, 16, None)


@pytest.mark.parametrize("pipeline", [each for each in PIPELINES if not each.can_migrate], ids=lambda pipeline: pipeline.name)
def test_only_events_can_be_dealt_out_anew(directory: ServiceDirectory, pipeline: Pipeline):
    check_made_with(directory, NOW)
    (directory.path / pipeline.checkpoint).mkdir()
    with pytest.raises(CannotRun, match=f"has {pipeline.remembers}, which cannot be dealt out anew yet"):
        migrate(directory, 16, None)


def test_a_batch_that_was_cut_off_is_finished_first_if_it_may_have_sent_something(directory: ServiceDirectory):
    check_made_with(directory, NOW)
    batches(directory, planned=2, ended=1)
    (directory.control / f"{3:012d}.json").write_text(snapshot(broker("b1"), broker("b2"), link("b1", "b2")).to_json())
    with pytest.raises(CannotRun, match="was cut off, and may have sent something over links already"):
        migrate(directory, 16, None)


def batches(directory: ServiceDirectory, planned: int, ended: int) -> None:
    for log, last in (("offsets", planned), ("commits", ended)):
        folder = directory.checkpoint / log
        folder.mkdir()
        for number in range(last + 1):
            (folder / str(number)).write_text(f'v1\n{{}}\n{{"clock":{{"0":{number}}}}}')
    (directory.checkpoint / "metadata").write_text("{}")


# ---- moving in --------------------------------------------------------------------------------------------------------


class Killed(BaseException):
    pass


@pytest.mark.parametrize("killed_at", range(8))
def test_a_migration_that_is_killed_is_undone_or_finished_by_the_next_one(
    directory: ServiceDirectory, monkeypatch: pytest.MonkeyPatch, killed_at: int
):
    """Killed before each change of a name in turn: nothing is between the old and the new."""
    check_made_with(directory, NOW)
    assert directory.secret
    batches(directory, planned=2, ended=1)
    (directory.state / "3").mkdir()
    (directory.state / "3" / "old").write_text("old")
    monkeypatch.setattr(migration, "_notes", lambda *_: {})
    rename, left = Path.rename, killed_at

    def killing(path: Path, target: Path) -> Path:
        nonlocal left
        left -= 1
        if left < 0:
            raise Killed
        return rename(path, target)

    with monkeypatch.context() as patched:
        for name in ("rename", "replace"):
            patched.setattr(Path, name, killing)
        try:
            migrate(directory, 2, 5)
            done = True
        except Killed:
            done = False
    path = directory.path
    directory.close()
    with ServiceDirectory.open(path, least_free_mb=0) as opened:
        begun = (path / "migration.json").exists()
        if begun:
            with pytest.raises(CannotRun, match="was interrupted: run `tidings state migrate --dir"):
                check_made_with(opened, NOW)
        elif not done:
            check_made_with(opened, NOW)
            assert (path / "state" / "3" / "old").exists()
            assert (path / "checkpoint" / "commits" / "1").exists()
        if not done:
            # What was begun is finished as it was begun, whatever is asked now.
            found = migrate(opened, 2, 5)
            assert found == Migration(0, 0, 8, 2, 2, 5, found.bytes)
        check_made_with(opened, {**NOW, "spark.buckets": 2, "spark.shuffle_partitions": 5})
        assert not (path / "migration.json").exists()
        assert not (path / "state.new").exists()
        assert sorted(each.name for each in opened.state.iterdir()) == ["0", "1", "starting-offsets.json"]
        assert list(opened.checkpoint.iterdir()) == []
        assert (path / "state.old" / "3" / "old").exists()
        assert (path / "checkpoint.old" / "commits" / "1").exists()
        assert json.loads(starting_offsets(opened, kafka(clock=1), "clock")) == {"clock": {"0": 1}}
        forget_old(opened)
        assert not list(path.glob("*.old"))


def kafka(**partitions: int) -> Connection:
    """A Kafka with these topics, each with so many partitions."""
    return SimpleNamespace(topics=lambda: partitions)  # type: ignore[return-value]


def test_the_query_starts_where_the_old_one_ended(directory: ServiceDirectory):
    there, read_there = kafka(**{"clock": 1, "publish.b1": 3, "publish.new": 1, "notify.b1": 1}), r"clock|publish\..+"
    assert starting_offsets(directory, there, read_there) == "earliest"
    read = {"clock": {"0": 7}, "publish.b1": {"0": 5, "1": 0}, "publish.gone": {"0": 9}}
    (directory.state / "starting-offsets.json").write_text(json.dumps(read))
    expected = {"clock": {"0": 7}, "publish.b1": {"0": 5, "1": 0, "2": -2}, "publish.new": {"0": -2}}
    assert json.loads(starting_offsets(directory, there, read_there)) == expected
    batches(directory, planned=0, ended=-1)
    assert starting_offsets(directory, SimpleNamespace(topics=pytest.fail), read_there) == "earliest"  # type: ignore[arg-type]


# ---- of earlier releases ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("form", [3])
def test_the_state_of_a_release_is_read_by_those_after_it(tmp_path: Path, form: int):
    """`fixtures/make_state.py` made it. A format that is no longer read leaves this list, and is refused by its number."""
    with tarfile.open(FIXTURES / f"state-{form}.tar.gz") as archive:
        archive.extractall(tmp_path, filter="data")
    expected = json.loads((FIXTURES / f"state-{form}.json").read_text())
    stores = [Store(tmp_path / str(number), SECRET, Bounds()) for number in range(len(expected))]
    buckets = [store.open(read_note((store.folder / "note").read_bytes())) for store in stores]
    assert any(bucket.note.files for bucket in buckets)
    assert [described(bucket) for bucket in buckets] == expected
    assert sum(len(bucket["events"]) for bucket in expected) > 20


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
@pytest.mark.slow
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
        wait_for("nothing to be held", lambda: not service.books().to_dict()["held"], 60)
        # Else, on a slow day, there is always one beat more that only one of the two has by now.
        service.apply(delete=("subscription/beats",))
        service.wait_as_reference()
        books, expected = service.books().to_dict(), total(service.inspect().reference.books.values()).to_dict()
        assert books["balanced"]
        for name in ("received", "told", "merged", "redundant", "late", "dead_lettered", "reasons", "conflicts"):
            assert books[name] == expected[name], name


def refused(folder: Path, env: dict[str, str]) -> str:
    with pytest.raises(AssertionError) as error:
        RunningService.start(folder, env)
    return str(error.value)
