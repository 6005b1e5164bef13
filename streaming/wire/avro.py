"""Avro single-object encoding: two magic bytes, the schema's fingerprint, the datum.

The schemas are the files in `schemas/` beside this module; nothing on the wire can choose another.
"""

from __future__ import annotations

import io
import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any

MAGIC = b"\xc3\x01"
HEADER_BYTES = len(MAGIC) + 8


@dataclass(frozen=True)
class Schema:
    """A schema of ours: its text for the JVM, its parsed form for fastavro, and the header that announces it."""

    text: str
    parsed: Mapping[str, Any]
    header: bytes

    def encode(self, datum: Mapping[str, object]) -> bytes:
        from fastavro import schemaless_writer

        out = io.BytesIO()
        out.write(self.header)
        schemaless_writer(out, self.parsed, datum)
        return out.getvalue()

    def decode(self, body: bytes) -> dict[str, Any]:
        """Read the datum after the header.

        Raises ValueError when bytes are left over or missing: a truncated or padded message is not a message.
        """
        from fastavro import schemaless_reader

        stream = io.BytesIO(body)
        try:
            datum: dict[str, Any] = schemaless_reader(stream, self.parsed, None)
        except (EOFError, IndexError, OverflowError, MemoryError, KeyError, TypeError) as error:
            raise ValueError(f"truncated or damaged: {type(error).__name__}") from error
        if left := len(body) - stream.tell():
            raise ValueError(f"{left} bytes left over")
        return datum


@cache
def schema(name: str) -> Schema:
    """The schema in `schemas/<name>.avsc`.

    >>> schema("message").header[:2].hex()
    'c301'
    """
    from fastavro import parse_schema
    from fastavro.schema import fingerprint, to_parsing_canonical_form

    text = files("streaming.wire").joinpath("schemas", f"{name}.avsc").read_text(encoding="utf-8")
    raw = json.loads(text)
    # fastavro writes the fingerprint's bytes in the order the wire has them.
    crc = fingerprint(to_parsing_canonical_form(raw), "CRC-64-AVRO")
    return Schema(text, parse_schema(raw), MAGIC + bytes.fromhex(crc))
