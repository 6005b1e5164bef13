"""Files of control records: what they may look like, and where they are wrong."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tidings.control.files import Flaw, Value, read_file, read_text, values
from tidings.errors import BadControl, TidingsError

TOPIC = {"kind": "topic", "name": "incident", "hold_ms": 4000}
OPS = {"kind": "subscription", "name": "ops", "subscriber": "ops", "topic": "incident"}
A, B = '{"kind": "broker", "name": "a"}', '{"kind": "broker", "name": "b"}'


@pytest.mark.parametrize(
    "text",
    [
        f"{json.dumps(TOPIC)}\n{json.dumps(OPS)}\n",
        f"\n\n  {json.dumps(TOPIC)}\n\n{json.dumps(OPS)}",
        json.dumps([TOPIC, OPS]),
        json.dumps([TOPIC, OPS], indent=2),
        f"{json.dumps(TOPIC, indent=4)}\n{json.dumps(OPS, indent=4)}\n",
    ],
    ids=["lines", "blank lines", "array", "array over lines", "objects over lines"],
)
def test_lines_arrays_and_objects(tmp_path: Path, text: str) -> None:
    assert read_file(written(tmp_path, text)) == [("topic/incident", TOPIC), ("subscription/ops", OPS)]


def test_one_object_and_an_empty_file(tmp_path: Path) -> None:
    assert read_file(written(tmp_path, json.dumps(TOPIC, indent=2))) == [("topic/incident", TOPIC)]
    assert read_file(written(tmp_path, " \n")) == []
    assert read_file(written(tmp_path, "[]")) == []


def test_a_deletion(tmp_path: Path) -> None:
    assert read_file(written(tmp_path, '{"kind": "topic", "name": "a/b", "delete": true}')) == [("topic/a/b", None)]


@pytest.mark.parametrize(
    ("text", "line", "said"),
    [
        (f'{json.dumps(TOPIC)}\n\n{{"kind": "topic"}}', 3, "needs a 'kind' and a 'name'"),
        (f'{json.dumps(TOPIC)}\n{{"kind": "topic", "name": "x", "hold_ms": -1}}', 2, "'hold_ms' must be"),
        (f'[\n{json.dumps(TOPIC)},\n{{"kind": "topic", "name": "x", "hodl_ms": 1}}]', 3, "unknown property 'hodl_ms'"),
        ('{"kind": "planet", "name": "x"}', 1, "with a kind of: advertisement, broker, link, subscription, topic"),
        (
            '{"kind": "subscription", "name": "x", "subscriber": "x", "topic": "t", "where": "a >"}',
            1,
            "'where' does not parse",
        ),
        ('{"kind": "topic", "name": "x", "hold_ms": 90000}', 1, "hold_ms <= remember_ms <= window_ms must hold"),
        (f"{json.dumps(TOPIC)}\n{{", 2, "not JSON"),
        (f"[{json.dumps(TOPIC)}\n", 2, "the array is never closed"),
        (f"[{json.dumps(TOPIC)}]\n\n{json.dumps(OPS)}", 3, "nothing may follow the array"),
        ("\n42", 2, "must be an object"),
        ("[" * 100_000, 1, "not JSON"),
        ('{"kind": 3, "name": "x"}', 1, "both strings"),
        ('{"kind": "topic", "name": "", "delete": true}', 1, "the key must be"),
    ],
)
def test_what_is_wrong_is_named_with_its_line(tmp_path: Path, text: str, line: int, said: str) -> None:
    path = written(tmp_path, text)
    with pytest.raises(BadControl) as caught:
        read_file(path)
    assert said in str(caught.value)
    assert f"{path}:{line}" in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_file_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(TidingsError, match="cannot be read: No such file"):
        read_file(tmp_path / "none")
    path = tmp_path / "latin"
    path.write_bytes(b'{"kind": "topic", "name": "caf\xe9"}')
    with pytest.raises(BadControl, match="must be UTF-8"):
        read_file(path)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (f"{A}\n\n{{oops\n", "control record 'f:3': not JSON: Expecting property name enclosed in double quotes, at column 2"),
        (f"\n{A}\n7\n", "control record 'f:3': a control record must be an object, like"),
        (f"{A}\n\n\n{B[:9]}\n{B[9:]} 7\n", "control record 'f:5': a control record must be an object, like"),
        (
            f'{A}\n{{"kind": "link", "name": "l", "a": "a", "b": "a"}}\n',
            "control record 'link/l': a link joins two different brokers",
        ),
        (f"[{A},\n{A},\n", "control record 'f:3': not JSON: the array is never closed, at column 1"),
        (f"[{A}]\n {B}", "control record 'f:2': not JSON: nothing may follow the array, at column 2"),
        (f"[{A}, 5]", "control record 'f:1': a control record must be an object"),
        ("1" * 5000, "control record 'f:1': not JSON: Exceeds the limit"),
    ],
)
def test_a_bad_text_is_refused_with_its_place(text: str, said: str) -> None:
    with pytest.raises(BadControl) as raised:
        read_text(text, "f")
    assert str(raised.value).startswith(said)


def test_what_follows_a_line_that_cannot_be_read_is_still_seen() -> None:
    found = list(values(f'{A}\n{{"kind": "topic\n\n{B} {A}'))
    assert found == [
        Value(1, json.loads(A)),
        Flaw(2, "not JSON: Unterminated string starting at, at column 10 of the record", 47, "Invalid control character at"),
        Value(4, json.loads(B)),
        Value(4, json.loads(A)),
    ]


@pytest.mark.parametrize(
    ("properties", "about", "position"),
    [
        ({"topic": 3}, ("topic",), None),
        ({"topic": "t"}, ("subscriber",), None),
        ({"subscriber": "s", "topic": "t", "where": "a > and b"}, ("where",), 4),
        ({"subscriber": "s", "topic": "t", "at_most": "'topic'"}, ("at_most",), None),
        ({"subscriber": "s", "topic": "t", "colour": 1}, ("colour",), None),
        ({"window": {}, "every_ms": 3}, ("window",), None),
        ({"every_ms": 3, "window": {}}, ("every_ms",), None),
    ],
)
def test_an_error_names_the_properties_that_it_is_about(
    properties: dict[str, object], about: tuple[str, ...], position: int | None
) -> None:
    record = {"kind": "subscription", "name": "s", "subscriber": "s"} | properties
    if about == ("subscriber",):
        del record["subscriber"]
    with pytest.raises(BadControl) as raised:
        read_text(json.dumps(record), "f")
    assert (raised.value.about, raised.value.position) == (about, position)


def written(folder: Path, text: str) -> Path:
    path = folder / "records.jsonl"
    path.write_text(text, encoding="utf-8")
    return path
