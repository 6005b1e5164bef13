"""The kind `topic`: how the fields of its events join, how long they are held, and who gathers them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from tidings.control.kind import Kind
from tidings.control.kinds.broker import strange_broker
from tidings.control.reader import Reader
from tidings.registers import Join
from tidings.topic import Deciding, Filtering, Placement, Timing, Topic

if TYPE_CHECKING:
    from tidings.control.snapshot import Snapshot


def _read(r: Reader, defaults: Timing) -> Topic:
    fields = r.left.pop("fields", {})
    if not isinstance(fields, dict):
        raise r.fail("'fields' must be an object of field name to join", "fields")
    for name, kind in fields.items():
        if kind not in [str(join) for join in Join]:
            raise r.fail(f"field {name!r} must join by one of {', '.join(Join)}, not {kind!r}")
    complete = r.names("complete") or frozenset()
    window_ms = r.milliseconds("window_ms", defaults.window_ms)
    if window_ms == 0:
        raise r.fail("'window_ms' must be at least 1", "window_ms")
    hold_ms = r.milliseconds("hold_ms", min(defaults.hold_ms, window_ms))
    # A default that is the whole window means the whole of this topic's window too.
    default_ms = window_ms if defaults.remember_ms >= defaults.window_ms else max(hold_ms, min(defaults.remember_ms, window_ms))
    remember_ms = r.milliseconds("remember_ms", default_ms)
    if not hold_ms <= remember_ms <= window_ms:
        detail = f"hold_ms <= remember_ms <= window_ms must hold, but they are {hold_ms}, {remember_ms}, {window_ms}"
        raise r.fail(detail, "hold_ms", "remember_ms", "window_ms")
    gather = r.flag("gather", default=True)
    gatherer = r.choice("gatherer", Placement, "centre")
    early = r.flag("early", default=False)
    filtering = r.choice("filter", Filtering, "profile")
    rendezvous = r.text("rendezvous") if "rendezvous" in r.left else None
    if rendezvous and filtering is not Filtering.RENDEZVOUS:
        raise r.fail('\'rendezvous\' names a broker only for "filter": "rendezvous"', "rendezvous")
    decider = r.choice("decider", Deciding, "adock")
    r.end()
    joins = {name: Join(kind) for name, kind in fields.items()}
    timing = Timing(window_ms, hold_ms, remember_ms)
    return Topic(r.name, joins, complete, timing, gather, gatherer, filtering, early, rendezvous, decider)


def _doubts(topic: Topic, snapshot: Snapshot) -> Iterator[str]:
    if topic.rendezvous is not None:
        yield from strange_broker(topic.rendezvous, snapshot)


TOPIC = Kind("topic", _read, declares=lambda topic: (topic,), doubts=_doubts)
