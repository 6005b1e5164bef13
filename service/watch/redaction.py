"""Keeps secrets out of the service's own log.

Spark hides what it is told to hide in the plans that it shows, but not in the plan within the message of a failed query.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence

from tidings.properties import hide


class HidingFormatter(logging.Formatter):
    """Formats as usual, and hides the secrets in what comes of it: messages, arguments and stack traces alike."""

    def __init__(self, format: str, secrets: Sequence[str]) -> None:
        super().__init__(format)
        self._secrets = tuple(secrets)

    def format(self, record: logging.LogRecord) -> str:
        return hide(super().format(record), self._secrets)
