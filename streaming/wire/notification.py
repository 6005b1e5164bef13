"""A notification as bytes, JSON or Avro as its subscription asks for. The same words in both."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import msgspec
from msgspec import Struct, structs

from streaming.wire import avro
from tidings.notification import Digested, Encoding, Notification, Reason, ToldWindow
from tidings.values import Value, plain


class Usual(Struct, gc=False):
    """What nearly all notifications are made of, in the words and in the order of the wire. Names of fields are sorted."""

    id: str
    subscriber: str
    subscription: str
    topic: str
    key: str
    event: str
    revision: int
    reason: Reason
    news: Mapping[str, Value]
    reports: int
    sources: int
    first_ms: int
    last_ms: int
    conflicts: Mapping[str, tuple[Value, ...]]


_json = msgspec.json.Encoder().encode


def encode_usual(told: Usual, encoding: Encoding) -> bytes:
    """Write what consists of this alone."""
    if encoding is Encoding.JSON:
        return _json(told)
    return encode_notification(Notification(**structs.asdict(told)), encoding)


def encode_notification(notification: Notification, encoding: Encoding) -> bytes:
    """Write a notification; the same notification always gives the same bytes."""
    if encoding is Encoding.JSON and not notification.window and not notification.digest:
        return _json(_usual(notification))
    datum = notification_dict(notification)
    return avro.schema("notification").encode(datum) if encoding is Encoding.AVRO else msgspec.json.encode(datum)


def _usual(told: Notification) -> Usual:
    news, conflicts = told.news, told.conflicts
    return Usual(
        told.id,
        told.subscriber,
        told.subscription,
        told.topic,
        told.key,
        told.event,
        told.revision,
        told.reason,
        {name: news[name] for name in sorted(news)},
        told.reports,
        told.sources,
        told.first_ms,
        told.last_ms,
        {name: conflicts[name] for name in sorted(conflicts)} if conflicts else {},
    )


def notification_dict(notification: Notification) -> dict[str, Any]:
    """The notification in the words of the wire. Most have no digest, and say nothing of one."""
    datum = {
        "id": notification.id,
        "subscriber": notification.subscriber,
        "subscription": notification.subscription,
        "topic": notification.topic,
        "key": notification.key,
        "event": notification.event,
        "revision": notification.revision,
        "reason": str(notification.reason),
        "news": _plain_facts(notification.news),
        "reports": notification.reports,
        "sources": notification.sources,
        "first_ms": notification.first_ms,
        "last_ms": notification.last_ms,
        "conflicts": {name: [plain(v) for v in notification.conflicts[name]] for name in sorted(notification.conflicts)},
    }
    if notification.window:
        datum["window"] = _window_dict(notification.window)
    if notification.digest:
        datum["digest"] = [
            {"event": each.event, "news": _plain_facts(each.news), "first_ms": each.first_ms, "last_ms": each.last_ms}
            for each in notification.digest
        ]
    return datum


def _window_dict(window: ToldWindow) -> dict[str, Any]:
    names = ("start", "end") if window.counted else ("start_ms", "end_ms")
    datum: dict[str, Any] = dict(zip(names, (window.start, window.end), strict=True))
    if window.left_out:
        datum["left_out"] = dict(sorted(window.left_out.items()))
    return datum


def _plain_facts(facts: Mapping[str, Value]) -> dict[str, object]:
    return {name: plain(facts[name]) for name in sorted(facts)}


def decode_notification(value: bytes) -> Notification:
    """Read a notification, in either encoding. Raises ValueError for bytes that are none."""
    schema = avro.schema("notification")
    if value[:1] == b"{":
        datum: dict[str, Any] = json.loads(value)
    elif value[: avro.HEADER_BYTES] == schema.header:
        datum = schema.decode(value[avro.HEADER_BYTES :])
    else:
        raise ValueError("not a notification: neither JSON nor Avro with the notification schema")
    return Notification(
        id=datum["id"],
        subscriber=datum["subscriber"],
        subscription=datum["subscription"],
        topic=datum["topic"],
        key=datum["key"],
        event=datum["event"],
        revision=datum["revision"],
        reason=Reason(datum["reason"]),
        news=_facts(datum["news"]),
        reports=datum["reports"],
        sources=datum["sources"],
        first_ms=datum["first_ms"],
        last_ms=datum["last_ms"],
        conflicts={name: tuple(_frozen(v) for v in values) for name, values in datum["conflicts"].items()},
        digest=tuple(
            Digested(each["event"], _facts(each["news"]), each["first_ms"], each["last_ms"]) for each in datum.get("digest", ())
        ),
        window=_told_window(datum.get("window")),
    )


def _told_window(datum: Mapping[str, Any] | None) -> ToldWindow | None:
    if datum is None:
        return None
    counted = datum.get("start") is not None
    start, end = (datum["start"], datum["end"]) if counted else (datum["start_ms"], datum["end_ms"])
    return ToldWindow(start, end, counted, datum.get("left_out") or {})


def _facts(datum: Mapping[str, Any]) -> dict[str, Value]:
    return {name: _frozen(value) for name, value in datum.items()}


def _frozen(value: Any) -> Value:
    return tuple(value) if isinstance(value, list) else value
