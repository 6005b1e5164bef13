"""From what a pipeline says is to be done to the records that it writes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from streaming.model.entry import Entry, Origin
from streaming.model.outputs import FilterDecided, Offer, Output, PutAside, Send, Tell, WrittenTell
from streaming.model.windows import WindowDecided, WindowOutput
from streaming.wire.aside import aside_record
from streaming.wire.decisions import decision_record
from streaming.wire.link import encode_link
from streaming.wire.notification import encode_notification
from streaming.wire.offers import offer_record
from streaming.wire.record import Outgoing
from tidings import names


def _not_at_hand(origin: Origin) -> Entry:
    raise LookupError(f"what is put aside brings its bytes with it; {origin} does not")


def written(tell: Tell) -> WrittenTell:
    """The notification as bytes."""
    told = tell.notification
    value = encode_notification(told, tell.encoding)
    return WrittenTell(tell.kafka_topic, names.record_key(told.topic, told.key), value, tell.at_ms)


def to_records(
    outputs: Iterable[Output | WindowOutput],
    service: str,
    bucket: int | str,
    entry_at: Callable[[Origin], Entry] = _not_at_hand,
) -> Iterator[Outgoing]:
    """Kafka records for what a bucket of a service has to do.

    Records put aside carry the bytes as they came: ``entry_at`` finds those that were just read.
    """
    for output in outputs:
        match output:
            case Tell() | WrittenTell():
                told = written(output) if isinstance(output, Tell) else output
                yield Outgoing(told.kafka_topic, told.record_key, told.value, [])
            case Send():
                link, about = names.link_topic(output.sender, output.to), names.record_key(*output.record.about)
                value = output.value or encode_link(output.record, output.stamp)
                yield Outgoing(link, about, value, [])
            case PutAside():
                yield aside_record(output, output.entry or entry_at(output.origin))
            case Offer():
                yield offer_record(service, f"{service}/{bucket}", output)
            case FilterDecided() | WindowDecided():
                yield decision_record(output)
            case _:
                pass  # what `explain` shows is not written
