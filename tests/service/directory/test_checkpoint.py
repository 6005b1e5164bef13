"""A checkpoint that is not what Spark wrote: noticed before Spark reads it."""

from __future__ import annotations

from pathlib import Path
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from service.directory.checkpoint import check_checkpoint, problems
from service.directory.checksum import checksum_path, write_checksum
from testing.chaos import damage
from tidings.errors import CannotRun

OFFSETS = b'v1\n{"conf":{}}\n' + b" " * 600 + b'{"publish.b1":{"0":133,"1":150},"clock":{"0":27}}'


def write(path: Path, content: bytes) -> None:
    """A file as Hadoop's local file system writes it: with a checksum beside it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    write_checksum(path)


@pytest.fixture
def checkpoint(tmp_path: Path) -> Path:
    write(tmp_path / "metadata", b'{"id":"3869d3f8"}')
    write(tmp_path / "state" / "0" / "_metadata" / "metadata", b"v1\n{}")
    for number in range(5, 9):
        write(tmp_path / "offsets" / str(number), OFFSETS)
    for number in range(5, 8):
        write(tmp_path / "commits" / str(number), b"v1\n{}")
    return tmp_path


def test_a_sound_checkpoint_and_an_empty_one_pass(checkpoint: Path, tmp_path_factory: pytest.TempPathFactory):
    check_checkpoint(checkpoint)
    check_checkpoint(tmp_path_factory.mktemp("empty"))
    check_checkpoint(tmp_path_factory.mktemp("empty") / "missing")


@pytest.mark.parametrize("name", ["metadata", "offsets/8", "offsets/5", "commits/7", "state/0/_metadata/metadata"])
@pytest.mark.parametrize("way", [way for way in damage.WAYS if way != "gone"])
def test_a_damaged_file_is_named_with_what_to_do(checkpoint: Path, name: str, way: str):
    damage.WAYS[way](checkpoint / name, Random(1))
    with pytest.raises(CannotRun, match=rf"{name} is not what was written; put back a copy .* or move `checkpoint`"):
        check_checkpoint(checkpoint)


@pytest.mark.parametrize("name", ["metadata", "offsets/8", "offsets/6", "commits/7", "commits/6"])
def test_a_missing_file_is_named(checkpoint: Path, name: str):
    (checkpoint / name).unlink()
    assert list(problems(checkpoint)) == [f"{name} is missing"]


def test_what_a_kill_leaves_behind_is_no_damage(checkpoint: Path):
    (checkpoint / "offsets" / "5").unlink()  # deleted as too old, and killed before its checksum went
    (checkpoint / "offsets" / ".8.crc").unlink()  # renamed into place, and killed before its checksum was
    (checkpoint / "offsets" / ".9.0c1f.tmp").write_bytes(b"v1")
    (checkpoint / "offsets" / "..9.0c1f.tmp.crc").write_bytes(b"")
    assert not list(problems(checkpoint))


def test_a_newest_file_that_is_gone_with_its_checksum_is_as_if_it_was_never_written(checkpoint: Path):
    for name in ("8", ".8.crc"):
        (checkpoint / "offsets" / name).unlink()
    assert not list(problems(checkpoint))


@given(bit=st.integers(0, 8 * len(OFFSETS) - 1))
def test_no_flipped_bit_goes_unnoticed(tmp_path_factory: pytest.TempPathFactory, bit: int):
    folder = tmp_path_factory.mktemp("flipped")
    write(folder / "metadata", b"{}")
    write(folder / "offsets" / "0", OFFSETS)
    content = bytearray(OFFSETS)
    content[bit // 8] ^= 1 << bit % 8
    (folder / "offsets" / "0").write_bytes(content)
    assert list(problems(folder)) == ["offsets/0 is not what was written"]


@pytest.mark.parametrize("checksum", [b"", b"crc", b"crc\x00\x00\x00\x00\x00", b"xxxx\x00\x00\x02\x00"])
def test_a_damaged_checksum_is_damage(checkpoint: Path, checksum: bytes):
    (checkpoint / "offsets" / ".8.crc").write_bytes(checksum)
    assert list(problems(checkpoint)) == ["offsets/8 is not what was written"]


def test_the_checksum_is_what_hadoop_writes(tmp_path: Path):
    """A file that Spark 4.1.1 wrote, and its checksum as it lay beside it."""
    path = tmp_path / "0"
    path.write_bytes(b'v1\n{"nextBatchWatermarkMs":1794825635744}')
    write_checksum(path)
    assert checksum_path(path).read_bytes().hex() == "6372630000000200c40de0a0"
