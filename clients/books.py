"""The books as anybody can read them: the query writes the totals of each bucket to the `books` Kafka topic."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from clients.connection import Connection
from clients.log import read_all
from streaming.model.books import Books, total
from streaming.model.links import LinkKind
from streaming.model.outputs import MessageReason, Outcome
from streaming.wire import books as wire
from tidings import names

_KINDS = {"publications": LinkKind.PASSED_ON, "events": LinkKind.EVENT_NEWS, "handovers": LinkKind.HAND_OVER}
_WINDOW_KINDS = {
    "window_publications": LinkKind.PUBLICATION,
    "aggregates": LinkKind.AGGREGATED,
    "window_marks": LinkKind.THROUGH,
}
_NOT_RECEIVED = frozenset({LinkKind.HAND_OVER, LinkKind.THROUGH})


class NewestBooks:
    """The newest record of every broker and bucket, of the service that wrote last for that broker.

    Another directory is another service, and a broker may have been served by one after the other.
    """

    def __init__(self) -> None:
        self._books: dict[tuple[str, str], dict[str, Books]] = {}
        self._last: dict[str, str] = {}

    def take(self, value: bytes | None) -> None:
        """A record of the `books` Kafka topic; one that nobody can read counts for nothing."""
        if found := wire.read_books(value):
            self._books.setdefault((found.broker, found.service), {})[found.bucket] = found.books
            self._last[found.broker] = found.service

    def by_broker(self) -> dict[str, Books]:
        return {broker: total(self._books[broker, service].values()) for broker, service in sorted(self._last.items())}


def read_books(connection: Connection) -> dict[str, Books]:
    """The books of each broker as they are now."""
    newest = NewestBooks()
    for record in read_all(connection, [names.BOOKS]):
        newest.take(record.value)
    return newest.by_broker()


def from_publishers(by_broker: Mapping[str, Books]) -> int:
    """Messages that came from publishers, not over links."""
    over_links = sum(count for each in by_broker.values() for (_, kind), count in each.heard.items() if kind not in _NOT_RECEIVED)
    handed = sum(each.outcomes[Outcome.FORWARDED, MessageReason.HANDED_OVER] for each in by_broker.values())
    return sum(each.received for each in by_broker.values()) - over_links - handed


def suppressed_share(books: Books) -> float:
    """The share of messages that nobody had to be bothered with."""
    return (books.total(Outcome.MERGED) + books.total(Outcome.REDUNDANT)) / books.received if books.received else 0.0


def to_dict(by_broker: Mapping[str, Books]) -> dict[str, Any]:
    """All books in the words of the wire: the totals, those of each broker, and what crossed each link."""
    brokers = {name: _with_share(books) for name, books in by_broker.items()}
    # The list takes the place of the total's own counts, which would mix what different brokers sent to the same neighbour.
    return {**_with_share(total(by_broker.values())), "brokers": brokers, "links": links(by_broker)}


def links(by_broker: Mapping[str, Books]) -> list[dict[str, Any]]:
    """What crossed each link in each direction, and what was spared.

    ``messages`` and ``bytes`` are what the far end has read, ``sent`` is what the near end has written.
    """
    pairs = {(near, far) for near, books in by_broker.items() for far, _ in (*+books.sent, *+books.unsent)}
    pairs |= {(near, far) for far, books in by_broker.items() for near, _ in +books.heard}
    nobody = Books()
    return [_crossed(a, b, by_broker.get(a, nobody), by_broker.get(b, nobody)) for a, b in sorted(pairs)]


def _crossed(near: str, far: str, books: Books, beyond: Books) -> dict[str, Any]:
    kinds = {word: beyond.heard[near, kind] for word, kind in _KINDS.items()}
    kinds |= {word: count for word, kind in _WINDOW_KINDS.items() if (count := beyond.heard[near, kind])}
    windows = {word: count for (to, word), count in sorted(books.windows.items()) if to == far}
    reasons = {str(why): count for (to, why), count in sorted(books.unsent.items()) if to == far and count}
    return {
        "from": near,
        "to": far,
        "sent": sum(count for (to, _), count in books.sent.items() if to == far),
        "messages": sum(count for (sender, _), count in beyond.heard.items() if sender == near),
        "bytes": beyond.heard_bytes[near],
        "kinds": kinds,
        "unsent": sum(reasons.values()),
        "reasons": reasons,
        **({"windows": windows} if windows else {}),
    }


def from_dict(datum: Mapping[str, Any]) -> dict[str, Books]:
    """What `to_dict` wrote."""
    return {name: Books.from_dict(books) for name, books in datum["brokers"].items()}


def _with_share(books: Books) -> dict[str, Any]:
    return {**books.to_dict(), "suppressed_share": round(suppressed_share(books), 6)}
