"""Legal names of brokers for whatever a network calls its sites."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable
from typing import Final

LONGEST_NAME: Final = 80
"""The most characters that the name of a broker may have."""

# Letters that Unicode does not take apart into a plain letter and a mark. Apostrophes go without leaving a gap.
_PLAIN = str.maketrans(
    {"ß": "ss", "æ": "ae", "Æ": "Ae", "œ": "oe", "Œ": "Oe", "ø": "o", "Ø": "O", "ł": "l", "Ł": "L", "đ": "d", "Đ": "D", "ı": "i"}
    | dict.fromkeys("'’‘")
)


def broker_names(labels: Iterable[str]) -> tuple[str, ...]:
    """Legal names for brokers, as readable as their labels, all different; a label without letters becomes a number.

    >>> broker_names(["New York", "Łódź", "New York", "ra's"])
    ('New-York', 'Lodz', 'New-York-2', 'ras')
    """
    plain = [_plain(label) for label in labels]
    width = len(str(len(plain)))
    return distinct(name or f"b{number:0{width}}" for number, name in enumerate(plain, 1))


def distinct(names: Iterable[str]) -> tuple[str, ...]:
    """The names, with a number behind each that was there before."""
    found: dict[str, None] = {}
    last: dict[str, int] = {}
    for name in names:
        new = name
        while new in found:
            last[name] = last.get(name, 1) + 1
            end = f"-{last[name]}"
            new = name[: LONGEST_NAME - len(end)] + end
        found[new] = None
    return tuple(found)


def _plain(label: str) -> str:
    # Marks come off their letters, and what is then still foreign to Kafka becomes a dash.
    letters = unicodedata.normalize("NFKD", label.translate(_PLAIN))
    bare = "".join(letter for letter in letters if not unicodedata.combining(letter))
    return re.sub(r"[^A-Za-z0-9_-]+", "-", bare).strip("-")[:LONGEST_NAME]
