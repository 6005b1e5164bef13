"""A message: what one publisher says about one event, as it stands on the wire."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct, field

from tidings.values import Value, digest


class Message(Struct, frozen=True, gc=False):
    """One publication. ``published_ms`` is None when the publisher did not say: the append time then stands in for it."""

    topic: str
    key: str
    fields: Mapping[str, Value] = field(default_factory=dict)
    source: str | None = None
    id: str | None = None
    published_ms: int | None = None

    @property
    def message_id(self) -> str:
        """The id the publisher gave, or a digest of all that it said: an exact repeat then has the same id."""
        if self.id is not None:
            return self.id
        return digest(self.topic, self.key, dict(self.fields), self.source, self.published_ms)
