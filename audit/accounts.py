"""The books of a service laid beside those of the reference."""

from __future__ import annotations

from collections.abc import Mapping

from audit.comparison import Difference, Finding
from clients.books import from_publishers
from streaming.model.books import Books, total
from streaming.model.outputs import MessageReason, Outcome

_AT_ONCE = frozenset({Outcome.REDUNDANT, Outcome.LATE, Outcome.DEAD_LETTERED})


def books_differences(should: Mapping[str, Books], have: Mapping[str, Books]) -> tuple[list[Difference], int, bool]:
    """Where the totals differ, how many messages are not counted yet, and whether more were counted since the log was read.

    What is held today is told tomorrow: only once nothing is held, all outcomes can be compared. Until then, those that are
    decided when a message comes.
    """
    differences: list[Difference] = []
    behind = 0
    moved_on = False
    for broker in sorted(should):
        ours, theirs = should[broker], have.get(broker, Books())
        behind += max(0, ours.received - theirs.received)
        moved_on = moved_on or theirs.received > ours.received
        if ours.received != theirs.received:
            continue
        settled = ours.total(Outcome.HELD) == theirs.total(Outcome.HELD) == 0
        for at in sorted(_counted(ours, settled=settled) | _counted(theirs, settled=settled)):
            if ours.outcomes[at] != theirs.outcomes[at]:
                text = f"{broker} counts {theirs.outcomes[at]} {at[0]}, {at[1]}; it should be {ours.outcomes[at]}"
                differences.append(Difference("books", Finding.OTHER, text))
    return differences, behind, moved_on


def _counted(books: Books, *, settled: bool) -> set[tuple[str, str]]:
    found = {(str(outcome), str(reason)) for (outcome, reason), count in books.outcomes.items() if count}
    # Late by `cut-off` is decided when the event ends.
    return found if settled else {at for at in found if at[0] in _AT_ONCE and at[1] != MessageReason.CUT_OFF}


def received_differences(have: Mapping[str, Books], published: int) -> list[str]:
    """Whether all that was published came in, and once."""
    received = from_publishers(have)
    return [] if received == published else [f"{published} messages were published, {received} received"]


def totals_differences(should: Mapping[str, Books], have: Mapping[str, Books]) -> list[str]:
    """Every number of the books that is not the reference's; only a service at rest has them all."""
    right, found = total(should.values()).to_dict(), total(have.values())
    unbalanced = [] if found.balanced else [f"the books do not balance: {found.to_dict()}"]
    return unbalanced + [
        f"the books say {name} = {value}, the reference {right[name]}"
        for name, value in found.to_dict().items()
        if right[name] != value
    ]
