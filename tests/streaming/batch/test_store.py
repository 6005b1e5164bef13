"""Where a bucket is kept: damage is refused, a worker catches up, and old files go."""

from __future__ import annotations

from pathlib import Path

import pytest

from streaming.batch.patches import START
from streaming.batch.store import Bucket, Note, Store, read_note
from streaming.broker.state import BucketState, Slot
from streaming.model.address import Address
from streaming.model.event import open_event
from tidings.control import Snapshot
from tidings.errors import BadState
from tidings.registers import Bounds
from topology.plan import Plan


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(tmp_path / "3", "secret", Bounds(), inline_bytes=700, least_file_bytes=700)


def grow(store: Store, bucket: Bucket, *keys: str) -> bytes:
    """One more batch, that hears of these keys."""
    for key in keys:
        at = Address("b1", "incident", key)
        bucket.state.slots.setdefault(at, Slot([open_event(at, f"m-{key}", 1_000, 1_000)]))
        bucket.state.size += 1
    bucket.shelf.refresh(Plan(Snapshot()))
    bucket.shelf.pack()
    return store.save(bucket)


def keys_of(state: BucketState) -> list[str]:
    return [at[2] for at in state.slots]


def test_a_small_bucket_is_all_in_its_note(store):
    bucket = store.open(None)
    note = grow(store, bucket, "a")
    assert not store.folder.exists()
    assert keys_of(store.open(read_note(note)).state) == ["a"]


def test_a_large_one_goes_to_files_and_comes_back_in_order(store):
    bucket = store.open(None)
    for number in range(30):
        note = grow(store, bucket, f"k{number:02}")
    assert len(note) < 2_000
    again = store.open(read_note(note))
    assert keys_of(again.state) == [f"k{number:02}" for number in range(30)]
    assert again.state.size == 30


def test_files_of_earlier_wholes_are_removed_but_for_the_last_two(store):
    bucket = store.open(None)
    for number in range(200):
        grow(store, bucket, f"k{number:03}")
    generations = sorted({path.name.split("-")[0] for path in store.folder.iterdir()})
    assert len(generations) == 3
    assert int(generations[-1]) == bucket.note.generation


def test_a_worker_puts_on_only_what_it_has_not_seen(store, monkeypatch):
    one = store.open(None)
    first = grow(store, one, "a")
    two = store.open(read_note(first))
    note = read_note(grow(store, one, "b"))
    monkeypatch.setattr(store.__class__, "_all", lambda *_: pytest.fail("it read everything anew"))
    assert keys_of(store.open(note, two).state) == ["a", "b"]
    assert store.open(note, one) is one


def test_a_worker_that_is_ahead_reads_anew(store):
    bucket = store.open(None)
    first = grow(store, bucket, "a")
    grow(store, bucket, "b")  # of a batch that is then run again
    assert keys_of(store.open(read_note(first), bucket).state) == ["a"]


@pytest.mark.parametrize("harm", ["cut", "zeros", "flip", "gone", "swapped"])
def test_a_damaged_file_is_named(store, harm):
    bucket = store.open(None)
    for number in range(40):
        note = grow(store, bucket, f"k{number:02}")
        if len(bucket.note.files) > 1:
            break
    files = [store.folder / file.name for file in read_note(note).files]
    data = files[0].read_bytes()
    match harm:
        case "cut":
            files[0].write_bytes(data[:-1])
        case "zeros":
            files[0].write_bytes(bytes(len(data)))
        case "flip":
            files[0].write_bytes(data[:40] + bytes([data[40] ^ 1]) + data[41:])
        case "gone":
            files[0].unlink()
        case "swapped":
            files[0].write_bytes(files[1].read_bytes())
    with pytest.raises(BadState, match=f"3/{files[0].name}.*restore it|{files[0].name} has|{files[0].name} does not start"):
        store.open(read_note(note))


def test_a_note_whose_patches_do_not_follow_each_other_is_refused(store):
    bucket = store.open(None)
    note = read_note(grow(store, bucket, "a"))
    other = read_note(grow(store, store.open(None), "b"))
    note.here = [*note.here, (note.name, other.here[0][1])]
    with pytest.raises(BadState, match=r"do not (end where they should|follow)"):
        store.open(note)
    with pytest.raises(BadState, match="do not end"):
        store.open(Note(name=17))


def test_every_flipped_bit_of_a_note_is_noticed(store):
    note = grow(store, store.open(None), "a")
    for position in range(len(note)):
        damaged = bytearray(note)
        damaged[position] ^= 1
        with pytest.raises(BadState):
            store.open(read_note(bytes(damaged)))


def test_nothing_is_the_start():
    assert Note().name == START
