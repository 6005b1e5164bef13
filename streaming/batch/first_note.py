"""What a bucket begins with after a migration, when Spark's state store has nothing of it yet."""

from __future__ import annotations

import os
from pathlib import Path

import msgspec
from msgspec import Struct

from streaming.broker.state_codec import seal, unseal
from streaming.wire.packing import pack
from tidings.errors import BadState

NAME = "seed"


class Seed(Struct, array_like=True):
    """What a bucket begins with after a migration. ``note`` is what the state store would have."""

    note: bytes
    gone: list[tuple[str, int]] = []
    """Broker and number of buckets that are no more: their books are part of others' now, and are to be told as empty."""


_seed = msgspec.msgpack.Decoder(Seed)


def write_seed(folder: Path, seed: Seed) -> int:
    """Lay a seed beside the files of its bucket. Returns its bytes."""
    data = seal(pack(seed))
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / NAME).open("wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
    return len(data)


def read_seed(folder: Path) -> Seed | None:
    """The seed of a bucket; None if it has none."""
    what = f"the state file {folder.name}/{NAME}"
    try:
        return _seed.decode(unseal((folder / NAME).read_bytes(), what))
    except FileNotFoundError:
        return None
    except msgspec.MsgspecError as error:
        raise BadState(f"{what} cannot be read: {error}") from None
