"""The page about the wire shows the golden files, and names all that stands in them."""

from __future__ import annotations

import json
import os
import re
import textwrap
from pathlib import Path
from typing import Any

import pytest

from streaming.wire import avro

GOLDEN = Path(__file__).parent / "golden"
PAGE = Path(__file__).parents[3] / "docs" / "wire.md"
MOST_COLUMNS = 120
_EXAMPLE = re.compile(r"(<!-- golden: (\w+), ([\w -]+) -->\n)(.*?)(<!-- /golden -->)", re.DOTALL)
FORMATS = sorted(path.stem for path in GOLDEN.iterdir())


def golden(name: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((GOLDEN / f"{name}.json").read_text(encoding="utf-8"))
    return found


def shown(record: dict[str, Any]) -> str:
    """A record as the page shows it."""
    lines = [f"Kafka topic  {record['kafka_topic']}", f"key          {_text(record['key'])}"]
    lines += [f"header       {name}: {value}" for name, value in record.get("headers", {}).items()]
    return "\n".join(["```", *lines, f"value        {_text(record['value'])}", "```", ""])


def _text(said: Any) -> str:
    """Bytes, with lines that are short enough: JSON is broken where it may be."""
    match said:
        case None:
            return "(none)"
        case {"hex": digits}:
            return "\n             ".join(textwrap.wrap(digits, 96))
        case str() if said.startswith("{"):
            return _broken(json.loads(said), 13)
    return str(said).replace("\x00", "\\x00")


def _broken(value: Any, indent: int) -> str:
    whole = json.dumps(value, ensure_ascii=False)
    if len(whole) + indent <= MOST_COLUMNS - 4 or not isinstance(value, dict):
        return whole
    parts = [f"{json.dumps(name)}: {_broken(inner, indent + len(name) + 5)}" for name, inner in value.items()]
    lines = [""]
    for part in parts:
        joined = f"{lines[-1]}, {part}" if lines[-1] else part
        if lines[-1] and len(joined.split("\n")[0]) + indent > MOST_COLUMNS - 4:
            lines.append(part)
        else:
            lines[-1] = joined
    return "{" + (",\n" + " " * (indent + 1)).join(lines) + "}"


def section(name: str) -> str:
    [found] = re.findall(rf"^## {name}\n(.*?)(?=^## |\Z)", PAGE.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE)
    return str(found)


def test_the_documented_examples_are_the_golden_ones() -> None:
    """`make docs` writes them anew: it runs this test with WRITE_DOCS=1."""
    text = PAGE.read_text(encoding="utf-8")
    written = _EXAMPLE.sub(lambda found: found[1] + shown(golden(found[2])[found[3]]) + found[5], text)
    if os.environ.get("WRITE_DOCS"):
        PAGE.write_text(written, encoding="utf-8")
    else:
        assert text == written, "write them anew with `make docs`"


@pytest.mark.parametrize("name", FORMATS)
def test_every_format_has_a_section_with_an_example_of_it(name: str) -> None:
    assert name in {found[1] for found in _EXAMPLE.findall(section(name))}


@pytest.mark.parametrize("name", FORMATS)
def test_every_property_is_named(name: str) -> None:
    said: set[str] = set()
    for record in golden(name).values():
        said |= record.get("headers", {}).keys()
        if isinstance(record["value"], str) and record["value"].startswith("{") and name != "aside":
            said |= json.loads(record["value"]).keys()
    if name in ("message", "notification", "link"):
        said |= {field["name"] for field in json.loads(avro.schema(name).text)["fields"]}
    assert said <= set(re.findall(r"`([^`]+)`", section(name)))


def test_lines_are_short_enough_to_read() -> None:
    assert [line for line in PAGE.read_text(encoding="utf-8").splitlines() if len(line) > MOST_COLUMNS] == []
