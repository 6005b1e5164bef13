"""A test kit: commands run in this process, and what they said."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

COLOURS = ("FORCE_COLOR", "TTY_COMPATIBLE", "TTY_INTERACTIVE")
"""Variables that make a terminal of what is none."""


@dataclass(frozen=True)
class Said:
    """What a command printed, and how it ended."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        [line] = self.out.splitlines()
        return json.loads(line)

    @property
    def lines(self) -> list[str]:
        assert (self.code, self.err) == (0, "")
        return [line.rstrip() for line in self.out.splitlines()]

    @property
    def complaint(self) -> str:
        """The one line of a command that failed."""
        [line] = self.err.splitlines()
        assert line.startswith("tidings: ")
        assert self.out == ""
        return line.removeprefix("tidings: ")


Tidings = Callable[..., Said]
"""Runs a command: its arguments, and what it reads as ``stdin``."""
