"""The books that the metrics are made of, and their copy in the directory."""

from __future__ import annotations

import json
import logging
from collections import Counter
from pathlib import Path

import pytest

from service.watch.metrics import BooksFollower, ServiceCollector
from streaming.model.books import Books


class NoKafka:
    """A connection that is never asked for anything."""

    def consumer(self, **_: object) -> None:
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


def test_what_crossed_for_windows_and_what_would_have():
    books = Books(
        windows=Counter({("b2", "forward"): 3, ("b2", "aggregate"): 4, ("b2", "sent"): 9, ("b2", "would-wad"): 11}),
        window_items=Counter({("b2", "offered"): 8, ("b2", "counted"): 7, ("b2", "late"): 1}),
    )
    collector = ServiceCollector(lambda: {"b1": books}, lambda: {"tidings_windows_batch": {"id": 7}}, lambda: (1, 0, 0))
    found = {
        (sample.name, sample.labels.get("choice") or sample.labels.get("decider") or sample.labels.get("what")): sample.value
        for family in collector.collect()
        for sample in family.samples
        if "window" in sample.name
    }
    assert found == {
        ("tidings_link_windows_total", "forward"): 3,
        ("tidings_link_windows_total", "aggregate"): 4,
        ("tidings_link_window_records_total", None): 9,
        ("tidings_link_window_would_total", "wad"): 11,
        ("tidings_window_items_total", "offered"): 8,
        ("tidings_window_items_total", "counted"): 7,
        ("tidings_window_items_total", "late"): 1,
        ("tidings_windows_batch_id", None): 7,
    }
