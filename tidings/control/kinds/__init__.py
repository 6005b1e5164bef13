"""The kinds of control records: a module for each, and this list."""

from __future__ import annotations

from typing import Any

from tidings.control.kind import Kind
from tidings.control.kinds.advertisement import ADVERTISEMENT
from tidings.control.kinds.broker import BROKER
from tidings.control.kinds.link import LINK
from tidings.control.kinds.subscription import SUBSCRIPTION
from tidings.control.kinds.topic import TOPIC

KINDS: dict[str, Kind[Any]] = {kind.name: kind for kind in (TOPIC, SUBSCRIPTION, BROKER, LINK, ADVERTISEMENT)}
"""By name. A new one is a module here and a word in this list; `tidings.control.kind` says what it may have to say."""
