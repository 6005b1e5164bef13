"""Which Kafka topics a process reads: exactly its own, wherever else their names occur; and that names are built in one place."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

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


@pytest.mark.parametrize(
    ("kafka_topic", "can"),
    [
        ("notify.ops", True),
        ("alarms", True),
        ("controls", True),
        ("x" * 200, True),
        ("x" * 201, False),
        ("", False),
        (".hidden", False),
        ("two words", False),
        ("__consumer_offsets", False),
        ("publish.b1", False),
        ("link.b1.b2", False),
        *((name, False) for name in ("control", "clock", "decisions", "offers", "late", "dead-letter", "books")),
    ],
)
def test_where_subscribers_may_be_told(kafka_topic: str, can: bool):
    assert names.can_deliver_to(kafka_topic) == can


def test_a_link_is_found_in_a_text():
    assert names.names_a_link("lost offsets of link.b1.b2-0, says Spark")
    assert not names.names_a_link("lost offsets of uplink.b1.b2, or over a link. b1")


ROOT = Path(__file__).parents[2]
ROOMS = ("tidings", "topology", "streaming", "clients", "producers", "audit", "service", "demo", "cli", "experiments")
NAME = re.compile(r"^\W*(publish|link|notify)\\?\.")


def literals(path: Path) -> Iterator[str]:
    """The texts in a module that are no docstrings."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    said = {node.value for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and node not in said and isinstance(node.value, str | bytes):
            yield node.value if isinstance(node.value, str) else node.value.decode("latin-1")


def test_names_are_built_and_matched_in_one_place():
    found = [
        f"{path.relative_to(ROOT)}: {text!r}"
        for room in ROOMS
        for path in sorted((ROOT / room).rglob("*.py"))
        for text in literals(path)
        if path != ROOT / "tidings/names.py" and NAME.search(text)
    ]
    assert found == [], "ask tidings.names for it"


def test_every_name_that_stands_whole_is_a_kafka_topic_of_the_service():
    whole = {value for word, value in vars(names).items() if word.isupper() and isinstance(value, str) and value[-1] != "."}
    assert whole == {topic.name for topic in names.SERVICE_TOPICS}
    assert not [topic for topic in names.SERVICE_TOPICS if names.can_deliver_to(topic.name) or not (topic.reads or topic.writes)]
