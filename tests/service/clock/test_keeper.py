"""What the keeper says of the control data that it has read."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest

from service.clock.keeper import ControlKeeper
from service.watch.metrics import ServiceCollector
from streaming.world.records import broker, link, snapshot, subscription
from tidings.config import Kafka
from tidings.topic import Timing

FORBIDDING = [broker("b1"), broker("b2"), link("b1", "b2", forbid=["incident"])]


class NoKafka:
    """A connection that is never asked for anything."""

    def consumer(self, **_: object) -> None:
        return None

    producer = consumer


def test_problems_are_logged_once_and_counted_while_they_last(tmp_path: Path, caplog: pytest.LogCaptureFixture):
    keeper = ControlKeeper(NoKafka(), tmp_path, Timing(), Kafka(), None)  # type: ignore[arg-type]
    metrics = ServiceCollector(dict, dict, lambda: (keeper.snapshot.version, keeper.rejected, len(keeper.problems)))

    def named(*records: dict) -> tuple[list[str], float]:
        caplog.clear()
        keeper.snapshot = snapshot(*records)
        with caplog.at_level(logging.INFO, "tidings.keeper"):
            keeper._name_problems()
        samples = [sample for family in metrics.collect() for sample in family.samples]
        return caplog.messages, next(sample.value for sample in samples if sample.name == "tidings_overlay_problems")

    assert named(*FORBIDDING) == ([], 0)
    said, count = named(*FORBIDDING, subscription("far", broker="b2"))
    assert (len(said), count) == (1, 1)
    assert said[0].startswith("the topic 'incident' is forbidden on links and falls into 2 parts: b1; b2 (who subscribes at b2 ")
    assert named(*FORBIDDING, subscription("far", broker="b2"), subscription("other", "weather")) == ([], 1)
    assert named(*FORBIDDING) == (["the overlay is in order again"], 0)
