"""Which links a bucket of the pipeline of windows has."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class WindowRules:
    """Which links a bucket has: those of the brokers ``hosted`` whose hash falls on ``index``."""

    service: str
    index: int = 0
    buckets: int = 1
    hosted: frozenset[str] | None = None

    @property
    def name(self) -> str:
        """As it signs what it sends."""
        return f"{self.service}/w{self.index}"
