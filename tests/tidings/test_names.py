"""Which Kafka topics a process reads: exactly its own, wherever else their names occur."""

from __future__ import annotations

import re

import pytest

from tidings import names


@pytest.mark.parametrize("search", [re.search, re.fullmatch], ids=["as Spark does", "as we do"])
@pytest.mark.parametrize(
    ("kafka_topic", "of_all", "of_b1"),
    [
        ("clock", True, True),
        ("publish.b1", True, True),
        ("link.b2.b1", True, True),
        ("publish.b12", True, False),
        ("publish.ab1", True, False),
        ("link.b1.b2", True, False),
        ("link.b2.b12", True, False),
        ("notify.clocks", False, False),
        ("my.clock", False, False),
        ("re.publish.b1", False, False),
        ("publish.b1.old", False, False),
        ("control", False, False),
    ],
)
def test_what_is_read(search, kafka_topic: str, of_all: bool, of_b1: bool):
    assert bool(search(names.input_pattern(), kafka_topic)) == of_all
    assert bool(search(names.input_pattern(["b1"]), kafka_topic)) == of_b1
