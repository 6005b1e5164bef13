"""Where a bucket's state is kept between batches, and how a worker gets at it.

Spark's state store holds a small *note* for each bucket: the latest patches themselves while they are few, and the names of the
files that hold the others. So a batch writes what it changed, not all there is. Files are written once, whole, and never changed:
a batch that is run again finds the ones its note names. A worker keeps the buckets it had, and puts on only the patches it has
not seen.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import msgspec
from msgspec import Struct

from streaming.batch import patches
from streaming.batch.memory import PackedMemory
from streaming.batch.patches import START
from streaming.broker.state import BucketState
from streaming.broker.state_codec import seal, unseal
from streaming.wire.packing import pack
from tidings.errors import BadState
from tidings.registers import Bounds

INLINE_BYTES = 64 * 1024
"""This much of the latest patches stays in the note."""
LEAST_FILE_BYTES = 4 * 1024 * 1024
"""Patches in files are put together when they are larger than the whole was, and than this."""
KEPT_GENERATIONS = 2
"""The files of this many earlier wholes are kept: a batch that is run again may need the last one."""


class FileNote(Struct, array_like=True):
    """A file with patches. ``before`` has, of each, the name of the patch it follows."""

    name: str
    size: int
    before: list[int]


class Note(Struct, array_like=True):
    """All patches of a bucket in order: those in files, then those right here."""

    name: int = START
    """Of the last patch."""
    generation: int = 0
    whole_bytes: int = 0
    files: list[FileNote] = []
    here: list[tuple[int, bytes]] = []
    """Each patch with the name of the one it follows."""

    @property
    def here_bytes(self) -> int:
        return sum(len(patch) for _, patch in self.here)


_note = msgspec.msgpack.Decoder(Note)
_patches = msgspec.msgpack.Decoder(list[bytes])


def read_note(blob: bytes) -> Note:
    """What Spark's state store has of a bucket."""
    try:
        return _note.decode(unseal(blob))
    except msgspec.MsgspecError as error:
        raise BadState(f"the state of a bucket cannot be read: {error}") from None


@dataclass
class Bucket:
    """A bucket in hand: its state and shelf, as of the patch that ``note`` ends with."""

    state: BucketState
    shelf: PackedMemory
    note: Note = field(default_factory=Note)


@dataclass(frozen=True, slots=True)
class Store:
    """The files of one bucket. ``inline_bytes`` and ``least_file_bytes`` are for tests."""

    folder: Path
    secret: str
    bounds: Bounds
    inline_bytes: int = INLINE_BYTES
    least_file_bytes: int = LEAST_FILE_BYTES

    # ---- reading ------------------------------------------------------------------------------------------------------

    def open(self, note: Note | None, at_hand: Bucket | None = None) -> Bucket:
        """The bucket that a note describes; from the one at hand, if that is an earlier form of it."""
        if note is None:
            return self._new()
        if at_hand is not None:
            if at_hand.note.name == note.name:
                return at_hand
            if (newer := self._since(note, at_hand.note.name)) is not None:
                state = patches.apply(at_hand.shelf, newer)
                assert state is not None
                return Bucket(state, at_hand.shelf, note)
        fresh = self._new()
        state = patches.apply(fresh.shelf, self._all(note))
        return Bucket(state or fresh.state, fresh.shelf, note)

    def _new(self) -> Bucket:
        shelf = PackedMemory(self.secret, self.bounds)
        return Bucket(BucketState(slots=shelf), shelf)

    def _since(self, note: Note, name: int) -> list[patches.Patch] | None:
        """The patches after the named one; None if the note does not know it."""
        before = [each for file in note.files for each in file.before] + [each for each, _ in note.here]
        if name == START or name not in before:
            return None
        skipped = before.index(name)
        found: list[patches.Patch] = []
        for file in note.files:
            if skipped < len(file.before):
                found += list(map(patches.decode, self._read(file)[skipped:]))
            skipped = max(0, skipped - len(file.before))
        return found + [patches.decode(patch) for _, patch in note.here[skipped:]]

    def _all(self, note: Note) -> Iterator[patches.Patch]:
        last = START
        for data in self._bytes(note):
            patch = patches.decode(data)
            if patch.before not in (START, last):
                raise BadState("the patches of a bucket do not follow each other: the checkpoint is damaged")
            last = patches.name_of(data)
            yield patch
        if last != note.name:
            raise BadState("the patches of a bucket do not end where they should: the checkpoint is damaged")

    def _bytes(self, note: Note) -> Iterable[bytes]:
        for file in note.files:
            yield from self._read(file)
        yield from (patch for _, patch in note.here)

    def _read(self, file: FileNote) -> list[bytes]:
        path = self.folder / file.name
        what = f"the state file {path.parent.name}/{path.name}"
        try:
            data = path.read_bytes()
        except FileNotFoundError:
            raise BadState(f"{what} is missing: restore it, or start with another --dir") from None
        if len(data) != file.size:
            raise BadState(f"{what} has {len(data)} bytes, not {file.size}: restore it, or start with another --dir")
        return _patches.decode(unseal(data, what))

    # ---- writing ------------------------------------------------------------------------------------------------------

    def save(self, bucket: Bucket) -> bytes:
        """Keep what changed. Returns the note for Spark's state store; the slots must be packed."""
        old = bucket.note
        if old.name == START:
            return self._save_whole(bucket)
        patch = patches.changes(bucket.state, bucket.shelf, old.name)
        new = Note(patches.name_of(patch), old.generation, old.whole_bytes, old.files, [*old.here, (old.name, patch)])
        if new.here_bytes > self.inline_bytes:
            in_files = sum(file.size for file in old.files) - old.whole_bytes + new.here_bytes
            if not old.files or in_files > max(old.whole_bytes, self.least_file_bytes):
                return self._save_whole(bucket)
            new.files = [*old.files, self._write(new.generation, new.here)]
            new.here = []
        bucket.note = new
        return seal(pack(new))

    def _save_whole(self, bucket: Bucket) -> bytes:
        patch = patches.whole(bucket.state, bucket.shelf)
        old = bucket.note
        new = Note(patches.name_of(patch), old.generation, len(patch), [], [(START, patch)])
        if len(patch) > self.inline_bytes // 2:
            new.generation += 1
            file = self._write(new.generation, new.here)
            new.files, new.here, new.whole_bytes = [file], [], file.size
            self._sweep(new.generation)
        bucket.note = new
        return seal(pack(new))

    def _write(self, generation: int, found: list[tuple[int, bytes]]) -> FileNote:
        data = seal(pack([patch for _, patch in found]))
        name = f"{generation:08d}-{patches.name_of(data):016x}"
        self.folder.mkdir(parents=True, exist_ok=True)
        path = self.folder / name
        part = path.with_suffix(f".{os.getpid()}.part")
        with part.open("wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        part.replace(path)
        return FileNote(name, len(data), [before for before, _ in found])

    def _sweep(self, generation: int) -> None:
        """Remove the files of wholes that no batch can need any more, and what an interrupted write left."""
        oldest = f"{generation - KEPT_GENERATIONS:08d}-"
        for path in self.folder.iterdir():
            if path.name < oldest:
                path.unlink(missing_ok=True)


def store_of(states: Path, bucket: int, secret: str, bounds: Bounds) -> Store:
    """Where a bucket is kept, within the folder of all states: nobody else chooses that."""
    return Store(states / str(bucket), secret, bounds)
