"""The books on the Kafka topic `books`: for each broker and bucket a key, whose newest record holds all that was counted."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from streaming.model.books import Books
from streaming.wire.record import Outgoing
from tidings import names


class BucketBooks(NamedTuple):
    """What a bucket of a service counted for a broker."""

    service: str
    broker: str
    bucket: str
    books: Books


def books_records(service: str, bucket: int | str, before: Mapping[str, Any], books: Mapping[str, Books]) -> Iterator[Outgoing]:
    """The bucket's totals for every broker where they are not as ``before``: the latest record of a key is the truth."""
    for broker, current in sorted(books.items()):
        totals = current.to_dict()
        if totals != before.get(broker):
            value = json.dumps({"service": service, "broker": broker, "bucket": bucket, **totals}, separators=(",", ":"))
            yield Outgoing(names.BOOKS, f"{service}/{broker}/{bucket}".encode(), value.encode(), [])


def read_books(value: bytes | None) -> BucketBooks | None:
    """What a record holds; None if nobody can read it."""
    try:
        datum = json.loads(value or b"")
        at = str(datum["service"]), str(datum["broker"]), str(datum["bucket"])
        return BucketBooks(*at, Books.from_dict(datum))
    except (ValueError, KeyError, TypeError, AttributeError):
        return None
