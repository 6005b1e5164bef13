"""What a pace is: a rule by which a subscription is told at some other time than at once.

News meets the paces one after the other. Each says from what time it may be told, and the latest counts; then each may still ask
for a place. By itself a pace lets everything pass and notes nothing: each says only what it does otherwise.
"""

from __future__ import annotations

from typing import ClassVar, Protocol

from msgspec import Struct

from streaming.model.ledger import Cap, Ledger
from tidings.notification import Digested
from tidings.subscription import Subscription


class Telling(Struct, frozen=True):
    """The telling of an event, now, to whom it concerns."""

    key: str
    now_ms: int
    closing: bool = False
    """Whether the event ends: what is not told now can only be told by a digest."""
    lasting: bool = True
    """Whether the event lasts. A measurement does not: it is over when it comes."""
    caps: dict[str, Cap] | None = None
    """How often each subscription was told of the key, where that matters."""


class Pace(Protocol):
    """One rule. The pace that kept something back is the reason for it, in the books and for whoever asks."""

    property: ClassVar[str]
    """The property of a subscription that asks for it, see `tidings.subscription.PACE_PROPERTIES`."""
    word: ClassVar[str]
    """Its name in the books and in `tidings explain --json`."""
    why: ClassVar[str] = ""
    """Why news waits for it, in words; ``{asked}`` is what the subscription asked for."""
    silence: ClassVar[tuple[str, str] | None] = None
    """If it can keep news back for good: the word and the sentence by which `tidings check` says so."""
    remembers_ms: ClassVar[int] = 0
    """For how long after its events it remembers something of a key."""

    def __str__(self) -> str:
        return self.word

    def asked_by(self, subscription: Subscription) -> bool:
        return bool(getattr(subscription, self.property))

    def allowed_ms(self, subscription: Subscription, ledger: Ledger, telling: Telling) -> int:  # noqa: ARG002
        """The time from which news may be told; 0 for at once."""
        return 0

    def takes_place(self, subscription: Subscription, ledger: Ledger, telling: Telling) -> bool:  # noqa: ARG002
        """News is told now, if every pace has a place for it. Without one, the ledger notes that it waits for that."""
        return True

    def on_change(self, subscription: Subscription, ledger: Ledger, now_ms: int, *, matches: bool) -> bool:  # noqa: ARG002
        """What is known of the event has changed. Returns whether nothing may wait any longer, since it stopped matching."""
        return False

    def on_end(self, subscription: Subscription, ledger: Ledger, news: Digested, telling: Telling) -> int | None:  # noqa: ARG002
        """The event has ended, and these are its last words. Keep them, and return how many others gave way; or None."""
        return None

    def reconsider(self, before: Subscription | None, now: Subscription, ledger: Ledger) -> None:  # noqa: ARG002
        """The subscription has changed."""
        return
