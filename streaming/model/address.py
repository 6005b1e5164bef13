"""Where something is remembered."""

from __future__ import annotations

from typing import NamedTuple


class Address(NamedTuple):
    """A broker, and the topic and key under which it remembers something: mostly one open event."""

    broker: str
    topic: str
    key: str

    @property
    def place(self) -> tuple[str, str]:
        """Broker and topic: what the plan, subscriptions and filters go by."""
        return self.broker, self.topic

    @property
    def about(self) -> tuple[str, str]:
        """Topic and key: what publishers and neighbours speak of."""
        return self.topic, self.key
