"""The books as anybody can read them: the query writes the totals of each bucket to the `books` Kafka topic."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from producers.connection import Connection
from producers.log import read_all
from streaming.broker.books import Books, total
from streaming.broker.values import Outcome
from topology import overlay


def read_books(connection: Connection) -> dict[str, Books]:
    """The books of each broker: the newest record of every bucket, summed."""
    newest: dict[bytes | None, tuple[str, Books] | None] = {}
    for record in read_all(connection, [overlay.BOOKS]):
        newest[record.key] = _entry(record.value)
    entries = [entry for entry in newest.values() if entry is not None]
    return {name: total(books for broker, books in entries if broker == name) for name in sorted({name for name, _ in entries})}


def suppressed_share(books: Books) -> float:
    """The share of messages that nobody had to be bothered with."""
    return (books.total(Outcome.MERGED) + books.total(Outcome.REDUNDANT)) / books.received if books.received else 0.0


def to_dict(by_broker: Mapping[str, Books]) -> dict[str, Any]:
    """All books in the words of the wire: the totals, and those of each broker."""
    return {**_with_share(total(by_broker.values())), "brokers": {name: _with_share(books) for name, books in by_broker.items()}}


def from_dict(datum: Mapping[str, Any]) -> dict[str, Books]:
    """What `to_dict` wrote."""
    return {name: Books.from_dict(books) for name, books in datum["brokers"].items()}


def _with_share(books: Books) -> dict[str, Any]:
    return {**books.to_dict(), "suppressed_share": round(suppressed_share(books), 6)}


def _entry(value: bytes | None) -> tuple[str, Books] | None:
    """A deleted entry and one that nobody can read count for nothing."""
    try:
        datum = json.loads(value or b"")
        return str(datum["broker"]), Books.from_dict(datum)
    except (ValueError, KeyError, TypeError, AttributeError):
        return None
