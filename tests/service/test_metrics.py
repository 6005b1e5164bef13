"""The books that the metrics are made of, and their copy in the directory."""

from __future__ import annotations

import json
import logging
from pathlib import Path

import pytest

from service.metrics import BooksFollower


class NoKafka:
    """A connection that is never asked for anything."""

    def consumer(self) -> None:
        return None


def test_a_full_disk_does_not_end_the_follower(tmp_path: Path, caplog: pytest.LogCaptureFixture):
    full = tmp_path / "full"
    follower = BooksFollower(NoKafka(), full / "books.json")  # type: ignore[arg-type]
    with caplog.at_level(logging.WARNING, "tidings"):
        follower._keep_copy()
    assert "the copy of the books could not be written" in caplog.text
    full.mkdir()
    follower._keep_copy()
    assert json.loads((full / "books.json").read_text()) is not None
