"""Snapshot files of the control data that disks have damaged: put away, never believed."""

from __future__ import annotations

from pathlib import Path
from random import Random

import pytest

from service.directory.checksum import checksum_path
from service.directory.snapshots import newest_snapshot, write_snapshot
from streaming.world.records import snapshot, subscription
from testing.chaos import damage
from tidings.control import Snapshot, snapshot_path
from tidings.topic import Timing

ONE = snapshot(subscription("a"))
TWO = snapshot(subscription("a"), subscription("b"))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    write_snapshot(tmp_path, ONE, keep=10)
    write_snapshot(tmp_path, TWO, keep=10)
    return tmp_path


def test_the_newest_is_read(folder: Path, tmp_path_factory: pytest.TempPathFactory):
    assert newest_snapshot(folder, Timing()).to_json() == TWO.to_json()
    assert newest_snapshot(tmp_path_factory.mktemp("empty"), Timing()).version == Snapshot().version


@pytest.mark.parametrize("checked", [True, False])
@pytest.mark.parametrize("way", ["cut short", "zeroed"])
def test_a_damaged_one_is_put_away_and_the_one_before_is_read(folder: Path, way: str, checked: bool):
    path = snapshot_path(folder, TWO.version)
    damage.WAYS[way](path, Random(1))
    if not checked:
        checksum_path(path).unlink()
    assert newest_snapshot(folder, Timing()).to_json() == ONE.to_json()
    assert not path.exists()
    assert path.with_name(f"{path.name}.damaged").exists()
    write_snapshot(folder, TWO, keep=10)  # as the keeper does when it has read on
    assert newest_snapshot(folder, Timing()).to_json() == TWO.to_json()


def test_one_flipped_bit_is_enough(folder: Path):
    path = snapshot_path(folder, TWO.version)
    path.write_text(path.read_text().replace('"b"', '"c"'))
    assert newest_snapshot(folder, Timing()).to_json() == ONE.to_json()


def test_a_damaged_older_one_is_put_away_too(folder: Path):
    damage.zeroed(snapshot_path(folder, ONE.version), Random(1))
    assert newest_snapshot(folder, Timing()).to_json() == TWO.to_json()
    assert not snapshot_path(folder, ONE.version).exists()


def test_one_from_before_there_were_checksums_is_believed(folder: Path):
    checksum_path(snapshot_path(folder, TWO.version)).unlink()
    assert newest_snapshot(folder, Timing()).to_json() == TWO.to_json()


def test_only_the_newest_are_kept(folder: Path):
    write_snapshot(folder, snapshot(*(subscription(name) for name in "abc")), keep=2)
    assert sorted(path.name for path in folder.iterdir()) == [
        ".000000000002.json.crc",
        ".000000000003.json.crc",
        "000000000002.json",
        "000000000003.json",
    ]
